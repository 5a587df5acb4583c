/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nodes.h - the shared prefix tree of wire/heap.h: from (pc, parent) to a node number, without a lock.
 *
 * The index has lines of 16 entries (a cache line). Where a node's entry may stand is hashed from the path up to the
 * last multiple of four frames first, from its whole path after that: the entries of frames that follow each other
 * then share a line and a page, which is what a look-up costs when the tree is large. The bits of an entry that no
 * node's number needs hold as many of the path's hash, so that other nodes are seldom looked at: 12 bits with the default
 * budget. Nothing is ever taken out.
 */
#ifndef UNWIND_NODES_H
#define UNWIND_NODES_H

#include <stdint.h>

#include "wire/heap.h"

#define UNWIND_NODES_LINE 16
#define UNWIND_NODES_LINES 64 /* a node that finds no room in so many lines finds the table full */
#define UNWIND_NODE_NONE UINT32_MAX

struct unwind_nodes {
	struct wire_node *node;
	uint32_t *index;
	uint32_t line_mask, node_max;
	uint32_t tag_shift; /* bits of the largest node number */
	uint32_t *count;
};

/** unwind_nodes_init() - point into the mapping at @base (struct wire_heap_header). */
static inline void unwind_nodes_init(struct unwind_nodes *nodes, void *base)
{
	struct wire_heap_header *h = base;
	nodes->node = (struct wire_node *)((char *)base + h->nodes_off);
	nodes->index = (uint32_t *)((char *)base + h->index_off);
	nodes->line_mask = h->index_entries / UNWIND_NODES_LINE - 1;
	nodes->node_max = h->node_max < WIRE_NODE_MAX ? h->node_max : WIRE_NODE_MAX;
	nodes->tag_shift = 32 - (uint32_t)__builtin_clz(nodes->node_max | 1);
	nodes->count = &h->node_count;
}

/** The hash of the empty path below root node @root (an enum wire_stop). */
static inline uint64_t unwind_path_root(uint32_t root)
{
	return root * 0x9e3779b97f4a7c15ULL;
}

/** @gen: as in the node. Where it goes in, it changes all bits that places are taken from, and few pcs differ. */
static inline uint64_t unwind_path_hash(uint64_t outer, uint64_t pc, uint32_t gen)
{
	uint64_t h = (outer ^ pc ^ (uint64_t)gen << 24) * 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

/** Frames of one path whose entries share a line, as a mask of the frame's index from the outermost. */
#define UNWIND_NODES_BLOCK 3u

/* Tag and further lines come from different bits: what shares a line is not to share its tag. */
static inline uint32_t unwind_node_tag(const struct unwind_nodes *nodes, uint64_t hash)
{
	return (uint32_t)(hash >> 32) << nodes->tag_shift;
}

/* Where to go on after @tried lines that were full. */
static inline uint32_t unwind_node_next_line(const struct unwind_nodes *nodes, uint64_t hash,
					     uint32_t tried)
{
	return ((uint32_t)hash + tried) & nodes->line_mask;
}

static inline int unwind_node_is(const struct unwind_nodes *nodes, uint32_t number, uint64_t pc,
				 uint32_t parent, uint32_t gen)
{
	const struct wire_node *n = &nodes->node[number];
	return n->pc == pc && n->parent == parent && n->gen == gen;
}

/* A number for a new node: the spare one if it is larger than the parent's. 0 where there is none left. */
static inline uint32_t unwind_node_reserve(struct unwind_nodes *nodes, uint32_t parent,
					   uint32_t *spare)
{
	uint32_t mine = *spare;

	*spare = 0;
	if (mine > parent)
		return mine;
	/* the test before the addition keeps a full table's counter from running away */
	if (__atomic_load_n(nodes->count, __ATOMIC_RELAXED) >= nodes->node_max)
		return 0;
	mine = __atomic_fetch_add(nodes->count, 1, __ATOMIC_RELAXED);
	return mine < nodes->node_max ? mine : 0;
}

/** unwind_node_expect() - nodes below @block will be asked for soon: bring the line of their entries. */
static inline void unwind_node_expect(const struct unwind_nodes *nodes, uint64_t block)
{
	uint32_t line = (uint32_t)(block >> 20) & nodes->line_mask;
	__builtin_prefetch(nodes->index + (uint64_t)line * UNWIND_NODES_LINE);
}

/* A line as it is now, in one look. Entries come in from its first place on and never go. */
typedef uint32_t unwind_nodes_four __attribute__((vector_size(16)));
struct unwind_nodes_line {
	uint32_t *slots;
	unwind_nodes_four entry[UNWIND_NODES_LINE / 4];
};

static inline void unwind_nodes_look(const struct unwind_nodes *nodes, uint32_t number,
				     struct unwind_nodes_line *line)
{
	line->slots = nodes->index + (uint64_t)number * UNWIND_NODES_LINE;
	for (unsigned i = 0; i < UNWIND_NODES_LINE / 4; i++)
		line->entry[i] = ((const volatile unwind_nodes_four *)line->slots)[i];
	/* acquire: what an entry names was complete before the entry could be seen */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* The places of entries that hold @value in @bits, as a mask. */
static inline uint32_t unwind_nodes_match(const struct unwind_nodes_line *line, uint32_t bits,
					  uint32_t value)
{
	const unwind_nodes_four place = { 1, 2, 4, 8 };
	unwind_nodes_four found = { 0, 0, 0, 0 };

	for (unsigned i = 0; i < UNWIND_NODES_LINE / 4; i++)
		found |= (unwind_nodes_four)((line->entry[i] & bits) == value) & place << 4 * i;
	return found[0] | found[1] | found[2] | found[3];
}

/*
 * The node number of the first entry among @match, which is taken out; 0: none is left. Which are free matches a tag of
 * 0, and a number is an index.
 */
static inline uint32_t unwind_nodes_next(const struct unwind_nodes *nodes,
					 const struct unwind_nodes_line *line, uint32_t *match)
{
	while (*match) {
		uint32_t number =
			__atomic_load_n(&line->slots[__builtin_ctz(*match)], __ATOMIC_RELAXED) &
			((1u << nodes->tag_shift) - 1);
		*match &= *match - 1;
		if (number && number < nodes->node_max)
			return number;
	}
	return 0;
}

/**
 * unwind_node_prepare() - the same for the node itself. Return: the number of the node that is likely to be the one, its
 * memory asked for; unwind_node_is() tells. 0: the line looked at first has none.
 */
static inline uint32_t unwind_node_prepare(const struct unwind_nodes *nodes, uint64_t block,
					   uint64_t hash)
{
	struct unwind_nodes_line line;

	unwind_nodes_look(nodes, (uint32_t)(block >> 20) & nodes->line_mask, &line);
	uint32_t match = unwind_nodes_match(&line, UINT32_MAX << nodes->tag_shift,
					    unwind_node_tag(nodes, hash));
	uint32_t number = unwind_nodes_next(nodes, &line, &match);
	if (number)
		__builtin_prefetch(&nodes->node[number]);
	else if (!unwind_nodes_match(&line, UINT32_MAX, 0))
		__builtin_prefetch(nodes->index + (uint64_t)unwind_node_next_line(nodes, hash, 0) *
							  UNWIND_NODES_LINE);
	return number;
}

/**
 * unwind_node_get() - the number of node {@pc, @parent, @gen}, made if it is new. @hash: unwind_path_hash() of its path;
 * @block: that of the path's first frames, as many as the last multiple of UNWIND_NODES_BLOCK + 1 before this one.
 * @spare: a number this thread reserved and did not use (0 = none); losing a race leaves one there for the next time.
 * Any thread; lock-free. Return: the number, UNWIND_NODE_NONE where the table or the index is full.
 */
static inline uint32_t unwind_node_get(struct unwind_nodes *nodes, uint64_t block, uint64_t hash,
				       uint64_t pc, uint32_t parent, uint32_t gen, uint32_t *spare)
{
	uint32_t number = (uint32_t)(block >> 20) & nodes->line_mask, mine = 0;
	uint32_t tag = unwind_node_tag(nodes, hash);

	for (unsigned tried = 0; tried < UNWIND_NODES_LINES;) {
		struct unwind_nodes_line line;
		unwind_nodes_look(nodes, number, &line);
		uint32_t match = unwind_nodes_match(&line, UINT32_MAX << nodes->tag_shift, tag);
		for (uint32_t n; (n = unwind_nodes_next(nodes, &line, &match));) {
			if (unwind_node_is(nodes, n, pc, parent, gen)) {
				if (mine)
					*spare = mine;
				return n;
			}
		}

		uint32_t none = 0, room = unwind_nodes_match(&line, UINT32_MAX, 0);
		if (!room) {
			number = unwind_node_next_line(nodes, hash, tried++);
			continue;
		}
		if (!mine) {
			mine = unwind_node_reserve(nodes, parent, spare);
			if (!mine)
				return UNWIND_NODE_NONE;
			nodes->node[mine] = (struct wire_node){ pc, parent, gen };
		}
		/* release: the node is complete before its number can be found. Taken meanwhile? Look again. */
		if (__atomic_compare_exchange_n(&line.slots[__builtin_ctz(room)], &none, tag | mine,
						0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return mine;
	}
	if (mine)
		*spare = mine;
	return UNWIND_NODE_NONE;
}

#endif
