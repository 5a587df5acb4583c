/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.h - the table of owners, a word a physical page, and what each owner's stack has live: the
 * two are changed together, so that the sums of the second are always those of the first.
 */
#ifndef BPF_OWNER_H
#define BPF_OWNER_H

#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include "wire/pages.h"

#define INLINE static __attribute__((always_inline)) inline
#define ORDER_MAX 18

const volatile uint64_t pages_part_len = 8;    /* words in a part of the owner table */
const volatile uint32_t pages_page_bytes = 64; /* sizeof(struct page); set by the loader from BTF */
uint64_t pages_vmemmap = 0;

struct pages_part {
	/* as long as the map's value */
	uint32_t v[8];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	/* the loader's to settle, as sizes of the next */
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct pages_part));
} pages_owner SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	__type(key, uint32_t);
	__type(value, struct wire_pages_live);
} pages_live SEC(".maps");

INLINE uint64_t pfn_of(uint64_t page)
{
	return (page - pages_vmemmap) / pages_page_bytes;
}

INLINE struct pages_part *part_of(uint64_t pfn)
{
	uint32_t key = (uint32_t)(pfn >> WIRE_PAGES_PART_SHIFT);
	return bpf_map_lookup_elem(&pages_owner, &key);
}

/*
 * What is compared with a bound has to be the very value that is added to a pointer, or the
 * verifier loses it.
 */
#define OPAQUE(x) asm volatile("" : "+r"(x))

INLINE uint64_t index_of(uint64_t pfn)
{
	uint64_t at = pfn & ((1ULL << WIRE_PAGES_PART_SHIFT) - 1);
	OPAQUE(at);
	return at;
}

INLINE void add(uint32_t owner, int64_t pages)
{
	uint32_t id = WIRE_PAGES_STACK(owner);
	struct wire_pages_live *live = bpf_map_lookup_elem(&pages_live, &id);
	if (!live)
		return;
	if (owner & WIRE_PAGES_CACHE)
		__sync_fetch_and_add(&live->cache, pages);
	else if (owner & WIRE_PAGES_KERNEL)
		__sync_fetch_and_add(&live->kernel, pages);
	else
		__sync_fetch_and_add(&live->anon, pages);
}

/* Travels on the BPF stack: what is to be done with a run of words. */
struct run {
	struct pages_part *part;
	uint64_t at;
	/* to be written */
	uint32_t owner;
	/* FLIP_*: instead of writing, change CACHE where there is an owner */
	uint32_t flip;
	/* words that had one; as a mark: the verifier multiplies by what it can count */
	uint32_t taken;
};
#define FLIP_SET 3
#define FLIP_CLEAR 1

static long run_word(uint32_t i, struct run *run)
{
	uint64_t at = run->at + i;
	OPAQUE(at);
	if (at >= pages_part_len)
		return 1;
	uint32_t was = run->part->v[at], now = run->owner;
	if (was) {
		add(was, -1);
		run->taken = 1;
		if (run->flip) {
			now = run->flip == FLIP_SET ? was | WIRE_PAGES_CACHE
						    : was & ~WIRE_PAGES_CACHE;
			add(now, 1);
		}
	}
	if (was != now)
		run->part->v[at] = now;
	return 0;
}

/*
 * Write @owner (0: clear) over 2^order words, or flip; what stood there is taken off its stack.
 * Return: 1 if anything did,
 * -1 beyond the table.
 */
__attribute__((noinline)) int write_run(uint64_t pfn, uint32_t order, uint32_t owner, uint32_t flip)
{
	struct run run = {
		.part = part_of(pfn), .at = index_of(pfn), .owner = owner, .flip = flip
	};
	if (!run.part || order > ORDER_MAX || run.at >= pages_part_len)
		return -1;
	if (!order)
		run_word(0, &run);
	else
		bpf_loop(1u << order, run_word, &run, 0);
	return run.taken ? 1 : 0;
}

/*
 * One page, nobody's by now: what every page of the machine costs. Return: 1 if it was somebody's.
 */
INLINE int clear(uint64_t pfn, uint32_t order)
{
	if (order)
		return write_run(pfn, order, 0, 0);
	struct pages_part *part = part_of(pfn);
	uint64_t at = index_of(pfn);
	if (!part || at >= pages_part_len)
		return 0;
	uint32_t was = part->v[at];
	if (!was)
		return 0;
	part->v[at] = 0;
	add(was, -1);
	return 1;
}

#endif
