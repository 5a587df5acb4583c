/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - --fail-if 'peak>200M': what a recording has to stay within. */
#ifndef CMD_LIMITS_H
#define CMD_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"

#define LIMITS_MAX 32

enum limit_what { LIMIT_PEAK, LIMIT_LEAKED, LIMIT_ALLOCATIONS, LIMIT_TEMPORARY, LIMIT_RSS };

struct limit {
	const char *text; /* as typed; lent */
	enum limit_what what;
	int or_equal;  /* ">=" */
	int percent;   /* of all allocations: temporary>30% */
	uint64_t most; /* bytes, a number, or millionths of all */
};

struct limits {
	struct limit items[LIMITS_MAX];
	size_t count;
};

/** limits_add() - the rule in @text: peak, leaked, allocations, temporary or rss, > or >=, a size or number. -EINVAL, -E2BIG. */
int limits_add(struct limits *limits, const char *text, struct err *err);
/**
 * limits_check() - say on stderr, a line each, which of @limits @totals exceed. @totals NULL: nothing was recorded, and nothing can be
 * said for any of them. Return: how many were exceeded, or could not be judged.
 */
size_t limits_check(const struct limits *limits, const struct prof_totals *totals);

#endif
