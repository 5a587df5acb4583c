/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownfar N - an allocator of its own is called N times from within the program and N times from code of no object, which keeps to
 * the calling convention. The allocator looks along the frame pointers for who called it, as sanitizers do. Built with them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "truth.h"

static char pool[16 << 20] __attribute__((aligned(64)));
static size_t taken;
static uint64_t caller; /* where the call that is under way returns to; 0: nobody asks */
static int unseen, odd;

static void look(const void *frame)
{
	const uint64_t *at = frame;
	odd += (uint64_t)frame % 16 != 0;
	for (int i = 0; i < 5 && caller; i++, at = (const uint64_t *)at[0])
		if (at[1] == caller)
			return;
	unseen += caller != 0;
}

__attribute__((noinline)) void *malloc(size_t size)
{
	look(__builtin_frame_address(0));
	void *block = pool + taken;
	taken += (size + 63) & ~63ul;
	return block;
}

__attribute__((noinline)) void free(void *block)
{
	look(__builtin_frame_address(0));
	__asm__ volatile("" : : "r"(block));
}

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

/* push %rbp; mov %rsp, %rbp; the registers that a callee keeps; call *%rsi; are they what they were?; leave; ret */
extern const char far_begin[], far_behind[], far_end[];
__asm__(".text\nfar_begin:\n"
	"	push %rbp\n	mov %rsp, %rbp\n	push %rbx\n	push %r12\n"
	"	mov %rsp, %rbx\n	mov %rbp, %r12\n"
	"	call *%rsi\n"
	"far_behind:\n"
	"	cmp %rsp, %rbx\n	jne 1f\n	cmp %rbp, %r12\n	jne 1f\n"
	"	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
	"1:	ud2\n"
	"far_end:\n");
typedef void *call_one(size_t argument, void *function);

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	char *far = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(far, far_begin, (size_t)(far_end - far_begin));
	mprotect(far, 4096, PROT_READ | PROT_EXEC);
	const char *const code[2] = { far_begin, far };
	for (int i = 0; i < 2 * n; i++) {
		const char *here = code[i % 2];
		call_one *call;
		memcpy(&call, &here, sizeof(call));
		caller = (uint64_t)here + (uint64_t)(far_behind - far_begin);
		void *block = call(100 + (size_t)i % 50, (void *)malloc);
		caller = 0;
		took(block, 100 + (size_t)i % 50);
		caller = (uint64_t)here + (uint64_t)(far_behind - far_begin);
		call((size_t)block, (void *)free);
		caller = 0;
		gave(block);
	}
	truth_print();
	printf("%d unseen %d odd\n", unseen, odd);
	return 0;
}
