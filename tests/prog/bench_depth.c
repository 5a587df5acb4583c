/* SPDX-License-Identifier: Apache-2.0 */
/* bench_depth.c - bench_depth DEPTH [large]: stands that deep, in frames of some 64 or 850 bytes, and calls bench_here() for ten seconds. */
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) void bench_here(void)
{
	__asm__ volatile("" : : : "memory");
}

static double seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#define FRAME(name, bytes)                                                 \
	__attribute__((noinline)) static int name(int depth, double until) \
	{                                                                  \
		volatile char room[bytes];                                 \
		room[depth & 15] = 1;                                      \
		if (depth > 1)                                             \
			return name(depth - 1, until) + room[depth & 15];  \
		while (seconds() < until)                                  \
			for (int i = 0; i < 1000; i++)                     \
				bench_here();                              \
		return room[1];                                            \
	}
FRAME(small, 16)
FRAME(large, 800)

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	return (argc > 2 ? large : small)(atoi(argv[1]), seconds() + 10) == 0;
}
