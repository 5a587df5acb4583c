/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibcheap.c - a fragmented heap in several arenas, with its own statistics.
 *
 * usage: glibcheap MIB ARENAS [churn]
 * Fills MIB mebibytes with blocks of 16 bytes to 8 KiB and some large ones from ARENAS threads (the main thread is one, so
 * its arena is the main arena), frees three of four again in random order, keeps all threads alive, prints one line
 *	ready UORDBLKS FORDBLKS HBLKHD FSMBLKS ARENA
 * from mallinfo2(), and waits for the end of stdin. With "churn" the threads go on replacing blocks until then.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocks.h"

static pthread_barrier_t filled;
static size_t bytes_each;
static int churn;

struct worker {
	pthread_t thread;
	struct blocks blocks;
};

static void *work(void *ctx)
{
	struct worker *w = ctx;
	blocks_fill(&w->blocks, bytes_each, 0);
	pthread_barrier_wait(&filled);
	while (churn)
		blocks_churn(&w->blocks);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int arenas = atoi(argv[2]);
	if (arenas < 1 || arenas > 64)
		return 2;
	bytes_each = strtoull(argv[1], NULL, 10) * (1024 * 1024) / (size_t)arenas;
	churn = argc > 3;
	static struct worker workers[64];
	mallopt(M_ARENA_MAX, arenas);
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	pthread_barrier_init(&filled, NULL, (unsigned)arenas);
	for (int i = 0; i < arenas; i++)
		blocks_init(&workers[i].blocks, i, 300000); /* above the mmap threshold */
	for (int i = 1; i < arenas; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	blocks_fill(&workers[0].blocks, bytes_each, 0);
	pthread_barrier_wait(&filled);
#if __GLIBC_PREREQ(2, 33)
	struct mallinfo2 info = mallinfo2();
#else
	struct mallinfo before = mallinfo(); /* int, of less than 2 GiB here */
	struct {
		size_t uordblks, fordblks, hblkhd, fsmblks, arena;
	} info = { (size_t)before.uordblks, (size_t)before.fordblks, (size_t)before.hblkhd,
		   (size_t)before.fsmblks, (size_t)before.arena };
#endif
	char line[256];
	int len = snprintf(line, sizeof(line), "ready %zu %zu %zu %zu %zu\n", info.uordblks,
			   info.fordblks, info.hblkhd, info.fsmblks, info.arena);
	if (write(1, line, (size_t)len) != len)
		return 1;
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
