/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_nodes.c - more nodes than the shared table has places for: copied out before their places are used again (wire/heap.h),
 * and known again where a path that was forgotten there came back under other numbers. Copies cost nothing before the table is
 * half full, from there on 20 bytes a node; what is known costs 8 bytes a stack, and 16 to 32 more for each that is not the first to
 * go on from its parent: one in six of clang's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/clock.h"
#include "base/huge.h"
#include "source/heap_internal.h"

#define KNOWN_FIRST (1u << 10)
/* So many rows are fetched from the kernel at once, 128 KiB; not the first branches: most programs have fewer. */
#define BRANCH_STEP (1u << 14)
#define COPY_STEP (1u << 13)
#define HOLE_NS 1000000000u /* as long as a thread may lose its processor */

static bool used_again(const struct source_heap *heap)
{
	return !heap->raw && (heap->layout.node_max & (heap->layout.node_max - 1)) == 0;
}

/* ---- stacks by what they are ------------------------------------------------------------------------------------- */

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

static int grow_known(struct source_heap *heap)
{
	uint32_t mask = heap->known ? heap->known_mask * 2 + 1 : KNOWN_FIRST - 1;
	struct heap_known *known = calloc((size_t)mask + 1, sizeof(*known));
	if (!known)
		return -ENOMEM;
	for (uint32_t i = 0; heap->known && i <= heap->known_mask; i++) {
		const struct heap_known *old = &heap->known[i];
		if (old->stack)
			*known_place(known, mask, old->parent, old->frame) = *old;
	}
	free(heap->known);
	heap->known = known;
	heap->known_mask = mask;
	return 0;
}

static int grow_branches(struct source_heap *heap, uint32_t stack)
{
	uint32_t count = heap->branch_count ? heap->branch_count : BRANCH_STEP;
	while (count <= stack)
		count *= 2;
	struct heap_branch *branches = huge_resize(
		heap->branches, heap->branch_count * sizeof(*branches), count * sizeof(*branches));
	if (!branches)
		return -ENOMEM;
	heap->branches = branches;
	heap->branch_count = count;
	return 0;
}

uint32_t heap_known_stack(const struct source_heap *heap, uint32_t parent, uint32_t frame)
{
	const struct heap_branch branch =
		parent < heap->branch_count ? heap->branches[parent] : (struct heap_branch){ 0 };
	if (!branch.first || branch.first_frame == frame)
		return branch.first;
	return heap->known ? known_place(heap->known, heap->known_mask, parent, frame)->stack : 0;
}

int heap_know_stack(struct source_heap *heap, uint32_t parent, uint32_t frame, uint32_t stack)
{
	if (stack >= heap->branch_count && grow_branches(heap, stack) < 0)
		return -ENOMEM;
	if (stack % BRANCH_STEP == 0)
		huge_populate(&heap->branches[stack], BRANCH_STEP * sizeof(*heap->branches));
	if (!heap->branches[parent].first) {
		heap->branches[parent] = (struct heap_branch){ stack, frame };
		return 0;
	}
	if ((!heap->known || heap->known_count > heap->known_mask / 4 * 3) && grow_known(heap) < 0)
		return -ENOMEM;
	heap->known_count++;
	*known_place(heap->known, heap->known_mask, parent, frame) =
		(struct heap_known){ parent, frame, stack };
	return 0;
}

void heap_forget_stacks(struct source_heap *heap)
{
	huge_free(heap->branches, heap->branch_count * sizeof(*heap->branches));
	free(heap->known);
	heap->branches = NULL;
	heap->known = NULL;
	heap->branch_count = heap->known_count = 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Room for numbers below @count. */
static int grow_nodes(struct source_heap *heap, uint32_t count)
{
	if (count <= heap->copy_cap)
		return 0;
	uint32_t cap = heap->node_cap;
	while (cap < count)
		cap = cap < WIRE_NODE_NUMBERS / 2 ? cap * 2 : WIRE_NODE_NUMBERS;
	uint32_t *node_stack =
		huge_resize(heap->node_stack, (size_t)heap->node_cap * sizeof(*node_stack),
			    (size_t)cap * sizeof(*node_stack));
	if (!node_stack)
		return -ENOMEM;
	heap->node_stack = node_stack;
	heap->node_cap = cap;
	struct wire_node *copies =
		huge_resize(heap->copies, (size_t)heap->copy_cap * sizeof(*copies),
			    (size_t)cap * sizeof(*copies));
	if (!copies)
		return -ENOMEM;
	heap->copies = copies;
	heap->copy_cap = cap;
	return 0;
}

struct wire_node heap_node_at(const struct source_heap *heap, uint32_t node)
{
	if (node < heap->copied)
		return heap->copies[node];
	const uint32_t max = heap->layout.node_max;
	const struct wire_node *nodes =
		(const struct wire_node *)(heap->base + heap->layout.nodes_off);
	const struct wire_node *at = used_again(heap) ? &nodes[node & (max - 1)] : &nodes[node];
	/* pc tells that the rest is there */
	struct wire_node copy = { .pc = __atomic_load_n(&at->pc, __ATOMIC_ACQUIRE) };
	copy.parent = __atomic_load_n(&at->parent, __ATOMIC_RELAXED);
	copy.gen = __atomic_load_n(&at->gen, __ATOMIC_RELAXED);
	uint64_t lap = used_again(heap) ? node / max : 0;
	if (copy.pc >> WIRE_NODE_PC_BITS != lap)
		return (struct wire_node){ 0 };
	copy.pc &= WIRE_NODE_PC_MASK;
	return copy;
}

/*
 * Node @node has a number below @count and is not written. A thread is about to do it, but may have lost its processor; one
 * that was thrown out of its walk by a signal handler never will, and must not stop the others for ever.
 */
static bool given_up(struct source_heap *heap, uint32_t node, uint32_t count)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (node >= heap->hole_until) {
		heap->hole_until = count;
		heap->hole_ns = now;
	}
	return now - heap->hole_ns >= HOLE_NS;
}

int heap_take_nodes(struct source_heap *heap)
{
	const uint32_t max = heap->layout.node_max;
	uint32_t count = __atomic_load_n(&heap->header->node_count, __ATOMIC_RELAXED);
	if (count <= heap->copied || (!heap->copied && count < max / 2) || !used_again(heap) ||
	    heap->borrowed)
		return 0;
	if (count > WIRE_NODE_NUMBERS)
		count = WIRE_NODE_NUMBERS;
	if (count - heap->copied > max) /* no producer that keeps the rules is that far */
		count = heap->copied + max;
	if (grow_nodes(heap, count) < 0)
		return err_set(heap->err, -ENOMEM, "cannot allocate memory for %u nodes", count);
	while (heap->copied < count) {
		uint32_t node = heap->copied;
		struct wire_node copy = { 0 };
		if (node >= WIRE_STOP_MAX && (node & (max - 1))) {
			copy = heap_node_at(heap, node);
			if (!copy.pc && !given_up(heap, node, count))
				break;
		}
		if (node % COPY_STEP == 0)
			huge_populate(&heap->copies[node], MIN(COPY_STEP, heap->copy_cap - node) *
								   sizeof(*heap->copies));
		heap->copies[node] = copy;
		heap->copied = node + 1;
	}
	__atomic_store_n(&heap->header->node_tail, heap->copied, __ATOMIC_RELEASE);
	return 0;
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

#define ROOM_AHEAD ((size_t)256 << 10)
#define ROOM_FROM \
	((size_t)32 << 10) /* what is touched less is left to the program: most end before */

/* Of @bytes at @at, written from their begin on, the program has written @used: bring what comes next. *@there: brought so far. */
static void bring(char *at, size_t bytes, size_t used, size_t *there)
{
	if (used < ROOM_FROM || *there == bytes || used + ROOM_AHEAD / 2 <= *there)
		return;
	size_t from = *there;
	*there = MIN(bytes, (used + ROOM_AHEAD) & ~(size_t)4095);
	huge_populate(at + from, *there - from);
}

void heap_make_room(struct source_heap *heap)
{
	const struct wire_heap_header *h = &heap->layout;
	if (heap->raw)
		return;
	size_t nodes = h->node_max * sizeof(struct wire_node);
	size_t used = __atomic_load_n(&heap->header->node_count, __ATOMIC_RELAXED) *
		      sizeof(struct wire_node);
	size_t index = h->index_entries * sizeof(uint32_t);
	size_t index_each = index / h->node_max;
	bring(heap->base + h->nodes_off, nodes, MIN(used, nodes), &heap->nodes_there);
	/* the entries of a node's children stand where it does (unwind/nodes.h), or, of few, anywhere */
	bring(heap->base + h->index_off, index,
	      MIN(used / sizeof(struct wire_node) * index_each, index), &heap->index_there);
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		size_t bytes = ring->mask + 1;
		bring((char *)ring->base, bytes, MIN(ring->head, bytes), &ring->there);
	}
}
