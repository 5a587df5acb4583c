/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_nodes.c - more nodes than the shared table has places for: copied out before their places
 * are used again (wire/names.h), and known again where a path that was forgotten there came back
 * under other numbers. Copies cost nothing before the table is half full, from there on 20 bytes a
 * node; what is known costs 8 bytes a stack, and 16 to 32 more for each that is not the first to go
 * on from its parent: one in six of clang's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/clock.h"
#include "base/huge.h"
#include "source/heap_names.h"

#define KNOWN_FIRST (1u << 10)
/*
 * So many rows are fetched from the kernel at once, 128 KiB; not the first branches: most programs
 * have fewer.
 */
#define BRANCH_STEP (1u << 14)
#define COPY_STEP (1u << 13)
#define HOLE_NS NS_PER_S /* as long as a thread may lose its processor */

static bool used_again(const struct heap_names *names)
{
	return !names->tables->raw &&
	       (names->tables->layout.node_max & (names->tables->layout.node_max - 1)) == 0;
}

/* ---- stacks by what they are ----------------------------------------------------------------- */

static uint32_t known_hash(uint32_t parent, uint32_t frame)
{
	uint64_t h = ((uint64_t)parent << 32 | frame) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return (uint32_t)(h >> 32);
}

static struct heap_known *known_place(struct heap_known *known, uint32_t mask, uint32_t parent,
				      uint32_t frame)
{
	uint32_t k = known_hash(parent, frame) & mask;
	while (known[k].stack && (known[k].parent != parent || known[k].frame != frame))
		k = (k + 1) & mask;
	return &known[k];
}

static int grow_known(struct heap_names *names)
{
	uint32_t mask = names->known ? names->known_mask * 2 + 1 : KNOWN_FIRST - 1;
	struct heap_known *known = calloc((size_t)mask + 1, sizeof(*known));
	if (!known)
		return -ENOMEM;
	for (uint32_t i = 0; names->known && i <= names->known_mask; i++) {
		const struct heap_known *old = &names->known[i];
		if (old->stack)
			*known_place(known, mask, old->parent, old->frame) = *old;
	}
	free(names->known);
	names->known = known;
	names->known_mask = mask;
	return 0;
}

static int grow_branches(struct heap_names *names, uint32_t stack)
{
	uint32_t count = names->branch_count ? names->branch_count : BRANCH_STEP;
	while (count <= stack)
		count *= 2;
	struct heap_branch *branches =
		huge_resize(names->branches, names->branch_count * sizeof(*branches),
			    count * sizeof(*branches));
	if (!branches)
		return -ENOMEM;
	names->branches = branches;
	names->branch_count = count;
	return 0;
}

uint32_t heap_known_stack(const struct heap_names *names, uint32_t parent, uint32_t frame)
{
	const struct heap_branch branch =
		parent < names->branch_count ? names->branches[parent] : (struct heap_branch){ 0 };
	if (!branch.first || branch.first_frame == frame)
		return branch.first;
	return names->known ? known_place(names->known, names->known_mask, parent, frame)->stack
			    : 0;
}

int heap_know_stack(struct heap_names *names, uint32_t parent, uint32_t frame, uint32_t stack)
{
	if (stack >= names->branch_count && grow_branches(names, stack) < 0)
		return -ENOMEM;
	if (stack % BRANCH_STEP == 0)
		huge_populate(&names->branches[stack], BRANCH_STEP * sizeof(*names->branches));
	if (!names->branches[parent].first) {
		names->branches[parent] = (struct heap_branch){ stack, frame };
		return 0;
	}
	if ((!names->known || names->known_count > names->known_mask / 4 * 3) &&
	    grow_known(names) < 0)
		return -ENOMEM;
	names->known_count++;
	*known_place(names->known, names->known_mask, parent, frame) =
		(struct heap_known){ parent, frame, stack };
	return 0;
}

void heap_forget_stacks(struct heap_names *names)
{
	huge_free(names->branches, names->branch_count * sizeof(*names->branches));
	free(names->known);
	names->branches = NULL;
	names->known = NULL;
	names->branch_count = names->known_count = 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Room for numbers below @count. */
static int grow_nodes(struct heap_names *names, uint32_t count)
{
	if (count <= names->copy_cap)
		return 0;
	uint32_t cap = names->node_cap;
	while (cap < count)
		cap = cap < WIRE_NODE_NUMBERS / 2 ? cap * 2 : WIRE_NODE_NUMBERS;
	uint32_t *node_stack =
		huge_resize(names->node_stack, (size_t)names->node_cap * sizeof(*node_stack),
			    (size_t)cap * sizeof(*node_stack));
	if (!node_stack)
		return -ENOMEM;
	names->node_stack = node_stack;
	names->node_cap = cap;
	struct wire_node *copies =
		huge_resize(names->copies, (size_t)names->copy_cap * sizeof(*copies),
			    (size_t)cap * sizeof(*copies));
	if (!copies)
		return -ENOMEM;
	names->copies = copies;
	names->copy_cap = cap;
	return 0;
}

struct wire_node heap_node_at(const struct heap_names *names, uint32_t node)
{
	if (node < names->copied)
		return names->copies[node];
	const uint32_t max = names->tables->layout.node_max;
	const struct wire_node *nodes =
		(const struct wire_node *)(names->tables->base + names->tables->layout.nodes_off);
	const struct wire_node *at = used_again(names) ? &nodes[node & (max - 1)] : &nodes[node];
	/* pc tells that the rest is there */
	struct wire_node copy = { .pc = __atomic_load_n(&at->pc, __ATOMIC_ACQUIRE) };
	copy.parent = __atomic_load_n(&at->parent, __ATOMIC_RELAXED);
	copy.gen = __atomic_load_n(&at->gen, __ATOMIC_RELAXED);
	uint64_t lap = used_again(names) ? node / max : 0;
	if (copy.pc >> WIRE_NODE_PC_BITS != lap)
		return (struct wire_node){ 0 };
	copy.pc &= WIRE_NODE_PC_MASK;
	return copy;
}

/*
 * Node @node has a number below @count and is not written. A thread is about to do it, but may have
 * lost its processor; one that was thrown out of its walk by a signal handler never will, and must
 * not stop the others for ever.
 */
static bool given_up(struct heap_names *names, uint32_t node, uint32_t count)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (node >= names->hole_until) {
		names->hole_until = count;
		names->hole_ns = now;
	}
	return now - names->hole_ns >= HOLE_NS;
}

int heap_take_nodes(struct heap_names *names)
{
	const uint32_t max = names->tables->layout.node_max;
	uint32_t count = __atomic_load_n(&names->tables->header->node_count, __ATOMIC_RELAXED);
	if (count <= names->copied || (!names->copied && count < max / 2) || !used_again(names) ||
	    names->borrowed)
		return 0;
	if (count > WIRE_NODE_NUMBERS)
		count = WIRE_NODE_NUMBERS;
	if (count - names->copied > max) /* no producer that keeps the rules is that far */
		count = names->copied + max;
	if (grow_nodes(names, count) < 0)
		return err_set(names->out->err, -ENOMEM, "cannot allocate memory for %u nodes",
			       count);
	while (names->copied < count) {
		uint32_t node = names->copied;
		struct wire_node copy = { 0 };
		if (node >= WIRE_STOP_MAX && (node & (max - 1))) {
			copy = heap_node_at(names, node);
			if (!copy.pc && !given_up(names, node, count))
				break;
		}
		if (node % COPY_STEP == 0)
			huge_populate(&names->copies[node], MIN(COPY_STEP, names->copy_cap - node) *
								    sizeof(*names->copies));
		names->copies[node] = copy;
		names->copied = node + 1;
	}
	__atomic_store_n(&names->tables->header->node_tail, names->copied, __ATOMIC_RELEASE);
	return 0;
}
