/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - what a table is made of before its rows are spelled out. */
#ifndef VIEW_GROUPS_H
#define VIEW_GROUPS_H

#include "view/impl.h"

struct group {
	struct cost cost, inclusive;
	/*
	 * canonical stack, or thread; of a group of frames a stack, 0 where it has none of its own
	 */
	uint32_t id;
	uint32_t order;
	uint64_t key;
	struct view_frame frame;
};

struct groups {
	struct group *items;
	uint32_t count, cap;
};

static inline int cost_is_zero(const struct cost *cost)
{
	return !(cost->allocations | cost->allocated_bytes | cost->frees | cost->peak_bytes |
		 cost->leaked | cost->leaked_bytes | cost->uncertain);
}

/** groups_add() - one more, lent until the next; NULL without memory. */
struct group *groups_add(struct groups *groups, uint32_t id);
/**
 * groups_of_frames() - by function, module, file or line, with own and inclusive costs. O(frames of
 * stacks). -ENOMEM.
 */
int groups_of_frames(const struct prof *prof, enum view_by by, const struct view_skip *skip,
		     struct groups *groups, struct err *err);

#endif
