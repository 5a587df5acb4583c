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
 * query_run() - the reading that @query selects, as a prof whose counters hold only the selected blocks (with `at`: live
 * counters as of that moment, leaked = live then). Uses the summary where it can, else replays once or twice (a second
 * pass for `peak`, percentages and lifetimes). Memory: definitions + live blocks.
 * Return: a new prof, release with prof_free(); NULL with @err.
 */
struct prof *query_run(struct trace_reader *reader, const struct query *query,
		       const struct trace_read_opt *opt, struct err *err);

#endif
