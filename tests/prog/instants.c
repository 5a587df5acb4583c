/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instants COUNT - allocations of sizes of their own (100000 + n), with pauses of all kinds between them: sleep, work, bursts of others.
 * Prints n, and CLOCK_MONOTONIC before and after each, one a line. Every tenth is a mapping of (n + 1) pages.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define MOST 20000

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void work(uint64_t ns)
{
	for (uint64_t until = now_ns() + ns; now_ns() < until;)
		;
}

int main(int argc, char **argv)
{
	static uint64_t at[MOST][2];
	long count = argc > 1 ? atol(argv[1]) : 1000;
	const struct timespec pause = { 0, 1000000 };
	count = count < MOST ? count : MOST;
	for (long n = 0; n < count; n++) {
		if (n % 3 == 0)
			nanosleep(&pause, NULL);
		else if (n % 3 == 1)
			work((uint64_t)(n % 7) * 300000);
		if (n % 5 == 0)
			for (int k = 0; k < 300; k++)
				free(malloc(64));
		if (n % 10 == 9) {
			at[n][0] = now_ns();
			mmap(NULL, (size_t)(n + 1) * 4096, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			at[n][1] = now_ns();
			continue;
		}
		at[n][0] = now_ns();
		void *block = malloc(100000 + (size_t)n);
		at[n][1] = now_ns();
		free(block);
	}
	for (long n = 0; n < count; n++)
		printf("%ld %llu %llu\n", n, (unsigned long long)at[n][0],
		       (unsigned long long)at[n][1]);
	return 0;
}
