/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h - two readings side by side: what grew, shrank, is new or gone. Rows meet by symbol,
 * not by address: a call path is the functions on it, whatever their lines and wherever a rebuilt
 * program has them; what has no name meets by its module.
 */
#ifndef VIEW_COMPARE_H
#define VIEW_COMPARE_H

#include "view/view.h"

/** struct compare_example - what a row shows: a stack (VIEW_BY_STACK), or a frame. */
struct compare_example {
	/* lent; that of after, where it has any */
	const struct prof *prof;
	struct stack_id stack;
	struct view_frame frame;
};
struct compare_row {
	uint64_t key;
	/* own */
	uint64_t before, after;
	/* groups of frames only */
	uint64_t before_inclusive, after_inclusive;
	/* has any allocation on that side at all */
	int was, is;
	struct compare_example example;
};
struct comparison {
	/* by the size of the change, growth before shrinking; then by key */
	struct compare_row *rows;
	size_t count;
	/* of @count; what appeared or is gone has neither grown nor shrunk */
	size_t grown, shrunk, appeared, gone;
	/* the sum of the cost, or the highest where it is the peak */
	uint64_t before, after;
	enum view_by by;
	enum view_cost cost;
};

/** compare_change() - after - before, as a magnitude; *@grown says which way. */
static inline uint64_t compare_change(uint64_t before, uint64_t after, int *grown)
{
	*grown = after > before;
	return after > before ? after - before : before - after;
}

/**
 * comparison_new() - of @base and @prof, by opt->by (threads do not meet: -EINVAL) and opt->cost;
 * with opt->inclusive rows are sorted by their inclusive change; @all: what did not change has its
 * row, too. O(frames of all stacks). NULL with @err. @base and @prof have to stay.
 */
struct comparison *comparison_new(const struct prof *base, const struct prof *prof,
				  const struct view_opt *opt, int all, struct err *err);
void comparison_free(struct comparison *comparison);
void comparison_freep(struct comparison **comparison);

#endif
