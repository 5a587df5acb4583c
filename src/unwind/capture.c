/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * capture.c - remembered whole stacks, proven by all their saved words; set-up of a thread's
 * memory.
 */
#include "unwind/capture.h"

#include "unwind/memo.h"

/*
 * All words as they were? Leaves at the first difference: a test fuses with its branch, gathering
 * bits does not.
 */
static UNWIND_INLINE int words_equal(uint64_t sp, const uint64_t *word, uint32_t count)
{
	const uint64_t *end = word + count;

	/* the hardware sees the pattern only after some lines */
	__builtin_prefetch(word + 8);
	__builtin_prefetch(word + 16);
	for (; word < end; word += 4) {
		uint64_t a = word[0], b = word[1], c = word[2], d = word[3];
		if (word_at(sp + (uint16_t)a * 8ull) != a >> MEMO_OFF_BITS ||
		    word_at(sp + (uint16_t)b * 8ull) != b >> MEMO_OFF_BITS ||
		    word_at(sp + (uint16_t)c * 8ull) != c >> MEMO_OFF_BITS ||
		    word_at(sp + (uint16_t)d * 8ull) != d >> MEMO_OFF_BITS)
			return 0;
	}
	return 1;
}

/* The same where they are packed, from @at on inwards. */
static UNWIND_INLINE int links_equal(const uint64_t *table, uint64_t at, const uint16_t *link,
				     uint32_t count)
{
	for (const uint16_t *end = link + count; link < end; link++) {
		uint64_t e = table[*link];
		at -= e & LINK_STEP;
		if (word_at(at) !=
		    (uint64_t)((int64_t)e >> MEMO_OFF_BITS) + (at & -(e & LINK_RELATIVE)))
			return 0;
	}
	return 1;
}

/*
 * And where none of them is relative, as in code without frame pointers: half the work for a word.
 */
static UNWIND_INLINE int link_equal(uint64_t e, uint64_t at)
{
	return word_at(at) == (uint64_t)((int64_t)e >> MEMO_OFF_BITS);
}

static UNWIND_INLINE int plain_links_equal(const uint64_t *table, uint64_t at, const uint16_t *link,
					   uint32_t count)
{
	const uint16_t *end = link + (count & ~3u);

	for (; link < end; link += 4) {
		uint64_t a = table[link[0]], b = table[link[1]], c = table[link[2]],
			 d = table[link[3]];
		uint64_t to_a = at - (a & LINK_STEP), to_b = to_a - (b & LINK_STEP);
		uint64_t to_c = to_b - (c & LINK_STEP);
		at = to_c - (d & LINK_STEP);
		if (!link_equal(a, to_a) || !link_equal(b, to_b) || !link_equal(c, to_c) ||
		    !link_equal(d, at))
			return 0;
	}
	for (end += count & 3; link < end; link++) {
		uint64_t e = table[*link];
		at -= e & LINK_STEP;
		if (!link_equal(e, at))
			return 0;
	}
	return 1;
}

/* Of a thread's memory, what frames of deep stacks leave to those that are remembered. */
#define AREA_SHARE_MIN 32
#define WIDE_SHARE 8     /* what is filled with stacks that are not packed */
#define DEEPEN_MAX 32768 /* frames; below UNWIND_FRAMES_MAX, where a walk ends */

/*
 * What is left after the tables: the last stack's @frames and its words, then the circular area,
 * empty.
 */
static void divide_rest(struct unwind_thread *t, uint32_t frames)
{
	uint8_t *at = (uint8_t *)(t->repeated + t->repeated_mask + 1);

	t->frame_max = frames;
	t->frame = (struct last_frame *)at;
	at += t->frame_max * sizeof(*t->frame);
	t->word_max = t->frame_max * 3 / 2;
	t->word = (uint64_t *)at;
	at += t->word_max * sizeof(*t->word);
	t->word_off = (uint32_t *)at;
	at += t->word_max * sizeof(*t->word_off);
	t->area = (uint8_t *)(((uintptr_t)at + 63) / 64 * 64);
	t->area_units = (uint32_t)((uint64_t)((uint8_t *)t + t->bytes - t->area) / AREA_UNIT);
	t->lap = t->oldest = t->area_end;
	t->wide_end = t->area_end + t->area_units / WIDE_SHARE;
}

int unwind_deepen(struct unwind_thread *t)
{
	uint64_t more = t->frame_max * (sizeof(*t->frame) + 3 * sizeof(*t->word) / 2 +
					3 * sizeof(*t->word_off) / 2);

	if (t->frame_max * 2 > DEEPEN_MAX ||
	    (uint64_t)t->area_units * AREA_UNIT < more + t->bytes / AREA_SHARE_MIN)
		return 0;
	unwind_forget(t);
	divide_rest(t, t->frame_max * 2);
	return 1;
}

/* Shares of the memory, all from a power of two; see the sizes in wire/heap_layout.h. */
static void divide(struct unwind_thread *t)
{
	uint8_t *at = (uint8_t *)t + (sizeof(*t) + 63) / 64 * 64;
	uint64_t unit = 32768, memos;

	while (unit * 2 <= t->bytes && unit < 1u << 20)
		unit *= 2;
	/* the words of so many stacks have to find room as well, and deep ones in what is small */
	memos = t->bytes >= 3u << 20 ? unit : t->bytes > 1u << 20 ? unit / 2 : unit / 4;
	t->rule_count = (uint32_t)(unit / 256);
	t->rule_shift = 64 - (uint32_t)__builtin_ctzll(t->rule_count);
	t->rules = (struct cached_rule *)at;
	at += t->rule_count * sizeof(*t->rules);
	t->rule_since = (uint32_t *)at;
	at += t->rule_count * sizeof(*t->rule_since);
	at = (uint8_t *)(((uintptr_t)at + 63) / 64 * 64);
	t->root_mask = (uint32_t)(memos / 128) - 1;
	t->root = (struct memo_root *)at;
	at += (t->root_mask + 1ull) * sizeof(*t->root);
	/* where there is room, two for each stack of 40 frames that finds a place: tree and all */
	t->line_mask = (uint32_t)(memos / (t->bytes > 4u << 20 ? 64 : 128)) - 1;
	t->line = (struct memo_line *)at;
	at += (t->line_mask + 1ull) * sizeof(*t->line);
	t->link_shift = 64 - (uint32_t)__builtin_ctzll(memos / 32);
	t->link = (uint64_t *)at;
	at += memos / 32 * sizeof(*t->link);
	t->after_mask = (uint32_t)(memos / 64) - 1;
	t->after = (struct memo_after *)at;
	at += (t->after_mask + 1ull) * sizeof(*t->after);
	t->repeated_mask = (uint32_t)(memos / 256) - 1;
	t->repeated = (uint64_t *)at;
	divide_rest(t, (uint32_t)(unit / 512));
}

static __attribute__((noinline)) void refresh(struct unwind_thread *t)
{
	unwind_forget(t);
	t->seen_gen = __atomic_load_n(t->module_gen, __ATOMIC_ACQUIRE);
	t->seen_epoch = __atomic_load_n(t->process_epoch, __ATOMIC_ACQUIRE);
	t->reused_lo = __atomic_load_n(&t->process->reused_lo, __ATOMIC_ACQUIRE);
	t->reused_bytes = __atomic_load_n(&t->process->reused_hi, __ATOMIC_ACQUIRE) - t->reused_lo;
	if (__atomic_exchange_n(&t->doubt, 0, __ATOMIC_ACQ_REL))
		unwind_stack_doubt(t);
	if (t->busy) {
		/*
		 * a signal handler left: perhaps in the middle of unwind_deepen(), or of a look at
		 * the blocks
		 */
		divide(t);
		if (t->reading)
			unwind_leave_blocks(t);
	}
	t->busy = 0;
}

/*
 * The stack at @place, if that is the one that @regs stand for; else NULL. One copy of it: the
 * program pushes code out between captures, and several looks may be needed for one.
 */
static UNWIND_APART const struct memo *holds(const struct unwind_thread *t, uint32_t place,
					     const struct unwind_regs *regs)
{
	if (place < t->oldest)
		return NULL;
	const struct memo *m = area_at(t, place);
	uint64_t head = m->head;

	if (head >> 16 != regs->ip || t->base + m->sp != regs->sp ||
	    (head & MEMO_NEEDS_BP && m->bp != regs->bp))
		return NULL;
	if (head & MEMO_PACKED) {
		const uint16_t *link = (const uint16_t *)m->word;
		uint64_t top = regs->sp + m->top;
		if (!(m->more & MEMO_RELATIVE
			      ? links_equal(t->link, top, link, head & MEMO_WORDS)
			      : plain_links_equal(t->link, top, link, head & MEMO_WORDS)))
			return NULL;
	} else if (!words_equal(regs->sp, m->word, head & MEMO_WORDS)) {
		return NULL;
	}
	for (uint32_t at = m->outer; at != AREA_NONE;) {
		if (at < t->oldest)
			return NULL;
		const struct memo_outer *outer = area_at(t, at);
		if (!words_equal(outer->sp, outer->word, outer->count))
			return NULL;
		at = outer->next;
	}
	return m;
}

/* What came after two stacks: where that stands, and how it is known. */
static UNWIND_INLINE uint64_t after_hash(uint32_t first, uint32_t second)
{
	return ((uint64_t)first << 32 | second) * 0x9e3779b97f4a7c15ULL;
}

static UNWIND_INLINE struct memo_after *after_of(const struct unwind_thread *t, uint32_t first,
						 uint32_t second)
{
	return &t->after[after_hash(first, second) >> 24 & t->after_mask];
}

static UNWIND_INLINE uint32_t after_tag(uint32_t first, uint32_t second)
{
	return (uint32_t)(after_hash(first, second) >> 32) ^ first;
}

/* Among all that is remembered, not only what answers at once. */
static UNWIND_APART uint32_t capture_any(struct unwind_thread *t, const struct unwind_regs *regs,
					 uint64_t call)
{
	struct root_places places = roots_of(t, regs->ip, regs->sp);
	struct memo_root *root = places.first;

	__builtin_prefetch(places.second);
	if (!root_is(t, root, regs->ip, regs->sp)) {
		root = places.second;
		if (!root_is(t, root, regs->ip, regs->sp))
			return unwind_walk(t, regs);
	}

	const struct memo_ref *ref = &root->ref;
	uint32_t reach = ref->reach;
	for (unsigned forks = 0; ref->fork; forks++) {
		const struct memo_child *child;
		if (ref->fork != FORK_BP && ref->fork > reach)
			return unwind_walk(t, regs);
		__builtin_prefetch(line_of(t, ref->id));
		child = child_of(t, ref->id, fork_word(regs, ref->fork, 1));
		if (!child)
			child = child_of(t, ref->id, FORK_NONE);
		if (!child || forks == FORKS_MAX)
			return unwind_walk(t, regs);
		ref = &child->ref;
	}
	uint32_t found = ref->rep;
	const struct memo *m = holds(t, found, regs);
	if (!m)
		return unwind_walk(t, regs);
	if (root->last == found)
		expect_again(t, call, found);
	root->last = found;
	unwind_follows(t, found, FOLLOWS_FOUND);
	return m->node;
}

/*
 * Is it another one's turn, after @again times more of a stack that came @run times more the last
 * time? If not now, not soon.
 */
static UNWIND_INLINE int is_turn(uint32_t again, uint32_t run)
{
	return again - run <= 1;
}

/*
 * Programs do again what they did: the stack that came after this one the last time is asked for
 * first. Where different ones came the last two decide. What they say is a guess, which the whole
 * stack has to bear out. One that comes several times in a row is one here, see repeats().
 */
void unwind_follows(struct unwind_thread *t, uint32_t place, enum follows how)
{
	uint32_t before = t->before, next = AREA_NONE, turn = 0;

	t->history = t->history << 1 | (how == FOLLOWS_EXPECTED);
	if (before >= t->oldest && place != AREA_NONE) {
		struct memo *m = area_at(t, before);
		uint16_t run = (uint16_t)(t->again < UINT16_MAX ? t->again : UINT16_MAX);
		if (m->run != run)
			m->run = run;
		if (m->next != place) {
			if (m->next >= t->oldest)
				m->more |= MEMO_MANY;
			m->next = place;
		}
		if (t->history && m->more & MEMO_MANY)
			*after_of(t, t->before2, before) =
				(struct memo_after){ after_tag(t->before2, before), place };
	}
	t->before2 = before;
	t->before = place;
	t->again = 0;
	if (place != AREA_NONE) {
		struct memo *m = area_at(t, place);
		next = m->next;
		turn = is_turn(0, m->run);
		if (how != FOLLOWS_WALKED && !(m->more & MEMO_FOUND)) {
			m->more |= MEMO_FOUND;
			t->found++;
		}
		if (t->history) {
			if (m->more & MEMO_MANY) {
				const struct memo_after *after = after_of(t, before, place);
				if (after->tag == after_tag(before, place) &&
				    after->place >= t->oldest)
					next = after->place;
			}
			if (next >= t->oldest) {
				const uint8_t *at = area_at(t, next);
				__builtin_prefetch(at);
				__builtin_prefetch(at + 64);
			}
		}
	}
	if (next < t->oldest)
		next = place;
	t->expected = turn ? next : place;
	t->other = turn ? place : next;
}

/* The last stack again. */
static UNWIND_INLINE void repeats(struct unwind_thread *t, const struct memo *m)
{
	uint32_t again = t->again + 1, expected = t->expected, other = t->other;

	t->again = again;
	if (is_turn(again, m->run) != (expected != t->before)) {
		t->expected = other;
		t->other = expected;
	}
}

UNWIND_HOT uint32_t unwind_capture(struct unwind_thread *t, const struct unwind_regs *regs)
{
	if (unlikely((__atomic_load_n(t->process_epoch, __ATOMIC_RELAXED) ^ t->seen_epoch) |
		     ((__atomic_load_n(t->module_gen, __ATOMIC_RELAXED) ^ t->seen_gen) | t->busy)))
		refresh(t);

	uint32_t place = t->expected;
	const struct memo *m = holds(t, place, regs);
	if (!m && t->other != place) {
		place = t->other;
		m = holds(t, place, regs);
	}
	if (likely(m)) {
		if (place == t->before)
			repeats(t, m);
		else if (likely(place < t->area_end))
			unwind_follows(t, place, FOLLOWS_EXPECTED);
		return m->node;
	}
	uint64_t call = call_of(regs->ip, regs->sp);
	uint64_t *repeated = repeated_at(t, call);
	if (*repeated >> 32 == (uint32_t)(call >> 12)) {
		place = (uint32_t)*repeated;
		m = holds(t, place, regs);
		if (likely(m)) {
			unwind_follows(t, place, FOLLOWS_FOUND);
			return m->node;
		}
		*repeated = AREA_NONE;
	}
	return capture_any(t, regs, call);
}

UNWIND_HOT void unwind_expect(const struct unwind_thread *t, uint64_t ip, uint64_t sp)
{
	struct root_places root = roots_of(t, ip, sp);

	__builtin_prefetch(repeated_at(t, call_of(ip, sp)));
	__builtin_prefetch(root.first);
	__builtin_prefetch(root.second);
}

static void clear(void *at, uint64_t bytes)
{
	uint64_t *word = at;
	for (uint64_t i = 0; i < bytes / 8; i++)
		word[i] = 0;
}

/* A zeroed place is an old one. */
#define AREA_BEGIN (AREA_NONE + 1)

void unwind_forget(struct unwind_thread *t)
{
	t->epoch++;
	t->salt = (uint64_t)t->epoch << 48;
	if (!(t->epoch & 0xffff)) /* keys of 65536 forgettings ago would look fresh */
		clear(t->rules, t->rule_count * sizeof(*t->rules));
	t->oldest = t->area_end;
	t->wide_end = t->area_end + t->area_units / WIDE_SHARE;
	t->expected = t->other = t->before = t->before2 = AREA_NONE;
	t->again = 0;
	t->history = UINT32_MAX;
	t->frame_count = 0;
	t->outer_frames = 0;
	t->words_hi = 0;
	if (t->area_end < AREA_END_MAX)
		return;
	/* places would begin anew, and what is forgotten would seem to be there */
	clear(t->root, (t->root_mask + 1ull) * sizeof(*t->root));
	clear(t->repeated, (t->repeated_mask + 1ull) * sizeof(*t->repeated));
	clear(t->line, (t->line_mask + 1ull) * sizeof(*t->line));
	clear(t->after, (t->after_mask + 1ull) * sizeof(*t->after));
	t->area_end = t->lap = t->oldest = AREA_BEGIN;
	t->wide_end = t->area_end + t->area_units / WIDE_SHARE;
}

void unwind_forget_links(struct unwind_thread *t)
{
	unwind_forget(t);
	clear(t->link, sizeof(*t->link) << (64 - t->link_shift));
	t->link_full = 0;
	t->link_patience += t->link_patience + 1; /* where that is of no use it becomes rare */
}

struct unwind_thread *unwind_thread_init(void *memory, uint64_t bytes,
					 struct unwind_process *process, uint64_t stack_lo,
					 uint64_t stack_hi)
{
	struct unwind_thread *t = memory;

	if (t->magic != THREAD_MAGIC || t->bytes != bytes || t->process != process) {
		if (t->magic) /* other contents than ours, or of other times */
			clear(t, bytes / 8 * 8);
		t->bytes = bytes;
		t->area_end = AREA_BEGIN;
		divide(t);
		t->link_full = t->forks = 0;
		t->link_patience = 1u << (64 - t->link_shift) >> 4;
		t->magic = THREAD_MAGIC;
		t->process = process;
		t->module_gen = process->module_gen;
		t->process_epoch = &process->epoch;
	} else {
		divide(t); /* the thread before may have been deep in itself */
	}
	t->stack_lo = stack_lo;
	t->stack_hi = t->used_lo = t->trust_hi = stack_hi;
	t->doubt = t->careful = t->verify = t->keyed = t->crowded = 0;
	t->checked_hi = UINT64_MAX;
	t->base = stack_hi - (1ull << 32);
	t->taken = t->found = t->sparse = 0;
	t->stats = (struct unwind_stats){ 0 };
	refresh(t);
	return t;
}

void unwind_stack_doubt(struct unwind_thread *t)
{
	t->used_lo = t->trust_hi = t->stack_hi;
	t->verify = 1;
}

void unwind_stack_ask(struct unwind_thread *t, uint64_t sp)
{
	struct unwind_process *p = t->process;
	uint64_t page = ((sp - 1) | 4095) + 1;

	t->careful = 1;
	t->checked_hi = page;
	if (sp < t->stack_lo || sp >= t->stack_hi || !p->probe)
		return;
	for (; page < t->words_hi; page += 4096) {
		if (p->probe(p->ctx, page))
			continue;
		unwind_forget(t);
		unwind_stack_doubt(t);
		return;
	}
	t->checked_hi = page;
	/* what was closed may be open again, and stacks are whole */
	if (t->trust_hi < t->stack_hi && p->probe(p->ctx, t->trust_hi)) {
		unwind_forget(t);
		unwind_stack_doubt(t);
		t->checked_hi = ((sp - 1) | 4095) + 1;
	}
}

int unwind_stack_changed(struct unwind_thread *t, uint64_t lo, uint64_t hi)
{
	if (t->magic != THREAD_MAGIC || hi <= t->stack_lo || lo >= t->stack_hi)
		return 0;
	__atomic_store_n(&t->careful, 1, __ATOMIC_RELAXED);
	/* a guard zone where no code ran yet: looked at if it ever comes there */
	if (hi <= __atomic_load_n(&t->used_lo, __ATOMIC_RELAXED))
		return 0;
	__atomic_store_n(&t->doubt, 1, __ATOMIC_RELEASE);
	return 1;
}

void unwind_stack_keyed(struct unwind_thread *t)
{
	if (t->magic == THREAD_MAGIC)
		__atomic_store_n(&t->keyed, 1, __ATOMIC_RELEASE);
}

int unwind_crowded(const struct unwind_thread *t)
{
	return t->crowded != 0;
}

void unwind_thread_stats(const struct unwind_thread *thread, struct unwind_stats *stats)
{
	*stats = thread->stats;
}
