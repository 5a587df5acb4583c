/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* capture.c - remembered whole stacks, proven by all their saved words; set-up of a thread's memory. */
#include "unwind/capture.h"

#include "unwind/state.h"

static UNWIND_INLINE struct memo *memo_set(struct unwind_thread *t, uint64_t ip, uint64_t sp)
{
	uint64_t h = (ip ^ sp << 16) * 0x9e3779b97f4a7c15ULL;
	return &t->memo[(h >> 40 & t->memo_mask) * MEMO_WAYS];
}

/* All words as they were? No way out before the end: one test costs less than many. @count: a multiple of 4. */
static UNWIND_INLINE int words_equal(uint64_t base, const uint64_t *value, uint32_t count)
{
	const uint32_t *off = (const uint32_t *)(value + count);
	uint64_t a = 0, b = 0;

	for (uint32_t i = 0; i < count; i += 4) {
		a |= word_at(base + off[i]) ^ value[i];
		b |= word_at(base + off[i + 1]) ^ value[i + 1];
		a |= word_at(base + off[i + 2]) ^ value[i + 2];
		b |= word_at(base + off[i + 3]) ^ value[i + 3];
	}
	return (a | b) == 0;
}

static int memo_alive(const struct unwind_thread *t, const struct memo *m)
{
	return m->epoch == t->epoch && t->area_written - m->written <= t->area_bytes;
}

static __attribute__((noinline)) void refresh(struct unwind_thread *t)
{
	unwind_forget(t);
	t->seen_gen = __atomic_load_n(t->module_gen, __ATOMIC_ACQUIRE);
	t->seen_epoch = __atomic_load_n(t->process_epoch, __ATOMIC_ACQUIRE);
	t->busy = 0;
}

uint32_t unwind_capture(struct unwind_thread *t, const struct unwind_regs *regs)
{
	if (unlikely((__atomic_load_n(t->module_gen, __ATOMIC_RELAXED) ^ t->seen_gen) |
		     (__atomic_load_n(t->process_epoch, __ATOMIC_RELAXED) ^ t->seen_epoch) |
		     t->busy))
		refresh(t);

	struct memo *m = memo_set(t, regs->ip, regs->sp);
	for (unsigned way = 0; way < MEMO_WAYS; way++, m++) {
		if (m->ip != regs->ip || m->sp != regs->sp || !memo_alive(t, m))
			continue;
		if ((m->count & MEMO_NEEDS_BP) && m->bp != regs->bp)
			continue;
		if (words_equal(t->base, (const uint64_t *)(t->area + m->words_at),
				m->count & ~MEMO_NEEDS_BP))
			return m->node;
	}
	return unwind_walk(t, regs);
}

void unwind_remember(struct unwind_thread *t, const struct unwind_regs *regs)
{
	const struct last_frame *inner = &t->frame[t->frame_count - 1];
	uint32_t words = inner->words & FRAME_WORDS, count = (words + 3) & ~3u;
	uint64_t bytes = ((uint64_t)count * 12 + 15) & ~15ull;
	uint64_t at = t->area_written % t->area_bytes;

	/* a stack that would push out many others is left to the join */
	if (!words || bytes > t->area_bytes / 8)
		return;
	if (at + bytes > t->area_bytes) {
		t->area_written += t->area_bytes - at;
		at = 0;
	}
	struct memo *set = memo_set(t, regs->ip, regs->sp), *m = NULL;
	for (unsigned way = 0; way < MEMO_WAYS && !m; way++) {
		if (!memo_alive(t, &set[way]))
			m = &set[way];
	}
	if (!m)
		m = &set[t->victim++ % MEMO_WAYS];
	m->epoch = t->epoch - 1; /* dead while it is rewritten */

	uint64_t *value = (uint64_t *)(t->area + at);
	uint32_t *off = (uint32_t *)(value + count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t from = i < words ? i : words - 1; /* padding repeats a word */
		value[i] = t->word[from];
		off[i] = t->word_off[from];
	}
	m->ip = regs->ip;
	m->sp = regs->sp;
	m->bp = regs->bp;
	m->node = inner->node;
	m->words_at = (uint32_t)at;
	m->count = count | (inner->words & FRAME_NEEDS_BP ? MEMO_NEEDS_BP : 0);
	m->written = t->area_written;
	t->area_written += bytes;
	m->epoch = t->epoch;
}

static void clear(void *at, uint64_t bytes)
{
	uint64_t *word = at;
	for (uint64_t i = 0; i < bytes / 8; i++)
		word[i] = 0;
}

void unwind_forget(struct unwind_thread *t)
{
	t->epoch++;
	t->salt = (uint64_t)t->epoch << 48;
	if (!(t->epoch & 0xffff)) { /* marks of 65536 forgettings ago would look fresh */
		clear(t->rules, t->rule_count * sizeof(*t->rules));
		clear(t->memo, (t->memo_mask + 1ull) * MEMO_WAYS * sizeof(*t->memo));
	}
	t->frame_count = 0;
}

struct unwind_thread *unwind_thread_init(void *memory, uint64_t bytes,
					 struct unwind_process *process, uint64_t stack_lo,
					 uint64_t stack_hi)
{
	struct unwind_thread *t = memory;
	int used = t->magic == THREAD_MAGIC && t->bytes == bytes;
	uint64_t unit = 32768; /* all parts are shares of a power of two */
	uint8_t *at = (uint8_t *)memory + (sizeof(*t) + 63) / 64 * 64;

	while (unit * 2 <= bytes && unit < 1u << 20)
		unit *= 2;
	t->rule_count = (uint32_t)(unit / 256);
	t->rule_shift = 64 - (uint32_t)__builtin_ctzll(t->rule_count);
	t->rules = (struct cached_rule *)at;
	at += t->rule_count * sizeof(*t->rules);
	t->memo_mask = (uint32_t)(unit / 2048) - 1;
	t->memo = (struct memo *)at;
	at += (t->memo_mask + 1ull) * MEMO_WAYS * sizeof(*t->memo);
	if (t->magic && !used) { /* other contents than ours */
		clear(t->rules, (uint64_t)(at - (uint8_t *)t->rules));
		t->epoch = 0;
	}
	t->frame_max = (uint32_t)(unit / 256);
	t->frame = (struct last_frame *)at;
	at += t->frame_max * sizeof(*t->frame);
	t->word_max = t->frame_max * 3 / 2;
	t->word = (uint64_t *)at;
	at += t->word_max * sizeof(*t->word);
	t->word_off = (uint32_t *)at;
	at += t->word_max * sizeof(*t->word_off);
	t->area = (uint8_t *)(((uintptr_t)at + 63) / 64 * 64);
	t->area_bytes = (uint64_t)((uint8_t *)memory + bytes - t->area) / 64 * 64;
	t->area_written = 0;

	t->process = process;
	t->module_gen = process->module_gen;
	t->process_epoch = &process->epoch;
	t->stack_lo = stack_lo;
	t->stack_hi = stack_hi;
	t->base = stack_hi - (1ull << 32);
	t->magic = THREAD_MAGIC;
	t->bytes = bytes;
	t->spare_node = 0;
	t->stats = (struct unwind_stats){ 0 };
	refresh(t);
	return t;
}

void unwind_thread_stats(const struct unwind_thread *thread, struct unwind_stats *stats)
{
	*stats = thread->stats;
}
