/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap_layout.h - one function that lays out the shared file of wire/heap.h; used by whoever
 * creates it.
 */
#ifndef WIRE_HEAP_LAYOUT_H
#define WIRE_HEAP_LAYOUT_H

#include <stdint.h>

#include "wire/heap.h"

#define WIRE_HEAP_SLOTS 256 /* threads at once that the default budget has room for */
#define WIRE_HEAP_SLOTS_MAX 2048
#define WIRE_HEAP_BUDGET_DEFAULT (64u << 20)
#define WIRE_HEAP_BUDGET_MIN (32u << 20)
/*
 * Below that: where the address space is limited (ulimit -v). A file of some 6 MiB: what is asked
 * for, WIRE_HEAP_BUDGET_TIGHT, is as much.
 */
#define WIRE_HEAP_BUDGET_TIGHT (8u << 20)
#define WIRE_HEAP_SLOTS_TIGHT 32
/*
 * Of the budget, what the library has besides the file: the steppers' shared cache, its own data.
 */
#define WIRE_HEAP_PRIVATE (2u << 20)

/*
 * Slots come in sizes: the first threads are usually the busy ones; most further ones hardly
 * allocate. The first one can remember 20,000 stacks of 100 frames (270 bytes each, and what leads
 * to them); touched as far as used. Compilers have sixteen threads of one kind at once, which with
 * half of that memory walk for four times as many captures.
 */
static inline void wire_heap_slot_sizes(uint32_t count, uint32_t slot, uint32_t *ring_bytes,
					uint32_t *scratch_bytes)
{
	if (count <= WIRE_HEAP_SLOTS_TIGHT) {
		*ring_bytes = slot == 0 ? 1u << 20 : 32u << 10;
		*scratch_bytes = slot == 0 ? 1u << 20 : 32u << 10;
	} else if (slot < 4) {
		*ring_bytes = slot == 0 ? 4u << 20 : slot < 3 ? 2u << 20 : 1u << 20;
		*scratch_bytes = slot == 0   ? (7u << 20) + (640u << 10)
				 : slot == 1 ? 2u << 20
					     : 1u << 20;
	} else if (slot < 24) {
		*ring_bytes = 256u << 10;
		*scratch_bytes = slot < 20 ? 512u << 10 : 256u << 10;
	} else {
		*ring_bytes = 32u << 10;
		*scratch_bytes = 32u << 10;
	}
}

/**
 * wire_heap_slots() - of a budget beyond the default a quarter goes to more threads, each some 64
 * KiB.
 */
static inline uint32_t wire_heap_slots(uint64_t budget)
{
	if (budget < WIRE_HEAP_BUDGET_MIN)
		return WIRE_HEAP_SLOTS_TIGHT;
	uint64_t more = budget > WIRE_HEAP_BUDGET_DEFAULT
				? (budget - WIRE_HEAP_BUDGET_DEFAULT) / (256u << 10)
				: 0;
	const uint64_t most = WIRE_HEAP_SLOTS_MAX - WIRE_HEAP_SLOTS;
	return WIRE_HEAP_SLOTS + (uint32_t)(more < most ? more : most);
}

/**
 * wire_heap_layout() - fill the header for a file that leaves WIRE_HEAP_PRIVATE of @budget bytes
 * (at least WIRE_HEAP_BUDGET_MIN, or WIRE_HEAP_BUDGET_TIGHT; page = 4096). The node table gets what
 * the slots leave. The slots themselves are written by wire_heap_layout_slots() once the file is
 * mapped. Freestanding; deterministic.
 */
static inline void wire_heap_layout(struct wire_heap_header *h, uint64_t budget)
{
	const uint64_t page = 4096;
	const uint32_t count = wire_heap_slots(budget);
	uint64_t slots = 0;
	budget = budget > WIRE_HEAP_PRIVATE ? budget - WIRE_HEAP_PRIVATE : 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t ring, scratch;
		wire_heap_slot_sizes(count, i, &ring, &scratch);
		slots += (uint64_t)ring + scratch;
	}
	h->magic = WIRE_HEAP_MAGIC;
	h->version = WIRE_HEAP_VERSION;
	h->header_bytes = sizeof(*h);
	h->slot_count = count;
	h->module_max = 4096;
	h->string_bytes = 512u << 10;
	h->slots_off = page;
	h->modules_off =
		h->slots_off + (count * sizeof(struct wire_heap_slot) + page - 1) / page * page;
	h->strings_off = h->modules_off + h->module_max * sizeof(struct wire_module);
	h->index_off = h->strings_off + h->string_bytes;
	uint64_t left = budget > h->index_off + slots ? budget - h->index_off - slots : 0;
	uint32_t nodes = 1u << 16;
	/* 16 bytes a node and two 4-byte index entries */
	while ((uint64_t)nodes * 2 * 24 <= left && nodes < (1u << 24))
		nodes *= 2;
	h->index_entries = nodes * 2;
	h->nodes_off = h->index_off + (uint64_t)h->index_entries * 4;
	h->node_max = nodes;
	h->total_bytes = h->nodes_off + (uint64_t)h->node_max * 16 + slots;
	h->node_count = WIRE_STOP_MAX;
	h->enabled_wanted = 1;
}

/**
 * wire_heap_layout_slots() - write the slot table of a freshly created, zero-filled file mapped at
 * @base.
 */
static inline void wire_heap_layout_slots(void *base)
{
	struct wire_heap_header *h = base;
	struct wire_heap_slot *slot = (struct wire_heap_slot *)((char *)base + h->slots_off);
	uint64_t off = h->nodes_off + (uint64_t)h->node_max * 16;
	for (uint32_t i = 0; i < h->slot_count; i++) {
		uint32_t ring, scratch;
		wire_heap_slot_sizes(h->slot_count, i, &ring, &scratch);
		slot[i].ring_bytes = ring;
		slot[i].scratch_bytes = scratch;
		slot[i].scratch_off = off;
		off += scratch;
		slot[i].ring_off = off;
		off += ring;
	}
}

#endif
