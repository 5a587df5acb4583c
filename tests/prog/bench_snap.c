/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_snap STACKS ROUNDS - what a frozen reading of a prof with that many stacks costs who feeds it: prints one JSON object with
 * the median of ROUNDS in nanoseconds, and the bytes that a snap takes.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/prof.h"
#include "model/snap.h"

#define ROUNDS_MAX 101

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Two threads, stacks eight deep, half of them with a live block. */
static void fill(struct prof *prof, uint32_t stacks)
{
	struct sink *to = prof_sink(prof);
	struct err err = { 0 };
	struct def def = { .kind = DEF_MODULE, .id = 1, .module = { .path = "/lib/a.so" } };
	to->define(to, &def, &err);
	for (uint32_t i = 0; i < 2; i++) {
		def = (struct def){ .kind = DEF_THREAD, .id = i, .thread = { .tid = 10 + i } };
		to->define(to, &def, &err);
	}
	for (uint32_t i = 1; i <= stacks; i++) {
		def = (struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i * 16 } };
		to->define(to, &def, &err);
		def = (struct def){ .kind = DEF_STACK,
				    .id = i,
				    .stack = { .parent = { i % 8 ? i - 1 : 0 }, .frame = { i } } };
		to->define(to, &def, &err);
		struct event event = { .kind = EVENT_ALLOC,
				       .thread = { i & 1 },
				       .time_ns = i,
				       .bytes = 100,
				       .stack = { i },
				       .block = { i } };
		to->put(to, &event, 1, &err);
		event.kind = EVENT_FREE;
		if (i & 2)
			to->put(to, &event, 1, &err);
	}
	if (err.code) {
		fprintf(stderr, "bench_snap: %s\n", err.msg);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	uint32_t stacks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000;
	int rounds = argc > 2 ? atoi(argv[2]) : 21;
	uint64_t took[ROUNDS_MAX];
	struct err err = { 0 };
	struct prof *prof = prof_new(&err);
	if (!prof || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	fill(prof, stacks);
	struct mallinfo2 before = mallinfo2();
	size_t bytes = 0;
	for (int i = 0; i < rounds; i++) {
		uint64_t began = now_ns();
		struct snap *snap = snap_take(prof, &err);
		took[i] = now_ns() - began;
		struct mallinfo2 after = mallinfo2();
		bytes = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
		snap_unref(snap);
	}
	qsort(took, (size_t)rounds, sizeof(*took), by_value);
	printf("{\"stacks\":%u,\"rounds\":%d,\"median_ns\":%llu,\"bytes\":%zu}\n", stacks, rounds,
	       (unsigned long long)took[rounds / 2], bytes);
	prof_free(prof);
	return 0;
}
