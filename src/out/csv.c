/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - one line a row, RFC 4180; the frames of a stack in one field, innermost first, separated by ';'. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "out/out.h"

#define FRAMES_MAX 65536u

struct csv_rows {
	FILE *to;
	const struct prof *prof;
	const struct out_opt *opt;
	struct view_frame *frames;
};

/** put_inner() - text inside a quoted field: quotes doubled, line ends as spaces so that a line stays a row. */
static void put_inner(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', to);
		fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
	}
}

static void put_field(FILE *to, const char *text)
{
	fputs(",\"", to);
	if (text)
		put_inner(to, text);
	fputc('"', to);
}

static void put_name(FILE *to, const struct view_frame *f)
{
	if (f->function) {
		put_inner(to, f->function);
		return;
	}
	put_inner(to, f->module ? f->module : "?");
	fprintf(to, "+0x%llx", (unsigned long long)f->offset);
}

static int put_row(void *ctx, const struct view_row *row)
{
	struct csv_rows *rows = ctx;
	FILE *to = rows->to;
	const struct cost *c = &row->cost;
	fprintf(to, "%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu", (unsigned long long)c->allocations,
		(unsigned long long)c->allocated_bytes, (unsigned long long)c->temporary,
		(unsigned long long)c->leaked, (unsigned long long)c->leaked_bytes,
		(unsigned long long)c->peak_bytes, (unsigned long long)c->uncertain,
		(unsigned long long)c->uncertain_bytes);
	switch (rows->opt->by) {
	case VIEW_BY_STACK: {
		unsigned stop;
		size_t n = view_frames(rows->prof, row->stack, rows->frames, FRAMES_MAX, &stop);
		fputs(",\"", to);
		for (size_t i = 0; i < n; i++) {
			if (i)
				fputc(';', to);
			put_name(to, &rows->frames[i]);
		}
		if (n == FRAMES_MAX)
			fputs(";...", to);
		if (stop)
			fprintf(to, "%s%s", n ? ";" : "", view_stop_label(stop));
		fputc('"', to);
		break;
	}
	case VIEW_BY_THREAD:
		fprintf(to, ",%u", row->tid);
		put_field(to, row->thread_name);
		break;
	default:
		put_field(to, row->frame.function);
		put_field(to, row->frame.module);
		put_field(to, row->frame.file);
		if (row->frame.line)
			fprintf(to, ",%u", row->frame.line);
		else
			fputc(',', to);
	}
	fputs("\r\n", to);
	return ferror(to) ? -EIO : 0;
}

int out_csv(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	struct csv_rows rows = { .to = to, .prof = prof, .opt = opt };
	rows.frames = malloc(FRAMES_MAX * sizeof(*rows.frames));
	if (!rows.frames)
		return err_set(err, -ENOMEM, "cannot write CSV");
	fputs("allocations,allocated_bytes,temporary_allocations,leaked_allocations,leaked_bytes,"
	      "peak_bytes,uncertain_allocations,uncertain_bytes",
	      to);
	fputs(opt->by == VIEW_BY_STACK    ? ",stack\r\n"
	      : opt->by == VIEW_BY_THREAD ? ",tid,name\r\n"
					  : ",function,module,file,line\r\n",
	      to);
	int rc = view_each(prof, opt->by, opt->cost, opt->limit, put_row, &rows, err);
	free(rows.frames);
	if (rc == -EIO || (rc == 0 && (fflush(to) != 0 || ferror(to))))
		return err_set(err, errno ? -errno : -EIO, "cannot write CSV");
	return rc;
}
