/* SPDX-License-Identifier: Apache-2.0 */
/* slices_impl.h - what slices_build.c, slices.c and slices_file.c share. */
#ifndef QUERY_SLICES_IMPL_H
#define QUERY_SLICES_IMPL_H

#include "query/slices.h"

#define SLICE_TEMPORARY 0x80000000u /* in freed.slot: its free was one */

/** struct slice - events from number @first on, up to the next one's. */
struct slice {
	uint64_t at, first, time_ns; /* the key block that it begins with: struct query_key */
	uint64_t
		most_new; /* the most that blocks allocated in it held at once, at most: frees of earlier ones aside */
	uint64_t new_at_end; /* what they hold at its end */
	uint64_t most_live;  /* the most that all blocks held within it */
	uint64_t freed_begin,
		made_begin; /* rows of struct slices; they end where the next one's begin */
};
/** struct freed - a block of before the slice that is freed in it; those never freed stand behind the last slice's, by themselves. */
struct freed {
	uint64_t bytes, seq; /* seq: the number of the event that allocated it */
	uint32_t stack, slot;
};
/** struct made - what one stack asked for within a slice. */
struct made {
	uint64_t bytes;
	uint32_t stack, blocks;
	uint32_t temporary; /* of those that were freed within it, too */
	uint32_t reserved;
};

struct slices {
	struct slice *slices; /* count + 1: the last one is the end of all */
	size_t count;
	struct freed *freed;
	size_t freed_count, freed_cap;
	struct freed *kept; /* never freed */
	size_t kept_count;
	struct made *made;
	size_t made_count, made_cap;
	uint32_t stack_count; /* numbers are below */
	uint32_t slot_count;
};

#endif
