/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rawthread.c - threads that the C library knows nothing of: clone() on memory without a guard. One has its mapping to
 * itself, two share one.
 *
 * usage: rawthread
 * Prints a line "ready ALONE SHARED SHARED POINTER" (thread ids, and the first one's stack pointer or so) and waits for the end
 * of stdin.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES (128u << 10)

static volatile unsigned long pointer;

/* No library call in here: it would use the first thread's errno and locks. */
static int wait_forever(void *arg)
{
	char room[20000];
	long rc;
	for (unsigned i = 0; i < sizeof(room); i += 64)
		((volatile char *)room)[i] = 1;
	if (arg)
		pointer = (unsigned long)room;
	do {
		__asm__ volatile("syscall" : "=a"(rc) : "a"(SYS_pause) : "rcx", "r11", "memory");
	} while (rc);
	return ((volatile char *)room)[0];
}

/* @advice differs, or the kernel would merge what lies side by side. */
static char *map(int advice)
{
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || madvise(at, BYTES, advice))
		exit(1);
	return at;
}

static int start(char *top, void *arg)
{
	return clone(wait_forever, top,
		     CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			     CLONE_SYSVSEM,
		     arg);
}

int main(void)
{
	char *alone = map(MADV_DONTDUMP);
	int one = start(alone + BYTES, alone);
	char *shared = map(MADV_DONTFORK);
	int two = start(shared + BYTES, NULL), three = start(shared + BYTES / 2, NULL);
	if (one < 0 || two < 0 || three < 0)
		return 1;
	while (!pointer)
		sched_yield();
	printf("ready %d %d %d %lu\n", one, two, three, pointer);
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
