/* SPDX-License-Identifier: Apache-2.0 */
#include "query/instant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/huge.h"
#include "query/arenas.h"
#include "query/living.h"
#include "query/recording.h"
#include "query/resident.h"
#include "trace/trace.h"

#define LATER_NS (600ull * NS_PER_S) /* what is touched again within ten minutes was no saving */

int instant_is_there(const char *path)
{
	struct err ignored = { 0 };
	struct trace_shot *shots = NULL;
	size_t count = 0;
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &ignored);
	int rc = reader ? trace_reader_shots(reader, &shots, &count, NULL, &ignored) : ignored.code;
	free(shots);
	return rc < 0 ? rc : count != 0;
}

static int read_living(void *ctx, uint64_t until_ns, struct sink *sink, struct trace_living *living,
		       struct err *err)
{
	return trace_reader_living(ctx, sink, until_ns, living, err);
}

static int join(struct instant *instant, const struct query_source *source, struct err *err)
{
	struct trace_living read = { .beyond_ns = instant->snapshot->window_ns };
	struct living living;
	prof_free(instant->names);
	instant_drop(instant);
	free(instant->maps);
	page_shot_putp(&instant->pages);
	instant->maps = NULL;
	instant->names = prof_new(err);
	if (!instant->names)
		return err->code;
	living_init(&living, instant->names);
	int rc = source->living(source->ctx, instant->snapshot->time_ns, &living.sink, &read, err);
	if (rc == 0) {
		instant->has_window = read.has_sums;
		instant->window_allocated_bytes = read.allocated_bytes;
		instant->window_freed_bytes = read.freed_bytes;
		living_end(&living, &read, instant);
	}
	living_fini(&living);
	return rc;
}

/*
 * What malloc_trim() and the like leave at the tops of arenas is a replay's worth only where there
 * is some.
 */
#define ARENAS_SHARE 50

static void look_arenas(struct instant *instant, const char *path)
{
	const struct snapshot *s = instant->snapshot;
	struct err ignored = { 0 };
	uint64_t free_bytes = 0;
	struct arenas arenas;
	if (s->arenas <= 2)
		return;
	for (size_t i = 0; i < s->piece_count; i++)
		if (s->pieces[i].kind == SNAPSHOT_PIECE_FREE ||
		    s->pieces[i].kind == SNAPSHOT_PIECE_TOP)
			free_bytes += s->pieces[i].bytes;
	if (free_bytes < s->rss_bytes / ARENAS_SHARE)
		return;
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &ignored);
	if (!reader || arenas_read(reader, s, &arenas, &ignored) < 0 || !arenas.count)
		return;
	instant->has_arenas = 1;
	instant->arena_peaks_bytes = arenas.peaks_bytes;
	instant->arena_pair_bytes = arenas.pair_bytes;
	instant->arenas_peak_bytes = arenas.peak_bytes;
}

/* What the other book says: a sheet is whole without it. */
static void look_pages(struct instant *instant, const char *path)
{
	struct err ignored = { 0 };
	instant->pages = resident_nearest(path, instant->snapshot->time_ns, &ignored);
	if (instant->pages)
		instant->pages_age_ns = (int64_t)(page_shot_find(instant->pages, 0)->time_ns -
						  instant->snapshot->time_ns);
}

int instant_join(const char *path, struct instant *instant, struct err *err)
{
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	const struct query_source source = { .living = read_living, .ctx = reader };
	int rc = reader ? join(instant, &source, err) : err->code;
	if (rc == 0) {
		look_pages(instant, path);
		look_arenas(instant, path);
	}
	return rc;
}

uint64_t instant_zero(const char *path)
{
	struct err ignored = { 0 };
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &ignored);
	CLEANUP(prof_freep) struct prof *names = reader ? prof_new(&ignored) : NULL;
	struct trace_living none = { 0 };
	if (!names)
		return 0;
	int rc = trace_reader_living(reader, prof_sink(names), 0, &none, &ignored);
	huge_free(none.blocks, none.room_bytes);
	return rc == 0 && prof_process(names) ? prof_process(names)->start_realtime_ns : 0;
}

/* ---- which snapshot -------------------------------------------------------------------------- */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static int is_peak(const struct query_time *time)
{
	return !time || time->kind == QUERY_TIME_NONE || time->kind == QUERY_TIME_PEAK;
}

/* The shot that is meant by @time: nearest to it, the highest for the peak. */
static size_t choose(const struct trace_shot *shots, size_t count, const struct query_time *time,
		     uint64_t ns)
{
	size_t best = 0;
	for (size_t i = 1; i < count; i++)
		if (is_peak(time)
			    ? shots[i].rss_bytes >= shots[best].rss_bytes
			    : distance(shots[i].time_ns, ns) <= distance(shots[best].time_ns, ns))
			best = i;
	return best;
}

static int moment(const char *path, const struct query_time *time, uint64_t *ns, struct err *err)
{
	*ns = 0;
	if (is_peak(time))
		return 0;
	/* how long it was stands in its summary: not all has to be replayed */
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	CLEANUP(prof_freep) struct prof *summed = reader ? prof_new(err) : NULL;
	int rc = summed ? trace_reader_summary(reader, summed, err) : err->code;
	if (rc)
		return rc < 0 ? rc : query_time_resolve_inside(time, summed, 1, ns, err);
	CLEANUP(recording_freep) struct recording *rec = recording_open(path, NULL, err);
	CLEANUP(prof_freep) struct prof *whole = rec ? recording_read(rec, NULL, err) : NULL;
	return whole ? query_time_resolve_inside(time, whole, 1, ns, err) : err->code;
}

/*
 * Of a recording that was finished: its summary says it, or it is so short that it has none and is
 * read at once.
 */
static uint64_t peak_rss(const char *path, struct trace_reader *reader)
{
	struct err ignored = { 0 };
	struct trace_reader_info info;
	struct prof_totals totals = { 0 };
	trace_reader_info(reader, &info);
	CLEANUP(prof_freep) struct prof *summed = info.indexed ? prof_new(&ignored) : NULL;
	if (!summed)
		return 0;
	if (trace_reader_summary(reader, summed, &ignored) > 0) {
		prof_totals(summed, &totals);
		return totals.peak_rss_bytes;
	}
	CLEANUP(recording_freep) struct recording *rec = recording_open(path, NULL, &ignored);
	CLEANUP(prof_freep) struct prof *whole = rec ? recording_read(rec, NULL, &ignored) : NULL;
	if (whole)
		prof_totals(whole, &totals);
	return totals.peak_rss_bytes;
}

/* What later snapshots say of how long a saving would have kept. */
static void look_later(struct instant *instant, struct trace_reader *reader,
		       const struct trace_shot *shots, size_t count, size_t at)
{
	for (size_t i = at + 1; i < count && instant->later_count < INSTANT_LATER_MAX &&
				shots[i].time_ns - shots[at].time_ns <= LATER_NS;
	     i++) {
		struct err ignored = { 0 };
		CLEANUP(snapshot_freep)
		struct snapshot *s = trace_reader_shot(reader, &shots[i], &ignored);
		if (!s)
			continue;
		struct snapshot_later *later = &instant->later[instant->later_count++];
		*later = (struct snapshot_later){ .after_ns = shots[i].time_ns - shots[at].time_ns,
						  .again_bytes = snapshot_touched_again(
							  instant->snapshot, s) };
	}
}

static int read_it(const char *path, const struct query_time *time,
		   const struct query_source *source, struct instant *instant, struct err *err)
{
	struct trace_shot *shots = NULL;
	size_t count = 0, at;
	uint64_t ns = 0;
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	const struct query_source own = { .living = read_living, .ctx = reader };
	int rc = reader ? trace_reader_shots(reader, &shots, &count, &instant->unreadable, err)
			: err->code;
	if (rc == 0 && !count) {
		rc = err_set(err, -ENODATA, "cannot explain '%s': it has no snapshot%s", path,
			     instant->unreadable ? " that can be read" : "");
		err_hint(err,
			 "'byteledger run' writes them; 'heap' and older recordings have none, "
			 "'byteledger report' says what was live");
	}
	if (rc == 0)
		rc = moment(path, time, &ns, err);
	if (rc == 0) {
		/* one that contradicts itself is no reason to tell nothing, if there are others */
		for (at = 0; count && !instant->snapshot; count -= !instant->snapshot) {
			err_init(err);
			at = choose(shots, count, time, ns);
			instant->snapshot = trace_reader_shot(reader, &shots[at], err);
			instant->unreadable += !instant->snapshot;
			if (!instant->snapshot)
				memmove(&shots[at], &shots[at + 1],
					(count - at - 1) * sizeof(*shots));
		}
		rc = instant->snapshot ? 0 : err->code;
		if (rc == 0)
			rc = join(instant, source && source->living ? source : &own, err);
		if (rc == 0)
			look_pages(instant, path);
		if (rc == 0)
			look_arenas(instant, path);
		if (rc == 0)
			look_later(instant, reader, shots, count, at);
		if (rc == 0 && is_peak(time))
			instant->peak_rss_bytes = peak_rss(path, reader);
		else if (rc == 0)
			instant->age_ns = (int64_t)(ns - instant->snapshot->time_ns);
	}
	free(shots);
	return rc;
}

int instant_read(const char *path, const struct query_time *time, const struct query_source *source,
		 struct instant *instant, struct err *err)
{
	*instant = (struct instant){ 0 };
	int rc = read_it(path, time, source, instant, err);
	if (rc < 0)
		instant_fini(instant);
	return rc;
}
