/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - two readings side by side, for people, programs and differential flame graphs. */
#ifndef OUT_COMPARE_H
#define OUT_COMPARE_H

#include "out/out.h"
#include "view/compare.h"

/** struct compare_names - what both sides are called in headings; lent. */
struct compare_names {
	const char *before, *after;
};

/**
 * out_compare_text() - totals, then the largest changes: opt->limit (default 10), width, colour,
 * ascii and selection count.
 */
int out_compare_text(FILE *to, const struct prof *base, const struct prof *prof,
		     const struct comparison *comparison, const struct compare_names *names,
		     const struct out_opt *opt, struct err *err);
/**
 * out_compare_json() - one object: both totals, all rows (opt->limit 0) by the size of their
 * change.
 */
int out_compare_json(FILE *to, const struct prof *base, const struct prof *prof,
		     const struct comparison *comparison, const struct compare_names *names,
		     const struct out_opt *opt, struct err *err);
/**
 * out_compare_folded() - a line a call path of @base or @prof: "main;f;g BEFORE AFTER", as
 * difference flame graphs are made of.
 */
int out_compare_folded(FILE *to, const struct comparison *comparison, struct err *err);

#endif
