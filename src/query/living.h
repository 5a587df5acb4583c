/* SPDX-License-Identifier: Apache-2.0 */
/*
 * living.h - the blocks and mappings that lived at one moment of a recording, with their addresses: what a balance sheet is made of.
 * A sink: definitions go to a prof, which knows all names then; of events only what lives is kept, 24 bytes a block.
 */
#ifndef QUERY_LIVING_H
#define QUERY_LIVING_H

#include "model/event.h"
#include "model/prof.h"

struct living_block {
	uint64_t addr; /* UINT64_MAX: none */
	uint64_t bytes;
	uint32_t stack,
		time_ms; /* stack: the producer's number; time: since the recording's start */
};
struct living_map {
	uint64_t start, end;
	uint32_t stack, reserved;
};

struct living {
	struct sink sink;
	struct prof *names;
	uint64_t until_ns; /* events later than that do not count; UINT64_MAX: all do */
	uint64_t last_ns;  /* of the last event that was met, whether it counts or not */
	struct living_block
		*blocks; /* by number; after living_end() only those that live, in any order */
	size_t count, room;
	struct living_map *maps; /* by address */
	size_t map_count, map_room;
	uint64_t brk;
	uint64_t lost_events, lost_bytes, lost_frees, filtered, uncertain;
	int switched_off, inherits_unknown, nomem;
	uint64_t rss_peak_bytes, rss_peak_ns; /* of the timeline */
};

/** living_init() - @names: lent, takes the definitions. living_fini() accepts a zeroed one. */
void living_init(struct living *living, struct prof *names, uint64_t until_ns);
/** living_end() - no more events: the table of numbers becomes a list. */
void living_end(struct living *living);
void living_fini(struct living *living);
/** living_is_complete() - every block was seen from the start, none was lost: what it does not know was never handed out. */
int living_is_complete(const struct living *living);

#endif
