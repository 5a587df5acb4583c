/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownloops N [ROUNDS] - an allocator of its own in machine code, with loops: free() begins anew ROUNDS (a million) times
 * before it is through, in the child of a fork, too, where nothing is recorded; its end is the program's. Built with COLD, malloc() goes on elsewhere where it must grow, and comes back behind its first
 * instruction, as compilers divide functions; nobody may put anything over that place.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "truth.h"

static char pool[16 << 20] __attribute__((aligned(16)));
char *pool_next = pool, *pool_end = pool;
long pool_rounds;

__asm__(".text\n"
	".globl malloc\n.type malloc, @function\nmalloc:\n"
#ifdef COLD
	"	push %rbx\n"
	"1:	mov %rdi, %rbx\n"
	"	mov pool_next(%rip), %rax\n"
	"	lea 15(%rax, %rbx), %rdx\n"
	"	and $-16, %rdx\n"
	"	cmp pool_end(%rip), %rdx\n"
	"	ja malloc_grow\n"
	"	mov %rdx, pool_next(%rip)\n"
	"	pop %rbx\n"
	"	ret\n"
	".size malloc, .-malloc\n"
	".section .text.unlikely, \"ax\"\n"
	"malloc_grow:\n"
	"	addq $4096, pool_end(%rip)\n"
	"	jmp 1b\n"
	".text\n"
#else
	"	mov pool_next(%rip), %rax\n"
	"	lea 15(%rax, %rdi), %rdi\n"
	"	and $-16, %rdi\n"
	"	mov %rdi, pool_next(%rip)\n"
	"	ret\n"
	".size malloc, .-malloc\n"
#endif
	".globl free\n.type free, @function\nfree:\n"
	"	decq pool_rounds(%rip)\n"
	"	jg free\n"
	"	ret\n"
	".size free, .-free\n");

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

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, status = -1;
	long rounds = argc > 2 ? atol(argv[2]) : 1000000;
	for (int i = 0; i < n; i++) {
		size_t bytes = 1000 + (size_t)i % 50;
		char *block = took(malloc(bytes), bytes);
		for (size_t k = 0; k < bytes; k++)
			block[k] = (char)i;
		pool_rounds = rounds;
		gave(block);
		free(block);
	}
	truth_print();
	pid_t child = fork();
	if (child == 0) {
		pool_rounds = rounds;
		free(pool);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status != 0;
}
