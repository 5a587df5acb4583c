/* SPDX-License-Identifier: Apache-2.0 */
/* v1_timeline.c - what was live and resident over time, and the moments that have a name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "base/clock.h"

/** has_parts() - is it said what resident memory consisted of? */
static int has_parts(const struct prof *names)
{
	size_t count;
	const struct prof_point *points = prof_timeline(names, &count);
	for (size_t i = 0; i < count; i++)
		if (points[i].part_bytes[PROF_ANON] || points[i].part_bytes[PROF_FILE])
			return 1;
	return 0;
}

enum {
	SERIES_HEAP = 1,
	SERIES_RSS = 2,
	SERIES_VIRTUAL = 4,
	SERIES_ALLOCATIONS = 8,
	SERIES_FREES = 16,
	SERIES_LOST = 32,  /* no series of its own: flags */
	SERIES_PARTS = 64, /* and the next ones, in the order of enum prof_part */
	SERIES_MESSAGES = SERIES_PARTS << PROF_PARTS,
	SERIES_LOGS = SERIES_MESSAGES << 1
};
static const struct {
	const char *name;
	unsigned bit;
} all_series[] = { { "heap", SERIES_HEAP },         { "rss", SERIES_RSS },
		   { "virtual", SERIES_VIRTUAL },   { "allocations", SERIES_ALLOCATIONS },
		   { "frees", SERIES_FREES },       { "lost", SERIES_LOST },
		   { "anon", SERIES_PARTS },        { "file", SERIES_PARTS << 1 },
		   { "shmem", SERIES_PARTS << 2 },  { "swap", SERIES_PARTS << 3 },
		   { "messages", SERIES_MESSAGES }, { "logs", SERIES_LOGS } };
static const char *const part_names[PROF_PARTS] = { "anon", "file", "shmem", "swap" };
#define SERIES_ALL_PARTS (15u * SERIES_PARTS)

static int parse_series(const char *text, unsigned *bits, struct err *err)
{
	*bits = 0;
	while (*text) {
		size_t len = strcspn(text, ","), i = 0;
		while (i < ARRAY_LEN(all_series) && !(strlen(all_series[i].name) == len &&
						      strncmp(all_series[i].name, text, len) == 0))
			i++;
		if (i == ARRAY_LEN(all_series))
			return err_set(err, -EINVAL,
				       "'series' is a list of heap, rss, anon, file, shmem, swap, "
				       "virtual, allocations, frees, messages and logs, not "
				       "'%.40s'",
				       text);
		*bits |= all_series[i].bit;
		text += len + (text[len] == ',');
	}
	return 0;
}

/**
 * put_level() - a series of bytes: at the end of each stretch, and the most within. It is known
 * from where @since (NULL: @last) is not 0 for the first time.
 */
static void put_level(struct v1_call *call, const char *name, const uint64_t *last,
		      const uint64_t *max, const uint64_t *since, size_t count)
{
	struct v1_column a = { .delta = call->ask.deltas }, b = a;
	int known = 0;
	for (size_t i = 0; i < count; i++) {
		known |= (since ? since[i] : last[i]) != 0 || strcmp(name, "heap") == 0;
		if (known)
			v1_col_u64(&a, last[i]);
		else
			v1_col_null(&a);
		if (max && known)
			v1_col_u64(&b, max[i]);
		else if (max)
			v1_col_null(&b);
	}
	jsonw_object(&call->json, name);
	v1_col_put(call, "last", &a);
	if (max)
		v1_col_put(call, "max", &b);
	jsonw_object_end(&call->json);
}

static void put_number(struct v1_call *call, const char *name, const uint64_t *sum, size_t count)
{
	struct v1_column a = { .delta = call->ask.deltas };
	for (size_t i = 0; i < count; i++)
		v1_col_u64(&a, sum[i] - (i ? sum[i - 1] : 0));
	jsonw_object(&call->json, name);
	v1_col_put(call, "last", &a);
	jsonw_object_end(&call->json);
}

static void put_rows(struct v1_call *call, const char *name, const uint64_t *rows, size_t count)
{
	struct v1_column a = { 0 };
	for (size_t i = 0; i < count; i++)
		v1_col_u64(&a, rows[i]);
	jsonw_object(&call->json, name);
	v1_col_put(call, "last", &a);
	jsonw_object_end(&call->json);
}

/** struct stretches - points put together so that there are at most as many as were asked for. */
struct stretches {
	size_t count;
	uint64_t *time, *heap, *heap_max, *rss, *rss_max, *virtual, *allocations, *frees;
	/* [PROF_PARTS]: anything of RSS is known by its kind; see struct prof_point */
	uint64_t *parts, *part[PROF_PARTS], *part_max[PROF_PARTS];
	/* of messages, and of log lines: within each stretch */
	uint64_t *rows[2];
	int told[2];
};

static int put_together(const struct prof_point *points, size_t count, size_t most,
			struct stretches *s, uint64_t **memory)
{
	size_t room = count < most ? count : most;
	uint64_t *at = *memory = calloc((11 + 2 * PROF_PARTS) * (room + 1), sizeof(*at));
	if (!at)
		return -ENOMEM;
	*s = (struct stretches){ .count = room };
	uint64_t **const columns[] = { &s->time,    &s->heap,    &s->heap_max,    &s->rss,
				       &s->rss_max, &s->virtual, &s->allocations, &s->frees,
				       &s->parts,   &s->rows[0], &s->rows[1] };
	for (size_t i = 0; i < ARRAY_LEN(columns); i++, at += room + 1)
		*columns[i] = at;
	for (unsigned k = 0; k < PROF_PARTS; k++, at += 2 * (room + 1)) {
		s->part[k] = at;
		s->part_max[k] = at + room + 1;
	}
	for (size_t i = 0; i < count; i++) {
		const struct prof_point *p = &points[i];
		size_t to = i * room / count;
		s->time[to] = p->time_ns;
		s->heap[to] = p->heap_bytes;
		s->rss[to] = p->rss_bytes;
		s->virtual[to] = p->virtual_bytes;
		s->allocations[to] = p->allocations;
		s->frees[to] = p->frees;
		if (p->heap_max_bytes > s->heap_max[to])
			s->heap_max[to] = p->heap_max_bytes;
		if (p->rss_max_bytes > s->rss_max[to])
			s->rss_max[to] = p->rss_max_bytes;
		s->parts[to] |= p->part_bytes[PROF_ANON] | p->part_bytes[PROF_FILE];
		for (unsigned k = 0; k < PROF_PARTS; k++) {
			s->part[k][to] = p->part_bytes[k];
			if (p->part_max_bytes[k] > s->part_max[k][to])
				s->part_max[k][to] = p->part_max_bytes[k];
		}
	}
	return 0;
}

static const char *const row_names[2] = { "messages", "logs" };

/**
 * tally() - what the stores of nodes that are served beside a recording hold in each stretch. What
 * could not be counted in time is said, and not there.
 */
static int tally(struct v1_call *call, struct stretches *s, int logs, struct err *err)
{
	size_t live_count, stores = 0;
	const struct v1_live *lives = v1_lives(call->v1, &live_count);
	const struct prof_process *process = prof_process(call->reading->book->names);
	uint64_t start_ns = process ? process->start_realtime_ns : 0;
	uint64_t *edges = calloc(s->count + 1, sizeof(*edges));
	if (!edges)
		return err_set(err, -ENOMEM, "cannot count rows of a store");
	for (size_t i = 0; i <= s->count; i++)
		edges[i] = start_ns + (i ? s->time[i - 1] : 0);
	s->told[logs] = start_ns != 0;
	for (size_t i = 0; i < live_count && s->told[logs]; i++) {
		struct err own = { 0 };
		stores += lives[i].tally != NULL;
		if (lives[i].tally &&
		    lives[i].tally(lives[i].ctx, logs, edges, s->count, s->rows[logs], &own) < 0) {
			s->told[logs] = 0;
			v1_unapplied(call, "a store did not answer in time", "series",
				     row_names[logs]);
		}
	}
	if (!stores)
		v1_unapplied(call, "no store of a node is served beside this recording", "series",
			     row_names[logs]);
	s->told[logs] = s->told[logs] && stores;
	free(edges);
	return 0;
}

int v1_timeline_counts(const char *series)
{
	return series && (strstr(series, "messages") || strstr(series, "logs"));
}

static void put_flag(struct jsonw *json, uint64_t time_ns, const char *kind, uint64_t value,
		     const char *label)
{
	jsonw_object(json, NULL);
	jsonw_u64(json, "time_ns", time_ns);
	jsonw_str(json, "kind", kind);
	jsonw_u64(json, "value", value);
	jsonw_str(json, "label", label);
	jsonw_object_end(json);
}

static void put_alert(void *ctx, uint64_t time_ns, const char *text)
{
	put_flag(ctx, time_ns, "alert", 0, text);
}

/** put_flags() - the moments that have a name, but for losses. */
static void put_flags(struct v1_call *call)
{
	const struct prof_totals *t = &call->reading->totals;
	const struct prof *names = call->reading->book->names;
	const struct prof_process *process = prof_process(names);
	const struct marks *marks = prof_marks(names);
	if (t->cost.peak_bytes)
		put_flag(&call->json, t->peak_time_ns, "peak", t->cost.peak_bytes, "heap peak");
	for (uint32_t i = 0; i < marks->count; i++) {
		char label[40];
		snprintf(label, sizeof(label), "mark %llu", (unsigned long long)marks->at[i].value);
		put_flag(&call->json, marks->at[i].time_ns, "mark", marks->at[i].value, label);
	}
	if (process && process->start_realtime_ns)
		v1_alert_flags(call->v1, (int32_t)process->pid, process->start_realtime_ns,
			       process->start_realtime_ns + t->runtime_ns, put_alert, &call->json);
}

/** put_levels() - the series that @bits names. */
static void put_levels(struct v1_call *call, unsigned bits, const struct stretches *s)
{
	if (bits & SERIES_HEAP)
		put_level(call, "heap", s->heap, s->heap_max, NULL, s->count);
	if (bits & SERIES_RSS)
		put_level(call, "rss", s->rss, s->rss_max, NULL, s->count);
	for (unsigned k = 0; k < PROF_PARTS; k++)
		if (bits & SERIES_PARTS << k)
			put_level(call, part_names[k], s->part[k], s->part_max[k], s->parts,
				  s->count);
	if (bits & SERIES_VIRTUAL)
		put_level(call, "virtual", s->virtual, NULL, NULL, s->count);
	if (bits & SERIES_ALLOCATIONS)
		put_number(call, "allocations", s->allocations, s->count);
	if (bits & SERIES_FREES)
		put_number(call, "frees", s->frees, s->count);
}

static void put_times(struct v1_call *call, const struct stretches *s)
{
	struct v1_column time = { .delta = call->ask.deltas };
	jsonw_str(&call->json, "encoding", call->ask.deltas ? "delta" : "plain");
	for (size_t i = 0; i < s->count; i++)
		v1_col_u64(&time, s->time[i]);
	v1_col_put(call, "time_ns", &time);
}

/* ---- of a process that is watched ------------------------------------------------------------ */

static void put_none(struct jsonw *json, const char *name)
{
	jsonw_object(json, name);
	jsonw_u64(json, "events", 0);
	jsonw_object(json, "by_reason");
	jsonw_object_end(json);
	jsonw_object_end(json);
}

/** head_live() - nothing of it is lost: it is what was looked at, once a second. */
static void head_live(struct v1_call *call, const struct v1_live_facts *who, uint64_t length_ns)
{
	struct jsonw *json = &call->json;
	uint64_t now = clock_ns(CLOCK_REALTIME);
	jsonw_u64(json, "source", call->source);
	jsonw_u64(json, "generation", length_ns / 1000000);
	jsonw_str(json, "selection", "");
	jsonw_bool(json, "exact", 1);
	jsonw_u64(json, "age_ns", now > who->time_ns ? now - who->time_ns : 0);
	put_none(json, "lost");
	put_none(json, "partial");
	jsonw_null(json, "sampled");
	v1_put_unapplied(json, call);
	jsonw_u64(json, "length_ns", length_ns);
}

static int answer_live(struct v1_call *call, const struct v1_live *live, struct err *err)
{
	const unsigned known = SERIES_RSS | SERIES_VIRTUAL | SERIES_ALL_PARTS;
	struct jsonw *json = &call->json;
	struct v1_live_facts who = { 0 };
	struct prof_point *points = NULL;
	uint64_t start_ns = 0, *memory = NULL;
	size_t count = 0;
	struct stretches s;
	unsigned bits = known;
	int rc = call->ask.series ? parse_series(call->ask.series, &bits, err) : 0;
	if (rc == 0 && live->facts && live->facts(live->ctx, &who) < 0)
		rc = err_set(err, -ENOENT, "no process is there yet");
	if (rc == 0)
		rc = live->timeline(live->ctx, &points, &count, &start_ns, err);
	if (rc == 0 && put_together(points, count, call->ask.points, &s, &memory) < 0)
		rc = err_set(err, -ENOMEM, "cannot put the timeline together");
	if (rc < 0) {
		free(points);
		return rc;
	}
	uint64_t length_ns = count ? points[count - 1].time_ns : 0;
	if (bits & ~known)
		v1_unapplied(call, "nothing is recorded of this process: it is looked at",
			     "series=heap,allocations,frees,lost,messages,logs", NULL);
	jsonw_object(json, NULL);
	head_live(call, &who, length_ns);
	put_times(call, &s);
	jsonw_object(json, "series");
	put_levels(call, bits & known, &s);
	jsonw_object_end(json);
	jsonw_array(json, "flags");
	v1_alert_flags(call->v1, who.pid, start_ns, start_ns + length_ns, put_alert, json);
	jsonw_array_end(json);
	jsonw_object_end(json);
	free(points);
	free(memory);
	return 0;
}

/* ---- the answer ------------------------------------------------------------------------------ */

int v1_timeline(struct v1_call *call, struct err *err)
{
	struct jsonw *json = &call->json;
	unsigned bits = SERIES_HEAP | SERIES_ALLOCATIONS | SERIES_FREES;
	size_t live_count;
	const struct v1_live *lives = v1_lives(call->v1, &live_count);
	if (call->source >= V1_LIVE_FIRST && call->source - V1_LIVE_FIRST < live_count)
		return answer_live(call, &lives[call->source - V1_LIVE_FIRST], err);
	int rc = v1_read(call, err);
	if (rc)
		return rc;
	const struct book *book = call->reading->book;
	int rss = v1_has_rss(book->names), parts = has_parts(book->names);
	if (rss)
		bits |= SERIES_RSS | SERIES_VIRTUAL;
	if (parts)
		bits |= SERIES_ALL_PARTS;
	if (call->ask.series) {
		rc = parse_series(call->ask.series, &bits, err);
		if (rc < 0)
			return rc;
		if (!rss && bits & (SERIES_RSS | SERIES_VIRTUAL)) {
			v1_unapplied(call, "this recording has no resident size",
				     "series=rss,virtual", NULL);
			bits &= ~(unsigned)(SERIES_RSS | SERIES_VIRTUAL);
		}
		if (!parts && bits & SERIES_ALL_PARTS) {
			v1_unapplied(call, "this recording does not say what RSS consists of",
				     "series=anon,file,shmem,swap", NULL);
			bits &= ~SERIES_ALL_PARTS;
		}
	}
	struct reading *losses = NULL;
	if (bits & SERIES_LOST && call->reading->totals.lost_events) {
		rc = v1_losses(call, &losses, err);
		if (rc)
			return rc;
	}
	size_t count;
	const struct prof_point *points = prof_timeline(book->names, &count);
	struct stretches s;
	uint64_t *memory;
	if (put_together(points, count, call->ask.points, &s, &memory) < 0) {
		shelf_put(call->shelf, losses);
		return err_set(err, -ENOMEM, "cannot put the timeline together");
	}
	for (int logs = 0; rc == 0 && logs < 2; logs++)
		if (bits & (logs ? SERIES_LOGS : SERIES_MESSAGES))
			rc = tally(call, &s, logs, err);
	if (rc < 0) {
		shelf_put(call->shelf, losses);
		free(memory);
		return rc;
	}
	jsonw_object(json, NULL);
	v1_head(call, NULL);
	jsonw_u64(json, "length_ns", call->reading->totals.runtime_ns);
	put_times(call, &s);
	jsonw_object(json, "series");
	put_levels(call, bits, &s);
	for (int logs = 0; logs < 2; logs++)
		if (s.told[logs])
			put_rows(call, row_names[logs], s.rows[logs], s.count);
	jsonw_object_end(json);
	jsonw_array(json, "flags");
	put_flags(call);
	if (losses)
		v1_losses_put(call, losses);
	shelf_put(call->shelf, losses);
	jsonw_array_end(json);
	jsonw_object_end(json);
	free(memory);
	return 0;
}
