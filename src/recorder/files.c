/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - the file that a recording goes to, and the next one when it is full (MAX_SIZE,
 * KEEP_FILES).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "query/query.h"
#include "recorder/record.h"
#include "sym/sym.h"

#define NAME_WAIT_NS NS_PER_S

void record_fail(const struct record *rec, const struct err *what)
{
	if (rec->ears.tell)
		rec->ears.tell(rec->ears.ctx, what);
}

void record_tell(const struct record *rec, const char *format, ...)
{
	struct err what = { 0 };
	va_list args;
	va_start(args, format);
	vsnprintf(what.msg, sizeof(what.msg), format, args);
	va_end(args);
	record_fail(rec, &what);
}

/*
 * A name for the file behind the first: numbers only grow, though older files are removed, so that
 * they tell the order.
 */
static char *next_name(struct record *rec)
{
	char *name = NULL;
	do {
		free(name);
		if (asprintf(&name, "%s.%u", rec->path, ++rec->file_number) < 0)
			return NULL;
	} while (faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
		 rec->file_number < UINT32_MAX);
	return name;
}

/* Create the next file; NULL: @err says why, and there is none. */
static struct trace_writer *create(struct record *rec, struct err *err)
{
	struct source_heap_fork fork;
	source_heap_fork(rec->heap, &fork);
	const struct trace_writer_opt opt = { .min_free_bytes = rec->settings.min_free_bytes,
					      .culling = rec->settings.cull.lifetime_ns != 0,
					      .brief = fork.from && !rec->file_count,
					      .await_ns = rec->own_name && !rec->file_count
								  ? NAME_WAIT_NS
								  : 0 };
	uint32_t number = rec->file_number;
	char *next = rec->file_count ? next_name(rec) : NULL;
	if (rec->file_count && !next) {
		err_set(err, -ENOMEM, "cannot hold the names of files");
		return NULL;
	}
	struct trace_writer *writer = trace_writer_new(next ? next : rec->path, &opt, err);
	free(next);
	if (!writer)
		rec->file_number = number;
	if (!writer || rec->settings.owner < 0)
		return writer;
	if (lchown(trace_writer_path(writer), (uid_t)rec->settings.owner, (gid_t)-1) < 0) {
		err_set(err, -errno, "cannot give '%s' to user %lld", trace_writer_path(writer),
			(long long)rec->settings.owner);
		unlink(trace_writer_path(writer));
		trace_writer_freep(&writer); /* nobody may go on with a file that is gone */
	}
	return writer;
}

/* What is recorded from here on goes to @writer, which is taken, and released where that fails. */
static int begin(struct record *rec, struct trace_writer *writer, struct err *err)
{
	rec->writer = writer;
	prof_freep(&rec->sums);
	cull_freep(&rec->cull);
	rec->sums = prof_new_sums(err);
	if (!rec->sums)
		return trace_writer_freep(&rec->writer), err->code;
	record_include(rec);
	struct sink *to = trace_writer_sink(rec->writer);
	if (rec->settings.cull.lifetime_ns) {
		rec->cull = cull_new(&rec->settings.cull, rec->sums, to, err);
		if (!rec->cull)
			return trace_writer_freep(&rec->writer), err->code;
		to = cull_sink(rec->cull);
	}
	sink_tee_init(&rec->tee);
	sink_tee_add(&rec->tee, prof_sink(rec->sums));
	sink_tee_add(&rec->tee, to);
	if (rec->names)
		record_names_restart(rec->names);
	else if (rec->settings.store_symbols && !(rec->names = record_names_new(err)))
		return trace_writer_freep(&rec->writer), err->code;
	if (rec->names)
		sink_tee_add(&rec->tee, record_names_sink(rec->names));
	record_send_end(rec, 0); /* the one before */
	record_send_begin(rec, trace_writer_path(rec->writer));
	if (rec->ears.file)
		rec->ears.file(rec->ears.ctx, trace_writer_path(rec->writer));
	return 0;
}

int record_begin_file(struct record *rec, struct err *err)
{
	struct trace_writer *writer = create(rec, err);
	return writer ? begin(rec, writer, err) : err->code;
}

int record_store_symbols(const char *path, struct err *err)
{
	const struct sym_opt opt = { .lasting = 1 };
	CLEANUP(trace_reader_freep) struct trace_reader *file = trace_reader_new(path, err);
	CLEANUP(prof_freep) struct prof *prof = file ? prof_new(err) : NULL;
	CLEANUP(sym_freep) struct sym *sym = prof ? sym_new(&opt, err) : NULL;
	if (!sym || trace_reader_places(file, prof, err) < 0 ||
	    sym_resolve_prof(sym, prof, prof_symbol_sink(prof), NULL, NULL, err) < 0)
		return err->code;
	return trace_append_symbols(path, prof, err);
}

int record_end_file(struct record *rec, const struct def *process, struct err *err)
{
	int rc = rec->sieve ? sieve_tell(rec->sieve, err) : 0;
	if (rec->cull && rc == 0) {
		struct cull_result left_out;
		rc = cull_finish(rec->cull, err);
		cull_result(rec->cull, &left_out);
		if (left_out.allocations)
			prof_set_culled(rec->sums, left_out.allocations, left_out.bytes,
					left_out.peak_event);
	}
	/* that it ended stands behind the last events: who is cut before them must not say so */
	if (rc == 0 && !rec->failed)
		rc = trace_writer_flush(rec->writer, err);
	if (rc == 0)
		rc = rec->tee.sink.define(&rec->tee.sink, process, err);
	if (rec->settings.store_symbols)
		record_pages_name(rec);
	if (rc == 0 && rec->names && !rec->failed)
		rc = record_names_put(rec->names, trace_writer_sink(rec->writer), err);
	/* why a file could not grow has been told */
	int told = rc < 0 || rec->failed;
	int closed = trace_writer_finish(STEAL(rec->writer), rec->sums, told ? NULL : err);
	return told ? rc : closed;
}

/* Remove the oldest of the files of this recording that are too many. */
static int forget_oldest(struct record *rec, struct err *err)
{
	uint32_t keep = rec->settings.keep_files;
	if (!keep) {
		rec->file_count++;
		return 0;
	}
	if (!rec->files)
		rec->files = calloc(keep, sizeof(*rec->files));
	char *path = rec->files ? strdup(trace_writer_path(rec->writer)) : NULL;
	if (!path)
		return err_set(err, -ENOMEM, "cannot hold the names of files");
	/* the file that is being written is one of those that are kept */
	char **place = &rec->files[rec->file_count++ % keep];
	if (*place)
		unlink(*place);
	free(*place);
	*place = path;
	return 0;
}

int record_rotate(struct record *rec, const struct def *begun, const struct def *ended,
		  struct err *err)
{
	int rc = rec->file_count ? 0 : forget_oldest(rec, err);
	int resumes = rec->failed;
	struct err why = { 0 };
	struct trace_writer *next = rc == 0 ? create(rec, &why) : NULL;
	if (rc == 0 && !next && resumes)
		return 0;
	if (rc == 0 && !next) {
		err_hint(&why,
			 "the recording goes on in '%s', beyond BYTELEDGER_MAX_SIZE; the next try "
			 "is where that has doubled",
			 trace_writer_path(rec->writer));
		record_fail(rec, &why);
		rec->begun_bytes = trace_writer_bytes(rec->writer);
		return 0;
	}
	if (rc == 0)
		rc = record_end_file(rec, ended, err);
	rec->failed = 0; /* what fails from here on is to be told */
	if (rc == 0) {
		rc = begin(rec, next, err);
	} else if (next) {
		unlink(trace_writer_path(next));
		trace_writer_freep(&next);
	}
	if (rec->sieve)
		sieve_restart(rec->sieve);
	if (rc == 0)
		rc = forget_oldest(rec, err);
	if (rc == 0)
		rc = rec->tee.sink.define(&rec->tee.sink, begun, err);
	if (rc == 0)
		rc = source_heap_renew(rec->heap, record_sink(rec), err);
	if (rc == 0)
		rc = trace_writer_flush(rec->writer, err);
	rec->begun_bytes = rec->writer ? trace_writer_bytes(rec->writer) : 0;
	rec->rss_repeat_ns = 0; /* the timeline begins anew, too */
	if (rc == 0 && resumes)
		record_tell(rec, "the disk has room again: the recording goes on in '%s'",
			    trace_writer_path(rec->writer));
	return rc;
}

int record_keep_undecided(struct record *rec)
{
	struct sink *to = trace_writer_pending(rec->writer);
	struct err none = { 0 };
	int rc = to ? cull_tell(rec->cull, to, &rec->err) : 0;
	if (rc == 0 && to)
		trace_writer_pending_end(rec->writer, &none);
	return rc;
}

int record_is_full(const struct record *rec)
{
	uint64_t bytes = trace_writer_bytes(rec->writer);
	/* a file that the living blocks alone would fill is let grow as much again */
	return rec->settings.max_bytes && bytes >= rec->settings.max_bytes &&
	       bytes / 2 >= rec->begun_bytes;
}

void record_files_fini(struct record *rec)
{
	for (uint32_t i = 0; rec->files && i < rec->settings.keep_files; i++)
		free(rec->files[i]);
	free(rec->files);
	free(rec->path);
}
