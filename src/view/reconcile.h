/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile.h - the balance sheet: every resident byte of a snapshot on one line, joined with the
 * blocks that lived at that instant.
 *
 * Words. A unit is the smallest stretch that an allocator can give back as a whole. Its owners are
 * the groups (stacks, functions ...) with a live or wasted byte in it, and the pseudo groups for
 * cached and for unrecorded blocks. Free bytes of a unit with owners are holes, and go to them in
 * proportion to their bytes; without owners they are free pages. alone: bytes of the units whose
 * owners are all in one group, which is what comes back when it frees everything; never to be added
 * up.
 */
#ifndef VIEW_RECONCILE_H
#define VIEW_RECONCILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/instant.h"

struct sheet_input {
	const struct snapshot *snapshot;
	/* any order: they are sorted in place */
	struct sheet_block *blocks;
	size_t block_count;
	/* by address, not overlapping */
	const struct sheet_map *maps;
	size_t map_count;
	/* groups are 0 .. group_count - 1 */
	uint32_t group_count;
	/* blocks are known; 0: nothing is, but by the allocators */
	int recorded;
	/* from its start, nothing lost: what else is in use is the allocator's own */
	int complete;
	/* frees may be lost: where the walk says free, it is free */
	int lossy;
	/* of the instant, on the blocks' clock */
	uint64_t now_ms;
};

struct sheet_group {
	/* on resident pages; number of blocks, resident or not */
	uint64_t live_bytes, blocks;
	uint64_t waste_bytes, hole_bytes, unit_bytes, alone_bytes, alone_without_caches_bytes;
	uint64_t untouched_bytes, swapped_bytes, mapped_bytes;
	/* that has a unit of its, 1 + its number in the snapshot; 0: none is known */
	uint8_t allocator;
	/* of its blocks: 5, 50 and 95 % are younger; where they are many, of some thousands that
	 * lie all over it */
	uint32_t age_ms[3];
};

struct sheet_line {
	/* enum sheet_class */
	uint8_t class, exact;
	/* told by who touched it, in explain->touched under its label */
	uint8_t touched;
	/* lent from the snapshot, or static */
	const char *label;
	/* static, or the snapshot's */
	const char *how;
	uint64_t bytes, shared_bytes;
};

#define SHEET_OCCUPANCY 10
struct sheet_pair {
	uint32_t a, b;
	/* that both together hold alone */
	uint64_t bytes;
};
struct sheet_pin {
	uint32_t group, arena;
	uint64_t addr, bytes, age_ms, free_below_bytes, top_bytes;
};
#define SHEET_PAIRS 8
#define SHEET_PINS 8

/**
 * One share of a mapping: what of it is resident, what of that somebody's, and who has most of it.
 */
struct sheet_cell {
	uint64_t resident_bytes, owned_bytes, votes;
	uint32_t group;
};
#define SHEET_CELLS 240
#define SHEET_STRIPS 8
/** A mapping of an allocator's or a runtime's: the largest ones by what is resident, by address. */
struct sheet_strip {
	uint64_t start, bytes, rss_bytes, cell_bytes;
	/* lent from the snapshot */
	const char *label;
	unsigned cell_count;
	struct sheet_cell *cells;
};

struct sheet {
	uint64_t rss_bytes;
	/* in the order of their classes; of each the largest first */
	struct sheet_line *lines;
	size_t line_count;
	/* by mapping's name, what no line has of them */
	struct sheet_line *nobody;
	size_t nobody_count;
	/* what no line has, and what moved: signed */
	int64_t unexplained_bytes;
	/* part of it: mappings' RSS less what the pages said */
	int64_t moved_bytes;
	/* group_count, then the three pseudo groups */
	struct sheet_group *groups;
	uint32_t group_count;
	uint64_t class_bytes[SHEET_CLASSES], class_shared_bytes[SHEET_CLASSES];
	/* units with owners by how full they are */
	struct {
		uint64_t bytes, units;
	} occupancy[SHEET_OCCUPANCY];
	struct sheet_pair pairs[SHEET_PAIRS];
	unsigned pair_count;
	struct sheet_pin pins[SHEET_PINS];
	unsigned pin_count;
	struct sheet_strip strips[SHEET_STRIPS];
	unsigned strip_count;
	/* all blocks of the recording, resident or not */
	uint64_t live_blocks, live_bytes_all;
	uint64_t unrecorded_bytes, unrecorded_blocks, contradictions, dropped_blocks, dropped_bytes;
	/* glibc: what malloc_trim(0) would give back */
	uint64_t trim_bytes;
	/* of that: at the main arena's top */
	uint64_t top_bytes;
	/* glibc's further arenas keep their tops */
	uint64_t other_tops_bytes;
	/* other allocators' free pages */
	uint64_t decaying_bytes, given_bytes, slab_free_bytes;
	uint64_t untouched_bytes, swapped_bytes;
	uint64_t runtime_live_bytes, runtime_free_bytes, runtime_hole_bytes;
};
/* Pseudo groups behind the input's own. */
enum { SHEET_GROUP_CACHES, SHEET_GROUP_UNRECORDED, SHEET_GROUP_OWN, SHEET_PSEUDO };

/**
 * reconcile() - a pure function of its input, O(blocks + units + pages) and one radix sort of the
 * blocks; integers only. Memory: 32 bytes a group, a table of 65,536 sets of owners. The sum is
 * checked before it returns: lines + unexplained = RSS. Return: sheet_free(); NULL with @err:
 * -ENOMEM, or -EBADMSG where the sum does not come out (a fault of ours).
 */
struct sheet *reconcile(const struct sheet_input *input, struct err *err);
void sheet_free(struct sheet *sheet);
#endif
