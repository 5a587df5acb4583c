/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prof_impl.h - what prof.c (events), prof_def.c (definitions) and prof_read.c (accessors) share;
 * nobody else.
 */
#ifndef MODEL_PROF_IMPL_H
#define MODEL_PROF_IMPL_H

#include "base/arena.h"
#include "base/chunked.h"
#include "base/intern.h"
#include "model/mapped.h"
#include "model/prof.h"

/**
 * struct prof_counter - everything a block event changes, in one cache line.
 *
 * The peak: @saved_bytes and @saved_blocks hold what lived at the global peak number @saved_epoch.
 * A new global maximum only bumps prof.epoch; whoever changes a counter whose saved_epoch is older
 * first saves what stood there when that maximum was reached. So the peak per stack is exact and
 * costs O(1) an event, however often the maximum moves.
 */
struct prof_counter {
	uint64_t allocations, allocated_bytes;
	uint64_t frees;
	uint64_t live_bytes;
	uint64_t temporary;
	uint64_t saved_bytes, saved_epoch;
	/* of the stack or thread it counts for */
	uint32_t row;
	/* as @saved_bytes, in whole blocks: never more than have numbers */
	uint32_t saved_blocks;
};
_Static_assert(sizeof(struct prof_counter) == 64, "one cache line");

/**
 * struct prof_risk - the blocks of one counter that were live when a free was lost, and still are.
 * The same trick:
 * @epoch older than prof.loss_epoch means "all that was live at the loss, and nothing changed
 * since".
 */
struct prof_risk {
	uint64_t epoch;
	uint64_t blocks, bytes;
	/* frees of the counter that nobody saw: counted as lost already */
	uint64_t implied;
};

/** struct idmap - a producer's numbers to ours; UINT32_MAX = undefined. */
struct idmap {
	uint32_t *to;
	uint32_t count, cap;
};

#define PROF_NO_SUM 0xff

/*
 * Of a recording with sampled stacks: the counters of stacks count in units of this part of an
 * allocation.
 */
#define PROF_SHARE_BITS 16
#define PROF_SHARES 1024 /* sizes whose weight is remembered */

/**
 * struct prof_copy - memory of a frozen reading's rows, which the next one takes over: to get it
 * anew costs five times the copying.
 */
struct prof_copy {
	/* behind this */
	_Alignas(64) size_t bytes;
	_Alignas(64) char memory[];
};

/** struct symbol_sink - a sink that finds its prof behind itself. */
struct symbol_sink {
	struct sink sink;
	struct prof *prof;
};

/*
 * What is added here and owns memory is for prof_free(), and for prof_freeze(), which copies by
 * value.
 */
struct prof {
	struct sink sink;
	struct symbol_sink symbol_sink;
	struct intern strings;
	struct arena arena;
	/* of it: lists of symbols */
	uint64_t symbol_bytes;
	uint64_t seed;

	/* struct prof_module */
	struct chunked modules;
	/* struct prof_frame */
	struct chunked frames;
	/* struct prof_stack */
	struct chunked stacks;
	/* struct thread_row */
	struct chunked threads;
	/* const char *, from 0 */
	struct chunked rules;
	struct idtab module_tab, frame_tab, stack_tab;
	struct idmap module_map, frame_map, stack_map;

	/*
	 * Hot: producer's stack number -> counter, 0 = none yet (counters are made at a stack's
	 * first event).
	 */
	uint32_t *slot_of;
	/* as many as stack_map.count */
	uint32_t slot_count;
	uint32_t slot_cap;
	/* struct prof_counter; row 0 is unused */
	struct chunked counters;
	/* uint8_t per counter: why its stack ended early */
	struct chunked partials;
	/* uint32_t per stack row, 0 = none */
	struct chunked slot_of_row;
	/* uint32_t per live block: the thread that allocated it; sparse */
	struct chunked owner;
	/* struct prof_risk per counter; sparse */
	struct chunked risks;
	/* uint32_t per live block: loss_epoch when allocated; sparse */
	struct chunked block_epoch;
	/* now, and the global peak */
	uint64_t live_bytes, max_bytes;
	/* number of the current maximum */
	uint64_t epoch;
	uint64_t max_time_ns, max_event;
	/* of all stacks */
	uint64_t allocations, frees;
	/* at least what was allocated: beyond 64 bits, sums are watched */
	uint64_t guess_bytes;
	int careful;
	/* then: no counter exceeds it */
	uint64_t allocated_bytes;
	/* where stacks are sampled: the same of shares */
	uint64_t share_sum;
	/* of both: known by their sums only */
	uint64_t culled;
	/* prof_set_missed() */
	int lacks_culled;
	/* how often a free may have been lost */
	uint32_t loss_epoch;
	/* counters of threads are kept */
	int several_threads;
	/* prof_set_estimates() */
	int estimates;
	/* filled by prof_load_*() */
	int loaded;
	/* uint8_t per counter, sparse: its leaks do not count */
	struct chunked suppressed;
	uint64_t suppressed_blocks, suppressed_bytes;
	/* by a summary of before that was kept */
	int mapped_unknown;
	/* by a summary of before they were counted */
	int peak_blocks_unknown;
	/* of an allocation by its size; 0 = not asked for yet */
	uint64_t shares[PROF_SHARES];
	/*
	 * See prof_new_sums(): then rows of stacks are the producer's numbers, as many as
	 * slot_count, and all that is kept of a stack is the reason for which it ends early;
	 * PROF_NO_SUM = it was not defined.
	 */
	int sums;
	uint8_t *sum_partial;
	uint32_t sum_cap;

	/*
	 * Timeline: one point per bucket that saw an event; the width doubles when the array is
	 * full.
	 */
	struct prof_point *points;
	uint32_t point_count;
	uint64_t bucket_ns, bucket_end_ns;
	uint64_t bucket_max_bytes, bucket_rss_max, bucket_part_max[PROF_PARTS];
	uint64_t rss_bytes, virtual_bytes, part_bytes[PROF_PARTS];
	uint64_t last_time_ns;
	int bucket_used;

	struct marks marks;
	/* NULL before the first mapping; a frozen one has its own */
	struct mapped *mapped;
	/* what is not a sum over stacks */
	struct prof_totals other;
	struct prof_process process;
	int have_process;

	/* See prof_freeze(). */

	/* of a frozen one: whose names it shows */
	struct prof *origin;
	/* of a frozen one: made once */
	struct prof_totals *totals;
	/* of a frozen one: where its rows stand */
	struct prof_copy *copy;
	/* lists of symbols may be read elsewhere: new ones take other places */
	int shared;
	/*
	 * not copied from here on, for other threads write it: its owner, and each frozen one of it
	 */
	uint32_t refs;
	/* of who was frozen: what the last one that is gone took */
	struct prof_copy *spare;
};

struct thread_row {
	struct prof_thread pub;
	/* unused while there is only one thread: the totals are its own */
	struct prof_counter counter;
	/* while there are several threads */
	uint64_t block_events;
	/* of other kinds than allocations and frees */
	uint64_t other_events;
	int defined;
	/* as of a counter */
	struct prof_risk risk;
};

int prof_define(struct sink *sink, const struct def *def, struct err *err);
int prof_put(struct sink *sink, const struct event *events, size_t count, struct err *err);
/**
 * prof_slot() - the counter number of a producer's stack, made at its first event; 0 with @err on
 * failure.
 */
uint32_t prof_slot(struct prof *prof, struct stack_id producer, struct err *err);
/**
 * prof_row_slot() - the counter number of a stack row, made if there was none; 0 with @err on
 * failure.
 */
uint32_t prof_row_slot(struct prof *prof, uint32_t row, struct err *err);

/** thread_row_peek() - lent row of a defined thread, or NULL. */
static inline struct thread_row *thread_row_peek(const struct prof *p, uint32_t id)
{
	if (id >= p->threads.count)
		return NULL;
	struct thread_row *row = (struct thread_row *)chunked_at(&p->threads, id);
	return row->defined ? row : NULL;
}

static inline uint32_t idmap_get(const struct idmap *map, uint32_t id)
{
	return id < map->count ? map->to[id] : UINT32_MAX;
}

/** prof_known_row() - the row of a producer's stack; UINT32_MAX if it was not defined. */
static inline uint32_t prof_known_row(const struct prof *p, uint32_t producer)
{
	if (!p->sums)
		return idmap_get(&p->stack_map, producer);
	return producer < p->slot_count && p->sum_partial[producer] != PROF_NO_SUM ? producer
										   : UINT32_MAX;
}

/** prof_sampled() - 1: stacks have estimates, whose counters have a unit of their own. */
static inline int prof_sampled(const struct prof *p)
{
	return p->process.sample_bytes != 0;
}

static inline struct prof_counter *prof_counter_at(const struct prof *p, uint32_t slot)
{
	return (struct prof_counter *)p->counters.chunks[slot >> CHUNKED_SHIFT] +
	       (slot & (CHUNKED_ITEMS - 1));
}

static inline uint8_t prof_counter_partial(const struct prof *p, uint32_t slot)
{
	return *(const uint8_t *)chunked_at(&p->partials, slot);
}

/** prof_blocks_of() - @count of a counter in whole blocks; @shift: of its unit. */
static inline uint32_t prof_blocks_of(uint64_t count, unsigned shift)
{
	if (!shift)
		return (uint32_t)count;
	uint64_t blocks = count + (1u << (shift - 1));
	blocks = blocks < count ? UINT64_MAX >> shift : blocks >> shift;
	return blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
}

static inline uint64_t prof_counter_peak(const struct prof *p, const struct prof_counter *c)
{
	return c->saved_epoch == p->epoch ? c->saved_bytes : c->live_bytes;
}

/** prof_counter_peak_blocks() - @shift: of the counter's unit. */
static inline uint64_t prof_counter_peak_blocks(const struct prof *p, const struct prof_counter *c,
						unsigned shift)
{
	return c->saved_epoch == p->epoch ? c->saved_blocks
					  : prof_blocks_of(c->allocations - c->frees, shift);
}

#endif
