/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nodes.h - the shared prefix tree of wire/heap.h: from (pc, parent) to a node number, without a
 * lock.
 *
 * The index has lines of 16 entries (a cache line), one for eight places of the table of nodes:
 * there stand the entries of these nodes' children, or where the hash of (pc, parent) says once the
 * line is full. A path is numbered from the outermost frame on, so that what is new has numbers in
 * a row and its entries in one line or two; what was numbered together is mostly asked for
 * together, and what a large tree costs is the pages and lines that a look-up touches. The bits of
 * an entry that no node's number needs hold as many of the hash, so that other nodes are seldom
 * looked at: 13 bits with the default budget.
 *
 * A table that is full is used again from its first place on (wire/heap.h): an entry may then name
 * a place where another node stands, which a look at that place tells, and a new entry takes the
 * place of the oldest one in its line. A path that nothing leads to any more gets other numbers;
 * the recorder knows it again.
 */
#ifndef UNWIND_NODES_H
#define UNWIND_NODES_H

#include <stdint.h>

#include "unwind/arch_x86_64.h"
#include "unwind/rule.h"
#include "wire/heap.h"

#define UNWIND_NODES_LINE 16
#define UNWIND_NODES_LINES 64 /* a node that finds no room in so many lines finds the table full */
#define UNWIND_NODES_LINES_AGAIN \
	2 /* so many are looked at once the table is used again, as all are full */
#define UNWIND_NODE_NONE UINT32_MAX

struct unwind_nodes {
	struct wire_node *node;
	uint32_t *index;
	uint32_t line_mask, node_max;
	/* of the smallest power of two that node_max fits into */
	uint32_t place_mask;
	/* its bits */
	uint32_t tag_shift;
	uint32_t *count;
	const uint32_t *tail;
	/* the recorder's pid; 0: nobody makes room */
	const uint32_t *copier;
};

/** unwind_nodes_init() - point into the mapping at @base (struct wire_heap_header). */
static inline void unwind_nodes_init(struct unwind_nodes *nodes, void *base)
{
	struct wire_heap_header *h = base;
	nodes->node = (struct wire_node *)((char *)base + h->nodes_off);
	nodes->index = (uint32_t *)((char *)base + h->index_off);
	nodes->line_mask = h->index_entries / UNWIND_NODES_LINE - 1;
	nodes->node_max = h->node_max < WIRE_NODE_MAX ? h->node_max : WIRE_NODE_MAX;
	nodes->tag_shift = 32 - (uint32_t)__builtin_clz((nodes->node_max - 1) | 1);
	nodes->place_mask = (1u << nodes->tag_shift) - 1;
	nodes->count = &h->node_count;
	nodes->tail = &h->node_tail;
	nodes->copier = &h->recorder_pid;
}

/**
 * @gen: as in the node. Where it goes in, it changes all bits that are taken from the hash, and few
 * pcs differ.
 */
static inline uint64_t unwind_node_hash(uint32_t parent, uint64_t pc, uint32_t gen)
{
	uint64_t h = (pc ^ (uint64_t)parent << 32 ^ (uint64_t)gen << 24) * 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

/* The line where the children of @parent are looked for first. */
static inline uint32_t unwind_node_line(const struct unwind_nodes *nodes, uint32_t parent)
{
	return (parent & nodes->place_mask) / (UNWIND_NODES_LINE / 2) & nodes->line_mask;
}

static inline uint32_t unwind_node_tag(const struct unwind_nodes *nodes, uint64_t hash)
{
	return (uint32_t)(hash >> 32) << nodes->tag_shift;
}

/*
 * Where to go on after @tried lines that were full: in another page each time, as neighbours fill
 * up together.
 */
static inline uint32_t unwind_node_next_line(const struct unwind_nodes *nodes, uint64_t hash,
					     uint32_t tried)
{
	return ((uint32_t)hash + tried * 67) & nodes->line_mask;
}

/** unwind_node_at() - the number of the node at @place, if it is this one; else 0. */
static inline uint32_t unwind_node_at(const struct unwind_nodes *nodes, uint32_t place, uint64_t pc,
				      uint32_t parent, uint32_t gen)
{
	const struct wire_node *n = &nodes->node[place];
	uint64_t first = __atomic_load_n(&n->pc, __ATOMIC_ACQUIRE);

	if ((first & WIRE_NODE_PC_MASK) != pc ||
	    __atomic_load_n(&n->parent, __ATOMIC_RELAXED) != parent ||
	    __atomic_load_n(&n->gen, __ATOMIC_RELAXED) != gen)
		return 0;
	/* the place may just be used again: then pc was the first to change */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&n->pc, __ATOMIC_RELAXED) != first)
		return 0;
	return (uint32_t)(first >> WIRE_NODE_PC_BITS) << nodes->tag_shift | place;
}

/*
 * Write node @number. Return: 0 where the recorder has given it up, because it was not written for
 * so long that nobody seemed to be about to, and its place is another node's by now.
 */
static inline int unwind_node_put(const struct unwind_nodes *nodes, uint32_t number, uint64_t pc,
				  uint32_t parent, uint32_t gen)
{
	struct wire_node *n = &nodes->node[number & nodes->place_mask];
	uint64_t lap = number >> nodes->tag_shift;
	uint64_t former = __atomic_load_n(&n->pc, __ATOMIC_RELAXED);

	if (former >> WIRE_NODE_PC_BITS > lap ||
	    !__atomic_compare_exchange_n(&n->pc, &former, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&n->parent, parent, __ATOMIC_RELAXED);
	__atomic_store_n(&n->gen, gen, __ATOMIC_RELAXED);
	__atomic_store_n(&n->pc, pc | lap << WIRE_NODE_PC_BITS, __ATOMIC_RELEASE);
	return 1;
}

/*
 * Numbers that a walk has taken for its new nodes. Each will be written: the recorder waits for it.
 */
struct unwind_nodes_taken {
	uint32_t next, end;
};

/**
 * unwind_node_return() - numbers that were taken for nodes which other threads made meanwhile:
 * nobody will ask for them.
 */
static inline void unwind_node_return(struct unwind_nodes *nodes, struct unwind_nodes_taken *taken)
{
	while (taken->next != taken->end)
		unwind_node_put(nodes, taken->next++, 1, 0, 0);
}

/*
 * A number for a new node below @parent, above which it has to be: the next one that was taken,
 * else one of up to 1 + @more that are taken now. 0: there is none left.
 */
static inline UNWIND_HOT uint32_t unwind_node_reserve(struct unwind_nodes *nodes, uint32_t parent,
						      uint32_t more,
						      struct unwind_nodes_taken *taken)
{
	uint32_t count = __atomic_load_n(nodes->count, __ATOMIC_RELAXED);
	/* acquire: what stood at a place was copied before it is written to */
	uint32_t tail = __atomic_load_n(nodes->tail, __ATOMIC_ACQUIRE);

	if (taken->next != taken->end && taken->next > parent)
		return taken->next++;
	unwind_node_return(nodes, taken); /* another thread made the parent */
	for (;;) {
		if (count - tail >= nodes->node_max || count >= WIRE_NODE_NUMBERS)
			return 0;
		uint32_t first = count & nodes->place_mask, n = more + 1;
		if (!first) { /* a first place stands for none */
			n = 1;
		} else {
			uint32_t room = nodes->node_max - (count - tail);
			uint32_t lap = nodes->place_mask + 1 - first;
			n = n < room ? n : room;
			n = n < lap ? n : lap;
		}
		if (!__atomic_compare_exchange_n(nodes->count, &count, count + n, 1,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		if (first) {
			*taken = (struct unwind_nodes_taken){ count + 1, count + n };
			return count;
		}
		count++;
	}
}

/**
 * unwind_node_expect() - children of @parent will be asked for soon: bring the line of their
 * entries.
 */
static inline void unwind_node_expect(const struct unwind_nodes *nodes, uint32_t parent)
{
	__builtin_prefetch(nodes->index +
			   (uint64_t)unwind_node_line(nodes, parent) * UNWIND_NODES_LINE);
}

/**
 * unwind_node_expect_new() - some nodes will be made soon: bring their places and the lines of
 * their children. Writing them takes a locked instruction each, which waits for all that was
 * written before.
 */
static inline void unwind_node_expect_new(const struct unwind_nodes *nodes)
{
	const uint32_t some = 64 / sizeof(struct wire_node);
	uint32_t first = __atomic_load_n(nodes->count, __ATOMIC_RELAXED);

	__builtin_prefetch(&nodes->node[first & nodes->place_mask]);
	__builtin_prefetch(&nodes->node[(first + some) & nodes->place_mask]);
	unwind_node_expect(nodes, first);
	unwind_node_expect(nodes, first + some);
}

/*
 * A line as it is now, in one look. Entries come in from its first place on; none is ever empty
 * again.
 */
typedef uint32_t unwind_nodes_four __attribute__((vector_size(16)));
struct unwind_nodes_line {
	uint32_t *slots;
	unwind_nodes_four entry[UNWIND_NODES_LINE / 4];
};

static inline void unwind_nodes_look(const struct unwind_nodes *nodes, uint32_t number,
				     struct unwind_nodes_line *line)
{
	line->slots = nodes->index + (uint64_t)number * UNWIND_NODES_LINE;
	const volatile unwind_nodes_four *from = (const volatile unwind_nodes_four *)line->slots;
	line->entry[0] = from[0];
	line->entry[1] = from[1];
	line->entry[2] = from[2];
	line->entry[3] = from[3];
	/* acquire: what an entry names was complete before the entry could be seen */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* The places of entries that hold @value in @bits, as a mask. */
static inline uint32_t unwind_nodes_match(const struct unwind_nodes_line *line, uint32_t bits,
					  uint32_t value)
{
	const unwind_nodes_four *e = line->entry;
	return unwind_mask((e[0] & bits) == value, (e[1] & bits) == value, (e[2] & bits) == value,
			   (e[3] & bits) == value);
}

/*
 * The node's place by the first entry among @match, which is taken out; 0: none is left. Which are
 * free matches a tag of 0, and a place is an index.
 */
static inline uint32_t unwind_nodes_next(const struct unwind_nodes *nodes,
					 const struct unwind_nodes_line *line, uint32_t *match)
{
	while (*match) {
		uint32_t place =
			__atomic_load_n(&line->slots[__builtin_ctz(*match)], __ATOMIC_RELAXED) &
			nodes->place_mask;
		*match &= *match - 1;
		if (place && place < nodes->node_max)
			return place;
	}
	return 0;
}

/*
 * Let @entry, of node @number, take the place of the oldest one of a full line; where others do so
 * too it stays out.
 */
static inline void unwind_nodes_replace(const struct unwind_nodes *nodes, uint32_t line,
					uint32_t entry, uint32_t number)
{
	uint32_t *slots = nodes->index + (uint64_t)line * UNWIND_NODES_LINE;
	uint32_t oldest = 0, age = 0, value = 0;

	for (unsigned i = 0; i < UNWIND_NODES_LINE; i++) {
		uint32_t at = __atomic_load_n(&slots[i], __ATOMIC_RELAXED);
		/*
		 * what is left of an earlier lap looks younger than it is, until its place comes
		 * round
		 */
		if (((number - at) & nodes->place_mask) >= age) {
			age = (number - at) & nodes->place_mask;
			oldest = i;
			value = at;
		}
	}
	__atomic_compare_exchange_n(&slots[oldest], &value, entry, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

/**
 * unwind_node_get() - the number of node {@pc, @parent, @gen}, made if it is new. @taken: what the
 * walk has taken so far, empty at first; where it has none left it takes one number and up to
 * @more, as many as nodes are to follow below this one. unwind_node_return() ends the walk. Any
 * thread; lock-free. Return: the number, UNWIND_NODE_NONE where the table or the index is full.
 */
static inline UNWIND_HOT uint32_t unwind_node_get(struct unwind_nodes *nodes, uint64_t pc,
						  uint32_t parent, uint32_t gen, uint32_t more,
						  struct unwind_nodes_taken *taken)
{
	const uint32_t first = unwind_node_line(nodes, parent);
	const uint64_t hash = unwind_node_hash(parent & nodes->place_mask, pc, gen);
	const uint32_t tag = unwind_node_tag(nodes, hash);
	const int again = __atomic_load_n(nodes->count, __ATOMIC_RELAXED) > nodes->place_mask;
	const unsigned lines = again ? UNWIND_NODES_LINES_AGAIN : UNWIND_NODES_LINES;
	uint32_t number = first, mine = 0;

	for (unsigned tried = 0; tried < lines;) {
		struct unwind_nodes_line line;
		unwind_nodes_look(nodes, number, &line);
		uint32_t match = unwind_nodes_match(&line, UINT32_MAX << nodes->tag_shift, tag);
		for (uint32_t place; (place = unwind_nodes_next(nodes, &line, &match));) {
			if (more) /* most likely it is this one */
				unwind_node_expect(nodes, place);
			uint32_t known = unwind_node_at(nodes, place, pc, parent, gen);
			if (known) /* by another thread meanwhile: then a number was made in vain */
				return known;
		}

		uint32_t none = 0, room = unwind_nodes_match(&line, UINT32_MAX, 0);
		if (!room) {
			number = unwind_node_next_line(nodes, hash, tried++);
			continue;
		}
		if (!mine) {
			mine = unwind_node_reserve(nodes, parent, more, taken);
			if (!mine || !unwind_node_put(nodes, mine, pc, parent, gen))
				return UNWIND_NODE_NONE;
		}
		/*
		 * release: the node is complete before its place can be found. Taken meanwhile?
		 * Look again.
		 */
		if (__atomic_compare_exchange_n(&line.slots[__builtin_ctz(room)], &none,
						tag | (mine & nodes->place_mask), 0,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return mine;
	}
	if (!again)
		return UNWIND_NODE_NONE;
	if (!mine) {
		mine = unwind_node_reserve(nodes, parent, more, taken);
		if (!mine || !unwind_node_put(nodes, mine, pc, parent, gen))
			return UNWIND_NODE_NONE;
	}
	unwind_nodes_replace(nodes, first, tag | (mine & nodes->place_mask), mine);
	return mine;
}

#endif
