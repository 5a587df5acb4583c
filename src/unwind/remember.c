/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * remember.c - the stack that was just walked is put where it will be found, and compared, without
 * a walk.
 */
#include "unwind/memo.h"

/*
 * Where more stacks come in turn than there is room for, each is gone when it comes again. Then the
 * next time round only one in some goes in, so that most of what is there stays: a part of them is
 * found, and the others cost no more than their walk.
 */
#define SPARSE_SHARE 8 /* one in so many */
#define FOUND_SHARE 4  /* so few of those that went in were found */

static void area_round(struct unwind_thread *t)
{
	t->crowded = 1;
	t->lap = t->area_end = t->lap + t->area_units;
	t->sparse = !t->sparse && t->found < t->taken / FOUND_SHARE;
	t->taken = t->found = 0;
}

/* Is the stack that was just walked to stay? */
static int is_taken(const struct unwind_thread *t)
{
	return !t->sparse || (uint32_t)t->stats.misses * 0x9e3779b9u < UINT32_MAX / SPARSE_SHARE;
}

/* Room for @bytes: where they begin. */
static uint32_t area_take(struct unwind_thread *t, uint64_t bytes)
{
	uint32_t units = (uint32_t)((bytes + AREA_UNIT - 1) / AREA_UNIT);

	if (t->area_end - t->lap + units > t->area_units)
		area_round(t);
	uint32_t place = t->area_end;
	t->area_end += units;
	if (t->area_end - t->oldest > t->area_units)
		t->oldest = t->area_end - t->area_units;
	return place;
}

/* What was taken last, at @place, is not needed. */
static void area_return(struct unwind_thread *t, uint32_t place)
{
	t->area_end = place;
}

/* Bytes of so many words, whose number is made a multiple of 4. */
static uint64_t wide_bytes(uint64_t words)
{
	return (words + 3) / 4 * 4 * sizeof(uint64_t);
}

#define WORDS_UNFIT UINT32_MAX

/*
 * Write the last stack's words [@from, @to) with distances from @sp, padded to a multiple of 4 by
 * repeating the last one. Return how many; WORDS_UNFIT: they cannot be kept so.
 */
static UNWIND_HOT uint32_t words_put(const struct unwind_thread *t, uint64_t sp, uint32_t from,
				     uint32_t to, uint64_t *word)
{
	uint64_t base = sp - t->base, far = 0, bits = 0;
	uint32_t count = 0;

	for (uint32_t i = from; i < to; i++) {
		uint64_t off = t->word_off[i] - base;
		far |= off;
		bits |= t->word[i];
		word[count++] = t->word[i] << MEMO_OFF_BITS | off >> 3;
	}
	for (; count & 3; count++)
		word[count] = word[count - 1];
	if (far >> 3 > UINT16_MAX || far % 8 || bits >> (64 - MEMO_OFF_BITS))
		return WORDS_UNFIT;
	return count;
}

/* The place of @link in the table; UINT32_MAX: there is no room for it. */
#define LINK_PROBES 16

static uint32_t link_place(struct unwind_thread *t, uint64_t link)
{
	uint32_t mask = (uint32_t)((1ull << (64 - t->link_shift)) - 1);
	uint32_t at = (uint32_t)(link * 0x9e3779b97f4a7c15ULL >> t->link_shift);

	for (unsigned i = 0; i < LINK_PROBES; i++, at = (at + 1) & mask) {
		if (t->link[at] == link)
			return at;
		if (!t->link[at]) {
			t->link[at] = link;
			return at;
		}
	}
	t->link_full++;
	return UINT32_MAX;
}

/*
 * Write the last stack's words [@from, @to) packed. Return 1, in *@top what their steps count from
 * and in *@more what kinds there are; 0: they cannot be kept so.
 */
static UNWIND_HOT int links_put(struct unwind_thread *t, uint64_t sp, uint32_t from, uint32_t to,
				uint16_t *link, uint32_t *top, uint16_t *more)
{
	uint64_t at = t->word_off[from ? from - 1 : 0];
	uint64_t distance = at + t->base - sp;

	if (distance > UINT32_MAX || distance % 8)
		return 0;
	uint64_t relatives = 0;
	for (uint32_t i = from; i < to; i++) {
		uint64_t step = at - t->word_off[i], value = t->word[i], relative, place;

		at = t->word_off[i];
		relative = value - t->stack_lo < t->stack_hi - t->stack_lo;
		if (relative)
			value -= t->base + at;
		if (step & ~(uint64_t)LINK_STEP ||
		    (uint64_t)((int64_t)(value << MEMO_OFF_BITS) >> MEMO_OFF_BITS) != value)
			return 0;
		relatives |= relative;
		value = value << MEMO_OFF_BITS | step | relative;
		if (!value)
			return 0; /* looks like a free place */
		place = link_place(t, value);
		if (place == UINT32_MAX)
			return 0;
		*link++ = (uint16_t)place;
	}
	*top = (uint32_t)distance;
	*more = relatives ? MEMO_RELATIVE : 0;
	return 1;
}

/*
 * Fewer words than these are not worth sharing; so many remain with each stack, as the next one
 * differs there.
 */
#define OUTER_MIN 16
#define OUTER_REST 16
#define OUTER_REST_MAX 64

/*
 * Let what the last stack has in common with others stand in the area: of the @joined frames that
 * it has in common with the one before, and all words before @near, whatever they are. Return how
 * many of its words stand there; 0: none.
 */
static uint32_t share_outer(struct unwind_thread *t, uint32_t words, uint32_t joined, uint32_t near)
{
	uint32_t outer, frames = joined;

	if (t->outer_frames) {
		outer = t->frame[t->outer_frames - 1].words & FRAME_WORDS;
		if (outer >= near && words - outer <= OUTER_REST_MAX &&
		    t->area_end - t->outer < t->area_units / 2)
			return outer;
	}
	while (frames && (t->frame[frames - 1].words & FRAME_WORDS) + OUTER_REST > words)
		frames--;
	t->outer_frames = 0;
	outer = frames ? t->frame[frames - 1].words & FRAME_WORDS : 0;
	while (outer < near)
		outer = t->frame[frames++].words & FRAME_WORDS;
	if (outer < OUTER_MIN && !near)
		return 0;
	/* in one piece, or in as many as frames of half a megabyte make of it */
	uint32_t at = AREA_NONE;
	for (uint32_t from = 0, end; from < outer; from = end) {
		uint32_t next = at;
		for (end = from + 1; end < outer; end++)
			if (t->word_off[from] - t->word_off[end] > UINT16_MAX * 8u)
				break;
		at = area_take(t, sizeof(struct memo_outer) + wide_bytes(end - from));
		struct memo_outer *to = area_at(t, at);
		to->sp = t->base + t->word_off[end - 1];
		to->next = next;
		to->count = words_put(t, to->sp, from, end, to->word);
		if (to->count == WORDS_UNFIT) {
			area_return(t, at);
			return 0;
		}
	}
	t->outer = at;
	t->outer_frames = frames;
	return outer;
}

/*
 * How many of the last stack's outermost words lie too far from @sp to be kept by their distance,
 * beyond a frame of half a megabyte: their distances have to count from somewhere else.
 */
static uint32_t far_words(const struct unwind_thread *t, uint64_t sp, uint32_t words)
{
	uint64_t limit = sp - t->base + UINT16_MAX * 8ull;
	uint32_t far = 0;

	while (far < words && t->word_off[far] > limit)
		far++;
	return far;
}

/*
 * Where the stack at hand and a remembered one differ first: the fork, and the word that the other
 * has there.
 */
struct difference {
	uint64_t addr;
	uint64_t word;
};

/* The innermost of @count words, whose distances count from @sp. */
static void words_differ(uint64_t sp, const uint64_t *word, uint32_t count, struct difference *d)
{
	for (uint32_t i = count; i-- > 0;) {
		uint64_t addr = sp + (uint16_t)word[i] * 8ull;
		if (word_at(addr) != word[i] >> MEMO_OFF_BITS) {
			*d = (struct difference){ addr, word[i] >> MEMO_OFF_BITS };
			return;
		}
	}
}

static void links_differ(const uint64_t *table, uint64_t at, const uint16_t *link, uint32_t count,
			 struct difference *d)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t e = table[link[i]], word;
		at -= e & LINK_STEP;
		word = (uint64_t)((int64_t)e >> MEMO_OFF_BITS) + (at & -(e & LINK_RELATIVE));
		if (word_at(at) != word)
			*d = (struct difference){ at, word };
	}
}

/*
 * All of @m's words up to the difference are the same as ours, and those further out are slots of a
 * stack that ended at our sp: they can be read. Return the fork, 0: none, or too far out; *@equal:
 * there is no difference.
 */
static uint32_t first_difference(struct unwind_thread *t, const struct unwind_regs *regs,
				 const struct memo *m, int needs_bp, uint64_t *word, int *equal)
{
	struct difference d = { 0, 0 };
	uint64_t distance;

	*equal = 0;
	if (needs_bp && m->head & MEMO_NEEDS_BP && m->bp != regs->bp) {
		*word = m->bp;
		return FORK_BP;
	}
	if (m->head & MEMO_PACKED)
		links_differ(t->link, regs->sp + m->top, (const uint16_t *)m->word,
			     m->head & MEMO_WORDS, &d);
	else
		words_differ(regs->sp, m->word, m->head & MEMO_WORDS, &d);
	for (uint32_t at = m->outer; !d.addr && at != AREA_NONE && at >= t->oldest;) {
		const struct memo_outer *outer = area_at(t, at);
		words_differ(outer->sp, outer->word, outer->count, &d);
		at = outer->next;
	}
	*equal = !d.addr;
	distance = (d.addr - regs->sp) / 8;
	if (*equal || distance >= FORK_MAX)
		return 0;
	*word = d.word;
	return (uint32_t)distance + 1;
}

/*
 * Let fork @id lead to @ref for @word: in its own way if that is free or its own, else in a dead
 * one, else in the oldest.
 */
static void child_put(struct unwind_thread *t, uint32_t id, uint64_t word, struct memo_ref ref)
{
	struct child_place p = child_place(t, id, word);
	struct memo_child *own = &p.first->way[p.way], *oldest = own, *old = child_of(t, id, word);

	if (old) {
		oldest = old;
	} else if (own->ref.rep >= t->oldest) {
		for (uint32_t i = 0; i < 2 * CHILD_WAYS; i++) {
			struct memo_child *c =
				i < CHILD_WAYS ? &p.first->way[i] : &p.second->way[i - CHILD_WAYS];
			if (c->ref.rep < oldest->ref.rep)
				oldest = c;
			if (oldest->ref.rep < t->oldest)
				break;
		}
	}
	*oldest = (struct memo_child){ p.tag, ref };
}

/* What leads the stack that was just walked on at @fork. */
static uint64_t way_of(const struct unwind_thread *t, const struct unwind_regs *regs, uint32_t fork,
		       int needs_bp)
{
	uint32_t i = t->frame[t->frame_count - 1].words & FRAME_WORDS;
	uint64_t off = regs->sp - t->base + (fork - 1) * 8ull;

	if (fork != FORK_BP) {
		while (i && t->word_off[i - 1] < off)
			i--;
		if (!i || t->word_off[i - 1] != off)
			return FORK_NONE;
	}
	return fork_word(regs, fork, needs_bp);
}

/* The register's fork stands before all others, the others from the innermost word outwards. */
static uint32_t fork_order(uint32_t fork)
{
	return fork == FORK_BP ? 0 : fork;
}

/* Put the stack at @at into @root's tree, which has others. */
static void tree_add(struct unwind_thread *t, struct memo_root *root,
		     const struct unwind_regs *regs, uint32_t at, int needs_bp)
{
	struct memo_ref *way[FORKS_MAX], leaf = { .rep = at };
	uint32_t n = 0, fork, k;
	uint64_t word;
	int equal;

	for (way[n++] = &root->ref; way[n - 1]->fork; n++) {
		struct memo_child *c;
		fork = way[n - 1]->fork;
		if (n == FORKS_MAX || (fork != FORK_BP && fork > root->ref.reach))
			return;
		c = child_of(t, way[n - 1]->id, way_of(t, regs, fork, needs_bp));
		if (!c)
			break;
		way[n] = &c->ref;
	}
	struct memo_ref *last = way[n - 1];
	fork = first_difference(t, regs, area_at(t, last->rep), needs_bp, &word, &equal);
	if (!fork && !equal)
		return;
	if (last->fork && (equal || fork_order(last->fork) <= fork_order(fork))) {
		/* where it could not go on it has one way more */
		uint32_t id = last->id;
		uint64_t ours = way_of(t, regs, last->fork, needs_bp);
		for (k = 0; k < n; k++)
			way[k]->rep = at;
		child_put(t, id, ours, leaf);
		return;
	}
	if (equal) {
		/* it has been there, but what it hung on is gone */
		for (k = 0; k < n; k++)
			way[k]->rep = at;
		return;
	}
	for (k = 0; way[k]->fork && fork_order(way[k]->fork) < fork_order(fork);)
		k++;
	if (way[k]->fork == fork)
		return; /* two words with one tag */
	struct memo_ref below = *way[k];
	uint32_t id = ++t->forks;
	for (uint32_t i = 0; i < k; i++)
		way[i]->rep = at;
	*way[k] = (struct memo_ref){ at, id, (uint16_t)fork, below.reach };
	below.reach = 0;
	child_put(t, id, word, below);
	child_put(t, id, way_of(t, regs, fork, needs_bp), leaf);
}

/*
 * The root of @regs, and whether it is a @fresh one: in either place the one whose stacks are all
 * forgotten, or older.
 */
static struct memo_root *take_root(struct unwind_thread *t, const struct unwind_regs *regs,
				   int *fresh)
{
	struct root_places place = roots_of(t, regs->ip, regs->sp);

	*fresh = 0;
	if (root_is(t, place.first, regs->ip, regs->sp))
		return place.first;
	if (root_is(t, place.second, regs->ip, regs->sp))
		return place.second;
	*fresh = 1;
	return place.first->ref.rep < t->oldest || place.first->ref.rep <= place.second->ref.rep
		       ? place.first
		       : place.second;
}

uint32_t unwind_remember(struct unwind_thread *t, const struct unwind_regs *regs, uint32_t joined)
{
	const struct last_frame *inner = &t->frame[t->frame_count - 1];
	uint32_t words = inner->words & FRAME_WORDS, packed, at, top = 0, count;
	uint16_t more = 0;
	int needs_bp = !!(inner->words & FRAME_NEEDS_BP), fresh;

	/* a stack that would push out many others is left to the join */
	if (!words || words * 8ull > (uint64_t)t->area_units * AREA_UNIT / 16)
		return AREA_NONE;
	uint32_t outer = share_outer(t, words, joined, far_words(t, regs->sp, words));
	count = words - outer;
	if (count > MEMO_WORDS - 3 || regs->ip >> 48)
		return AREA_NONE;
	struct memo *m = NULL;
	packed = t->area_end < t->wide_end ? 0 : MEMO_PACKED;
	if (packed) {
		at = area_take(t, sizeof(struct memo) + count * sizeof(uint16_t));
		m = area_at(t, at);
		if (!links_put(t, regs->sp, outer, words, (uint16_t *)m->word, &top, &more)) {
			area_return(t, at);
			packed = 0;
		}
	}
	if (!packed) {
		at = area_take(t, sizeof(struct memo) + wide_bytes(count));
		m = area_at(t, at);
		count = words_put(t, regs->sp, outer, words, m->word);
		if (count == WORDS_UNFIT) {
			area_return(t, at);
			return AREA_NONE;
		}
	}
	m->head = regs->ip << 16 | (needs_bp ? MEMO_NEEDS_BP : 0) | packed | count;
	m->sp = (uint32_t)(regs->sp - t->base);
	m->bp = regs->bp;
	m->node = inner->node;
	m->outer = outer ? t->outer : AREA_NONE;
	m->next = AREA_NONE;
	m->top = top;
	m->run = 0;
	m->more = more;

	if (!is_taken(t)) {
		area_return(t, at);
		return at;
	}
	t->taken++;
	struct memo_root *root = take_root(t, regs, &fresh);
	uint64_t reach = (t->base + t->word_off[0] - regs->sp) / 8 + 1;
	if (reach > FORK_MAX)
		reach = FORK_MAX;
	if (fresh) {
		*root = (struct memo_root){ .ip = regs->ip, .sp = regs->sp, .ref = { .rep = at } };
		expect_again(t, call_of(regs->ip, regs->sp), at);
	} else {
		tree_add(t, root, regs, at, needs_bp);
	}
	if (root->ref.reach < reach)
		root->ref.reach = (uint16_t)reach;
	return at;
}
