/* SPDX-License-Identifier: Apache-2.0 */
/* growth.h - what a person sees of a process over time: a line a look, and what grew. */
#ifndef OUT_GROWTH_H
#define OUT_GROWTH_H

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/history.h"

/** struct out_look - one look at a process. */
struct out_look {
	/* 0: there is but one process, none is named */
	pid_t pid;
	/* headings come before */
	int is_first;
	/* since 1970, of the history's last sample */
	uint64_t time_ns;
	/* before: at the look before */
	uint64_t rss_bytes, before_bytes, swap_bytes, mappings;
	const struct history *history;
	int ascii;
};
/** out_look_text() - a line, with what changed most since the look before. */
void out_look_text(FILE *to, const struct out_look *look);

struct out_growth_opt {
	/* that the process may have; 0: none */
	uint64_t limit_bytes;
	size_t rows;
	/* the largest first; else what grew most */
	int by_rss;
	int ascii;
};
/**
 * out_growth_text() - a line for the process, and one for each class and label; with trend and
 * rate. 0, -ENOMEM.
 */
int out_growth_text(FILE *to, const struct history *history, const struct out_growth_opt *opt,
		    struct err *err);

#endif
