/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownregs N - calls an allocator of its own N times as a compiler does that sees the allocator and its callers at once: values
 * stay in registers that the functions do not touch, and the stack is aligned to 8 bytes. Says which register was lost.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "truth.h"

struct registers {
	uint64_t rax, rdi, kept[8];
	uint8_t wide[16][16];
};

void call_with(struct registers *all, void (*function)(void));

__asm__(".text\n"
	/* malloc: touches rax and rdi; free: nothing; a stack pointer that ends with 8 stays so */
	".globl malloc\n.type malloc, @function\nmalloc:\n"
	"	mov pool_next(%rip), %rax\n"
	"	lea 15(%rax, %rdi), %rdi\n"
	"	and $-16, %rdi\n"
	"	mov %rdi, pool_next(%rip)\n"
	"	ret\n"
	".size malloc, .-malloc\n"
	".globl free\n.type free, @function\nfree:\n"
	"	incq pool_frees(%rip)\n"
	"	ret\n"
	".size free, .-free\n"
	".globl call_with\n.type call_with, @function\ncall_with:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	mov %rdi, %rbx\n"
	"	mov %rsi, %rbp\n"
	".macro each_wide what\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	\\what \\n\n"
	".endr\n"
	".endm\n"
	".macro load_wide n\n	movups 80+16*\\n(%rbx), %xmm\\n\n.endm\n"
	".macro store_wide n\n	movups %xmm\\n, 80+16*\\n(%rbx)\n.endm\n"
	"	each_wide load_wide\n"
	"	mov 16(%rbx), %rcx\n	mov 24(%rbx), %rdx\n	mov 32(%rbx), %rsi\n"
	"	mov 40(%rbx), %r8\n	mov 48(%rbx), %r9\n	mov 56(%rbx), %r10\n	mov "
	"64(%rbx), %r11\n"
	"	mov (%rbx), %rax\n	mov 8(%rbx), %rdi\n"
	"	call *%rbp\n"
	"	mov %rax, (%rbx)\n	mov %rdi, 8(%rbx)\n"
	"	mov %rcx, 16(%rbx)\n	mov %rdx, 24(%rbx)\n	mov %rsi, 32(%rbx)\n"
	"	mov %r8, 40(%rbx)\n	mov %r9, 48(%rbx)\n	mov %r10, 56(%rbx)\n	mov %r11, "
	"64(%rbx)\n"
	"	each_wide store_wide\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size call_with, .-call_with\n");

static char pool[16 << 20] __attribute__((aligned(16)));
char *pool_next = pool;
unsigned long pool_frees;

void *calloc(size_t count, size_t each)
{
	return malloc(count * each);
}

void *realloc(void *old, size_t size)
{
	char *block = malloc(size);
	for (size_t i = 0; old && i < size; i++)
		block[i] = ((char *)old)[i];
	return block;
}

static void fail(const char *function, const char *what, int n)
{
	char text[80];
	int bytes = snprintf(text, sizeof(text), "%s lost %s %d\n", function, what, n);
	_exit(write(1, text, (size_t)bytes) == bytes ? 1 : 2);
}

/* Return: what stands in rax afterwards. */
static uint64_t call(const char *name, void (*function)(void), uint64_t argument)
{
	struct registers before, after;
	memset(&before, 0x5a, sizeof(before));
	for (int i = 0; i < 8; i++)
		before.kept[i] += (uint64_t)i << 20;
	for (int i = 0; i < 16; i++)
		before.wide[i][i] = (uint8_t)i;
	before.rdi = argument;
	after = before;
	call_with(&after, function);
	for (int i = 0; i < 7; i++)
		if (after.kept[i] != before.kept[i])
			fail(name, "register", i);
	for (int i = 0; i < 16; i++)
		if (memcmp(after.wide[i], before.wide[i], 16) != 0)
			fail(name, "wide register", i);
	if (function == (void (*)(void))free && (after.rax != before.rax || after.rdi != argument))
		fail(name, "rax or rdi", 0);
	return after.rax;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++) {
		void *block =
			(void *)call("malloc", (void (*)(void))malloc, 100 + (uint64_t)i % 50);
		took(block, 100 + (size_t)i % 50);
		call("free", (void (*)(void))free, (uint64_t)block);
		gave(block);
	}
	truth_print();
	return 0;
}
