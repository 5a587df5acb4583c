/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h - what has to be known at a recording's end: whether its writer reached one. Private to
 * trace/.
 */
#ifndef TRACE_ENDING_H
#define TRACE_ENDING_H

#include "trace/reader.h"

/** struct ending - stands between a replay and the sink of who asked for it. */
struct ending {
	struct sink sink;
	struct sink *to;
	int ended;
	uint64_t last_ns;
};

/** ending_init() - everything goes on to @to. Return: the sink for the replay. */
struct sink *ending_init(struct ending *ending, struct sink *to);
/**
 * ending_tell() - behind a replay that read all there is: what is missing, as
 * trace_read_opt.tells_end says. 0 or the sink's error.
 */
int ending_tell(const struct ending *ending, struct trace_reader *reader, int has_until,
		struct err *err);

#endif
