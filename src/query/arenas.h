/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arenas.h - how much of what glibc's arenas have they would have needed if they were fewer: each
 * keeps what it needed at its own peak, and where threads have theirs in turns the sum of these is
 * far more than all of them ever needed at once.
 */
#ifndef QUERY_ARENAS_H
#define QUERY_ARENAS_H

#include "base/err.h"
#include "model/snapshot.h"
#include "trace/trace.h"

struct arenas {
	/* the sum of each arena's highest live bytes, with headers */
	uint64_t peaks_bytes;
	/* the same of two that share all threads between them, by turns */
	uint64_t pair_bytes;
	/* the highest sum of them at one moment */
	uint64_t peak_bytes;
	uint32_t count;
};

/**
 * arenas_read() - of the arenas that @snapshot knows, from all events of @reader up to the
 * snapshot's moment: a replay. An arena's heaps lie in parts of their own of the address space;
 * those that were given back before are not known, and count for nothing. 0 or negative errno.
 */
int arenas_read(struct trace_reader *reader, const struct snapshot *snapshot, struct arenas *arenas,
		struct err *err);

#endif
