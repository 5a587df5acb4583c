/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bound.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "query/merge.h"
#include "query/strip.h"
#include "trace/trace.h"

#define PAGES_AT_ONCE 256
#define DESCRIPTORS 64 /* beside those of recordings */

static uint64_t size_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ---- what is no event ------------------------------------------------------------------------ */

static int copy_file(void *ctx, const struct trace_file *file, struct err *err)
{
	return trace_writer_attach(ctx, file, file->content, err);
}

static int copy_snapshots(struct trace_reader *from, struct trace_writer *to, struct err *err)
{
	struct trace_shot *shots = NULL;
	size_t count = 0;
	int rc = trace_reader_shots(from, &shots, &count, NULL, err);
	for (size_t i = 0; i < count && rc >= 0; i++) {
		struct err damaged = { 0 };
		struct snapshot *shot = trace_reader_shot(from, &shots[i], &damaged);
		if (shot)
			rc = trace_writer_snapshot(to, shot, err);
		else if (damaged.code != -EBADMSG) /* else it could not be read before, either */
			rc = err_set(err, damaged.code, "cannot read a snapshot");
		snapshot_free(shot);
	}
	free(shots);
	return rc;
}

static int copy_pages(const char *from, const char *to, struct err *err)
{
	struct trace_pages *pages = trace_pages_new(from, err);
	if (!pages)
		return err->code;
	/* many at once: each time that some are appended an index is written anew */
	struct page_shot *shots[PAGES_AT_ONCE];
	size_t held = 0, count = trace_pages_count(pages);
	pid_t pid = 0;
	int rc = 0;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		struct page_shot *shot = trace_pages_load(pages, i, err);
		if (!shot)
			rc = err->code == -EBADMSG ? 0 : err->code;
		else if (!shot->count)
			page_shot_put(shot);
		else
			shots[held++] = shot;
		if (!held || (rc >= 0 && held < PAGES_AT_ONCE && i + 1 < count))
			continue;
		pid = shots[0]->processes[0]->pid;
		rc = rc < 0 ? rc : trace_append_pages(to, shots, held, pid, 0, err);
		while (held)
			page_shot_put(shots[--held]);
	}
	while (held)
		page_shot_put(shots[--held]);
	trace_pages_free(pages);
	return rc;
}

/* All names that this machine has, lines of its debug files among them. */
static int store_names(const char *path, const struct recording_ears *ears, struct err *err)
{
	CLEANUP(trace_reader_freep) struct trace_reader *file = trace_reader_new(path, err);
	CLEANUP(prof_freep) struct prof *prof = file ? prof_new(err) : NULL;
	if (!prof || trace_reader_places(file, prof, err) < 0 ||
	    recording_resolve(prof, ears, err) < 0)
		return err->code;
	return trace_append_symbols(path, prof, err);
}

/* ---- one recording of another ---------------------------------------------------------------- */

/**
 * load_sums() - a recording that has left blocks out cannot be added up again: its own sums into
 * @sums, a new one. 1 done, 0 it is not one of these: @sums is as it was; negative errno.
 */
static int load_sums(struct recording *rec, struct prof **sums, struct err *err)
{
	struct prof_totals totals = { 0 };
	CLEANUP(trace_reader_freep) struct trace_reader *reader = NULL;
	CLEANUP(prof_freep) struct prof *own = NULL;
	if (recording_kind(rec) != RECORDING_BLT)
		return 0;
	reader = trace_reader_new(recording_path(rec), err);
	own = reader ? prof_new(err) : NULL;
	int rc = own ? trace_reader_summary(reader, own, err) : err->code;
	if (rc > 0)
		prof_totals(own, &totals);
	if (rc <= 0 || !totals.culled_allocations)
		return rc < 0 ? rc : 0;
	prof_freep(sums);
	*sums = STEAL(own);
	return 1;
}

static int put_events(struct recording *rec, const struct rewrite_opt *opt, struct sink *to,
		      struct prof *sums, int known, struct rewrite_result *result, struct err *err)
{
	struct cull_result left_out = { 0 };
	if (opt->strips) {
		int rc = strip_run(rec, opt->lifetime_ns, sums, known, to, &left_out, err);
		if (rc < 0)
			return rc;
		struct prof_totals totals;
		prof_totals(sums, &totals);
		result->left_out_allocations = left_out.allocations;
		result->left_out_bytes = left_out.bytes;
		if (left_out.allocations)
			prof_set_culled(sums, totals.culled_allocations + left_out.allocations,
					totals.culled_bytes + left_out.bytes, left_out.peak_event);
		return 0;
	}
	struct sink_tee tee;
	sink_tee_init(&tee);
	if (!known)
		sink_tee_add(&tee, prof_sink(sums));
	sink_tee_add(&tee, to);
	/* before both: what is veiled stands in neither */
	CLEANUP(veil_freep) struct veil *veil = veil_new(opt->veil, &tee.sink, err);
	if (!veil)
		return err->code;
	const struct event nobodys = { .kind = EVENT_FORKED, .value = 1 };
	struct prof_totals totals;
	prof_totals(sums, &totals);
	if (totals.forked_from && opt->veil == VEIL_FULLY) {
		struct sink *to_sums = prof_sink(sums);
		int rc = to_sums->put(to_sums, &nobodys, 1, err);
		if (rc < 0)
			return rc;
	}
	return recording_run(rec, veil_sink(veil), err);
}

static int write_all(struct recording *rec, const struct rewrite_opt *opt,
		     struct trace_writer **writer, struct rewrite_result *result, struct err *err)
{
	CLEANUP(prof_freep) struct prof *sums = prof_new(err);
	int known = sums ? load_sums(rec, &sums, err) : err->code;
	int rc = known < 0 ? known
			   : put_events(rec, opt, trace_writer_sink(*writer), sums, known, result,
					err);
	CLEANUP(trace_reader_freep) struct trace_reader *from = NULL;
	if (rc >= 0 && recording_kind(rec) == RECORDING_BLT && opt->veil == VEIL_NOTHING) {
		from = trace_reader_new(recording_path(rec), err);
		rc = from ? copy_snapshots(from, *writer, err) : err->code;
		if (rc >= 0)
			rc = trace_reader_files(from, copy_file, *writer, err);
	}
	if (rc >= 0 && trace_writer_lost(*writer))
		rc = err_set(err, -ENOSPC, "cannot write '%s'", trace_writer_path(*writer));
	if (rc < 0)
		return rc;
	struct trace_writer *finished = STEAL(*writer);
	rc = trace_writer_finish(finished, sums, err);
	return rc >= 0 && from ? copy_pages(recording_path(rec), result->path, err) : rc;
}

static int copy(struct recording *rec, const struct rewrite_opt *opt, const char *out_path,
		struct rewrite_result *result, struct err *err)
{
	const struct trace_writer_opt how = { .anonymous = opt->veil == VEIL_FULLY };
	CLEANUP(trace_writer_freep)
	struct trace_writer *writer = trace_writer_new(out_path, &how, err);
	if (!writer)
		return err->code;
	result->path = strdup(trace_writer_path(writer));
	int rc = result->path ? write_all(rec, opt, &writer, result, err)
			      : err_set(err, -ENOMEM, "cannot write '%s'", out_path);
	if (rc >= 0 && !opt->strips && !opt->imports && opt->veil == VEIL_NOTHING)
		rc = store_names(result->path, opt->ears, err);
	if (rc < 0 && result->path) {
		unlink(result->path); /* ours alone: it was created exclusively */
		free(STEAL(result->path));
	}
	return rc;
}

/* Names that are not stored yet are looked up by paths and build ids: first that, then the veil. */
static int veil_named(struct recording *rec, const struct rewrite_opt *opt, const char *out_path,
		      struct rewrite_result *result, struct err *err)
{
	const struct rewrite_opt plain = { .ears = opt->ears };
	struct rewrite_result named = { 0 };
	CLEANUP(buf_fini) struct buf path = { 0 };
	buf_printf(&path, "%s.names", out_path);
	int rc = copy(rec, &plain, buf_cstr(&path), &named, err);
	CLEANUP(recording_freep)
	struct recording *with = rc < 0 ? NULL : recording_open(named.path, NULL, err);
	if (rc >= 0)
		rc = with ? copy(with, opt, out_path, result, err) : err->code;
	if (named.path)
		unlink(named.path);
	free(named.path);
	return rc;
}

int recorder_rewrite(struct recording *rec, const struct rewrite_opt *opt, const char *out_path,
		     struct rewrite_result *result, struct err *err)
{
	*result = (struct rewrite_result){ .before_bytes = size_of(recording_path(rec)) };
	if (opt->imports && recording_kind(rec) == RECORDING_BLT) {
		err_set(err, -EINVAL, "'%s' is a recording already", recording_path(rec));
		return err_hint(err, "'byteledger report' reads it; 'byteledger export' writes "
				     "other formats");
	}
	if (recording_is_written(rec)) {
		err_set(err, -EBUSY, "'%s' is being written", recording_path(rec));
		return err_hint(err,
				"wait for its end, or end it: 'byteledger heap --stop -p PID'");
	}
	int rc = opt->veil == VEIL_NOTHING ? copy(rec, opt, out_path, result, err)
					   : veil_named(rec, opt, out_path, result, err);
	if (rc >= 0)
		result->after_bytes = size_of(result->path);
	return rc;
}

/* ---- one recording of several ---------------------------------------------------------------- */

static int merge_into(const char *const *paths, size_t count, struct trace_writer **writer,
		      const struct recording_ears *ears, struct err *err)
{
	CLEANUP(prof_freep) struct prof *sums = prof_new(err);
	struct sink_tee tee;
	sink_tee_init(&tee);
	if (!sums)
		return err->code;
	sink_tee_add(&tee, prof_sink(sums));
	sink_tee_add(&tee, trace_writer_sink(*writer));
	int rc = merge_run(paths, count, &tee.sink, ears, err);
	for (size_t i = 0; i < count && rc >= 0; i++) {
		if (trace_is(paths[i], err) <= 0)
			continue;
		CLEANUP(trace_reader_freep)
		struct trace_reader *from = trace_reader_new(paths[i], err);
		rc = from ? trace_reader_files(from, copy_file, *writer, err) : err->code;
	}
	if (rc >= 0 && trace_writer_lost(*writer))
		rc = err_set(err, -ENOSPC, "cannot write '%s'", trace_writer_path(*writer));
	return rc < 0 ? rc : trace_writer_finish(STEAL(*writer), sums, err);
}

int recorder_merge(const char *const *paths, size_t count, const char *out_path,
		   const struct recording_ears *ears, struct rewrite_result *result,
		   struct err *err)
{
	*result = (struct rewrite_result){ 0 };
	CLEANUP(trace_writer_freep)
	struct trace_writer *writer = trace_writer_new(out_path, NULL, err);
	if (!writer)
		return err->code;
	bound_descriptors(DESCRIPTORS + count);
	for (size_t i = 0; i < count; i++)
		result->before_bytes += size_of(paths[i]);
	result->path = strdup(trace_writer_path(writer));
	int rc = result->path ? merge_into(paths, count, &writer, ears, err)
			      : err_set(err, -ENOMEM, "cannot write '%s'", out_path);
	if (rc < 0 && result->path) {
		unlink(result->path);
		free(STEAL(result->path));
	}
	if (rc >= 0)
		result->after_bytes = size_of(result->path);
	return rc;
}
