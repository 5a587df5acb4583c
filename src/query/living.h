/* SPDX-License-Identifier: Apache-2.0 */
/*
 * living.h - what a balance sheet needs of a recording beside the blocks that live: the program's
 * own mappings, and what was lost. A sink for trace_reader_living(): definitions go to a prof,
 * which knows all names then.
 */
#ifndef QUERY_LIVING_H
#define QUERY_LIVING_H

#include "model/event.h"
#include "model/instant.h"
#include "trace/trace.h"

struct living {
	struct sink sink;
	struct prof *names;
	/* by address */
	struct sheet_map *maps;
	size_t map_count, map_room;
	uint64_t brk;
	uint64_t lost_events, lost_bytes, lost_frees, filtered;
	int switched_off, inherits_unknown;
};

/** living_init() - @names: lent, takes the definitions. living_fini() accepts a zeroed one. */
void living_init(struct living *living, struct prof *names);
void living_fini(struct living *living);
/**
 * living_end() - no more events: what is known goes into @instant, whose names are @living's, with
 * the blocks of @read, which is empty afterwards; stacks are rows of the names from here on.
 */
void living_end(struct living *living, struct trace_living *read, struct instant *instant);

#endif
