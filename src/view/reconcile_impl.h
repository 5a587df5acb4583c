/* SPDX-License-Identifier: Apache-2.0 */
/* reconcile_impl.h - private to reconcile*.c: the merge's state, and one unit under way. */
#ifndef VIEW_RECONCILE_IMPL_H
#define VIEW_RECONCILE_IMPL_H

#include "view/reconcile.h"

#define NO_UNIT SIZE_MAX
#define SETS 65536u
#define DROPPED \
	0x80000000u /* in a block's group: the walk says that it is free, and frees were lost */

/* What one mapping, or a part of one, came to. */
struct share {
	const char *label, *how;
	uint64_t bytes, shared_bytes;
	uint8_t class, exact;
};

struct owner {
	uint32_t group;
	uint64_t bytes;
};

/**
 * One unit under way: a page of chunks, or a slab that lies in several stretches of resident pages.
 */
struct unit_sum {
	uint64_t resident, shared;
	/* gap: none of the others; what it is the unit's kind tells */
	uint64_t live, waste, metadata, free, cached, gap;
	uint64_t blocks, cached_slots;
	/* the first and the last of its resident bytes */
	uint64_t from, to;
	/* of a free chunk: its links stay */
	int holds_head;
	/* all that is free in it is the top of a further arena */
	int only_tops;
	int main_top;
	/* struct merge has room for each group */
	struct owner *owners;
	size_t owner_count;
};

struct set {
	/* two groups; 0: empty */
	uint64_t key;
	uint64_t bytes;
};

struct merge {
	const struct sheet_input *in;
	const struct snapshot *s;
	struct sheet *sheet;
	struct share *shares;
	size_t share_count, share_room;
	/* cursors: all that is asked for comes in rising order */
	size_t block, piece, unit, map, own, stack;
	/* of blocks[block], once @slot_known */
	uint64_t slot_end;
	/* the block that it is of; the one that was counted last */
	size_t slot_of, met;
	struct unit_sum sum;
	/* the slab that @sum is about; NO_UNIT */
	size_t open;
	struct owner *owners;
	size_t owner_room;
	/* of each group: generation, and where it stands among the owners */
	uint32_t *mark, *place;
	uint32_t generation;
	struct set *sets;
	size_t set_count;
	/* a cursor */
	unsigned strip;
	/* unexplained so far */
	uint64_t direct;
	int nomem;
};

/** merge_add() - @bytes to a line; @shared: how many of them another process has, too. */
void merge_add(struct merge *m, unsigned class, int exact, const char *label, const char *how,
	       uint64_t bytes, uint64_t shared);
/** unit_begin(), unit_owner() - a fresh unit; @group has @bytes in it. */
void unit_begin(struct merge *m);
void unit_owner(struct merge *m, uint32_t group, uint64_t bytes);
/**
 * unit_end() - all of @unit (NULL: no allocator's that was walked; @label is the mapping's) is in
 * m->sum.
 */
void unit_end(struct merge *m, const struct snapshot_unit *unit, const char *label);
/** map_begin() - the strips, empty. -1: no memory. */
int map_begin(struct merge *m);
/**
 * map_note() - of [@start, @end), in rising order, @resident bytes are there and @owned of them
 * somebody's, most of these @group's: spread evenly.
 */
void map_note(struct merge *m, uint64_t start, uint64_t end, uint64_t resident, uint64_t owned,
	      uint32_t group);
/** sets_finish() - the pairs that hold most together, into the sheet. */
void sets_finish(struct merge *m);
/** pins_finish() - the last live blocks below the arenas' tops. */
void pins_finish(struct merge *m);
/** ages_finish() - how old each group's blocks are. -ENOMEM. */
int ages_finish(struct merge *m);
/** blocks_sort() - by address, in place. */
void blocks_sort(struct sheet_block *blocks, size_t count);

static inline uint32_t pseudo(const struct merge *m, unsigned which)
{
	return m->in->group_count + which;
}

#endif
