/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers.c - whose memory is it? Two calls on two lines of one function, a wrapper called from two lines of main, recursion,
 * blocks that are gone at the peak. `answers [leak BYTES | sleep SECONDS | abort]`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP(p) __asm__ volatile("" ::"r"(p) : "memory")

static void *held[64];
static unsigned held_count;

static __attribute__((noinline)) void work(void)
{
	held[held_count++] = malloc(16);         /* line small */
	held[held_count++] = malloc(100u << 20); /* line large */
	KEEP(held);
}

static __attribute__((noinline)) void *zmalloc(size_t bytes)
{
	void *block = malloc(bytes);
	KEEP(block);
	return block;
}

static __attribute__((noinline)) void cache(size_t bytes)
{
	held[held_count++] = zmalloc(bytes);
	KEEP(held);
}

static __attribute__((noinline)) void walk(int depth)
{
	held[held_count++] = malloc(1000);
	if (depth > 1)
		walk(depth - 1);
	KEEP(held);
}

/* Many before the peak, none of them alive at it. */
static __attribute__((noinline)) void churn(void)
{
	for (int i = 0; i < 5000; i++) {
		void *block = malloc(4096);
		KEEP(block);
		free(block);
	}
}

int main(int argc, char **argv)
{
	churn();
	work();
	cache(3u << 20); /* line first */
	cache(4u << 20); /* line second */
	walk(5);
	if (argc > 2 && strcmp(argv[1], "leak") == 0) {
		KEEP(malloc(strtoul(argv[2], NULL, 10)));
	} else if (argc > 2 && strcmp(argv[1], "sleep") == 0) {
		puts("ready");
		fflush(stdout);
		sleep((unsigned)atoi(argv[2]));
	} else if (argc > 1 && strcmp(argv[1], "abort") == 0) {
		abort();
	}
	for (unsigned i = 0; i < held_count; i++)
		free(held[i]);
	return 0;
}
