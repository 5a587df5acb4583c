/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nodes.h - the shared prefix tree of wire/heap.h: from (pc, parent) to a node number, without a lock.
 *
 * The open-addressed index is keyed by a hash of the whole path, not of (pc, parent): the hashes of a stack's frames
 * then do not wait for the numbers of their parents, and look-ups of neighbouring frames overlap.
 */
#ifndef UNWIND_NODES_H
#define UNWIND_NODES_H

#include <stdint.h>

#include "wire/heap.h"

#define UNWIND_NODES_PROBES 512 /* longer collision runs count as a full table */
#define UNWIND_NODE_NONE UINT32_MAX

struct unwind_nodes {
	struct wire_node *node;
	uint32_t *index;
	uint32_t index_mask, node_max;
	uint32_t *count;
};

/** unwind_nodes_init() - point into the mapping at @base (struct wire_heap_header). */
static inline void unwind_nodes_init(struct unwind_nodes *nodes, void *base)
{
	struct wire_heap_header *h = base;
	nodes->node = (struct wire_node *)((char *)base + h->nodes_off);
	nodes->index = (uint32_t *)((char *)base + h->index_off);
	nodes->index_mask = h->index_entries - 1;
	nodes->node_max = h->node_max;
	nodes->count = &h->node_count;
}

/** The hash of the empty path below root node @root (an enum wire_stop) in module generation @gen. */
static inline uint64_t unwind_path_root(uint32_t root, uint32_t gen)
{
	return ((uint64_t)gen << 32 | root) * 0x9e3779b97f4a7c15ULL;
}

static inline uint64_t unwind_path_hash(uint64_t outer, uint64_t pc)
{
	uint64_t h = (outer ^ pc) * 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

/**
 * unwind_node_get() - the number of node {@pc, @parent, @gen}, made if it is new. @hash: unwind_path_hash() of it.
 * @spare: a number this thread reserved and did not use (0 = none); losing a race leaves one there for the next time.
 * Any thread; lock-free. Return: the number, UNWIND_NODE_NONE where the table or the index is full.
 */
static inline uint32_t unwind_node_get(struct unwind_nodes *nodes, uint64_t hash, uint64_t pc,
				       uint32_t parent, uint32_t gen, uint32_t *spare)
{
	uint32_t at = (uint32_t)hash & nodes->index_mask, mine = 0;

	for (unsigned probe = 0; probe < UNWIND_NODES_PROBES; probe++) {
		uint32_t *slot = &nodes->index[at];
		uint32_t number = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		if (!number) {
			if (!mine) {
				mine = *spare;
				/* the test before the addition keeps a full table's counter from running away */
				if (!mine && __atomic_load_n(nodes->count, __ATOMIC_RELAXED) <
						     nodes->node_max)
					mine = __atomic_fetch_add(nodes->count, 1,
								  __ATOMIC_RELAXED);
				*spare = 0;
				if (!mine || mine >= nodes->node_max)
					return UNWIND_NODE_NONE;
				/* a parent's number has to be smaller; an old spare may not be */
				if (mine <= parent) {
					mine = __atomic_fetch_add(nodes->count, 1,
								  __ATOMIC_RELAXED);
					if (mine >= nodes->node_max)
						return UNWIND_NODE_NONE;
				}
				nodes->node[mine] = (struct wire_node){ pc, parent, gen };
			}
			/* release: the node is complete before its number can be found */
			if (__atomic_compare_exchange_n(slot, &number, mine, 0, __ATOMIC_ACQ_REL,
							__ATOMIC_ACQUIRE))
				return mine;
		}
		if (number < nodes->node_max) {
			const struct wire_node *n = &nodes->node[number];
			if (n->pc == pc && n->parent == parent && n->gen == gen) {
				if (mine)
					*spare = mine;
				return number;
			}
		}
		at = (at + 1) & nodes->index_mask;
	}
	if (mine)
		*spare = mine;
	return UNWIND_NODE_NONE;
}

#endif
