/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the contract's selection words (contract 3) over a recording: which blocks count, and at which moment.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"
#include "trace/trace.h"

/** A moment as the user wrote it: `10s`, `-5m`, `50%`, `peak`, `end`, RFC 3339. */
struct query_time {
	enum {
		QUERY_TIME_NONE = 0,
		QUERY_TIME_START_NS,
		QUERY_TIME_END_NS,
		QUERY_TIME_PERMILLION,
		QUERY_TIME_PEAK,
		QUERY_TIME_END,
		QUERY_TIME_WALL_NS
	} kind;
	uint64_t value;
};
/** query_time_parse() - -EINVAL with a message naming the accepted forms. */
int query_time_parse(const char *text, struct query_time *time, struct err *err);

/** struct query - zero-initialised selects everything. Bounds are inclusive but for @to (exclusive). */
struct query {
	struct query_time at, from, to;
	const char *function_regex;  /* POSIX extended, any frame, demangled */
	uint64_t min_size, max_size; /* max 0 = none */
	int has_lifetime_min, has_lifetime_max;
	uint64_t lifetime_min_ns, lifetime_max_ns;
	int leaked;         /* only blocks never freed */
	int64_t thread_tid; /* 0 = all */
};

/** query_needs_replay() - 0 if the summary of a finished recording answers it. */
int query_needs_replay(const struct query *query);

/**
 * struct query_source - where the events come from: a .blt recording, or a foreign file read by somebody else.
 * @run replays everything into a sink and can be called more than once. @summary (may be NULL) loads a finished reading:
 * 1 done, 0 there is none, negative errno.
 */
struct query_source {
	int (*run)(void *ctx, struct sink *sink, struct err *err);
	int (*summary)(void *ctx, struct prof *prof, struct err *err);
	void *ctx;
};

/**
 * query_run() - the reading that @query (NULL: everything) selects, as a prof whose counters hold only the selected
 * blocks. Uses the summary where it can, else replays.
 * Return: a new prof, release with prof_free(); NULL with @err.
 */
struct prof *query_run(const struct query_source *source, const struct query *query,
		       struct err *err);

#endif
