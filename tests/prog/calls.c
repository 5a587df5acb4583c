/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - pairs of malloc and free from a known depth, as fast as they go or at a pace; what they took, by the second.
 *
 *     calls THREADS PAIRS_PER_SECOND(0 = as many as go) SECONDS [DEPTH [BYTES]]
 *
 * Begins when a line comes on stdin. Prints a JSON line: pairs, ns of CPU a pair, seconds, and the pairs of each whole second.
 * Paced threads sleep between bursts of a millisecond, as servers do between requests.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define APART __attribute__((noinline, noclone))
#define SECONDS_MAX 600

static double pairs_per_second;
static int seconds, depth = 20;
static size_t bytes = 100;
static uint64_t by_second[SECONDS_MAX + 1];

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

APART static void pairs(uint64_t count)
{
	for (; count; count--) {
		void *block = malloc(bytes);
		__asm__ volatile("" : : "r"(block) : "memory");
		free(block);
	}
}

APART static void descend(int left, uint64_t count)
{
	if (left > 0)
		descend(left - 1, count);
	else
		pairs(count);
	__asm__ volatile("" : : : "memory"); /* no tail call: the frame stays */
}

static double begin;

static void *work(void *of)
{
	uint64_t *done = of;
	double paced = 0;
	for (;;) {
		double since = now(CLOCK_MONOTONIC) - begin;
		if (since >= seconds)
			return NULL;
		uint64_t count = 1000;
		if (pairs_per_second > 0) {
			double want = pairs_per_second * since - paced;
			if (want < 1) {
				nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
				continue;
			}
			count = want > 5000 ? 5000 : (uint64_t)want;
			paced += (double)count;
		}
		descend(depth, count);
		*done += count;
		__atomic_fetch_add(&by_second[(int)since], count, __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	char line[64];
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread[64];
	uint64_t done[64] = { 0 }, all = 0;
	pairs_per_second = argc > 2 ? atof(argv[2]) : 0;
	seconds = argc > 3 ? atoi(argv[3]) : 5;
	depth = argc > 4 ? atoi(argv[4]) : 20;
	bytes = argc > 5 ? (size_t)atol(argv[5]) : 100;
	if (threads < 1 || threads > 64 || seconds < 1 || seconds > SECONDS_MAX)
		return 2;
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	pairs_per_second /= threads;
	begin = now(CLOCK_MONOTONIC);
	double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, &done[i]);
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		all += done[i];
	}
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{\"pairs\":%lu,\"ns_per_pair\":%.1f,\"seconds\":%.3f,\"by_second\":[",
	       (unsigned long)all, all ? cpu * 1e9 / (double)all : 0, now(CLOCK_MONOTONIC) - begin);
	for (int i = 0; i < seconds; i++)
		printf("%s%lu", i ? "," : "", (unsigned long)by_second[i]);
	puts("]}");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
