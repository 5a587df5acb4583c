/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nocfi.c - what a JIT compiler does: code in an anonymous mapping, without unwind data, with a frame pointer; it calls
 * target() in the program, which is therefore reached through one frame that only a guess can cross.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

__attribute__((noinline)) void target(void)
{
	__asm__ volatile("" : : : "memory");
}

int main(void)
{
	/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		return 1;
	struct timespec pause = { 0, 1000000 };
	for (int i = 0; i < 4000; i++) {
		((void (*)(void (*)(void)))at)(target);
		nanosleep(&pause, NULL);
	}
	return 0;
}
