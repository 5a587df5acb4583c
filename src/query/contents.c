/* SPDX-License-Identifier: Apache-2.0 */
#include "query/contents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

/** struct counter - a sink that counts. */
struct counter {
	struct sink sink;
	struct contents *contents;
	uint64_t last_ns;
};

static int keep_text(char **to, const char *text, struct err *err)
{
	char *copy = strdup(text ? text : "");
	if (!copy)
		return err_set(err, -ENOMEM, "cannot hold the names");
	free(*to);
	*to = copy;
	return 0;
}

static int keep_cmdline(struct contents *c, const struct def *def, struct err *err)
{
	size_t bytes = def->process.cmdline ? def->process.cmdline_bytes : 0;
	char *copy = calloc(1, bytes + 1);
	if (!copy)
		return err_set(err, -ENOMEM, "cannot keep what the recording names");
	if (bytes)
		memcpy(copy, def->process.cmdline, bytes);
	free(c->process.cmdline);
	c->process.cmdline = copy;
	c->process.cmdline_bytes = bytes;
	return 0;
}

static int count_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct contents *c = ((struct counter *)sink)->contents;
	c->defs[def->kind]++;
	if (def->kind != DEF_PROCESS)
		return 0;
	c->process.known = 1;
	c->process.ended = def->process.ended;
	c->process.complete = def->process.complete;
	c->process.exit_status = def->process.exit_status;
	c->process.modules_nameless = def->process.modules_nameless;
	c->process.pid = def->process.pid;
	c->process.start_realtime_ns = def->process.start_realtime_ns;
	c->process.time_bound_ns = def->process.time_bound_ns;
	c->process.runtime_ns = def->process.runtime_ns;
	int rc = keep_text(&c->process.exe, def->process.exe, err);
	rc = rc < 0 ? rc : keep_cmdline(c, def, err);
	return rc < 0 ? rc : keep_text(&c->process.source, def->process.comment, err);
}

static int count_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct contents *c = ((struct counter *)sink)->contents;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		c->kinds[e->kind % EVENT_KIND_MAX]++;
		if (e->kind != EVENT_LOST)
			continue;
		sum_add(&c->lost[e->value % LOSS_REASON_MAX], e->addr);
		sum_add(&c->lost[e->value % LOSS_REASON_MAX], e->block.v);
		sum_add(&c->lost_bytes, e->bytes);
	}
	if (count)
		((struct counter *)sink)->last_ns = events[count - 1].time_ns;
	return 0;
}

#define LISTED_MAX 65536

static int list_file(void *ctx, const struct trace_file *file, struct err *err)
{
	struct contents *c = ctx;
	if (c->file_count == LISTED_MAX)
		return 0;
	if (c->file_count == c->file_cap) {
		size_t cap = c->file_cap ? c->file_cap * 2 : 16;
		struct contents_file *grown = realloc(c->files, cap * sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "cannot hold the names of files");
		c->files = grown;
		c->file_cap = cap;
	}
	char *path = strdup(file->path);
	if (!path)
		return err_set(err, -ENOMEM, "cannot hold the names of files");
	c->files[c->file_count++] =
		(struct contents_file){ path, file->bytes, file->changed_ns, file->state };
	return 0;
}

/* The kinds that have no blocks: everything is read, and counted. */
static int read_other(struct recording *recording, struct counter *counter, struct err *err)
{
	struct stat st;
	if (stat(recording_path(recording), &st) < 0)
		return err_set(err, -errno, "cannot look at '%s'", recording_path(recording));
	counter->contents->file.file_bytes = (uint64_t)st.st_size;
	return recording_run(recording, &counter->sink, err);
}

static void on_tick(void *ctx, uint64_t done, uint64_t total)
{
	const struct recording_ears *ears = ctx;
	if (ears && ears->progress)
		ears->progress(ears->ctx, "reading", done, total);
}

static int read_blt(const char *path, const struct recording_ears *ears, struct counter *counter,
		    struct err *err)
{
	struct contents *c = counter->contents;
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	if (!reader)
		return err->code;
	struct trace_read_opt opt = { on_tick, (void *)ears };
	int rc = trace_reader_survey(reader, &c->survey, NULL, err);
	if (rc >= 0)
		rc = trace_reader_files(reader, list_file, c, err);
	if (rc >= 0)
		rc = trace_reader_run(reader, &counter->sink, &opt, err);
	if (ears && ears->progress)
		ears->progress(ears->ctx, NULL, 0, 0);
	trace_reader_info(reader, &c->file);
	return rc;
}

int contents_read(struct recording *recording, const struct recording_ears *ears,
		  struct contents *c, struct err *err)
{
	struct counter counter = { .sink = { count_define, count_put }, .contents = c };
	c->kind = recording_kind(recording);
	int rc = c->kind == RECORDING_BLT ? read_blt(recording_path(recording), ears, &counter, err)
					  : read_other(recording, &counter, err);
	c->runtime_ns = c->process.runtime_ns ? c->process.runtime_ns : counter.last_ns;
	return rc < 0 ? rc : 0;
}

void contents_fini(struct contents *c)
{
	for (size_t i = 0; i < c->file_count; i++)
		free(c->files[i].path);
	free(c->files);
	free(c->process.exe);
	free(c->process.cmdline);
	free(c->process.source);
	*c = (struct contents){ 0 };
}

int contents_damaged(const struct contents *contents, const char *path, struct err *err)
{
	err_set(err, -EBADMSG,
		"'%s' is damaged: %" PRIu64 " blocks (%" PRIu64 " bytes) could not be read", path,
		contents->file.damaged_blocks, contents->file.skipped_bytes);
	return err_hint(err, "reports say what they lack; a copy of before the damage is whole");
}
