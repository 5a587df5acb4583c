/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_heapread PID ROUNDS - glibc's heap of a process read from outside, beside a bare copy of the same heap by
 * process_vm_readv: what is resident of it, in pieces of 1 MiB into one buffer. Alternating; one round is not counted.
 * Prints one JSON object with wall and CPU nanoseconds of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heaps/glibc.h"

#define PIECE (1u << 20)
#define ROUNDS_MAX 100

static struct region *regions;
static size_t region_count;

static int add_region(void *ctx, struct region *region)
{
	(void)ctx;
	regions = realloc(regions, (region_count + 1) * sizeof(*regions));
	if (!regions)
		abort();
	regions[region_count] = *region;
	regions[region_count++].name = strdup(region->name);
	return 0;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t copy(const struct target *target, struct memory_run *runs, size_t count,
		     char *buffer)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		for (uint64_t at = runs[i].start; at < runs[i].end; at += PIECE) {
			size_t len = runs[i].end - at < PIECE ? runs[i].end - at : PIECE;
			ssize_t got = target_read(target, at, buffer, len);
			bytes += got > 0 ? (uint64_t)got : 0;
		}
	}
	return bytes;
}

struct list {
	struct memory_run *runs;
	size_t count, cap;
};

static int add_run(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct list *list = ctx;
	(void)kinds;
	if (list->count && list->runs[list->count - 1].end == start) {
		list->runs[list->count - 1].end = end;
		return 0;
	}
	if (list->count == list->cap) {
		list->cap = list->cap ? list->cap * 2 : 1024;
		list->runs = realloc(list->runs, list->cap * sizeof(*list->runs));
		if (!list->runs)
			abort();
	}
	list->runs[list->count++] = (struct memory_run){ start, end };
	return 0;
}

static void put(const char *name, const uint64_t *ns, unsigned rounds)
{
	printf(",\"%s\":[", name);
	for (unsigned i = 0; i < rounds; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)ns[i]);
	printf("]");
}

int main(int argc, char **argv)
{
	uint64_t wall[2][ROUNDS_MAX], cpu[2][ROUNDS_MAX];
	struct err err = { 0 };
	struct target target = { 0 };
	struct reading reading = { 0 };
	struct pages pages = { 0 };
	struct glibc_reading heap = { 0 };
	struct list list = { 0 };
	unsigned rounds = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	char *buffer = malloc(PIECE);
	if (!rounds || rounds > ROUNDS_MAX || !buffer)
		return 2;
	if (target_open(&target, atoi(argv[1]), &err) < 0 ||
	    maps_each(&target, add_region, NULL, &reading, &err) < 0 ||
	    pages_open(&pages, &target, &err) < 0) {
		fprintf(stderr, "bench_heapread: %s\n", err.msg);
		return 1;
	}
	struct memory_process process = { .target = &target, .pages = &pages };
	struct memory memory;
	memory_of_process(&memory, &process);
	uint64_t bytes = 0;
	for (unsigned r = 0; r <= rounds; r++) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC),
			 cpu_began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		glibc_fini(&heap);
		if (glibc_find(&memory, regions, region_count, &heap, &err) != 1 ||
		    glibc_walk(&memory, &heap, NULL, &err) != 0) {
			fprintf(stderr, "bench_heapread: no heap: %s\n", err.msg);
			return 1;
		}
		if (r) {
			wall[0][r - 1] = clock_ns(CLOCK_MONOTONIC) - began;
			cpu[0][r - 1] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
		} else {
			/* large blocks have one header each: the reader does not copy them, so neither does the peer */
			for (size_t i = 0; i < heap.span_count; i++) {
				if (heap.spans[i].kind != GLIBC_MMAPPED)
					pages_each(&pages, heap.spans[i].start, heap.spans[i].end,
						   PAGE_PRESENT, add_run, &list, NULL);
			}
		}
		began = clock_ns(CLOCK_MONOTONIC);
		cpu_began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		bytes = copy(&target, list.runs, list.count, buffer);
		if (r) {
			wall[1][r - 1] = clock_ns(CLOCK_MONOTONIC) - began;
			cpu[1][r - 1] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
		}
	}
	const struct glibc_totals *t = &heap.totals;
	printf("{\"arenas\":%zu,\"copied_bytes\":%llu,\"live_bytes\":%llu,\"cache_bytes\":%llu,"
	       "\"fastbin_bytes\":%llu,"
	       "\"metadata_bytes\":%llu,\"mmapped_bytes\":%llu,\"free_bytes\":%llu,\"free_page_"
	       "bytes\":%llu,"
	       "\"hole_bytes\":%llu,\"live_count\":%llu,\"consistency\":%.4f",
	       heap.arena_count, (unsigned long long)bytes, (unsigned long long)t->live_bytes,
	       (unsigned long long)t->tcache_bytes, (unsigned long long)t->fastbin_bytes,
	       (unsigned long long)t->metadata_bytes, (unsigned long long)t->mmapped_bytes,
	       (unsigned long long)t->free_bytes, (unsigned long long)t->free_page_bytes,
	       (unsigned long long)t->hole_bytes, (unsigned long long)t->live_count,
	       heap.consistency);
	put("walk_wall_ns", wall[0], rounds);
	put("walk_cpu_ns", cpu[0], rounds);
	put("copy_wall_ns", wall[1], rounds);
	put("copy_cpu_ns", cpu[1], rounds);
	printf("}\n");
	return 0;
}
