/* SPDX-License-Identifier: Apache-2.0 */
/* v1_facts.c - sources, summary, timeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "model/pagebook.h"
#include "out/json_put.h"
#include "proc/proc.h"

static void put_cmdline(struct jsonw *json, const struct prof_process *process)
{
	jsonw_array(json, "cmdline");
	const char *at = process ? process->cmdline : NULL;
	size_t left = at ? process->cmdline_bytes : 0;
	while (left) {
		size_t len = strnlen(at, left);
		jsonw_strn(json, NULL, at, len);
		at += len + (left > len);
		left -= len + (left > len);
	}
	jsonw_array_end(json);
}

static int has_rss(const struct prof *names)
{
	size_t count;
	const struct prof_point *points = prof_timeline(names, &count);
	for (size_t i = 0; i < count; i++)
		if (points[i].rss_bytes)
			return 1;
	return 0;
}

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

/** put_book() - what the blocks of a recording are. */
static void put_book(struct jsonw *json, const struct prof_process *process)
{
	const char *comment = process ? process->comment : NULL;
	int sampled = comment && strcmp(comment, PROF_SAMPLER) == 0;
	int pages = comment && strcmp(comment, PAGEBOOK_COMMENT) == 0;
	jsonw_str(json, "book", sampled ? "sample" : pages ? "pages" : "heap");
}

/** put_has() - what there is to ask for: views that have no word here are not shown. */
static void put_has(struct jsonw *json, const struct book *book, int failed)
{
	static const char *const words[] = { "heap",  "allocations", "histogram", "growth", "maps",
					     "space", "address",     "source",    "export" };
	jsonw_array(json, "has");
	for (size_t i = 0; i < ARRAY_LEN(words) && !failed; i++)
		jsonw_str(json, NULL, words[i]);
	if (book && has_rss(book->names))
		jsonw_str(json, NULL, "rss");
	if (book && book->has_snapshots)
		jsonw_str(json, NULL, "explain");
	jsonw_array_end(json);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void put_known(struct jsonw *json, const struct book *book)
{
	const struct prof_process *process = prof_process(book->names);
	struct prof_totals totals;
	prof_totals(book->names, &totals);
	jsonw_u64(json, "generation", book->generation);
	jsonw_str(json, "kind", book->kind);
	if (process)
		jsonw_u64(json, "pid", process->pid);
	else
		jsonw_null(json, "pid");
	jsonw_str(json, "exe", process ? process->exe : NULL);
	put_cmdline(json, process);
	if (process && process->start_realtime_ns)
		jsonw_u64(json, "start_realtime_ns", process->start_realtime_ns);
	else
		jsonw_null(json, "start_realtime_ns");
	jsonw_u64(json, "length_ns", totals.runtime_ns);
	jsonw_bool(json, "complete", process && process->complete);
	jsonw_bool(json, "ended", process && process->ended && !book->being_written);
	jsonw_bool(json, "live", book->being_written);
	put_book(json, process);
	if (totals.forked_from)
		jsonw_u64(json, "forked_from", totals.forked_from);
	else
		jsonw_null(json, "forked_from");
	put_has(json, book, 0);
	jsonw_null(json, "error");
	jsonw_str(json, "warning", book->warning[0] ? book->warning : NULL);
}

static void put_unknown(struct jsonw *json, const char *failure)
{
	static const char *const keys[] = {
		"kind",     "pid",   "exe",  "cmdline", "start_realtime_ns", "length_ns",
		"complete", "ended", "live", "book",    "forked_from"
	};
	jsonw_u64(json, "generation", 0);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		jsonw_null(json, keys[i]);
	put_has(json, NULL, failure != NULL);
	jsonw_str(json, "error", failure);
	jsonw_null(json, "warning");
}

/**
 * put_parent() - the recording of the program that started this one, where it was read and is
 * served, too: of the same family, the last one of that pid that had begun by then (one process may
 * have been several programs).
 */
static void put_parent(struct v1_call *call, size_t source, const struct book *book)
{
	const struct prof_process *own = book ? prof_process(book->names) : NULL;
	struct prof_totals totals = { 0 };
	size_t count = shelf_count(call->shelf), parent = count;
	uint64_t begun = 0;
	if (book)
		prof_totals(book->names, &totals);
	uint32_t pid = totals.forked_from   ? (uint32_t)totals.forked_from
		       : own && own->family ? own->parent_pid
					    : 0;
	for (size_t i = 0; pid && i < count; i++) {
		struct reading *other = i != source ? shelf_peek(call->shelf, i) : NULL;
		const struct prof_process *p = other ? prof_process(other->book->names) : NULL;
		if (p && own && p->pid == pid && p->family == own->family &&
		    p->start_realtime_ns >= begun &&
		    p->start_realtime_ns <= own->start_realtime_ns) {
			parent = i;
			begun = p->start_realtime_ns;
		}
		shelf_put(call->shelf, other);
	}
	if (parent < count)
		jsonw_u64(&call->json, "parent", parent);
	else
		jsonw_null(&call->json, "parent");
}

static void put_live(struct jsonw *json, size_t id, const struct v1_live *live)
{
	static const char *const unknown[] = { "path",     "exe",         "cmdline",
					       "book",     "forked_from", "start_realtime_ns",
					       "complete", "error",       "warning",
					       "parent" };
	jsonw_object(json, NULL);
	jsonw_u64(json, "id", id);
	jsonw_str(json, "name", live->name);
	jsonw_str(json, "kind", live->kind);
	jsonw_u64(json, "generation", 1);
	if (live->pid)
		jsonw_u64(json, "pid", (uint64_t)live->pid);
	else
		jsonw_null(json, "pid");
	jsonw_u64(json, "length_ns", 0);
	jsonw_bool(json, "ended", 0);
	jsonw_bool(json, "live", live->pid != 0);
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		jsonw_null(json, unknown[i]);
	jsonw_array(json, "has");
	for (size_t i = 0; live->has[i]; i++)
		jsonw_str(json, NULL, live->has[i]);
	if (live->explain)
		jsonw_str(json, NULL, "explain");
	jsonw_array_end(json);
	jsonw_object_end(json);
	jsonw_line(json);
}

int v1_sources(struct v1_call *call, struct err *err)
{
	struct jsonw *json = &call->json;
	size_t live_count;
	const struct v1_live *lives = v1_lives(call->v1, &live_count);
	(void)err;
	jsonw_array(json, NULL);
	for (size_t i = 0; i < shelf_count(call->shelf); i++) {
		const struct shelf_item *item = shelf_at(call->shelf, i);
		struct reading *whole = shelf_peek(call->shelf, i);
		char failure[256];
		jsonw_object(json, NULL);
		jsonw_u64(json, "id", i);
		jsonw_str(json, "name", item->name);
		jsonw_str(json, "path", item->path);
		if (whole)
			put_known(json, whole->book);
		else
			put_unknown(json, shelf_failure(call->shelf, i, failure));
		put_parent(call, i, whole ? whole->book : NULL);
		jsonw_object_end(json);
		jsonw_line(json);
		shelf_put(call->shelf, whole);
	}
	for (size_t i = 0; i < live_count; i++)
		put_live(json, V1_LIVE_FIRST + i, &lives[i]);
	jsonw_array_end(json);
	return 0;
}

/* ---- summary --------------------------------------------------------------------------------- */

static void put_process(struct jsonw *json, const struct book *book, const struct prof_totals *t)
{
	const struct prof_process *p = prof_process(book->names);
	jsonw_object(json, "process");
	jsonw_u64(json, "pid", p ? p->pid : 0);
	jsonw_str(json, "exe", p ? p->exe : NULL);
	put_cmdline(json, p);
	jsonw_u64(json, "runtime_ns", t->runtime_ns);
	jsonw_bool(json, "complete", p && p->complete);
	if (p && p->ended && p->exit_status >= 0)
		jsonw_i64(json, "exit_status", proc_exit_status(p->exit_status));
	if (p && p->start_realtime_ns)
		jsonw_u64(json, "start_realtime_ns", p->start_realtime_ns);
	jsonw_u64(json, "time_bound_ns", p ? p->time_bound_ns : 0);
	jsonw_object_end(json);
}

static void put_totals(struct jsonw *json, const struct prof *prof, const struct prof_totals *t)
{
	jsonw_object(json, "totals");
	json_totals(json, prof, t, t->cost.leaked + t->cost.uncertain,
		    t->cost.leaked_bytes + t->cost.uncertain_bytes);
	jsonw_object_end(json);
}

int v1_summary(struct v1_call *call, struct err *err)
{
	struct jsonw *json = &call->json;
	int rc = v1_read(call, err);
	if (rc)
		return rc;
	const struct book *book = call->reading->book;
	const struct prof_totals *t = &call->reading->totals;
	const struct prof_process *p = prof_process(book->names);
	jsonw_object(json, NULL);
	v1_head(call, NULL);
	jsonw_str(json, "name", shelf_at(call->shelf, call->source)->name);
	jsonw_str(json, "path", shelf_at(call->shelf, call->source)->path);
	jsonw_str(json, "kind", book->kind);
	put_process(json, book, t);
	put_totals(json, book->names, t);
	jsonw_object(json, "filtered");
	jsonw_u64(json, "allocations", t->filtered_allocations);
	jsonw_u64(json, "bytes", t->filtered_bytes);
	jsonw_u64(json, "frees", t->filtered_frees);
	jsonw_object_end(json);
	jsonw_bool(json, "ended", p && p->ended && !book->being_written);
	jsonw_bool(json, "live", book->being_written);
	jsonw_str(json, "warning", book->warning[0] ? book->warning : NULL);
	put_has(json, book, 0);
	jsonw_array(json, "categories");
	for (size_t i = 0; i <= CATEGORY_UNKNOWN; i++)
		jsonw_str(json, NULL, v1_category_names[i]);
	jsonw_array_end(json);
	jsonw_object_end(json);
	return 0;
}

/* ---- timeline -------------------------------------------------------------------------------- */

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

int v1_timeline(struct v1_call *call, struct err *err)
{
	struct jsonw *json = &call->json;
	unsigned bits = SERIES_HEAP | SERIES_ALLOCATIONS | SERIES_FREES;
	int rc = v1_read(call, err);
	if (rc)
		return rc;
	const struct book *book = call->reading->book;
	int rss = has_rss(book->names), parts = has_parts(book->names);
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
	jsonw_str(json, "encoding", call->ask.deltas ? "delta" : "plain");
	struct v1_column time = { .delta = call->ask.deltas };
	for (size_t i = 0; i < s.count; i++)
		v1_col_u64(&time, s.time[i]);
	v1_col_put(call, "time_ns", &time);
	jsonw_object(json, "series");
	if (bits & SERIES_HEAP)
		put_level(call, "heap", s.heap, s.heap_max, NULL, s.count);
	if (bits & SERIES_RSS)
		put_level(call, "rss", s.rss, s.rss_max, NULL, s.count);
	for (unsigned k = 0; k < PROF_PARTS; k++)
		if (bits & SERIES_PARTS << k)
			put_level(call, part_names[k], s.part[k], s.part_max[k], s.parts, s.count);
	if (bits & SERIES_VIRTUAL)
		put_level(call, "virtual", s.virtual, NULL, NULL, s.count);
	if (bits & SERIES_ALLOCATIONS)
		put_number(call, "allocations", s.allocations, s.count);
	if (bits & SERIES_FREES)
		put_number(call, "frees", s.frees, s.count);
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
