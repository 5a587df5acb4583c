/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shots.c - snapshots of the process while it is recorded: where its memory is, for the balance sheet. Taken on a thread of its own,
 * so that the rings are emptied meanwhile; written by the recorder's. At most a half per cent of a CPU, but for the last one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "recorder/record.h"
#include "source/snapshot.h"

#define EAGER_SHARE 10u /* of who asked for nothing but snapshots */
#define EAGER_NS 50000000ull
#define SHARE 200u /* of the time: 0.5 % */
#define FIRST_NS 250000000ull
#define LEAST_NS 500000000ull
#define PAGES_EVERY_NS 2000000000ull
#define PAGES_PART 50u
#define PAGES_SHARE 50u /* 2 % of a CPU */
#define GROWTH 20u      /* a twentieth more than the last one is a new peak */

static void *shots_run(void *ctx)
{
	struct record_shots *shots = &((struct record *)ctx)->shots;
	const struct snapshot_opt opt = { .quiet = 1, .time_zero_ns = shots->zero_ns };
	struct err ignored = { 0 };
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!shots->pages_only)
		shots->taken = snapshot_take(shots->pid, &opt, &ignored);
	uint64_t between = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	shots->cost_ns = between - before;
	record_pages_read(ctx);
	shots->pages_cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - between;
	__atomic_store_n(&shots->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct record *rec, int last, int pages_only)
{
	struct record_shots *shots = &rec->shots;
	shots->pid = rec->pid;
	shots->zero_ns = source_heap_start_ns(rec->heap);
	shots->done = 0;
	shots->is_last = last;
	shots->pages_only = pages_only;
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
	if (shots->taken && rec->writer && !rec->failed) {
		if (trace_writer_snapshot(rec->writer, shots->taken, &ignored) == 0) {
			shots->count++;
			shots->last_rss_bytes = shots->taken->rss_bytes;
			shots->last_ns = now;
		}
	}
	snapshot_free(shots->taken);
	shots->taken = NULL;
	if (record_pages_put(rec) > 0)
		shots->pages_rss_bytes = rec->rss.rss_bytes;
	uint64_t far = now / PAGES_PART > PAGES_EVERY_NS ? now / PAGES_PART : PAGES_EVERY_NS;
	shots->pages_pause_ns = shots->pages_cost_ns * PAGES_SHARE;
	shots->pages_next_ns = now + (far > shots->pages_pause_ns ? far : shots->pages_pause_ns);
	shots->pages_pause_ns += now;
	if (shots->pages_only)
		return;
	uint64_t pause = shots->cost_ns * (shots->eager ? EAGER_SHARE : SHARE);
	uint64_t least = shots->eager ? EAGER_NS : LEAST_NS;
	shots->next_ns = now + (pause > least ? pause : least);
}

void record_shots_want(struct record *rec)
{
	rec->shots.wanted = 1;
	source_heap_look_last(rec->heap);
}

/* At new peaks, and further and further apart: a day's recording has some hundred readings, most of its beginning and its growth. */
static int pages_are_due(const struct record *rec, uint64_t now)
{
	const struct record_shots *shots = &rec->shots;
	return rec->pages.own && now >= shots->pages_pause_ns &&
	       (now >= shots->pages_next_ns ||
		rec->rss.rss_bytes > shots->pages_rss_bytes + shots->pages_rss_bytes / GROWTH);
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
		begin(rec, 1, 0);
		return pause < soon ? pause : soon;
	}
	if (exiting || !rec->rss.rss_bytes || now < (shots->eager ? EAGER_NS : FIRST_NS))
		return pause;
	if (now < shots->next_ns) {
		if (pages_are_due(rec, now))
			begin(rec, 0, 1);
		return pause;
	}
	int peak = rec->rss.rss_bytes > shots->last_rss_bytes + shots->last_rss_bytes / GROWTH;
	int due = shots->every_ns && now - shots->last_ns >= shots->every_ns;
	if (peak || due || __atomic_exchange_n(&shots->asked, 0, __ATOMIC_ACQ_REL))
		begin(rec, 0, 0);
	else if (pages_are_due(rec, now))
		begin(rec, 0, 1);
	return pause;
}

void record_shots_finish(struct record *rec)
{
	if (rec->shots.running && rec->heap)
		end(rec, source_heap_now_ns(rec->heap));
}
