/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bigframe PAIRS - malloc and free under a main() with a frame of BIG bytes, and under another such frame further in, as compilers
 * have them (rustc's run_compiler: 540 KB). The sizes tell what is called from where: 100 under one of them, 200 under two.
 */
#include <stdlib.h>
#include <string.h>

#ifndef BIG
#define BIG (1 << 20)
#endif

static __attribute__((noinline)) void pairs(long count, size_t bytes)
{
	for (long i = 0; i < count; i++)
		free(malloc(bytes));
}

static __attribute__((noinline)) void inner(long count, char *outer)
{
	char room[BIG];
	memset(room, outer[5], 100);
	pairs(count, 200);
	outer[6] = room[7];
}

int main(int argc, char **argv)
{
	char room[BIG];
	memset(room, argc, 100);
	long count = argc > 1 ? atol(argv[1]) : 1000;
	pairs(count, 100);
	inner(count, room);
	return room[6] == 127;
}
