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
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t filled;
static size_t bytes_each;
static int churn;
static atomic_int stop;

struct worker {
	pthread_t thread;
	void **blocks;
	size_t count;
	uint64_t seed;
};

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static size_t pick(uint64_t *seed)
{
	uint64_t r = next(seed);
	size_t size = (size_t)16 << (r % 10);
	size += (size_t)(next(seed) % size);
	return r >> 32 & 4095 ? size : 300000; /* above the mmap threshold now and then */
}

static void *block(size_t size)
{
	char *p = malloc(size);
	if (!p)
		abort();
	memset(p, 0x5a, size);
	return p;
}

static void fill(struct worker *w)
{
	size_t cap = bytes_each / 64;
	w->blocks = malloc(cap * sizeof(void *));
	for (size_t bytes = 0; bytes < bytes_each && w->count < cap;) {
		size_t size = pick(&w->seed);
		w->blocks[w->count++] = block(size);
		bytes += size;
	}
	for (size_t i = w->count; i > 1; i--) {
		size_t j = (size_t)(next(&w->seed) % i);
		void *p = w->blocks[i - 1];
		w->blocks[i - 1] = w->blocks[j];
		w->blocks[j] = p;
	}
	for (size_t i = 0; i < w->count; i++) {
		if (i % 4) {
			free(w->blocks[i]);
			w->blocks[i] = NULL;
		}
	}
}

static void *work(void *ctx)
{
	struct worker *w = ctx;
	fill(w);
	pthread_barrier_wait(&filled);
	while (churn && !atomic_load(&stop)) {
		size_t i = (size_t)(next(&w->seed) % w->count);
		free(w->blocks[i]);
		w->blocks[i] = next(&w->seed) & 3 ? NULL : block(pick(&w->seed));
	}
	if (w->seed && !churn)
		while (!atomic_load(&stop))
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
		workers[i].seed = 88172645463325252ull + (uint64_t)i * 7919;
	for (int i = 1; i < arenas; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	fill(&workers[0]);
	pthread_barrier_wait(&filled);
	struct mallinfo2 info = mallinfo2();
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
