/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.c - the figures of a recording in Prometheus' text format, for a collector that reads
 * files: totals, and the largest rows of the table that was asked for; all others are one row.
 */
#include <errno.h>
#include <string.h>
#include <sys/param.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "out/formats.h"
#include "out/metrics.h"

#define ROWS 50 /* where nobody said how many: each is four series */
#define FRAMES_MAX 256

/** struct figure - what is told of everything, and of each row. */
struct figure {
	const char *name, *type, *help;
	uint64_t (*of)(const struct cost *cost);
};

static uint64_t peak_of(const struct cost *c)
{
	return c->peak_bytes;
}

static uint64_t leaked_of(const struct cost *c)
{
	return c->leaked_bytes;
}

static uint64_t allocations_of(const struct cost *c)
{
	return c->allocations;
}

static uint64_t allocated_of(const struct cost *c)
{
	return c->allocated_bytes;
}

static const struct figure figures[] = {
	{ "peak_bytes", "gauge", "Live blocks when the heap was largest.", peak_of },
	{ "leaked_bytes", "gauge", "Blocks that were never freed, so far or at that moment.",
	  leaked_of },
	{ "allocations_total", "counter", "Allocations.", allocations_of },
	{ "allocated_bytes_total", "counter", "Bytes of all allocations.", allocated_of },
};

struct page {
	const struct prof *prof;
	const struct out_opt *opt;
	const char *exe;
	char pid[16];
	struct buf text;
	/* labels of rows, all of them different; how many in this family were not */
	struct intern told;
	unsigned again;
};

static void begin(struct buf *to, const struct page *p, const char *name)
{
	metric_begin(to, name);
	metric_label(to, "exe", p->exe);
	metric_label(to, "pid", p->pid);
}

static void tell(struct page *p, const char *name, const char *type, const char *help,
		 uint64_t value)
{
	metric_family(&p->text, name, type, help);
	begin(&p->text, p, name);
	metric_u64(&p->text, value);
}

static void put_name(struct buf *to, const struct view_frame *f)
{
	buf_puts(to, f->function ? f->function : f->module ? f->module : "?");
	if (!f->function && !f->folded && f->offset) /* a group has none of its own */
		buf_printf(to, "+0x%llx", (unsigned long long)f->offset);
}

static void label_stack(struct buf *to, const struct page *p, const struct view_row *row)
{
	struct view_frame frames[FRAMES_MAX];
	CLEANUP(buf_fini) struct buf path = { 0 };
	unsigned stop;
	size_t count = view_frames(p->prof, row->stack, frames, FRAMES_MAX, &stop);
	for (size_t i = 0; i < count; i++) {
		if (i)
			buf_putc(&path, ';');
		put_name(&path, &frames[i]);
	}
	if (stop)
		buf_printf(&path, "%s%s", count ? ";" : "", view_stop_label(stop));
	metric_label(to, "stack", buf_cstr(&path));
}

static void label_frame(struct buf *to, const struct page *p, const struct view_row *row)
{
	const struct view_frame *f = &row->frame;
	CLEANUP(buf_fini) struct buf name = { 0 };
	char line[16];
	put_name(&name, f);
	if (p->opt->by == VIEW_BY_FUNCTION)
		metric_label(to, "function", buf_cstr(&name));
	if (p->opt->by != VIEW_BY_FILE && p->opt->by != VIEW_BY_LINE)
		metric_label(to, "module", f->module ? f->module : "?");
	else
		metric_label(to, "file", f->file ? f->file : buf_cstr(&name));
	snprintf(line, sizeof(line), "%u", f->line);
	if (p->opt->by == VIEW_BY_LINE)
		metric_label(to, "line", line);
}

/* Two lines of a family with the same labels: a scrape with such ones is thrown away. */
static int tell_row(struct page *p, const struct figure *figure, const char *name,
		    const struct view_row *row, struct err *err)
{
	CLEANUP(buf_fini) struct buf line = { 0 };
	char number[16];
	begin(&line, p, name);
	switch (p->opt->by) {
	case VIEW_BY_STACK:
		label_stack(&line, p, row);
		break;
	case VIEW_BY_THREAD:
		snprintf(number, sizeof(number), "%u", row->tid);
		metric_label(&line, "tid", number);
		metric_label(&line, "thread", row->thread_name ? row->thread_name : "");
		break;
	default:
		label_frame(&line, p, row);
	}
	uint32_t before = p->told.count;
	const char *known = intern_mem(&p->told, line.data, line.len);
	if (!known || buf_failed(&line))
		return err_set(err, -ENOMEM, "cannot write the metrics");
	if (before == p->told.count) {
		snprintf(number, sizeof(number), "%u", ++p->again);
		metric_label(&line, "again", number);
	}
	metric_u64(&line, figure->of(&row->cost));
	buf_put(&p->text, line.data, line.len);
	return buf_failed(&line) ? err_set(err, -ENOMEM, "cannot write the metrics") : 0;
}

static int tell_rows(struct page *p, const struct prof_totals *totals, struct err *err)
{
	static const char *const words[] = {
		"stack", "function", "module", "file", "line", "thread"
	};
	struct view_opt view = out_view(p->opt);
	view.limit = view.limit ? view.limit : ROWS;
	CLEANUP(view_table_freep) struct view_table *table = view_table_new(p->prof, &view, err);
	int rc = table ? 0 : err->code;
	for (size_t k = 0; k < ARRAY_LEN(figures) && rc == 0; k++) {
		const struct figure *figure = &figures[k];
		uint64_t rest = figure->of(&totals->cost);
		char name[64];
		snprintf(name, sizeof(name), "byteledger_recording_by_%s_%s", words[p->opt->by],
			 figure->name);
		metric_family(&p->text, name, figure->type, figure->help);
		p->again = 0; /* a row has the same labels in each family */
		for (size_t i = 0; i < table->count && rc == 0; i++) {
			rest -= MIN(rest, figure->of(&table->rows[i].cost));
			rc = tell_row(p, figure, name, &table->rows[i], err);
		}
		if (table->count < table->total) {
			begin(&p->text, p, name);
			metric_label(&p->text, p->opt->by == VIEW_BY_STACK ? "stack" : "row",
				     "other");
			metric_u64(&p->text, rest);
		}
	}
	return rc;
}

int out_prometheus(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	const struct prof_process *process = prof_process(prof);
	const char *exe = process && process->exe ? process->exe : "unknown";
	const char *slash = strrchr(exe, '/');
	struct page page = { .prof = prof, .opt = opt, .exe = slash ? slash + 1 : exe };
	struct prof_totals t;
	prof_totals(prof, &t);
	snprintf(page.pid, sizeof(page.pid), "%u", process ? process->pid : 0);
	for (size_t k = 0; k < ARRAY_LEN(figures); k++) {
		char name[64];
		snprintf(name, sizeof(name), "byteledger_recording_%s", figures[k].name);
		tell(&page, name, figures[k].type, figures[k].help, figures[k].of(&t.cost));
	}
	tell(&page, "byteledger_recording_temporary_allocations_total", "counter",
	     "Allocations that were freed at once.", t.cost.temporary);
	tell(&page, "byteledger_recording_peak_resident_bytes", "gauge", "Largest RSS.",
	     t.peak_rss_bytes);
	tell(&page, "byteledger_recording_lost_events_total", "counter",
	     "Events that the other figures lack.", t.lost_events);
	metric_family(&page.text, "byteledger_recording_seconds", "gauge", "Length.");
	begin(&page.text, &page, "byteledger_recording_seconds");
	metric_double(&page.text, (double)t.runtime_ns / 1e9);
	int rc = tell_rows(&page, &t, err);
	if (rc == 0 && buf_failed(&page.text))
		rc = err_set(err, -ENOMEM, "cannot write the metrics");
	if (rc == 0 &&
	    (fwrite(page.text.data, 1, page.text.len, to) != page.text.len || fflush(to) != 0))
		rc = err_set(err, errno ? -errno : -EIO, "cannot write the metrics");
	buf_fini(&page.text);
	intern_fini(&page.told);
	return rc;
}
