/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - a balance sheet written out. */
#ifndef OUT_EXPLAIN_H
#define OUT_EXPLAIN_H

#include <stdio.h>

#include "base/err.h"
#include "out/out.h"
#include "view/explain.h"

/**
 * out_explain_json() - one object, a line: the lines add up with unexplained_bytes to rss_bytes. At
 * most @most stacks a line, the costliest (0: all); the others are counted and summed up.
 */
int out_explain_json(FILE *to, const struct explain *explain, size_t most, struct err *err);
struct jsonw;
/**
 * out_explain_members() - the members of that object but `version` and `lost`, into an object that
 * is open.
 */
void out_explain_members(struct jsonw *json, const struct explain *explain, size_t most);
struct buf;
/**
 * out_explain_verdict() - the sheet in plain words, the first lines of out_explain_text(): some
 * lines, the last one without its end.
 */
void out_explain_verdict(struct buf *to, const struct explain *explain);
/**
 * out_explain_text() - for people, opt->width columns (0: 100); opt->limit groups under a line (0:
 * 5).
 */
int out_explain_text(FILE *to, const struct explain *explain, const struct out_opt *opt,
		     struct err *err);
/**
 * out_explain_map() - a row an arena or mapping, a cell per equal share of it: blank not resident,
 * '.' free, '1' to '9' tens of per cent full; with opt->colour a colour for each of the six who
 * hold most.
 */
int out_explain_map(FILE *to, const struct explain *explain, const struct out_opt *opt,
		    struct err *err);
/** out_explain_brief() - three lines of it, below a report. */
int out_explain_brief(FILE *to, const struct explain *explain, const struct out_opt *opt,
		      struct err *err);
/**
 * out_explain_diff_text(), out_explain_diff_json() - what changed from @before to @after, by class
 * and label, and by group of what lives and of holes.
 */
int out_explain_diff_text(FILE *to, const struct explain *before, const struct explain *after,
			  const struct out_opt *opt, struct err *err);
int out_explain_diff_json(FILE *to, const struct explain *before, const struct explain *after,
			  struct err *err);
void out_explain_diff_members(struct jsonw *json, const struct explain *before,
			      const struct explain *after);

#endif
