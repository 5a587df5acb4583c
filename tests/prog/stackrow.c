/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stackrow.c - threads whose stacks lie side by side in one mapping, as the kernel joins those that are guarded by markers: some in a row,
 * a stretch of data that is all there, and one more.
 *
 * usage: stackrow COUNT
 * Prints "ready START BYTES DATA_BYTES" and, for each thread, its id, by address; waits for the end of stdin.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK (256u << 10)
#define DATA (1u << 20)
#define MOST 64

static pthread_barrier_t born;
static long tids[MOST];

static void *wait_forever(void *arg)
{
	*(long *)arg = syscall(SYS_gettid);
	pthread_barrier_wait(&born);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2;
	size_t bytes = (size_t)count * STACK + DATA;
	char byte,
		*at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (count < 2 || count > MOST || at == MAP_FAILED ||
	    pthread_barrier_init(&born, NULL, (unsigned)count + 1))
		return 2;
	/* the data lies below the last stack */
	memset(at + (size_t)(count - 1) * STACK, 1, DATA);
	for (int i = 0; i < count; i++) {
		pthread_t thread;
		pthread_attr_t attr;
		char *stack = at + (size_t)i * STACK + (i == count - 1 ? DATA : 0);
		if (pthread_attr_init(&attr) || pthread_attr_setstack(&attr, stack, STACK) ||
		    pthread_create(&thread, &attr, wait_forever, &tids[i]))
			return 2;
	}
	pthread_barrier_wait(&born);
	printf("ready %lu %u %u", (unsigned long)at, STACK, DATA);
	for (int i = 0; i < count; i++)
		printf(" %ld", tids[i]);
	printf("\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
