/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instant.h - a process at one moment: where its memory was, which blocks lived, what it had mapped
 * itself, and whose stacks these were. Made by query/instant.c of a recording (or of a process and
 * its recording), explained by view/explain.c.
 */
#ifndef MODEL_INSTANT_H
#define MODEL_INSTANT_H

#include "model/pages.h"
#include "model/prof.h"
#include "model/snapshot.h"

/** A block that lived at the moment. */
struct sheet_block {
	uint64_t addr, bytes;
	/* the row of its stack among the names; view/explain.c puts its group in the place */
	uint32_t group;
	/* of its allocation, since the recording's start */
	uint32_t time_ms;
};
/** What the program mapped by itself. */
struct sheet_map {
	uint64_t start, end;
	/* as sheet_block.group */
	uint32_t group, reserved;
};
/** A later snapshot of the same recording: what it takes to say how long an advice keeps. */
struct snapshot_later {
	uint64_t after_ns;
	/* snapshot_touched_again() */
	uint64_t again_bytes;
};
#define INSTANT_LATER_MAX 32

/** struct instant - zeroed is empty. Owns all that it points to. */
struct instant {
	struct snapshot *snapshot;
	/* NULL: nothing was recorded, there are no blocks and no maps */
	struct prof *names;
	/* any order */
	struct sheet_block *blocks;
	/* huge_free() */
	size_t block_count, block_room_bytes;
	/* by address, not overlapping */
	struct sheet_map *maps;
	size_t map_count;
	/*
	 * every block was seen from the start, none was lost: what it does not know was never
	 * handed out
	 */
	int complete;
	/* some free may be lost */
	int lossy;
	/* what the recorder had not written yet is missing, however long it was waited for */
	int behind;
	uint64_t lost_events, filtered;
	/* in the window of the reading, from the moment on: what bounds how far off it may be */
	int has_window;
	uint64_t window_allocated_bytes, window_freed_bytes;
	struct snapshot_later later[INSTANT_LATER_MAX];
	size_t later_count;
	/*
	 * glibc's arenas up to the moment, where there are more than two: each one's peak, those of
	 * two that share all threads, and the peak of all
	 */
	int has_arenas;
	uint64_t arena_peaks_bytes, arena_pair_bytes, arenas_peak_bytes;
	/* the reading of resident pages next to the moment; NULL: there is none */
	struct page_shot *pages;
	/* how far it is from the snapshot: later is positive */
	int64_t pages_age_ns;
	/* places of the recording where a snapshot is damaged, or may have been */
	size_t unreadable;
	/*
	 * the most that the recording knows of, of a moment without a snapshot maybe; 0: not known
	 */
	uint64_t peak_rss_bytes;
	/* how far the snapshot lies before the moment that was asked for */
	int64_t age_ns;
};
void instant_fini(struct instant *instant);
/** instant_drop() - the blocks go, the rest stays: they have been counted. */
void instant_drop(struct instant *instant);

#endif
