/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * moves.h - pages that migration brings elsewhere take their owner along. For pages.bpf.c alone,
 * behind its count().
 */
#ifndef BPF_MOVES_H
#define BPF_MOVES_H

#include "bpf/owner.h"

#define PFN_MASK ((1ULL << 34) - 1)

struct move_key {
	uint64_t addr;
	uint64_t tid;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct move_key);
	/* the old page's number */
	__type(value, uint64_t);
} pages_moves SEC(".maps");

INLINE void move_begins(uint64_t addr, uint64_t entry)
{
	/*
	 * how x86-64 writes a page number into an entry that is not present: inverted, 14 bits up,
	 * 5 of the type above it
	 */
	uint64_t pfn = ((~entry << 5) >> 14) & PFN_MASK, at = index_of(pfn);
	struct pages_part *part = part_of(pfn);
	if (!part || at >= pages_part_len || !part->v[at])
		return;
	struct move_key key = { .addr = addr, .tid = (uint32_t)bpf_get_current_pid_tgid() };
	if (bpf_map_update_elem(&pages_moves, &key, &pfn, BPF_ANY))
		count(WIRE_PAGES_COUNT_MOVES_FULL, 1);
}

struct move {
	struct pages_part *from, *to;
	uint64_t from_at, to_at;
};

INLINE void move_word(struct move *move, uint64_t from_at, uint64_t to_at)
{
	uint32_t owner = move->from->v[from_at], was = move->to->v[to_at];
	if (!owner || was == (owner | WIRE_PAGES_MOVED))
		return;
	if (was)
		add(was, -1);
	owner |= WIRE_PAGES_MOVED;
	move->to->v[to_at] = owner;
	add(owner, 1);
	count(WIRE_PAGES_COUNT_MOVED, 1);
}

static long move_next(uint32_t i, struct move *move)
{
	uint64_t from_at = move->from_at + i, to_at = move->to_at + i;
	OPAQUE(from_at);
	OPAQUE(to_at);
	if (from_at >= pages_part_len || to_at >= pages_part_len)
		return 1;
	move_word(move, from_at, to_at);
	return 0;
}

INLINE void move_ends(uint64_t addr, uint64_t entry, uint32_t pages)
{
	struct move_key key = { .addr = addr, .tid = (uint32_t)bpf_get_current_pid_tgid() };
	uint64_t *known = bpf_map_lookup_elem(&pages_moves, &key);
	if (!known)
		return;
	uint64_t from = *known, to = (entry >> 12) & PFN_MASK;
	bpf_map_delete_elem(&pages_moves, &key);
	struct move move = { .from = part_of(from),
			     .to = part_of(to),
			     .from_at = index_of(from),
			     .to_at = index_of(to) };
	if (from == to || !move.from || !move.to)
		return;
	bpf_loop(pages, move_next, &move, 0);
}

SEC("raw_tp/set_migration_pte")
int pages_move_begins(uint64_t *ctx)
{
	move_begins(ctx[0], ctx[1]);
	return 0;
}

SEC("raw_tp/remove_migration_pte")
int pages_move_ends(uint64_t *ctx)
{
	move_ends(ctx[0], ctx[1], 1);
	return 0;
}

SEC("raw_tp/set_migration_pmd")
int pages_move_huge_begins(uint64_t *ctx)
{
	move_begins(ctx[0], ctx[1]);
	return 0;
}

SEC("raw_tp/remove_migration_pmd")
int pages_move_huge_ends(uint64_t *ctx)
{
	move_ends(ctx[0], ctx[1], 512);
	return 0;
}

#endif
