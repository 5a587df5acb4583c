/* SPDX-License-Identifier: Apache-2.0 */
/*
 * living.h - the blocks and mappings that lived at one moment of a recording, with their addresses: what a balance sheet is made
 * of. A sink: definitions go to a prof, which knows all names then; of events only what lives is kept, 24 bytes a block, under the
 * producer's numbers. An address of UINT64_MAX: no block.
 */
#ifndef QUERY_LIVING_H
#define QUERY_LIVING_H

#include "model/event.h"
#include "model/instant.h"

struct living {
	struct sink sink;
	struct prof *names;
	uint64_t until_ns;          /* events later than that do not count; UINT64_MAX: all do */
	uint64_t last_ns;           /* of the last event that was met, whether it counts or not */
	struct sheet_block *blocks; /* by number */
	size_t count, room;
	struct sheet_map *maps; /* by address */
	size_t map_count, map_room;
	uint64_t brk;
	uint64_t lost_events, lost_bytes, lost_frees, filtered, uncertain;
	int switched_off, inherits_unknown, nomem;
	uint64_t rss_peak_bytes, rss_peak_ns; /* of the timeline */
};

/** living_init() - @names: lent, takes the definitions. living_fini() accepts a zeroed one. */
void living_init(struct living *living, struct prof *names, uint64_t until_ns);
void living_fini(struct living *living);
/** living_end() - no more events: what lives goes into @instant, whose names are @living's; stacks are their rows from here on. */
void living_end(struct living *living, struct instant *instant);

#endif
