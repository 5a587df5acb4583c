/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownodd N - an allocator whose functions are assembled by hand, ODD of them so that its beginning cannot be moved: it is to be left
 * alone as a whole, and to run as ever. N rounds of blocks from it and from malloc(), of which the latter are the truth.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ownheap.h"
#include "truth.h"

#define CALL 1     /* malloc: a call comes first, which can be moved */
#define LOOP 2     /* free: later code branches into its second instruction */
#define SHORT 3    /* free: two bytes, another function behind them */
#define NOTHING 4  /* free: one byte, what looks like padding behind it is another function */
#define NOSIZE 5   /* realloc: nobody says how long it is */
#define ENTRY 6    /* malloc: can be entered four bytes later, too */
#define DATA 7     /* malloc: its first bytes are read as data */
#define VARIABLE 8 /* malloc: a variable that holds where to go */
#define CHOSEN 9   /* malloc: the symbol is of a function that chooses one at the start */
#define WRITTEN 10 /* free: its first instruction is a breakpoint that a handler steps over */

void *odd_malloc(size_t n);
void odd_free(void *p);
void *odd_realloc(void *p, size_t n);
void *odd_calloc(size_t count, size_t n);

void *odd_malloc(size_t n)
{
	return own_take(n, 0, 0);
}

void odd_free(void *p)
{
	own_give(p);
}

void *odd_realloc(void *p, size_t n)
{
	return p ? own_resize(p, n, 0, 0) : own_take(n, 0, 0);
}

void *odd_calloc(size_t count, size_t n)
{
	return own_take(count * n, 0, 1);
}

/* clang-format off */
#define BEGIN(name) ".globl " name "\n.type " name ",@function\n.p2align 4\n" name ":\n"
#define END(name) ".size " name ",.-" name "\n"
#define PLAIN(name, to) BEGIN(name) "endbr64\nmov %rdi,%rax\njmp " to "\n" END(name)

__asm__(".text\n.type odd_gate,@function\n.p2align 4\nodd_gate: ret\n.size odd_gate,1\n"
#if ODD == CALL
	BEGIN("je_malloc") "call odd_gate\njmp odd_malloc\n" END("je_malloc")
#elif ODD == ENTRY
	BEGIN("je_malloc") "endbr64\n.globl je_quick\n.type je_quick,@function\nje_quick:\nmov %rdi,%rax\njmp odd_malloc\n"
	END("je_malloc") END("je_quick")
#elif ODD == DATA
	BEGIN("je_malloc") "mov je_malloc+1(%rip),%eax\nlea je_malloc(%rip),%rcx\ncmp $0x05,%al\nje 1f\nud2\n1: jmp odd_malloc\n" END("je_malloc")
#elif ODD != VARIABLE && ODD != CHOSEN
	PLAIN("je_malloc", "odd_malloc")
#endif
#if ODD == LOOP
	BEGIN("je_free") "xor %eax,%eax\n1: add $1,%eax\ncmp $3,%eax\njne 1b\njmp odd_free\n" END("je_free")
#elif ODD == SHORT
	BEGIN("je_free") "jmp 1f\n" END("je_free")
	".globl je_behind\n.type je_behind,@function\nje_behind:\n1: endbr64\njmp odd_free\n" END("je_behind")
#elif ODD == NOTHING
	BEGIN("je_free") "ret\n" END("je_free")
	".globl je_behind\n.type je_behind,@function\nje_behind: nop\nnop\nnop\nnop\nnop\nmov $7,%eax\nret\n" END("je_behind")
#elif ODD == WRITTEN
	BEGIN("je_free") "int3\nmov %rdi,%rax\njmp odd_free\n" END("je_free")
#else
	PLAIN("je_free", "odd_free")
#endif
#if ODD == NOSIZE
	BEGIN("je_realloc") "mov %rdi,%rax\nmov %rdi,%rax\njmp odd_realloc\n"
#else
	PLAIN("je_realloc", "odd_realloc")
#endif
	PLAIN("je_calloc", "odd_calloc"));
/* clang-format on */

#if ODD == VARIABLE
void *(*je_malloc)(size_t n) = odd_malloc;
#elif ODD == CHOSEN
static void *(*choose(void))(size_t)
{
	return odd_malloc;
}
void *je_malloc(size_t n) __attribute__((ifunc("choose")));
#else
void *je_malloc(size_t n);
#endif
void je_free(void *p);
void *je_realloc(void *p, size_t n);
void *je_calloc(size_t count, size_t n);
void *je_quick(size_t n);
int je_behind(void *p);

#if ODD == WRITTEN
#include <signal.h>

static void step(int sig)
{
	(void)sig;
}
#endif

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, wrong = 0;
#if ODD == WRITTEN
	signal(SIGTRAP, step);
#endif
	for (int i = 0; i < n; i++) {
		char *volatile p = je_malloc(100), *volatile q = took(malloc(50), 50);
		p[99] = 1;
		p = je_realloc(p, 2000);
		wrong += p[99] != 1;
		je_free(p);
		p = je_calloc(10, 10);
		wrong += p[99] != 0;
		je_free(p);
		je_free(NULL);
#if ODD == ENTRY
		p = je_quick(30);
		p[29] = 1;
		je_free(p);
#elif ODD == SHORT
		je_behind(je_malloc(10));
#elif ODD == NOTHING
		wrong += je_behind(NULL) != 7;
#endif
		gave(q);
		free(q);
	}
	truth_print();
	printf("%d wrong, %lu served\n", wrong, own_served());
	return wrong != 0;
}
