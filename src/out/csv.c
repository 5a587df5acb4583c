/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv.c - one line a row, RFC 4180; the frames of a stack in one field, innermost first, separated
 * by ';' (':' in names).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "out/csv.h"
#include "out/out.h"

#define FRAMES_MAX 65536u

struct csv_rows {
	FILE *to;
	const struct prof *prof;
	const struct out_opt *opt;
	struct view_frame *frames;
	struct buf line;
};

void csv_put(struct buf *line, const char *text)
{
	size_t from = line->len, quotes = 0;
	/* a spreadsheet would take it for a formula */
	if (from && line->data[from - 1] == '"' && *text && strchr("=+-@", *text))
		buf_putc(line, '\'');
	text_escape(line, text, 0);
	for (size_t i = from; i < line->len; i++)
		quotes += line->data[i] == '"';
	if (!quotes || !buf_reserve(line, quotes))
		return;
	size_t i = line->len, to = line->len += quotes;
	while (i-- > from) {
		line->data[--to] = line->data[i];
		if (line->data[i] == '"')
			line->data[--to] = '"';
	}
}

void csv_field(struct buf *line, const char *text)
{
	buf_puts(line, ",\"");
	if (text)
		csv_put(line, text);
	buf_putc(line, '"');
}

/* ';' separates frames: one inside a name ("[u8; 4]") would make two of it. */
static void put_name(struct buf *to, const struct view_frame *f)
{
	size_t from = to->len;
	csv_put(to, f->function ? f->function : f->module ? f->module : "?");
	for (size_t i = from; i < to->len; i++)
		if (to->data[i] == ';')
			to->data[i] = ':';
	if (!f->function)
		buf_printf(to, "+0x%llx", (unsigned long long)f->offset);
}

static void put_inclusive(struct buf *to, const struct cost *c)
{
	buf_printf(to, ",%llu,%llu,%llu,%llu,%llu,%llu,%llu", (unsigned long long)c->allocations,
		   (unsigned long long)c->allocated_bytes, (unsigned long long)c->temporary,
		   (unsigned long long)c->leaked, (unsigned long long)c->leaked_bytes,
		   (unsigned long long)c->peak_bytes, (unsigned long long)c->peak_blocks);
}

static int put_row(void *ctx, const struct view_row *row)
{
	struct csv_rows *rows = ctx;
	struct buf *to = &rows->line;
	const struct cost *c = &row->cost;
	buf_clear(to);
	buf_printf(to, "%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu",
		   (unsigned long long)c->allocations, (unsigned long long)c->allocated_bytes,
		   (unsigned long long)c->temporary, (unsigned long long)c->leaked,
		   (unsigned long long)c->leaked_bytes, (unsigned long long)c->peak_bytes,
		   (unsigned long long)c->uncertain, (unsigned long long)c->uncertain_bytes,
		   (unsigned long long)c->peak_blocks);
	switch (rows->opt->by) {
	case VIEW_BY_STACK: {
		unsigned stop;
		size_t n = view_frames(rows->prof, row->stack, rows->frames, FRAMES_MAX, &stop);
		buf_puts(to, ",\"");
		for (size_t i = 0; i < n; i++) {
			if (i)
				buf_putc(to, ';');
			put_name(to, &rows->frames[i]);
		}
		if (n == FRAMES_MAX)
			buf_puts(to, ";...");
		if (stop)
			buf_printf(to, "%s%s", n ? ";" : "", view_stop_label(stop));
		buf_putc(to, '"');
		break;
	}
	case VIEW_BY_THREAD:
		buf_printf(to, ",%u", row->tid);
		csv_field(to, row->thread_name);
		break;
	default:
		put_inclusive(to, &row->inclusive);
		csv_field(to, row->frame.function);
		csv_field(to, row->frame.module);
		csv_field(to, row->frame.file);
		if (row->frame.line)
			buf_printf(to, ",%u", row->frame.line);
		else
			buf_putc(to, ',');
	}
	buf_puts(to, "\r\n");
	if (buf_failed(to))
		return -ENOMEM;
	return fwrite(to->data, 1, to->len, rows->to) == to->len ? 0 : -EIO;
}

int out_csv(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	struct csv_rows rows = { .to = to, .prof = prof, .opt = opt };
	rows.frames = malloc(FRAMES_MAX * sizeof(*rows.frames));
	if (!rows.frames)
		return err_set(err, -ENOMEM, "cannot write CSV");
	fputs("allocations,allocated_bytes,temporary_allocations,leaked_allocations,leaked_bytes,"
	      "peak_bytes,uncertain_allocations,uncertain_bytes,peak_allocations",
	      to);
	fputs(opt->by == VIEW_BY_STACK    ? ",stack\r\n"
	      : opt->by == VIEW_BY_THREAD ? ",tid,name\r\n"
					  : ",inclusive_allocations,inclusive_allocated_bytes,"
					    "inclusive_temporary_allocations,"
					    "inclusive_leaked_allocations,inclusive_leaked_bytes,"
					    "inclusive_peak_bytes,inclusive_peak_allocations,"
					    "function,module,file,line\r\n",
	      to);
	const struct view_opt view = out_view(opt);
	int rc = view_each(prof, &view, put_row, &rows, err);
	free(rows.frames);
	buf_fini(&rows.line);
	if (rc == -ENOMEM && err && !err->code)
		err_set(err, rc, "cannot write CSV");
	if (rc == -EIO || (rc == 0 && (fflush(to) != 0 || ferror(to))))
		return err_set(err, errno ? -errno : -EIO, "cannot write CSV");
	return rc;
}
