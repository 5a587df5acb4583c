/* SPDX-License-Identifier: Apache-2.0 */
/* v1_facts.c - sources, summary. */
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

int v1_has_rss(const struct prof *names)
{
	size_t count;
	const struct prof_point *points = prof_timeline(names, &count);
	for (size_t i = 0; i < count; i++)
		if (points[i].rss_bytes)
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
	if (book && v1_has_rss(book->names))
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

/** put_live() - places that nobody has had yet are told once, of the first: it is waited for. */
static void put_live(struct jsonw *json, size_t id, const struct v1_live *live)
{
	struct v1_live_facts who = { .pid = live->pid };
	int there = !live->facts || live->facts(live->ctx, &who) == 0;
	if (!there && id != V1_LIVE_FIRST)
		return;
	static const char *const unknown[] = { "path",  "exe",         "cmdline",
					       "book",  "forked_from", "complete",
					       "error", "warning",     "parent" };
	jsonw_object(json, NULL);
	jsonw_u64(json, "id", id);
	jsonw_str(json, "name", who.name[0] ? who.name : live->name);
	jsonw_str(json, "kind", live->kind);
	jsonw_u64(json, "generation", 1);
	if (who.pid)
		jsonw_u64(json, "pid", (uint64_t)who.pid);
	else
		jsonw_null(json, "pid");
	if (who.start_ns)
		jsonw_u64(json, "start_realtime_ns", who.start_ns);
	else
		jsonw_null(json, "start_realtime_ns");
	jsonw_u64(json, "length_ns", who.time_ns > who.start_ns ? who.time_ns - who.start_ns : 0);
	jsonw_bool(json, "ended", who.ended);
	jsonw_bool(json, "live", who.pid && !who.ended);
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		jsonw_null(json, unknown[i]);
	jsonw_array(json, "has");
	for (size_t i = 0; live->has[i]; i++)
		if (there || strcmp(live->has[i], "rss") != 0)
			jsonw_str(json, NULL, live->has[i]);
	if (live->explain && there)
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
