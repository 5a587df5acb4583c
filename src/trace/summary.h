/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - the counters of a finished reading as a SUMMARY block. Private to trace/. */
#ifndef TRACE_SUMMARY_H
#define TRACE_SUMMARY_H

#include "model/prof.h"
#include "trace/block.h"

/**
 * struct summary_names - the recording's own numbers: every one below these may have been defined.
 */
struct summary_names {
	uint32_t stacks, threads;
};

/**
 * summary_put() - the counters of @prof and their sums, @totals, under the recording's numbers, as
 * columns. @points: how many points of the timeline are kept at most. Return: rows (stacks with
 * counters), or -ENOMEM.
 */
int64_t summary_put(const struct prof *prof, const struct prof_totals *totals,
		    const struct summary_names *names, size_t points, struct blt_cols *cols,
		    struct err *err);
/**
 * summary_get() - load them into @prof, which knows all definitions. 0, -EBADMSG, or prof's errors.
 */
int summary_get(const struct blt_view *view, uint32_t rows, struct prof *prof, struct err *err);

#endif
