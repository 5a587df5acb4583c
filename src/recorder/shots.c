/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shots.c - snapshots of the process while it is recorded: where its memory is, for the balance
 * sheet. Taken on a thread of its own, so that the rings are emptied meanwhile; written by the
 * recorder's. At most a half per cent of a CPU, but for the last one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "recorder/record.h"
#include "source/snapshot.h"

#define GROWTH 20u /* a twentieth more than the last one is a new peak */

static void *shots_run(void *ctx)
{
	struct record_shots *shots = &((struct record *)ctx)->shots;
	const struct snapshot_opt opt = { .quiet = 1, .time_zero_ns = shots->zero_ns };
	struct err ignored = { 0 };
	snapshot_step_back();
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (shots->with_shot)
		shots->taken = snapshot_take(shots->pid, &opt, &ignored);
	uint64_t between = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	shots->cost_ns = between - before;
	if (shots->with_pages)
		record_pages_read(ctx);
	if (shots->is_last)
		record_pages_ask(ctx);
	shots->pages_cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - between;
	__atomic_store_n(&shots->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct record *rec, int last, int with_shot, int with_pages)
{
	struct record_shots *shots = &rec->shots;
	shots->pid = rec->pid;
	shots->zero_ns = source_heap_start_ns(rec->heap);
	shots->done = 0;
	shots->is_last = last;
	shots->with_shot = with_shot;
	shots->with_pages = with_pages;
	shots->running = pthread_create(&shots->thread, NULL, shots_run, rec) == 0;
	if (!shots->running && last)
		source_heap_looked(rec->heap);
}

/* What was taken goes into the file; a recording without it is none the worse. */
static void end(struct record *rec, uint64_t now)
{
	struct record_shots *shots = &rec->shots;
	struct err ignored = { 0 };
	pthread_join(shots->thread, NULL);
	shots->running = 0;
	if (shots->is_last)
		source_heap_looked(rec->heap);
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (shots->taken && rec->writer && !rec->failed) {
		if (trace_writer_snapshot(rec->writer, shots->taken, &ignored) == 0) {
			shots->count++;
			shots->last_rss_bytes = shots->taken->rss_bytes;
			shots->last_ns = now;
		}
	}
	snapshot_free(shots->taken);
	shots->taken = NULL;
	uint64_t between = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (record_pages_put(rec) > 0)
		shots->pages_rss_bytes = rec->rss.rss_bytes;
	/* to pack and write it is part of the price */
	shots->cost_ns += between - before;
	shots->pages_cost_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - between;
	now = rec->heap ? source_heap_now_ns(rec->heap) : now;
	record_pace_spent(&shots->pace, now, shots->with_shot ? shots->cost_ns + 1 : 0,
			  shots->with_pages ? shots->pages_cost_ns + 1 : 0);
}

void record_shots_want(struct record *rec)
{
	rec->shots.wanted = 1;
	source_heap_look_last(rec->heap);
}

static int has_grown(const struct record *rec, uint64_t since_bytes)
{
	return rec->rss.rss_bytes > since_bytes + since_bytes / GROWTH;
}

/*
 * 1 if pages are as they were read last: the process has not run, none of its was taken from it. A
 * fault or a tick behind the reading may be one within it; that costs another reading. Of children
 * that are followed nothing is known here.
 */
static int is_still(struct record *rec)
{
	struct record_shots *shots = &rec->shots;
	uint64_t stir;
	if (rec->pages.children || proc_gauge_stir(&rec->gauge, &stir) < 0)
		return 0;
	int still = stir == shots->stir && rec->rss.rss_bytes == shots->stir_rss_bytes;
	shots->stir = stir;
	shots->stir_rss_bytes = rec->rss.rss_bytes;
	return still;
}

int64_t record_shots_step(struct record *rec, uint64_t now, int exiting, int64_t pause)
{
	struct record_shots *shots = &rec->shots;
	const int64_t soon = 1000000;
	if (!shots->wanted || rec->replaced)
		return pause;
	if (shots->running && __atomic_load_n(&shots->done, __ATOMIC_ACQUIRE))
		end(rec, now);
	if (shots->running)
		return pause < soon ? pause : soon;
	if (exiting && !shots->was_last) {
		shots->was_last = 1;
		begin(rec, 1, 1, 1);
		return pause < soon ? pause : soon;
	}
	if (exiting || !rec->rss.rss_bytes)
		return pause;
	int shot = record_pace_shot(&shots->pace, now) &&
		   (has_grown(rec, shots->last_rss_bytes) ||
		    (shots->every_ns && now - shots->last_ns >= shots->every_ns));
	int news = record_pages_look(rec, now, &pause);
	int wanted = shot || news || has_grown(rec, shots->pages_rss_bytes);
	int pages = rec->pages.own && record_pace_pages(&shots->pace, now, wanted);
	if (pages && !wanted && is_still(rec)) {
		record_pace_same(&shots->pace, now);
		pages = 0;
	}
	if (shot || pages)
		begin(rec, 0, shot, pages);
	return pause;
}

void record_shots_finish(struct record *rec)
{
	if (rec->shots.running && rec->heap)
		end(rec, source_heap_now_ns(rec->heap));
}
