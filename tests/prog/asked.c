/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asked.c - asks for memory in every way and says exactly how often and how much, a line a way: "NAME COUNT BYTES LIVE_BYTES".
 * usage: asked ROUNDS [SEED]. Begins when a line comes on stdin, prints when done, ends when stdin does.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static struct way {
	const char *name;
	unsigned long count, bytes, live;
} ways[32];
static int way_count;

static struct way *way_of(const char *name)
{
	for (int i = 0; i < way_count; i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	ways[way_count].name = name;
	return &ways[way_count++];
}

static void note(const char *name, size_t bytes, size_t live)
{
	struct way *w = way_of(name);
	w->count++;
	w->bytes += bytes;
	w->live += live;
}

static void *volatile kept;

APART void by_malloc(size_t n)
{
	kept = malloc(n);
	note("by_malloc", n, 0);
	free(kept);
}

APART void by_calloc(size_t n)
{
	kept = calloc(n / 8, 8);
	note("by_calloc", n / 8 * 8, 0);
	free(kept);
}

APART void by_realloc_null(size_t n)
{
	kept = realloc(NULL, n);
	note("by_realloc_null", n, 0);
	free(kept);
}

APART void by_realloc_grow(size_t n)
{
	static void *block;
	block = realloc(block, n);
	kept = block;
	note("by_realloc_grow", n, 0);
	way_of("by_realloc_grow")->live = n;
}

APART void by_reallocarray(size_t n)
{
	kept = reallocarray(NULL, n / 4, 4);
	note("by_reallocarray", n / 4 * 4, 0);
	free(kept);
	volatile size_t many = SIZE_MAX / 2;
	if (reallocarray(NULL, many, 4)) /* overflows: none */
		abort();
}

APART void by_posix_memalign(size_t n)
{
	void *block;
	if (posix_memalign(&block, 64, n))
		abort();
	kept = block;
	note("by_posix_memalign", n, 0);
	free(block);
	if (!posix_memalign(&block, 3, n)) /* fails: none */
		abort();
}

APART void by_memalign_small(size_t n)
{
	kept = memalign(8, n);
	note("by_memalign_small", n, 0);
	free(kept);
}

APART void by_aligned_alloc(size_t n)
{
	kept = aligned_alloc(256, (n + 255) / 256 * 256);
	note("by_aligned_alloc", (n + 255) / 256 * 256, 0);
	free(kept);
}

APART void by_valloc(size_t n)
{
	kept = valloc(n);
	note("by_valloc", n, 0);
	free(kept);
}

APART void by_leak(size_t n)
{
	kept = malloc(n);
	note("by_leak", n, n);
}

APART void by_failure(void)
{
	kept = malloc(PTRDIFF_MAX - 4096);
	if (kept)
		abort();
	kept = malloc(100);
	void *same = realloc(kept, PTRDIFF_MAX - 4096); /* fails: the old block stays */
	if (same)
		abort();
	note("by_failure", 100, 100);
}

int main(int argc, char **argv)
{
	char line[64];
	long rounds = argc > 1 ? atol(argv[1]) : 1000;
	srandom(argc > 2 ? (unsigned)atol(argv[2]) : 1);
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (long i = 0; i < rounds; i++) {
		size_t n = (size_t)random() % 3000 + 1;
		by_malloc(n);
		by_calloc(n + 8);
		by_realloc_null(n);
		by_realloc_grow(n + (size_t)(i % 100) * 100);
		by_reallocarray(n + 4);
		by_posix_memalign(n);
		by_memalign_small(n);
		by_aligned_alloc(n);
		by_valloc(n);
		by_leak(n);
		/* what comes in step with everything else: one large block in a thousand calls */
		if (i % 100 == 7)
			by_malloc(1 << 20);
		if (i % 50 == 0)
			by_failure();
	}
	for (int i = 0; i < way_count; i++)
		printf("%s %lu %lu %lu\n", ways[i].name, ways[i].count, ways[i].bytes,
		       ways[i].live);
	puts("done");
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
