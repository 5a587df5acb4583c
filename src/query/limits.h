/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - rules of --fail-if: what a recording has to stay within, and by how much one may have
 * grown over another.
 */
#ifndef QUERY_LIMITS_H
#define QUERY_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"

#define LIMITS_MAX 32

enum limit_what { LIMIT_PEAK, LIMIT_LEAKED, LIMIT_ALLOCATIONS, LIMIT_TEMPORARY, LIMIT_RSS };

struct limit {
	/* as typed; lent */
	const char *text;
	enum limit_what what;
	/* ">=" */
	int or_equal;
	/* of all allocations: temporary>30% */
	int percent;
	/* bytes, a number, or millionths of all */
	uint64_t most;
};

struct limits {
	struct limit items[LIMITS_MAX];
	size_t count;
};

/**
 * limits_add() - the rule in @text: peak, leaked, allocations, temporary or rss, > or >=, a size or
 * number. -EINVAL, -E2BIG.
 */
int limits_add(struct limits *limits, const char *text, struct err *err);
/** Who hears which rules are met, a line each. */
typedef void (*limits_say)(const char *text);

/**
 * limits_check() - say, a line each, which of @limits @totals exceed. @totals NULL: nothing was
 * recorded, and nothing can be said for any of them. Return: how many were exceeded, or could not
 * be judged.
 */
size_t limits_check(const struct limits *limits, const struct prof_totals *totals, limits_say to);

#define GROWTH_LIMITS_MAX 8

/** struct growth_limits - growth by more than so many bytes (or calls), or parts of a hundred. */
struct growth_limits {
	struct growth_limit {
		/* as typed; lent */
		const char *text;
		int percent;
		double share;
		uint64_t amount;
	} items[GROWTH_LIMITS_MAX];
	size_t count;
};

/** growth_limits_add() - "growth>5%", "growth>10M". -EINVAL. */
int growth_limits_add(struct growth_limits *limits, const char *text, struct err *err);
/**
 * growth_limits_check() - say which are exceeded by @what, which was @before and is @after. Return:
 * how many.
 */
size_t growth_limits_check(const struct growth_limits *limits, const char *what, uint64_t before,
			   uint64_t after, limits_say to);

#endif
