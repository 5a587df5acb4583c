/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - the report as one object. Rows stream: nothing is held but their order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "model/mapped.h"
#include "out/json_put.h"
#include "out/out.h"
#include "out/pages.h"
#include "proc/proc.h"

/*
 * A stack of the walk's longest, every frame with a few inlined ones; what is longer is cut and
 * says so.
 */
#define FRAMES_MAX 65536u

struct json_rows {
	struct jsonw *json;
	const struct prof *prof;
	const struct out_opt *opt;
	struct view_frame *frames;
	struct err *err;
};

/** no_leaks() - @cost, but what lives while the recording goes on is no leak. */
static struct cost no_leaks(const struct out_opt *opt, const struct cost *cost)
{
	struct cost c = *cost;
	if (opt->being_written)
		c.leaked = c.leaked_bytes = 0;
	return c;
}

static void put_cmdline(struct jsonw *json, const struct prof_process *process)
{
	jsonw_array(json, "cmdline");
	const char *at = process ? process->cmdline : NULL;
	size_t left = at ? process->cmdline_bytes : 0;
	while (left) {
		size_t len = strnlen(at, left);
		jsonw_strn(json, NULL, at, len);
		at += len;
		left -= len;
		if (left) { /* the NUL that ends an argument */
			at++;
			left--;
		}
	}
	jsonw_array_end(json);
}

static void put_process(struct jsonw *json, const struct prof *prof,
			const struct prof_totals *totals, const struct out_opt *opt)
{
	const struct prof_process *process = prof_process(prof);
	jsonw_object(json, "process");
	jsonw_u64(json, "pid", process ? process->pid : 0);
	jsonw_str(json, "exe", process ? process->exe : NULL);
	put_cmdline(json, process);
	jsonw_u64(json, "runtime_ns", totals->runtime_ns);
	jsonw_bool(json, "complete", process && process->complete);
	if (opt->being_written)
		jsonw_bool(json, "being_written", 1);
	if (process && process->ended && process->exit_status == PROF_WENT_ON)
		jsonw_bool(json, "went_on", 1);
	if (process && process->ended && process->exit_status >= 0)
		jsonw_i64(json, "exit_status", proc_exit_status(process->exit_status));
	if (process && process->start_realtime_ns)
		jsonw_u64(json, "start_realtime_ns", process->start_realtime_ns);
	jsonw_u64(json, "time_bound_ns", process ? process->time_bound_ns : 0);
	if (totals->forked_from && process && totals->forked_from == process->pid) {
		jsonw_bool(json, "continued", 1);
	} else if (totals->forked_from) {
		jsonw_u64(json, "forked_from", totals->forked_from);
		jsonw_bool(json, "inherited_known", totals->inherited_known);
	}
	if (process && process->modules_nameless)
		jsonw_u64(json, "modules_nameless", process->modules_nameless);
	jsonw_object_end(json);
}

static void put_totals(struct jsonw *json, const struct prof *prof,
		       const struct prof_totals *totals, const struct out_opt *opt)
{
	struct prof_totals as_it_is = *totals;
	as_it_is.cost = no_leaks(opt, &totals->cost);
	jsonw_object(json, "totals");
	json_totals(json, prof, &as_it_is, totals->cost.leaked + totals->cost.uncertain,
		    totals->cost.leaked_bytes + totals->cost.uncertain_bytes);
	if (totals->forked_from) {
		jsonw_u64(json, "inherited_allocations", totals->inherited_allocations);
		jsonw_u64(json, "inherited_bytes", totals->inherited_bytes);
	}
	jsonw_object_end(json);
}

static void put_suppressed(struct jsonw *json, const struct suppress *suppress)
{
	uint64_t allocations, bytes;
	size_t count;
	if (!suppress)
		return;
	suppress_sum(suppress, &allocations, &bytes);
	const struct suppress_rule *rules = suppress_rules(suppress, &count);
	jsonw_object(json, "suppressed");
	jsonw_u64(json, "allocations", allocations);
	jsonw_u64(json, "bytes", bytes);
	/* are they left out of what is leaked? */
	jsonw_bool(json, "applied", suppress_applied(suppress));
	jsonw_array(json, "rules");
	for (size_t i = 0; i < count; i++) {
		jsonw_object(json, NULL);
		jsonw_str(json, "pattern", rules[i].pattern);
		jsonw_bool(json, "built_in", rules[i].built_in);
		jsonw_u64(json, "allocations", rules[i].allocations);
		jsonw_u64(json, "bytes", rules[i].bytes);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_object_end(json);
}

static void put_losses(struct jsonw *json, const struct prof *prof, const struct prof_totals *t,
		       const struct out_opt *opt)
{
	json_lost(json, t);
	json_partial(json, "partial_stacks", t);

	jsonw_object(json, "culled");
	jsonw_u64(json, "allocations", t->culled_allocations);
	jsonw_u64(json, "bytes", t->culled_bytes);
	if (t->culled_allocations)
		jsonw_bool(json, "in_peaks", !prof_peaks_lack_culled(prof));
	if (prof_lacks_culled(prof))
		jsonw_bool(json, "in_totals", 0);
	jsonw_object_end(json);

	/* what is said of stacks and their groups are estimates, then */
	const struct prof_process *process = prof_process(prof);
	if (process && process->sample_bytes) {
		jsonw_object(json, "sampled");
		jsonw_u64(json, "every_bytes", process->sample_bytes);
		jsonw_bool(json, "exact_totals", !prof_estimates(prof));
		jsonw_object_end(json);
	}

	put_suppressed(json, opt->suppress);
	/* of the whole recording; in no other number */
	jsonw_object(json, "filtered");
	jsonw_u64(json, "allocations", t->filtered_allocations);
	jsonw_u64(json, "bytes", t->filtered_bytes);
	jsonw_u64(json, "frees", t->filtered_frees);
	if (t->forked_from) {
		jsonw_u64(json, "inherited_allocations", t->filtered_inherited_allocations);
		jsonw_u64(json, "inherited_bytes", t->filtered_inherited_bytes);
	}
	jsonw_object_end(json);
}

/** put_frame() - @hidden: one that does not count as who asked. */
static void put_frame(struct jsonw *json, const struct view_frame *f, enum view_by by, int hidden)
{
	jsonw_object(json, NULL);
	jsonw_str(json, "function", f->function);
	jsonw_str(json, "module", f->module);
	/* A group's frame stands for many addresses: only what they have in common is said. */
	if (by == VIEW_BY_STACK || (by == VIEW_BY_LINE && !f->file))
		jsonw_u64(json, "offset", f->offset);
	else
		jsonw_null(json, "offset");
	jsonw_str(json, "file", f->file);
	if (f->line)
		jsonw_u64(json, "line", f->line);
	else
		jsonw_null(json, "line");
	jsonw_bool(json, "inlined", f->inlined);
	if (hidden)
		jsonw_bool(json, "hidden", 1);
	jsonw_object_end(json);
}

static void put_inclusive(struct jsonw *json, const struct prof *prof, const struct cost *c)
{
	jsonw_u64(json, "inclusive_allocations", c->allocations);
	jsonw_u64(json, "inclusive_allocated_bytes", c->allocated_bytes);
	jsonw_u64(json, "inclusive_temporary_allocations", c->temporary);
	jsonw_u64(json, "inclusive_leaked_allocations", c->leaked);
	jsonw_u64(json, "inclusive_leaked_bytes", c->leaked_bytes);
	jsonw_u64(json, "inclusive_peak_bytes", c->peak_bytes);
	if (prof_knows_peak_blocks(prof))
		jsonw_u64(json, "inclusive_peak_allocations", c->peak_blocks);
}

static int put_row(void *ctx, const struct view_row *row)
{
	struct json_rows *rows = ctx;
	struct jsonw *json = rows->json;
	const struct cost as_it_is = no_leaks(rows->opt, &row->cost), *c = &as_it_is;
	jsonw_line(json);
	jsonw_object(json, NULL);
	jsonw_u64(json, "allocations", c->allocations);
	jsonw_u64(json, "allocated_bytes", c->allocated_bytes);
	jsonw_u64(json, "temporary_allocations", c->temporary);
	jsonw_u64(json, "leaked_allocations", c->leaked);
	jsonw_u64(json, "leaked_bytes", c->leaked_bytes);
	jsonw_u64(json, "peak_bytes", c->peak_bytes);
	if (prof_knows_peak_blocks(rows->prof))
		jsonw_u64(json, "peak_allocations", c->peak_blocks);
	if (rows->opt->being_written) {
		jsonw_u64(json, "live_allocations", row->cost.leaked);
		jsonw_u64(json, "live_bytes", row->cost.leaked_bytes);
	}
	if (view_by_frames(rows->opt->by)) {
		const struct cost inclusive = no_leaks(rows->opt, &row->inclusive);
		put_inclusive(json, rows->prof, &inclusive);
	}
	if (c->uncertain || c->uncertain_bytes) {
		jsonw_u64(json, "uncertain_allocations", c->uncertain);
		jsonw_u64(json, "uncertain_bytes", c->uncertain_bytes);
	}
	if (rows->opt->by == VIEW_BY_THREAD) {
		jsonw_u64(json, "tid", row->tid);
		jsonw_str(json, "name", row->thread_name);
	}
	if (row->stop)
		jsonw_str(json, "partial", stack_stop_name(row->stop));
	int cut = 0;
	jsonw_array(json, "frames");
	if (rows->opt->by == VIEW_BY_STACK) {
		unsigned stop;
		size_t n = view_frames(rows->prof, row->stack, rows->frames, FRAMES_MAX, &stop);
		size_t hidden = view_skip_count(rows->opt->skip, rows->frames, n);
		for (size_t i = 0; i < n; i++)
			put_frame(json, &rows->frames[i], VIEW_BY_STACK, i < hidden);
		cut = n == FRAMES_MAX;
	} else if (rows->opt->by != VIEW_BY_THREAD) {
		put_frame(json, &row->frame, rows->opt->by, 0);
	}
	jsonw_array_end(json);
	if (cut)
		jsonw_bool(json, "frames_cut", 1);
	jsonw_object_end(json);
	return ferror(json->to) ? -EIO : 0;
}

static void put_mapped_sum(struct jsonw *json, const struct mapped_sum *sum)
{
	jsonw_u64(json, "mappings", sum->count);
	jsonw_u64(json, "mapped_bytes", sum->bytes);
	jsonw_u64(json, "live_mappings", sum->live_count);
	jsonw_u64(json, "live_bytes", sum->live_bytes);
	jsonw_u64(json, "peak_bytes", sum->peak_bytes);
}

/* What the program mapped by itself, beside the heap: in none of the figures above. */
static void put_mapped(struct json_rows *rows)
{
	const struct mapped *mapped = prof_mapped(rows->prof);
	struct jsonw *json = rows->json;
	struct mapped_sum sum = { 0 };
	if (!prof_knows_mapped(rows->prof))
		return;
	jsonw_object(json, "mapped");
	for (unsigned kind = 0; kind < MAPPED_KINDS; kind++) {
		if (mapped)
			mapped_sum(mapped, kind, &sum);
		jsonw_object(json, mapped_kind_name(kind));
		put_mapped_sum(json, &sum);
		jsonw_u64(json, "at_heap_peak_bytes", sum.at_heap_peak_bytes);
		jsonw_u64(json, "peak_time_ns", sum.peak_time_ns);
		jsonw_object_end(json);
	}
	if (mapped && mapped_lost(mapped))
		jsonw_u64(json, "lost", mapped_lost(mapped));
	jsonw_array(json, "rows");
	for (size_t i = 0; mapped && i < mapped_count(mapped); i++) {
		struct mapped_row row;
		unsigned stop;
		mapped_row(mapped, i, &row);
		jsonw_line(json);
		jsonw_object(json, NULL);
		jsonw_str(json, "kind", mapped_kind_name(row.kind));
		put_mapped_sum(json, &row.sum);
		size_t n = view_frames(rows->prof, (struct stack_id){ row.stack }, rows->frames,
				       FRAMES_MAX, &stop);
		jsonw_array(json, "frames");
		for (size_t f = 0; f < n; f++)
			put_frame(json, &rows->frames[f], VIEW_BY_STACK, 0);
		jsonw_array_end(json);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_object_end(json);
}

int out_json(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	struct jsonw json;
	struct prof_totals totals;
	struct json_rows rows = { .json = &json, .prof = prof, .opt = opt, .err = err };
	rows.frames = malloc(FRAMES_MAX * sizeof(*rows.frames));
	if (!rows.frames)
		return err_set(err, -ENOMEM, "cannot write JSON");
	jsonw_init(&json, to);
	prof_totals(prof, &totals);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "version", 1);
	put_process(&json, prof, &totals, opt);
	put_totals(&json, prof, &totals, opt);
	put_losses(&json, prof, &totals, opt);
	jsonw_array(&json, "rows");
	const struct view_opt view = out_view(opt);
	int rc = view_each(prof, &view, put_row, &rows, err);
	jsonw_array_end(&json);
	put_mapped(&rows);
	if (opt->pages && opt->pages->count)
		out_pages_process(&json, "pages", opt->pages, opt->pages->processes[0], 0);
	jsonw_object_end(&json);
	jsonw_line(&json);
	free(rows.frames);
	if (rc == -EIO || (rc == 0 && (fflush(to) != 0 || ferror(to))))
		return err_set(err, errno ? -errno : -EIO, "cannot write JSON");
	return rc;
}
