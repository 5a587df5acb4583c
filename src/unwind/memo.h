/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * memo.h - where remembered stacks are found: shared by those who look (capture.c) and who
 * remembers (remember.c).
 */
#ifndef UNWIND_MEMO_H
#define UNWIND_MEMO_H

#include "unwind/state.h"

/*
 * The two places where the root of (ip, sp) may stand: one in a page that it shares with its
 * neighbours on the stack, which are asked for at about the same time, the other anywhere.
 */
struct root_places {
	struct memo_root *first, *second;
};

static UNWIND_INLINE struct root_places roots_of(const struct unwind_thread *t, uint64_t ip,
						 uint64_t sp)
{
	uint64_t h = (ip ^ sp << 16) * 0x9e3779b97f4a7c15ULL;
	uint64_t page = (sp >> 8) * 0x9e3779b97f4a7c15ULL >> 40;
	return (struct root_places){ &t->root[(page << 6 | (h >> 40 & 63)) & t->root_mask],
				     &t->root[h >> 22 & t->root_mask] };
}

static UNWIND_INLINE int root_is(const struct unwind_thread *t, const struct memo_root *root,
				 uint64_t ip, uint64_t sp)
{
	return root->ip == ip && root->sp == sp && root->ref.rep >= t->oldest;
}

/*
 * The word that tells which way to go on at a fork. Where a stack does not hang on it (a saved rbp
 * that no frame further out needs, or the register itself) anything may stand there: those have one
 * way in common, which is tried last.
 */
#define FORK_NONE 1u

static UNWIND_INLINE uint64_t fork_word(const struct unwind_regs *regs, uint32_t fork, int needs_bp)
{
	if (fork == FORK_BP)
		return needs_bp ? regs->bp : FORK_NONE;
	return word_at(regs->sp + (fork - 1) * 8ull);
}

/* Where the child of fork @id for @word may be. */
struct child_place {
	struct memo_line *first, *second;
	uint32_t tag, way;
};

static UNWIND_INLINE struct memo_line *line_of(const struct unwind_thread *t, uint32_t id)
{
	return &t->line[(id * 0x9e3779b97f4a7c15ULL >> 32) & t->line_mask];
}

static UNWIND_INLINE struct child_place child_place(const struct unwind_thread *t, uint32_t id,
						    uint64_t word)
{
	uint64_t h = (word ^ (uint64_t)id << 32 ^ id) * 0x9e3779b97f4a7c15ULL;

	h ^= h >> 31;
	h *= 0xbf58476d1ce4e5b9ULL;
	return (struct child_place){ line_of(t, id), &t->line[h >> 2 & t->line_mask],
				     (uint32_t)(h >> 32), (uint32_t)h % CHILD_WAYS };
}

static UNWIND_INLINE struct memo_child *child_in(const struct unwind_thread *t,
						 struct memo_line *line, uint32_t tag, uint32_t way)
{
	for (uint32_t i = 0; i < CHILD_WAYS; i++) {
		struct memo_child *c = &line->way[(way + i) % CHILD_WAYS];
		if (c->tag == tag && c->ref.rep >= t->oldest)
			return c;
	}
	return NULL;
}

/* The child of fork @id for @word; NULL where there is none. */
static UNWIND_INLINE struct memo_child *child_of(const struct unwind_thread *t, uint32_t id,
						 uint64_t word)
{
	struct child_place p = child_place(t, id, word);
	struct memo_child *c = child_in(t, p.first, p.tag, p.way);

	return c ? c : child_in(t, p.second, p.tag, p.way);
}

/*
 * (ip, sp) as the table of repeated stacks knows it: the low bits name the entry, 32 above the
 * lowest twelve stand in it.
 */
static UNWIND_INLINE uint64_t call_of(uint64_t ip, uint64_t sp)
{
	return ip ^ sp >> 4;
}

static UNWIND_INLINE uint64_t *repeated_at(const struct unwind_thread *t, uint64_t call)
{
	return &t->repeated[call & t->repeated_mask];
}

/* Let the stack at @place answer at once the next time at @call. */
static UNWIND_INLINE void expect_again(struct unwind_thread *t, uint64_t call, uint32_t place)
{
	*repeated_at(t, call) = call >> 12 << 32 | place;
}

/* What begins at @place, which is not gone. */
static UNWIND_INLINE void *area_at(const struct unwind_thread *t, uint32_t place)
{
	uint32_t unit = place - t->lap;

	if (place < t->lap)
		unit += t->area_units;
	return t->area + (uint64_t)unit * AREA_UNIT;
}

#endif
