/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_internal.h - the heap source as a whole, for its files: heap.c (life), heap_ring.c (heads,
 * and rings in their turn), heap_records.c (one ring's records: the fast path), heap_debt.c (frees
 * out of turn), heap_raw.c (files without a recorder), heap_fork.c (what a child takes along),
 * heap_heart.c (beats). Its parts know nothing of it, and are tested without it: heap_merge.h,
 * heap_books.h, heap_names.h, heap_clock.h.
 */
#ifndef SOURCE_HEAP_INTERNAL_H
#define SOURCE_HEAP_INTERNAL_H

#include <stdbool.h>

#include "source/heap_clock.h"
#include "source/heap_merge.h"
#include "source/heap_names.h"
#include "source/source.h"
#include "wire/heap.h"

#define HEAP_BATCH 512 /* events; their 28 KiB stay near until the sink has read them */

#define HEAP_BEATS 4096 /* seven seconds of them */

struct source_heap {
	int fd;
	struct heap_tables tables;
	struct heap_merge merge;
	struct heap_books books;
	struct heap_names names;
	struct heap_clock clock;
	struct heap_out out;
	/* heap_make_room() */
	size_t nodes_there, index_there;

	/* of the latest event: times never decrease */
	uint64_t last_ns;
	/* the time that the latest event was given */
	uint64_t told_ns;
	/* for so long others have the same */
	uint64_t told_keep_ns;
	/* its digits that are told */
	uint64_t told_mask;
	/* no event can be later than this (now) */
	uint64_t limit_ns;
	/* how far the time of an event may be off, at most */
	uint64_t worst_ns;

	/* of the header, already reported */
	struct wire_lost_count lost[WIRE_LOST_MAX];
	/* NULL: no child of a fork, or its parent's blocks are not known */
	struct heap_inherited *inherited;
	int (*fork)(void *ctx, uint64_t number);
	void *fork_ctx;

	struct event *batch;
	uint32_t batched;
	/* events from @stretch_from on are all under its last stamp */
	struct heap_ring *stretch;
	uint32_t stretch_from;
	/*
	 * when the last ticks came: written by the thread that beats, read by the one that drains
	 */
	uint64_t beats, beat_ns[HEAP_BEATS];
	struct source_heap_stats stats;
};

/**
 * heap_merge_rings() - read all heads, take what is there. Return: thousandths of the fullest ring,
 * or negative errno.
 */
ssize_t heap_merge_rings(struct source_heap *heap, bool final);
/**
 * heap_run_ring() - take records of one ring until it is empty, its stamp passes @limit_ns, or one
 * contradicts the books.
 * @resolve: the first record has waited long enough; take it as it is.
 */
enum heap_run heap_run_ring(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns,
			    bool resolve);
/** heap_free_by_realloc() - of heap_merge.h; @heap: struct source_heap. */
bool heap_free_by_realloc(void *heap, uint64_t addr);
/**
 * heap_report_lost() - losses that the producer of @ring (NULL: all, and those without a slot)
 * counted since last time.
 */
int heap_report_lost(struct source_heap *heap, struct heap_ring *ring);
/**
 * heap_place_lost() - frees were lost here that were reported before: counters run ahead of what is
 * read, and a block that was allocated between the two may have been released by one of them.
 */
int heap_place_lost(struct source_heap *heap, struct heap_ring *ring);
/** heap_report_closed() - what was written to closed rings since they were closed: lost. */
int heap_report_closed(struct source_heap *heap);
/**
 * heap_settle() - no more events come from the ring in hand under its last stamp; the next one is
 * @until_ns, or later than what was read (UINT64_MAX). An event that does not stand right behind
 * its stamp may be later by what lies between that and the next tick: where that is more than the
 * bound that is told, such events get the middle of what is possible, or what is likely, and the
 * bound grows.
 */
void heap_settle(struct source_heap *heap, uint64_t until_ns);
/**
 * heap_next_stamp() - the first stamp behind @ring's next record; UINT64_MAX if none stands near.
 */
uint64_t heap_next_stamp(const struct source_heap *heap, const struct heap_ring *ring);
/** heap_beat_after() - when the first tick came behind @ns; UINT64_MAX: none so far. */
uint64_t heap_beat_after(const struct source_heap *heap, uint64_t ns);
/** heap_flush() - hand the batch to the sink. */
int heap_flush(struct source_heap *heap);
/**
 * heap_next_event() - a zeroed event at the end of the batch, flushing a full one; NULL: the sink
 * failed.
 */
struct event *heap_next_event(struct source_heap *heap, const struct heap_ring *ring);

static inline void heap_end_realloc(struct source_heap *heap, struct heap_ring *ring)
{
	heap->merge.realloc_count -= ring->realloc_pending;
	ring->realloc_pending = false;
}

/*
 * Times are not told finer than they are known: an event has the time of the last one for as long
 * as that is within the bound, which leaves room for what comes until the next stamp. Digits that
 * mean nothing were most of the file of a program that repeats itself.
 */
#define HEAP_TOLD_STEP_NS (1u << 16)
#define HEAP_TOLD_NS (SOURCE_HEAP_BOUND_NS - 2 * HEAP_TOLD_STEP_NS)

/* The time that an event of @ns, which never decreases, is given. */
static inline uint64_t heap_told(struct source_heap *heap, uint64_t ns)
{
	if (ns - heap->told_ns >= heap->told_keep_ns)
		heap->told_ns = ns & heap->told_mask;
	return heap->told_ns;
}

static inline uint64_t heap_event_time(struct source_heap *heap, const struct heap_ring *ring)
{
	if (ring->now_ns > heap->last_ns)
		heap->last_ns = ring->now_ns;
	return heap->last_ns;
}

/** heap_add_debt() - heap_owe() of what @ring holds, counted; room must be there. */
void heap_add_debt(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
		   uint32_t aux_stack, bool credit);
/** heap_pay_debt() - a new block lives at @addr: if it owes a free, take it. */
enum heap_run heap_pay_debt(struct source_heap *heap, uint64_t addr);
/**
 * heap_free_of_dead() - a free that waited in vain: a debt, where the address was freed lately,
 * else foreign.
 */
enum heap_run heap_free_of_dead(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
				uint32_t aux_stack);
/**
 * heap_free_out_of_turn() - end the block at @addr, if there is one, with an EVENT_FREE by @thread.
 */
enum heap_run heap_free_out_of_turn(struct source_heap *heap, uint64_t addr, uint32_t thread,
				    uint32_t aux_stack, uint8_t flags);
/** heap_report_disorder() - a free that must have been, and was not seen. */
enum heap_run heap_report_disorder(struct source_heap *heap);
/**
 * heap_expire_debts() - what nobody claimed in its time (@all: any more) is what it looked like at
 * first.
 */
int heap_expire_debts(struct source_heap *heap, bool all);

/** heap_raw_init() - check heap->tables.layout and set up everything but the windows. */
int heap_raw_init(struct source_heap *heap, uint64_t file_bytes, struct err *err);
/**
 * heap_raw_fill() - raw: fetch the next stretch of a ring into its window; *@head = how far it goes
 * now.
 */
int heap_raw_fill(struct source_heap *heap, struct heap_ring *ring, uint64_t *head);

/**
 * heap_raw_safe() - raw: up to where records begin that stand in the window whole, and do not end
 * it: an empty window is that of a ring from which nothing comes any more, and others would pass it
 * by.
 */
static inline uint64_t heap_raw_safe(const struct heap_ring *ring)
{
	const uint64_t cut = WIRE_RECORD_WORDS_MAX * 8;
	if (ring->head == ring->raw_head)
		return ring->head;
	return ring->head - ring->tail > cut ? ring->head - cut : ring->tail;
}

/**
 * heap_make_room() - let the kernel find the pages of the shared file that the program will come to
 * next: those of its rings, nodes and their index. The first touch of a page that is not there
 * costs a thread of the program 7 microseconds.
 */
void heap_make_room(struct source_heap *heap);
/** heap_fork_fini() - release what was inherited. */
void heap_fork_fini(struct source_heap *heap);
#endif
