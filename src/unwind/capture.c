/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* capture.c - remembered whole stacks, proven by all their saved words; set-up of a thread's memory. */
#include "unwind/capture.h"

#include "unwind/state.h"

static const uint64_t odd[SELECTORS_MAX] = {
	0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
	0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53, 0x87c37b91114253d5, 0x4cf5ad432745937f,
	0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3,
	0x1d8e4e27c47d124f,
};

/*
 * The two places where the root of (ip, sp) may stand: one in a page that it shares with its neighbours on the stack, which
 * are asked for at about the same time, the other anywhere.
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
	return root->ip == ip && root->sp == sp && root->serial >= t->first_serial;
}

/* The hash of the stack that stands at the root's (ip, sp) now, its set, and the way where it is looked for first. */
struct place_in_memo {
	uint32_t hash;
	uint32_t set, way;
};

static UNWIND_INLINE struct place_in_memo place_of(const struct unwind_thread *t,
						   const struct memo_root *root)
{
	uint64_t h = 0;

	for (unsigned i = 0; i < root->selectors; i++)
		h += word_at(root->sp + root->selector[i] * 8ull) * odd[i];
	h ^= h >> 31;
	h *= 0x9e3779b97f4a7c15ULL;
	uint32_t slot = (uint32_t)root->serial + (uint32_t)(h >> 8);
	h += root->serial * 0xd6e8feb86659fd93ULL;
	return (struct place_in_memo){ (uint32_t)(h >> 32), slot / MEMO_WAYS & t->memo_mask,
				       slot % MEMO_WAYS };
}

/* (ip, sp) as the table of repeated stacks knows it: the low bits name the entry, 32 above the lowest twelve stand in it. */
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

/* All words as they were? Leaves at the first difference: a test fuses with its branch, gathering bits does not. */
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

/* Of a thread's memory, what frames of deep stacks leave to those that are remembered. */
#define AREA_SHARE_MIN 32
#define DEEPEN_MAX 32768 /* frames; below UNWIND_FRAMES_MAX, where a walk ends */

/* What is left after the tables: the last stack's @frames and its words, then the circular area, empty. */
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
	/* the words of so many stacks have to find room as well */
	memos = t->bytes < unit * 2 ? unit / 2 : unit;
	t->rule_count = (uint32_t)(unit / 256);
	t->rule_shift = 64 - (uint32_t)__builtin_ctzll(t->rule_count);
	t->rules = (struct cached_rule *)at;
	at += t->rule_count * sizeof(*t->rules);
	t->rule_since = (uint32_t *)at;
	at += t->rule_count * sizeof(*t->rule_since);
	t->root_mask = (uint32_t)(memos / 256) - 1;
	t->root = (struct memo_root *)at;
	at += (t->root_mask + 1ull) * sizeof(*t->root);
	t->memo_mask = (uint32_t)(memos / 1024) - 1;
	t->memo = (struct memo_set *)at;
	at += (t->memo_mask + 1ull) * sizeof(*t->memo);
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
		/* a signal handler left: perhaps in the middle of unwind_deepen(), or of a look at the blocks */
		divide(t);
		if (t->reading)
			unwind_leave_blocks(t);
	}
	t->busy = 0;
}

/*
 * The stack at @place, if that is the one that @regs stand for; else NULL. One copy of it: the program pushes code out between
 * captures, and several looks may be needed for one.
 */
static UNWIND_APART const struct memo *holds(const struct unwind_thread *t, uint32_t place,
					     const struct unwind_regs *regs)
{
	if (place < t->oldest)
		return NULL;
	const struct memo *m = area_at(t, place);
	uint64_t head = m->head;

	if (head >> 16 != regs->ip || m->sp != regs->sp ||
	    (head & MEMO_NEEDS_BP && m->bp != regs->bp) ||
	    !words_equal(regs->sp, m->word, head & MEMO_WORDS))
		return NULL;
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

	struct place_in_memo at = place_of(t, root);
	uint64_t *slot = t->memo[at.set].slot;
	for (unsigned i = 0; i < MEMO_WAYS; i++) {
		unsigned way = (at.way + i) % MEMO_WAYS;
		uint64_t found = slot[way];
		const struct memo *m;
		if (found >> 32 != at.hash || !(m = holds(t, (uint32_t)found, regs)))
			continue;
		if (i) {
			/* what was asked for last stands where it is looked for first */
			slot[way] = slot[at.way];
			slot[at.way] = found;
		} else {
			if (root->last == (uint32_t)found)
				expect_again(t, call, (uint32_t)found);
			root->last = (uint32_t)found;
		}
		return m->node;
	}
	return unwind_walk(t, regs);
}

UNWIND_HOT uint32_t unwind_capture(struct unwind_thread *t, const struct unwind_regs *regs)
{
	if (unlikely((__atomic_load_n(t->process_epoch, __ATOMIC_RELAXED) ^ t->seen_epoch) |
		     ((__atomic_load_n(t->module_gen, __ATOMIC_RELAXED) ^ t->seen_gen) | t->busy)))
		refresh(t);

	uint64_t call = call_of(regs->ip, regs->sp);
	uint64_t *repeated = repeated_at(t, call);
	if (*repeated >> 32 == (uint32_t)(call >> 12)) {
		const struct memo *m = holds(t, (uint32_t)*repeated, regs);
		if (likely(m))
			return m->node;
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

/* Whether the word at sp + @off * 8 is a slot of the last stack. */
static int is_slot(const struct unwind_thread *t, uint64_t sp, uint16_t off, uint32_t words)
{
	uint64_t at = sp + off * 8ull - t->base;
	uint32_t from = 0;

	/* they go down from frame to frame, but for odd ones: halving finds most, and nothing wrong */
	for (uint32_t n = words; n > 1;) {
		uint32_t half = n / 2;
		from += t->word_off[from + half] >= at ? half : 0;
		n -= half;
	}
	if (words && t->word_off[from] == at)
		return 1;
	for (uint32_t i = words; i-- > 0;) {
		if (t->word_off[i] == at)
			return 1;
	}
	return 0;
}

/* A new root, or the old one with new selectors: what was remembered under the old ones dies with the serial. */
static void root_renew(struct unwind_thread *t, struct memo_root *root)
{
	root->serial = ++t->serial;
}

/* Selectors that are no slots of this stack would read what is not a slot: take them out. */
static void check_selectors(struct unwind_thread *t, struct memo_root *root, uint32_t words)
{
	for (unsigned i = 0; i < root->selectors;) {
		if (is_slot(t, root->sp, root->selector[i], words)) {
			i++;
			continue;
		}
		root->selector[i] = root->selector[--root->selectors];
		root->removed++;
		root_renew(t, root);
	}
}

/*
 * The innermost of @count words, whose distances count from @sp, that differs from the stack at hand: its address, 0 =
 * none. Up to there the frames are the same, so it is a slot of both.
 */
static uint64_t first_difference(uint64_t sp, const uint64_t *word, uint64_t count)
{
	for (uint64_t i = count; i-- > 0;) {
		uint64_t addr = sp + (uint16_t)word[i] * 8ull;
		if (word_at(addr) != word[i] >> MEMO_OFF_BITS)
			return addr;
	}
	return 0;
}

/* A word that tells the stack at hand from @m, which has the same key. Return 1 if it was new. */
static int learn_from(struct unwind_thread *t, struct memo_root *root, const struct memo *m)
{
	uint64_t addr = first_difference(root->sp, m->word, m->head & MEMO_WORDS);

	for (uint32_t at = m->outer; !addr && at != AREA_NONE && at >= t->oldest;) {
		const struct memo_outer *outer = area_at(t, at);
		addr = first_difference(outer->sp, outer->word, outer->count);
		at = outer->next;
	}
	if (!addr || (addr - root->sp) >> 3 > UINT16_MAX)
		return 0;
	uint16_t off = (uint16_t)((addr - root->sp) >> 3);
	for (unsigned k = 0; k < root->selectors; k++) {
		if (root->selector[k] == off)
			return 0; /* the hashes were equal by chance */
	}
	root->selector[root->selectors++] = off;
	return 1;
}

/* Where the stack at hand and a remembered one have the same key: find a word that tells them apart. */
static void learn_selector(struct unwind_thread *t, struct memo_root *root)
{
	struct place_in_memo at = place_of(t, root);

	if (root->selectors == SELECTORS_MAX || root->removed >= SELECTORS_REMOVED_MAX)
		return;
	const struct memo_set *set = &t->memo[at.set];
	for (unsigned way = 0; way < MEMO_WAYS; way++) {
		uint32_t place = (uint32_t)set->slot[way];
		if (set->slot[way] >> 32 != at.hash || place < t->oldest)
			continue;
		const struct memo *m = area_at(t, place);
		if (m->head >> 16 == root->ip && m->sp == root->sp && learn_from(t, root, m))
			return;
	}
}

/* Which way a new memo takes: its own if that is free, else the one longest there (a dead one is older than all others). */
static uint32_t take_way(struct unwind_thread *t, const struct place_in_memo *at)
{
	const uint64_t *slot = t->memo[at->set].slot;
	uint32_t oldest = at->way;

	for (uint32_t way = 0; way < MEMO_WAYS && (uint32_t)slot[oldest] >= t->oldest; way++) {
		if ((uint32_t)slot[way] < (uint32_t)slot[oldest])
			oldest = way;
	}
	return oldest;
}

/* The root of @regs, and whether it is a @fresh one: in either place the one whose stacks are all forgotten, or older. */
static struct memo_root *take_root(struct unwind_thread *t, const struct unwind_regs *regs,
				   int *fresh)
{
	struct root_places place = roots_of(t, regs->ip, regs->sp);
	struct memo_root *root;

	*fresh = 0;
	if (root_is(t, place.first, regs->ip, regs->sp))
		return place.first;
	if (root_is(t, place.second, regs->ip, regs->sp))
		return place.second;
	*fresh = 1;
	root = place.first->used < t->oldest || place.first->used <= place.second->used
		       ? place.first
		       : place.second;
	*root = (struct memo_root){ .ip = regs->ip, .sp = regs->sp };
	root_renew(t, root);
	return root;
}

/* Room for @head bytes and @words words, whose number is made a multiple of 4: where it begins. */
static uint32_t area_take(struct unwind_thread *t, uint64_t head, uint64_t words)
{
	uint32_t units = (uint32_t)((head + words * 8 + AREA_UNIT - 1) / AREA_UNIT);

	if (t->area_end - t->lap + units > t->area_units)
		t->lap = t->area_end = t->lap + t->area_units;
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

#define WORDS_UNFIT UINT32_MAX

/*
 * Write the last stack's words [@from, @to) with distances from @sp, padded to a multiple of 4 by repeating the last one.
 * Return how many; WORDS_UNFIT: they cannot be kept so.
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

/* Fewer words than these are not worth sharing; so many remain with each stack, as the next one differs there. */
#define OUTER_MIN 16
#define OUTER_REST 16
#define OUTER_REST_MAX 64

/*
 * Let what the last stack has in common with others stand in the area: of the @joined frames that it has in common with
 * the one before, and all words before @near, whatever they are. Return how many of its words stand there; 0: none.
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
		at = area_take(t, sizeof(struct memo_outer), end - from);
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
 * How many of the last stack's outermost words lie too far from @sp to be kept by their distance, beyond a frame of half a
 * megabyte: their distances have to count from somewhere else.
 */
static uint32_t far_words(const struct unwind_thread *t, uint64_t sp, uint32_t words)
{
	uint64_t limit = sp - t->base + UINT16_MAX * 8ull;
	uint32_t far = 0;

	while (far < words && t->word_off[far] > limit)
		far++;
	return far;
}

void unwind_remember(struct unwind_thread *t, const struct unwind_regs *regs, uint32_t joined)
{
	const struct last_frame *inner = &t->frame[t->frame_count - 1];
	uint32_t words = inner->words & FRAME_WORDS;

	/* a stack that would push out many others is left to the join */
	if (!words || words * 8ull > (uint64_t)t->area_units * AREA_UNIT / 16)
		return;
	uint32_t outer = share_outer(t, words, joined, far_words(t, regs->sp, words));
	if (words - outer > MEMO_WORDS - 3 || regs->ip >> 48)
		return;
	uint32_t at = area_take(t, sizeof(struct memo), words - outer);
	struct memo *m = area_at(t, at);
	uint32_t count = words_put(t, regs->sp, outer, words, m->word);
	if (count == WORDS_UNFIT) {
		area_return(t, at);
		return;
	}

	int fresh;
	struct memo_root *root = take_root(t, regs, &fresh);
	if (!fresh) {
		check_selectors(t, root, words);
		learn_selector(t, root);
	}

	m->head = regs->ip << 16 | (inner->words & FRAME_NEEDS_BP ? MEMO_NEEDS_BP : 0) | count;
	m->sp = regs->sp;
	m->bp = regs->bp;
	m->node = inner->node;
	m->outer = outer ? t->outer : AREA_NONE;
	root->used = t->area_end;
	struct place_in_memo place = place_of(t, root);
	t->memo[place.set].slot[take_way(t, &place)] = (uint64_t)place.hash << 32 | at;
	if (fresh)
		expect_again(t, call_of(regs->ip, regs->sp), at);
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
	t->first_serial = t->serial + 1;
	t->oldest = t->area_end;
	t->frame_count = 0;
	t->outer_frames = 0;
	t->words_hi = 0;
	if (t->area_end < AREA_END_MAX)
		return;
	/* places would begin anew, and what is forgotten would seem to be there */
	clear(t->root, (t->root_mask + 1ull) * sizeof(*t->root));
	clear(t->repeated, (t->repeated_mask + 1ull) * sizeof(*t->repeated));
	clear(t->memo, (t->memo_mask + 1ull) * sizeof(*t->memo));
	t->area_end = t->lap = t->oldest = AREA_BEGIN;
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
		t->magic = THREAD_MAGIC;
		t->process = process;
		t->module_gen = process->module_gen;
		t->process_epoch = &process->epoch;
	} else {
		divide(t); /* the thread before may have been deep in itself */
	}
	t->stack_lo = stack_lo;
	t->stack_hi = t->used_lo = t->trust_hi = stack_hi;
	t->doubt = t->careful = t->verify = t->keyed = 0;
	t->checked_hi = UINT64_MAX;
	t->base = stack_hi - (1ull << 32);
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

void unwind_thread_stats(const struct unwind_thread *thread, struct unwind_stats *stats)
{
	*stats = thread->stats;
}
