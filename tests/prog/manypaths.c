/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manypaths.c DEPTH THREADS ROUNDS - each thread goes every way down a tree of calls with two call sites a level, and asks
 * for one block at its end: 2^DEPTH stacks, the same ones in every thread and every round.
 */
#include <pthread.h>
#include <stdlib.h>

static unsigned depth, rounds;

static __attribute__((noinline, noclone)) void down(unsigned level)
{
	if (!level) {
		free(malloc(24));
		return;
	}
	down(level - 1);
	__asm__ volatile("");
	down(level - 1);
	__asm__ volatile("");
}

static void *work(void *arg)
{
	for (unsigned i = 0; i < rounds; i++)
		down(depth);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread[64];
	if (argc != 4)
		return 2;
	depth = (unsigned)atoi(argv[1]);
	rounds = (unsigned)atoi(argv[3]);
	int count = atoi(argv[2]);
	for (int i = 0; i < count && i < 64; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < count && i < 64; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
