/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.c - four habits at once: a storm of short-lived blocks, a cache that fills and stays, what is made at the start alone,
 * and a leak. usage: growth LEAK_BYTES_PER_MS CACHE_MS [STORM_PER_MS]. Begins when a line comes on stdin; ends when it closes. With
 * GROWTH_STORMS=N in the environment it says "stormed" after N blocks of the storm, and asks for nothing more.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static void *volatile kept;

APART void storm(void)
{
	kept = malloc(200);
	free(kept);
}

APART void at_start(void)
{
	kept = malloc(64 << 10);
}

APART void into_cache(void)
{
	kept = malloc(16 << 10);
}

APART void leak(size_t bytes)
{
	kept = malloc(bytes);
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	char line[64];
	double rate = argc > 1 ? atof(argv[1]) : 100, cache_ms = argc > 2 ? atof(argv[2]) : 1000;
	int storms = argc > 3 ? atoi(argv[3]) : 50;
	double leaked = 0, cached = 0;
	const char *end = getenv("GROWTH_STORMS");
	long left = end ? atol(end) : -1;
	struct pollfd in = { .fd = 0, .events = POLLIN };
	setvbuf(stdin, NULL, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < 64; i++)
		at_start();
	double begin = now_ms();
	for (;;) {
		double since = now_ms() - begin;
		for (int i = 0; i < storms && left != 0; i++, left -= left > 0)
			storm();
		if (left == 0) {
			left = -1;
			storms = 0;
			puts("stormed");
			fflush(stdout);
		}
		for (; leaked < since * rate; leaked += 4000)
			leak(4000);
		for (; cached < since && cached < cache_ms; cached++)
			into_cache();
		if (poll(&in, 1, 1) > 0)
			return 0;
	}
}
