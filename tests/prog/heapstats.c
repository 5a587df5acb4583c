/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapstats.c - a fragmented heap in the allocator that was preloaded, beside what that allocator says of itself.
 *
 * usage: heapstats jemalloc|tcmalloc|mimalloc MIB THREADS [churn]
 * THREADS threads (the main thread is one) fill MIB mebibytes with blocks of 16 bytes to 8 KiB and some large ones, free
 * three of four again in random order, each a few of its neighbour's too, and stay. Prints one line
 *	ready NAME=BYTES ...
 * of the allocator's own statistics, and waits for the end of stdin. With "churn" the threads go on replacing blocks.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blocks.h"

#define THREADS_MAX 16

static pthread_barrier_t filled, freed;
static size_t bytes_each;
static int churn, threads;
static atomic_size_t visited_bytes, visited_blocks;

struct worker {
	pthread_t thread;
	struct blocks blocks;
	int number;
};
static struct worker workers[THREADS_MAX];

static void *symbol(const char *name)
{
	void *at = dlsym(RTLD_DEFAULT, name);
	if (!at) {
		fprintf(stderr, "heapstats: no %s\n", name);
		_exit(3);
	}
	return at;
}

/* What libc allocates for each thread but the first: the vector of modules' storage, whose first word is the one before. */
static void *vector_of_libc(void)
{
#ifdef __x86_64__
	char *vector;
	__asm__("mov %%fs:8, %0" : "=r"(vector));
	return vector - 16;
#else
	return NULL;
#endif
}

/*
 * mimalloc keeps no sums in a release build, but lets its heap be walked: by its owner alone. In version 3 full pages are no heap's,
 * so the blocks that the program has are asked for their sizes.
 */
struct area {
	void *blocks;
	size_t reserved, committed, used, block_size, full_block_size;
};

static _Bool visit(const void *heap, const struct area *area, void *at, size_t size, void *arg)
{
	(void)heap;
	(void)area;
	(void)arg;
	if (at) {
		atomic_fetch_add(&visited_bytes, size);
		atomic_fetch_add(&visited_blocks, 1);
	}
	return 1;
}

static void visit_own_heap(const struct blocks *blocks, void *vector)
{
	int (*version)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
	void *(*own)(void) = dlsym(RTLD_DEFAULT, "mi_heap_get_default");
	_Bool (*walk)(const void *, _Bool, void *, void *) =
		dlsym(RTLD_DEFAULT, "mi_heap_visit_blocks");
	void (*collect)(_Bool) = dlsym(RTLD_DEFAULT, "mi_collect");
	if (!collect)
		return;
	collect(0); /* takes back what other threads freed */
	if (version && version() >= 300) {
		_Bool (*has)(const void *) = symbol("mi_is_in_heap_region");
		if (vector && has(vector))
			visit(NULL, NULL, vector, malloc_usable_size(vector), NULL);
		visit(NULL, NULL, blocks->at, malloc_usable_size(blocks->at), NULL);
		for (size_t i = 0; i < blocks->count; i++)
			if (blocks->at[i])
				visit(NULL, NULL, blocks->at[i], malloc_usable_size(blocks->at[i]),
				      NULL);
		return;
	}
	if (own && walk)
		walk(own(), 1, (void *)visit, NULL);
}

static void free_neighbours(struct worker *w)
{
	struct blocks *others = &workers[(w->number + 1) % threads].blocks;
	for (size_t i = 1; i < others->count; i += 64)
		blocks_drop(others, i);
}

static void *work(void *ctx)
{
	struct worker *w = ctx;
	blocks_fill(&w->blocks, bytes_each, 1);
	pthread_barrier_wait(&filled);
	free_neighbours(w);
	pthread_barrier_wait(&freed);
	visit_own_heap(&w->blocks, w->number ? vector_of_libc() : NULL);
	pthread_barrier_wait(&filled);
	while (churn && w->number)
		blocks_churn(&w->blocks);
	while (w->number)
		pause();
	return NULL;
}

static int tell(char *line, size_t size, const char *allocator)
{
	int len = snprintf(line, size, "ready");
	if (strcmp(allocator, "jemalloc") == 0) {
		static const char *const names[] = { "stats.allocated",
						     "stats.active",
						     "stats.metadata",
						     "stats.resident",
						     "stats.mapped",
						     "stats.retained",
						     "stats.arenas.4096.tcache_bytes",
						     "stats.arenas.4096.pdirty",
						     "stats.arenas.4096.pmuzzy" };
		int (*ctl)(const char *, void *, size_t *, void *, size_t) = symbol("mallctl");
		uint64_t epoch = 1;
		size_t bytes = sizeof(epoch);
		ctl("epoch", &epoch, &bytes, &epoch, bytes);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			size_t value = 0;
			bytes = sizeof(value);
			if (ctl(names[i], &value, &bytes, NULL, 0))
				return -1;
			len += snprintf(line + len, size - (size_t)len, " %s=%zu", names[i], value);
		}
	} else if (strcmp(allocator, "tcmalloc") == 0) {
		static const char *const names[] = {
			"generic.current_allocated_bytes",   "generic.heap_size",
			"tcmalloc.pageheap_free_bytes",      "tcmalloc.pageheap_unmapped_bytes",
			"tcmalloc.central_cache_free_bytes", "tcmalloc.transfer_cache_free_bytes",
			"tcmalloc.thread_cache_free_bytes"
		};
		int (*get)(const char *, size_t *) = symbol("MallocExtension_GetNumericProperty");
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			size_t value = 0;
			if (!get(names[i], &value))
				return -1;
			len += snprintf(line + len, size - (size_t)len, " %s=%zu", names[i], value);
		}
	} else {
		len += snprintf(line + len, size - (size_t)len, " bytes=%zu blocks=%zu",
				atomic_load(&visited_bytes), atomic_load(&visited_blocks));
	}
	return len + snprintf(line + len, size - (size_t)len, "\n");
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	threads = atoi(argv[3]);
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	bytes_each = strtoull(argv[2], NULL, 10) * (1024 * 1024) / (size_t)threads;
	churn = argc > 4;
	pthread_barrier_init(&filled, NULL, (unsigned)threads);
	pthread_barrier_init(&freed, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		blocks_init(&workers[i].blocks, i, 3000000);
		workers[i].number = i;
	}
	for (int i = 1; i < threads; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	work(&workers[0]);
	static char line[2048];
	int len = tell(line, sizeof(line), argv[1]);
	if (len < 0 || write(1, line, (size_t)len) != len)
		return 1;
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
