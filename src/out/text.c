/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - the report for people. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "out/out.h"

static void put_header(struct buf *b, const struct prof *prof, const struct prof_totals *t)
{
	const struct prof_process *process = prof_process(prof);
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	if (t->lost_events)
		buf_printf(b, "LOST: %s events; the figures below are too low\n\n",
			   text_grouped(x, t->lost_events));
	text_escape(b, process && process->exe ? process->exe : "unknown program", 0);
	buf_printf(b, ", %s\n", text_duration(x, t->runtime_ns));
	buf_printf(b, "  allocations  %s, %s\n", text_grouped(x, t->cost.allocations),
		   text_bytes(y, t->cost.allocated_bytes));
	buf_printf(b, "  temporary    %s (%s)\n", text_grouped(x, t->cost.temporary),
		   text_percent(y, t->cost.temporary, t->cost.allocations));
	buf_printf(b, "  leaked       %s in ", text_bytes(x, t->cost.leaked_bytes));
	buf_printf(b, "%s blocks\n", text_grouped(x, t->cost.leaked));
	buf_printf(b, "  peak         %s at %s\n", text_bytes(x, t->cost.peak_bytes),
		   text_duration(y, t->peak_time_ns));
	buf_printf(b, "  peak RSS     %s\n", text_bytes(x, t->peak_rss_bytes));
}

static int put_section(struct buf *b, const struct prof *prof, enum view_cost cost, size_t limit,
		       const char *title, struct err *err)
{
	CLEANUP(view_table_freep)
	struct view_table *table = view_table_new(prof, VIEW_BY_STACK, cost, limit, err);
	if (!table)
		return err ? err->code : -ENOMEM;
	buf_printf(b, "\n%s\n", title);
	for (size_t i = 0; i < table->count; i++) {
		const struct view_row *row = &table->rows[i];
		uint64_t value = view_cost_of(&row->cost, cost);
		if (value == 0)
			break;
		char x[TEXT_NUMBER_MAX];
		int count = cost == VIEW_COST_ALLOCATIONS || cost == VIEW_COST_TEMPORARY;
		buf_printf(b, "%12s ", count ? text_grouped(x, value) : text_bytes(x, value));
		struct view_frame frames[8];
		unsigned stop;
		size_t n = view_frames(prof, row->stack, frames, ARRAY_LEN(frames), &stop);
		for (size_t k = 0; k < n; k++) {
			buf_puts(b, k ? " <- " : "");
			if (frames[k].function)
				text_escape(b, frames[k].function, 0);
			else
				buf_printf(b, "%s+0x%llx",
					   frames[k].module ? frames[k].module : "?",
					   (unsigned long long)frames[k].offset);
		}
		buf_putc(b, '\n');
	}
	return 0;
}

int out_text(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	struct prof_totals totals;
	prof_totals(prof, &totals);
	put_header(&b, prof, &totals);
	size_t limit = opt->limit ? opt->limit : 10;
	int rc = put_section(&b, prof, VIEW_COST_PEAK, limit, "Top by peak", err);
	if (rc == 0)
		rc = put_section(&b, prof, VIEW_COST_LEAKED, limit, "Top by leaked", err);
	if (rc == 0)
		rc = put_section(&b, prof, VIEW_COST_ALLOCATIONS, limit, "Top by allocations", err);
	if (rc == 0)
		rc = put_section(&b, prof, VIEW_COST_TEMPORARY, limit, "Top by temporary", err);
	if (rc < 0)
		return rc;
	if (buf_failed(&b))
		return err_set(err, -ENOMEM, "cannot write the report");
	fwrite(b.data, 1, b.len, to);
	if (fflush(to) != 0 || ferror(to))
		return err_set(err, -EIO, "cannot write the report");
	return 0;
}
