/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_merge.h - several rings, and whose turn it is. Chooses by stamps and by what the books say,
 * and neither takes records nor reads heads. In order of use: heap_merge_init(); heap_pick_next()
 * until nothing can go on, then of those that wait heap_pick_overtaken(), or with heap_count_past()
 * heap_pick_hopeless(); heap_merge_fini().
 */
#ifndef SOURCE_HEAP_MERGE_H
#define SOURCE_HEAP_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "source/heap_books.h"
#include "wire/heap.h"

#define HEAP_NO_THREAD UINT32_MAX

enum heap_wait { HEAP_WAIT_NO = 0, HEAP_WAIT_LIVE, HEAP_WAIT_DEAD };

/*
 * Records are looked at some time before their turn. What those will need whose blocks are not near
 * (live.h) is fetched for a group at a time: first the buckets, a group later the rows.
 */
#define HEAP_LOOK_BYTES 576 /* some 50 records */
#define HEAP_LOOK_GROUP 16
#define HEAP_FAR 64
struct heap_look {
	/* where the next record stands that was not looked at */
	uint64_t pos;
	/* records */
	uint32_t looked;
	/* those of them whose blocks are not near */
	uint32_t found;
};
/* Nothing is gained by looking ahead while the table has no more buckets than these. */
#define HEAP_AHEAD_FROM 8192

struct heap_ring {
	/* in the mapped file; raw: a window that is refilled */
	const char *base;
	uint64_t mask;
	uint64_t tail, head;
	/* records that begin before it may be taken, see refresh_heads() */
	uint64_t safe;
	/* what follows happened at or after it */
	uint64_t now_ns;
	/* what follows at once happened then */
	bool exact;
	/* index into threads, HEAP_NO_THREAD before the first WIRE_THREAD */
	uint32_t thread;
	bool closed, active;
	/* of its thread's last allocation */
	uint64_t last_order;
	/* enum heap_wait: the next record contradicts the books */
	uint8_t wait;
	/* what it waits for stands in another ring that waits, too */
	bool wait_ahead;
	/* BEGIN was read, END or FAIL not yet */
	bool realloc_pending;
	/* its old block is free: it is known to move, or somebody else got the address */
	bool realloc_freed;
	/* the last region record was WIRE_REMAP: the next one is its WIRE_MAP */
	bool remapped;
	uint64_t realloc_old;
	uint32_t realloc_aux;
	/* closed: up to here what it holds has been counted as lost */
	uint64_t counted;
	uint64_t wait_addr;
	/* the waiting record happened before this; UINT64_MAX: not known yet */
	uint64_t wait_until_ns;
	/* of the reading of heads in which it began to wait */
	uint64_t wait_epoch;
	/* records before it wait for nothing: their stamps are too coarse */
	uint64_t crowd_until;
	/* raw: where the ring lies in the file, and how far it was written */
	uint64_t raw_off;
	uint64_t raw_head;
	struct wire_heap_slot *slot;
	/* already reported */
	struct wire_lost_count lost[WIRE_LOST_MAX];
	/* lost ones whose place in the ring was read */
	uint64_t placed_frees;
	/* heap_make_room() */
	size_t there;
	struct heap_look look;
	/* of those found: fetched */
	uint32_t far_buckets, far_rows;
	/* their addresses, up to far_buckets their tags */
	uint64_t far[HEAP_FAR];
};

/*
 * In search of what ends a wait: so far at a time, so many times what was read, and not more than
 * that saved up.
 */
#define LOOK_AHEAD_BYTES (1u << 20)
#define LOOK_AHEAD_SHARE 16u
#define LOOK_AHEAD_MOST (64u << 20)

struct heap_merge {
	struct heap_ring *rings;
	/* numbers of rings that ever held data */
	uint32_t *active;
	uint32_t active_count;
	/* readings of all heads */
	uint64_t epoch;
	/* the last one found something */
	bool news;
	/* the recording ends: no head is read any more */
	bool sealed;
	/* rings with a realloc that is under way */
	uint32_t realloc_count;
	/* bytes that may be searched for the ends of waits */
	uint64_t look_left;
	/* waits and events at the last look at their relation */
	uint64_t crowd_waits, crowd_events;
	bool raw;
	const struct heap_books *books;
	/*
	 * another ring's realloc of @addr is under way and has released it: take its free now. True
	 * if there was one.
	 */
	bool (*free_by_realloc)(void *ctx, uint64_t addr);
	void *ctx;
};

/**
 * heap_merge_init() - room for @count rings, all zero; books, raw and free_by_realloc are set by
 * the caller. 0 or -ENOMEM.
 */
int heap_merge_init(struct heap_merge *merge, uint32_t count, struct err *err);
/** heap_merge_fini() - the rings' memory is the caller's. */
void heap_merge_fini(struct heap_merge *merge);

/* How many bytes a record has; a word of what is none. */
extern const uint8_t heap_record_bytes[256];

static inline uint64_t heap_word_at(const struct heap_ring *ring, uint64_t pos)
{
	return __atomic_load_n((const uint64_t *)(ring->base + (pos & ring->mask)),
			       __ATOMIC_RELAXED);
}

/** heap_may_go_on() - whether @ring waits for nothing, or what it waits for has come. */
bool heap_may_go_on(struct heap_merge *merge, const struct heap_ring *ring);
/**
 * heap_pick_next() - the runnable ring with the earliest stamp, and the stamp at which another one
 * has its turn. @blocked: there is one, but what it holds is not safe yet, and nothing later may be
 * taken before it.
 */
struct heap_ring *heap_pick_next(struct heap_merge *merge, uint64_t *limit_ns, bool *waiting,
				 bool *blocked);
/**
 * heap_pick_overtaken() - everything else is past the moment of the waiting record: what it waits
 * for does not come. The earliest such ring.
 */
struct heap_ring *heap_pick_overtaken(struct heap_merge *merge);
/**
 * heap_count_past() - rings that wait for what was before @now_ns: 0 there are none, 1 the heads
 * have to be read again first, 2 there are.
 */
int heap_count_past(struct heap_merge *merge, uint64_t now_ns);
/**
 * heap_pick_hopeless() - the ring whose wait nothing can end any more, now that all that can go on
 * has, or is past @now_ns.
 */
struct heap_ring *heap_pick_hopeless(struct heap_merge *merge, uint64_t now_ns);

#endif
