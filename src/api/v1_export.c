/* SPDX-License-Identifier: Apache-2.0 */
/* v1_export.c - downloads: a selection in the format of another tool; /debug/pprof/. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/v1_internal.h"
#include "out/formats.h"

#define PIECE (256u << 10)

/** struct export - what make() is told. */
struct export
{
	char format[16];
	struct out_opt opt;
};
struct file {
	int fd;
	uint64_t bytes;
};

static void file_free(void *data)
{
	struct file *file = data;
	close(file->fd);
	free(file);
}

static int write_stream(const struct out_format *format, const struct shelf_task *task,
			const struct prof *names, FILE *to, struct err *err)
{
	struct out_stream *stream = format->stream(to, names, err);
	if (!stream)
		return err->code;
	int rc = query_stream(task->source, task->query, out_stream_sink(stream), err);
	if (rc < 0) {
		out_stream_free(stream);
		return rc;
	}
	return out_stream_finish(stream, err);
}

static int make_export(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	const struct export *e = args;
	const struct out_format *format = strcmp(e->format, out_format_replay.name) == 0
						  ? &out_format_replay
						  : out_format_find(e->format);
	CLEANUP(prof_freep) struct prof *own = NULL;
	const struct prof *prof = task->book->names;
	if (format->stream || !query_is_empty(task->query)) {
		own = query_run(task->source, task->query, err);
		if (!own)
			return err->code ? err->code : -EIO;
		int rc = task->source->resolve(task->source->ctx, own, err);
		if (rc < 0)
			return rc;
		prof = own;
	}
	struct file *file = calloc(1, sizeof(*file));
	int fd = file ? query_scratch(err) : err_set(err, -ENOMEM, "cannot write an export");
	int copy = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *to = copy < 0 ? NULL : fdopen(copy, "w");
	int rc = fd < 0 ? fd : to ? 0 : err_set(err, -errno, "cannot write an export");
	if (rc == 0 && format->reading)
		rc = format->reading(to, prof, &e->opt, err);
	else if (rc == 0)
		rc = write_stream(format, task, prof, to, err);
	if (to && fclose(to) != 0 && rc == 0)
		rc = err_set(err, -errno, "cannot write an export");
	off_t end = rc == 0 ? lseek(fd, 0, SEEK_END) : -1;
	if (rc == 0 && end >= 0) {
		*file = (struct file){ fd, (uint64_t)end };
		*product = (struct shelf_product){ file, sizeof(*file), file_free };
		return 0;
	}
	if (fd >= 0)
		close(fd);
	free(file);
	return rc < 0 ? rc : err_set(err, -EIO, "cannot write an export");
}

/* ---- sending it ------------------------------------------------------------------------------ */

struct sending {
	struct shelf *shelf;
	struct reading *reading;
	uint64_t at;
};

static int send_more(void *stream, struct buf *out)
{
	struct sending *s = stream;
	const struct file *file = s->reading->product.data;
	char *to = buf_reserve(out, PIECE);
	ssize_t n = to ? pread(file->fd, to, PIECE, (off_t)s->at) : -1;
	if (n < 0)
		return -1;
	out->len += (size_t)n;
	s->at += (uint64_t)n;
	return s->at < file->bytes && n > 0;
}

static void send_free(void *stream)
{
	struct sending *s = stream;
	shelf_put(s->shelf, s->reading);
	free(s);
}

/** name_file() - "0.blt.svg" without what would end the header's quotes. */
static void name_file(struct v1_call *call, const struct out_format *format, char *to, size_t room)
{
	int len = snprintf(to, room, "attachment; filename=\"%.100s.%s\"",
			   shelf_at(call->shelf, call->source)->name, format->ending);
	for (char *at = to + 22; at < to + len - 1 && *at; at++)
		if (*at < 32 || *at > 126 || *at == '"' || *at == '\\' || *at == '/')
			*at = '_';
}

int v1_export_as(struct v1_call *call, const struct out_format *format, struct err *err)
{
	const struct ask *ask = &call->ask;
	struct export e = { .opt = { .by = ask->by,
				     .cost = ask->cost,
				     .inverted = ask->inverted,
				     .moment = ask->query.at.kind != QUERY_TIME_NONE } };
	if (ask->limit_given)
		e.opt.limit = ask->limit;
	snprintf(e.format, sizeof(e.format), "%s", format->name);
	CLEANUP(buf_fini) struct buf words = { 0 };
	buf_printf(&words, "%s %d %d %d %zu", format->name, (int)ask->by, (int)ask->cost,
		   ask->inverted, e.opt.limit);
	int rc = v1_make(call, buf_cstr(&words), make_export, &e, sizeof(e), format->stream != NULL,
			 err);
	if (rc)
		return rc;
	struct sending *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "cannot send an export");
	*s = (struct sending){ .shelf = call->shelf, .reading = STEAL(call->reading) };
	struct http_reply *reply = call->reply;
	reply->body_more = send_more;
	reply->stream_free = send_free;
	reply->stream = s;
	reply->content_type = format->type;
	/* pictures may hold scripts of ours, but never run here with the page's rights */
	reply->policy = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
			"style-src 'unsafe-inline'";
	name_file(call, format, reply->disposition, sizeof(reply->disposition));
	return 0;
}

int v1_export(struct v1_call *call, struct err *err)
{
	static const struct {
		enum out_word word;
		const char *name;
	} words[] = { { OUT_WORD_BY, "by" },
		      { OUT_WORD_COST, "cost" },
		      { OUT_WORD_LIMIT, "limit" },
		      { OUT_WORD_INVERTED, "inverted" } };
	const struct ask *ask = &call->ask;
	const struct out_format *format = ask->format ? out_format_find(ask->format) : NULL;
	if (!format) {
		err_set(err, -EINVAL, "'to' names no format");
		return err_hint(err, "one of" OUT_FORMAT_NAMES);
	}
	unsigned given =
		(ask->by_given ? OUT_WORD_BY : 0u) | (ask->cost_given ? OUT_WORD_COST : 0u) |
		(ask->limit_given ? OUT_WORD_LIMIT : 0u) | (ask->inverted ? OUT_WORD_INVERTED : 0u);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (given & ~format->words & words[i].word)
			return err_set(err, -EINVAL, "'%s' does not apply to %s", words[i].name,
				       format->name);
	if (ask->has_base)
		return err_set(err, -EINVAL, "'base' does not apply to an export");
	return v1_export_as(call, format, err);
}

static int pprof(struct v1_call *call, enum view_cost cost, struct err *err)
{
	if (call->ask.has_base || call->ask.inverted || call->ask.by_given)
		return err_set(err, -EINVAL,
			       "'base', 'inverted' and 'by' do not apply to a profile");
	if (!call->ask.cost_given)
		call->ask.cost = cost;
	return v1_export_as(call, out_format_find("pprof"), err);
}

int v1_pprof_heap(struct v1_call *call, struct err *err)
{
	return pprof(call, VIEW_COST_LIVE, err);
}

int v1_pprof_allocs(struct v1_call *call, struct err *err)
{
	return pprof(call, VIEW_COST_ALLOCATED, err);
}

void v1_pprof_index(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	(void)ctx;
	if (http_request_only(request, none, reply) < 0)
		return;
	if (*http_request_tail(request)) {
		http_reply_error(reply, 404, "there are the profiles 'heap' and 'allocs'");
		return;
	}
	reply->content_type = "text/html; charset=utf-8";
	reply->policy = "default-src 'none'; frame-ancestors 'none'";
	buf_puts(&reply->body,
		 "<!doctype html><html lang=\"en\"><meta "
		 "charset=\"utf-8\"><title>/debug/pprof/</title>"
		 "<h1>/debug/pprof/</h1><ul><li><a href=\"heap\">heap</a>: what is live"
		 "<li><a href=\"allocs\">allocs</a>: all that was allocated</ul>"
		 "<p>go tool pprof http://HOST/debug/pprof/heap; src=N names a source, and the "
		 "words of a "
		 "selection narrow it (at=10s).</html>\n");
}
