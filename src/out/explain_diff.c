/* SPDX-License-Identifier: Apache-2.0 */
/* explain_diff.c - what changed between two sheets, for people and for machines. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "out/explain.h"
#include "out/failed.h"

#define GROUPS 5u
#define WIDTH 100

static void put_change(FILE *to, const struct out_opt *opt, int64_t bytes, const char *class,
		       const char *label)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	size_t columns = (size_t)(opt->width > 60 ? opt->width : WIDTH) - 40;
	text_escape(&name, label, opt->ascii);
	int cut = text_columns(buf_cstr(&name)) > columns;
	fprintf(to, "%+9.1f  %s%s%.*s%s\n", (double)bytes / 1048576, class, *label ? ": " : "",
		(int)(cut ? text_fit(buf_cstr(&name), columns - 3) : name.len), buf_cstr(&name),
		cut ? "..." : "");
}

/* By name, for the groups of both are numbered apart. */
static int64_t group_change(const struct explain *before, const struct explain *after,
			    uint32_t group, unsigned class)
{
	const char *name = explain_group_name(after, group);
	int64_t bytes = (int64_t)explain_group_bytes(&after->sheet->groups[group], class);
	for (uint32_t i = 0; i < before->sheet->group_count; i++)
		if (strcmp(explain_group_name(before, i), name) == 0)
			bytes -= (int64_t)explain_group_bytes(&before->sheet->groups[i], class);
	return bytes;
}

int out_explain_diff_text(FILE *to, const struct explain *before, const struct explain *after,
			  const struct out_opt *opt, struct err *err)
{
	size_t limit = opt->limit ? opt->limit : GROUPS;
	char d[TEXT_NUMBER_MAX];
	uint64_t span = after->snapshot->time_ns > before->snapshot->time_ns
				? after->snapshot->time_ns - before->snapshot->time_ns
				: before->snapshot->time_ns - after->snapshot->time_ns;
	fprintf(to, "%s (pid %u): what changed in %s, RSS %+.1f MiB\n      MiB\n",
		after->snapshot->comm, after->snapshot->pid, text_duration(d, span),
		((double)after->sheet->rss_bytes - (double)before->sheet->rss_bytes) / 1048576);
	for (unsigned class = 0; class < SHEET_UNEXPLAINED; class ++) {
		int64_t change = (int64_t)(after->sheet->class_bytes[class] -
					   before->sheet->class_bytes[class]);
		if (!change)
			continue;
		put_change(to, opt, change, sheet_class_name(class), "");
		if (class != SHEET_LIVE && class != SHEET_HOLES)
			continue;
		size_t shown_count = 0;
		for (uint32_t i = 0; i < after->sheet->group_count && shown_count < limit; i++) {
			int64_t part = group_change(before, after, i, class);
			if (part > change / 20 && part > 65536 && change > 0) {
				put_change(to, opt, part, "  ", explain_group_name(after, i));
				shown_count++;
			} else if (part < change / 20 && part < -65536 && change < 0) {
				put_change(to, opt, part, "  ", explain_group_name(after, i));
				shown_count++;
			}
		}
	}
	put_change(to, opt, after->sheet->unexplained_bytes - before->sheet->unexplained_bytes,
		   "unexplained", "");
	return out_failed(to, "cannot write the sheet", err);
}

void out_explain_diff_members(struct jsonw *j, const struct explain *before,
			      const struct explain *after)
{
	jsonw_u64(j, "from_ns", before->snapshot->time_ns);
	jsonw_u64(j, "to_ns", after->snapshot->time_ns);
	jsonw_i64(j, "rss_bytes",
		  (int64_t)(after->snapshot->rss_bytes - before->snapshot->rss_bytes));
	jsonw_array(j, "lines");
	for (int side = 0; side < 2; side++) {
		const struct explain *e = side ? after : before, *other = side ? before : after;
		for (size_t i = 0; i < e->sheet->line_count; i++) {
			const struct sheet_line *line = &e->sheet->lines[i];
			uint64_t there = explain_line_bytes(other, line->class, line->label),
				 here = explain_line_bytes(e, line->class, line->label);
			int again = 0;
			for (size_t k = 0; k < i; k++)
				again |= e->sheet->lines[k].class == line->class &&
					 strcmp(e->sheet->lines[k].label, line->label) == 0;
			if (again || (side && there) || here == there)
				continue;
			jsonw_object(j, NULL);
			jsonw_str(j, "class", sheet_class_name(line->class));
			jsonw_str(j, "label", line->label);
			jsonw_i64(j, "bytes", side ? (int64_t)here : (int64_t)(there - here));
			jsonw_object_end(j);
		}
	}
	jsonw_array_end(j);
	jsonw_i64(j, "unexplained_bytes",
		  after->sheet->unexplained_bytes - before->sheet->unexplained_bytes);
}

int out_explain_diff_json(FILE *to, const struct explain *before, const struct explain *after,
			  struct err *err)
{
	struct jsonw j;
	jsonw_init(&j, to);
	jsonw_object(&j, NULL);
	jsonw_u64(&j, "version", 1);
	out_explain_diff_members(&j, before, after);
	jsonw_object_end(&j);
	jsonw_line(&j);
	return out_failed(to, "cannot write the sheet", err);
}
