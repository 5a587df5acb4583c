/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_ring.c - decode the rings and merge them into one stream.
 *
 * Order. Rings are taken in the order of their stamps, stretch by stretch. Stamps are coarse (one a kilobyte of records
 * and one a tick), so the books themselves decide the rest: an allocation of a live address and a free of a dead one wait until the other rings
 * have caught up (the alternation rule). How long is bounded without any clock: a free is written before the block is
 * released and an allocation after it was obtained, so whatever must come first stood in its ring *before* the waiting
 * record was committed. Once all heads were read again after that, and everything up to them was taken, or everything
 * up to the stamp that follows the waiting record, waiting is over: the free is of a block that we never saw, or was
 * taken for another block of the same address (struct heap_debt), or a record was lost.
 * One case needs more care: a realloc releases its old block in the middle. Another thread's allocation of that address
 * may be seen before the realloc's end; the pending realloc is then known to have moved, and its free is taken at once.
 */
#include <errno.h>
#include <string.h>
#include <sys/param.h>

#include "source/heap_internal.h"

/* Heads are read this often in one call before the caller gets its turn (flush, timeline, signals). */
#define REFRESH_MAX 64
#define LOOK_STAMP_RECORDS 64
/* Counters of different processors may differ by this much, and a stamp may be read this much too early. */
#define STAMP_SLACK_NS 1000

static const uint8_t tag_words[WIRE_TAG_MAX] = {
	[WIRE_PAD] = 1,
	[WIRE_FREE] = 1,
	[WIRE_FREE_STACK] = 2,
	[WIRE_ALLOC] = 2,
	[WIRE_ALLOC_BIG] = 3,
	[WIRE_REALLOC_BEGIN] = 1,
	[WIRE_REALLOC_BEGIN_STACK] = 2,
	[WIRE_REALLOC_END] = 2,
	[WIRE_REALLOC_END_BIG] = 3,
	[WIRE_REALLOC_FAIL] = 1,
	[WIRE_TIME] = 1,
	[WIRE_THREAD] = 2,
	[WIRE_MAP] = 3,
	[WIRE_UNMAP] = 3,
	[WIRE_REMAP] = 3,
	[WIRE_BRK] = 2,
	[WIRE_MARK] = 1,
	[WIRE_LOST] = 2,
	[WIRE_THREAD_END] = 1,
	[WIRE_SWITCH] = 1,
	[WIRE_FORK] = 1,
};

/* The next place in the batch; NULL after a failure of the sink. The caller fills every field it does not zero. */
static inline struct event *next_place(struct source_heap *heap)
{
	if (__builtin_expect(heap->batched == HEAP_BATCH, 0) && heap_flush(heap) < 0)
		return NULL;
	return &heap->batch[heap->batched++];
}

struct event *heap_next_event(struct source_heap *heap, const struct heap_ring *ring)
{
	struct event *ev = next_place(heap);
	if (!ev)
		return NULL;
	memset(ev, 0, sizeof(*ev));
	ev->time_ns = ring ? heap_event_time(heap, ring) : heap->last_ns;
	ev->thread.v = ring && ring->thread != HEAP_NO_THREAD ? ring->thread : 0;
	ev->block.v = BLOCK_NONE;
	return ev;
}

static inline uint64_t word_at(const struct heap_ring *ring, uint64_t pos)
{
	return __atomic_load_n((const uint64_t *)(ring->base + (pos & ring->mask)),
			       __ATOMIC_RELAXED);
}

/* ---- block records ----------------------------------------------------------------------------------------------- */

static inline enum heap_run node_to_stack(struct source_heap *heap, uint32_t node, uint32_t *stack)
{
	if (__builtin_expect(node < heap->layout.node_max, 1)) {
		*stack = heap->node_stack[node];
		if (__builtin_expect(*stack != 0, 1))
			return HEAP_RUN_EMPTY;
	}
	return heap_define_stack(heap, node, stack);
}

static inline void emit_free(struct source_heap *heap, const struct heap_ring *ring,
			     struct event *ev, uint32_t block, const struct live_block *row,
			     uint8_t flags, uint32_t aux_stack)
{
	if (ring->last_order == row->order)
		flags |= EVENT_F_TEMPORARY;
	*ev = (struct event){
		.kind = EVENT_FREE,
		.flags = flags,
		.thread.v = ring->thread,
		.time_ns = heap_event_time(heap, ring),
		.addr = row->addr,
		.bytes = row->bytes,
		.stack.v = row->stack,
		.aux_stack.v = aux_stack,
		.block.v = block,
	};
	heap->stats.frees++;
}

/* Take a block out of the books; @wait: say WAIT if nothing lives there, else it is a free of a foreign block. */
static inline __attribute__((always_inline)) enum heap_run
take_free(struct source_heap *heap, struct heap_ring *ring, uint64_t addr, uint32_t tag,
	  uint8_t flags, uint32_t aux_stack, bool wait)
{
	struct live_block row;
	struct heap_debt credit;
	if (__builtin_expect(heap->credit_count != 0, 0) &&
	    heap_take_debt(heap, addr, true, &credit))
		return HEAP_RUN_EMPTY;
	uint32_t block = live_remove(&heap->live, addr, tag, &row);
	if (__builtin_expect(block == BLOCK_NONE, 0)) {
		if (wait)
			return HEAP_RUN_WAIT;
		return heap_free_of_dead(heap, ring, addr, aux_stack);
	}
	if (heap->active_count > 1)
		heap_note_free(heap, addr);
	heap->stats.live_bytes -= row.bytes;
	struct event *ev = next_place(heap);
	if (!ev)
		return HEAP_RUN_FAILED;
	emit_free(heap, ring, ev, block, &row, flags, aux_stack);
	return HEAP_RUN_EMPTY;
}

static inline __attribute__((always_inline)) enum heap_run
take_alloc(struct source_heap *heap, struct heap_ring *ring, uint64_t addr, uint32_t tag,
	   uint64_t bytes, uint32_t stack, uint8_t flags)
{
	uint32_t block;
	enum live_result result = live_add(&heap->live, addr, tag, bytes, stack, &block);
	if (__builtin_expect(result != LIVE_OK, 0)) {
		if (result == LIVE_EXISTS)
			return HEAP_RUN_WAIT;
		err_set(heap->err, -ENOMEM, "cannot keep track of %u live blocks",
			heap->live.count);
		return HEAP_RUN_FAILED;
	}
	struct event *ev = next_place(heap);
	if (!ev)
		return HEAP_RUN_FAILED;
	*ev = (struct event){
		.kind = EVENT_ALLOC,
		.flags = flags,
		.thread.v = ring->thread,
		.time_ns = heap_event_time(heap, ring),
		.addr = addr,
		.bytes = bytes,
		.stack.v = stack,
		.block.v = block,
	};
	heap->stats.allocations++;
	heap->stats.live_bytes += bytes;
	ring->last_order = heap->live.order;
	return __builtin_expect(heap->debt_count != 0, 0) ? heap_pay_debt(heap, addr)
							  : HEAP_RUN_EMPTY;
}

/* The books say that @addr lives, and its free does not come: free it, so that the books go on. */
static enum heap_run free_unseen(struct source_heap *heap, struct heap_ring *ring, uint64_t addr)
{
	if (heap->lost_frees_left) {
		heap->lost_frees_left--; /* counted already, where it was lost */
		return heap_free_out_of_turn(heap, addr, ring->thread, 0, EVENT_F_IMPLIED);
	}
	if (heap->active_count > 1 && heap->debt_count < HEAP_DEBTS) {
		heap_add_debt(heap, ring, addr, 0, true);
		return heap_free_out_of_turn(heap, addr, ring->thread, 0, 0);
	}
	enum heap_run run = heap_report_disorder(heap);
	return run == HEAP_RUN_EMPTY
		       ? heap_free_out_of_turn(heap, addr, ring->thread, 0, EVENT_F_IMPLIED)
		       : run;
}

/* Another thread's realloc of @addr is under way and has released it: take its free now. True if there was one. */
static __attribute__((noinline)) bool free_by_realloc(struct source_heap *heap, uint64_t addr)
{
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *other = &heap->rings[heap->active[i]];
		if (!other->realloc_pending || other->realloc_freed || other->realloc_old != addr)
			continue;
		other->realloc_freed = true;
		return take_free(heap, other, addr, other->realloc_tag, EVENT_F_REALLOC,
				 other->realloc_aux, false) == HEAP_RUN_EMPTY;
	}
	return false;
}

uint64_t heap_next_stamp(const struct source_heap *heap, const struct heap_ring *ring)
{
	uint64_t pos = ring->tail;
	for (int i = 0; i < LOOK_STAMP_RECORDS && pos < ring->head; i++) {
		uint64_t w0 = word_at(ring, pos);
		unsigned tag = w0 & 0xff;
		if (tag == WIRE_TIME)
			return heap_clock_ns(&heap->clock, heap_clock_full(&heap->clock, w0 >> 8));
		if (tag >= WIRE_TAG_MAX)
			break;
		pos += tag_words[tag] * 8u;
	}
	return UINT64_MAX;
}

static inline void wait_for(struct source_heap *heap, struct heap_ring *ring, enum heap_wait what,
			    uint64_t addr)
{
	ring->wait = (uint8_t)what;
	ring->wait_ahead = false;
	ring->wait_addr = addr;
	ring->wait_epoch = heap->epoch;
	ring->wait_until_ns = heap_next_stamp(heap, ring);
	heap->stats.waits++;
}

/* ---- other records ----------------------------------------------------------------------------------------------- */

static enum heap_run take_lost(struct source_heap *heap, struct heap_ring *ring, uint64_t counts)
{
	uint64_t known = heap->stats.lost_frees, frees = counts >> WIRE_LOST_BITS;
	ring->last_order = 0; /* what it allocated last is not known */
	ring->placed_frees += frees;
	int rc = heap_report_lost(heap, ring);
	if (rc == 0 && frees && heap->stats.lost_frees == known)
		rc = heap_place_lost(heap, ring);
	return rc < 0 ? HEAP_RUN_FAILED : HEAP_RUN_EMPTY;
}

static enum heap_run take_mapping(struct source_heap *heap, struct heap_ring *ring, unsigned tag,
				  uint64_t addr, uint64_t w1, uint64_t w2)
{
	uint32_t stack;
	enum heap_run run = node_to_stack(heap, (uint32_t)w1 & (WIRE_NODE_MAX - 1), &stack);
	if (run != HEAP_RUN_EMPTY)
		return run;
	struct event *ev = heap_next_event(heap, ring);
	if (!ev)
		return HEAP_RUN_FAILED;
	ev->addr = addr;
	ev->bytes = w2;
	ev->stack.v = stack;
	ev->kind = tag == WIRE_MAP ? EVENT_MAP : tag == WIRE_BRK ? EVENT_BRK : EVENT_UNMAP;
	if (tag == WIRE_MAP)
		ev->value = (w1 >> 32 & 0xff) | w1 >> 40 << 32;
	if (tag == WIRE_REMAP || ring->remapped)
		ev->flags = EVENT_F_REALLOC;
	ring->remapped = tag == WIRE_REMAP;
	return HEAP_RUN_EMPTY;
}

static enum heap_run take_thread(struct source_heap *heap, struct heap_ring *ring, uint64_t tid,
				 uint64_t cycles)
{
	uint64_t ns = heap_clock_ns(&heap->clock, cycles);
	if (ns > heap->limit_ns)
		ns = heap->limit_ns;
	heap_settle(heap, ns);
	if (ns > ring->now_ns)
		ring->now_ns = ns;
	if (tid > UINT32_MAX)
		return HEAP_RUN_BAD;
	return heap_switch_thread(heap, ring, (uint32_t)tid);
}

static enum heap_run take_simple(struct source_heap *heap, struct heap_ring *ring, unsigned tag,
				 uint64_t value)
{
	if (tag == WIRE_THREAD_END && ring->thread != HEAP_NO_THREAD) {
		heap->threads[ring->thread].ended = true;
		heap->threads[ring->thread].end_ns = ring->now_ns;
	}
	struct event *ev = heap_next_event(heap, ring);
	if (!ev)
		return HEAP_RUN_FAILED;
	ev->kind = tag == WIRE_MARK     ? EVENT_MARK
		   : tag == WIRE_SWITCH ? EVENT_SWITCH
					: EVENT_THREAD_END;
	ev->value = value;
	return HEAP_RUN_EMPTY;
}

/* ---- one ring ---------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) enum heap_run
take_realloc_end(struct source_heap *heap, struct heap_ring *ring, uint64_t addr, uint32_t tag,
		 uint64_t bytes, uint32_t node, bool wait)
{
	uint32_t stack;
	enum heap_run run = node_to_stack(heap, node, &stack);
	if (run != HEAP_RUN_EMPTY)
		return run;
	uint64_t old = ring->realloc_old;
	if (!ring->realloc_freed) {
		run = take_free(heap, ring, old, ring->realloc_tag, EVENT_F_REALLOC,
				ring->realloc_aux, wait);
		if (run == HEAP_RUN_WAIT)
			wait_for(heap, ring, HEAP_WAIT_LIVE, old);
		if (run != HEAP_RUN_EMPTY)
			return run;
		ring->realloc_freed = true;
	}
	run = take_alloc(heap, ring, addr, tag, bytes, stack, EVENT_F_REALLOC);
	if (run == HEAP_RUN_WAIT) {
		wait_for(heap, ring, HEAP_WAIT_DEAD, addr);
		return run;
	}
	ring->realloc_pending = false;
	return run;
}

/* Look at the records that stand next, so that their blocks are on their way into the cache when their turn comes. */
static inline __attribute__((always_inline)) void look_ahead(struct source_heap *heap,
							     struct heap_ring *ring)
{
	while (ring->looked - ring->taken < HEAP_AHEAD && ring->ahead_pos < ring->head) {
		uint64_t w0 = word_at(ring, ring->ahead_pos);
		unsigned tag = w0 & 0xff, bytes = tag < WIRE_TAG_MAX ? tag_words[tag] * 8u : 0;
		uint32_t live = live_tag(&heap->live, w0 >> 8);
		live_prefetch(&heap->live, live);
		ring->ahead[ring->looked++ % HEAP_AHEAD] = (struct heap_ahead){ w0, live, bytes };
		ring->ahead_pos += bytes ? bytes : 8; /* what is no record will never be passed */
	}
}

/*
 * Take records until the ring is empty, its stamp passes @limit_ns, or one contradicts the books. @resolve: the first
 * record has waited long enough; take it as it is.
 */
static enum heap_run run_ring(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns,
			      bool resolve)
{
	while (ring->tail < ring->safe) {
		look_ahead(heap, ring);
		uint64_t pos = ring->tail;
		const struct heap_ahead *next = &ring->ahead[ring->taken % HEAP_AHEAD];
		uint64_t w0 = next->w0;
		uint32_t live = next->tag;
		unsigned tag = w0 & 0xff;
		uint64_t value = w0 >> 8, bytes = next->bytes;
		if (__builtin_expect(!bytes || ring->head - pos < bytes, 0))
			return HEAP_RUN_BAD;
		if (__builtin_expect(ring->thread == HEAP_NO_THREAD, 0) && tag != WIRE_THREAD &&
		    tag != WIRE_TIME && tag != WIRE_PAD && tag != WIRE_LOST)
			return HEAP_RUN_BAD;
		enum heap_run run = HEAP_RUN_EMPTY;
		bool yield = false;
		switch (tag) {
		case WIRE_PAD:
			break;
		case WIRE_ALLOC:
		case WIRE_ALLOC_BIG: {
			uint64_t w1 = word_at(ring, pos + 8), size = w1 >> WIRE_NODE_BITS;
			uint32_t stack, node = (uint32_t)w1 & (WIRE_NODE_MAX - 1);
			if (tag == WIRE_ALLOC_BIG)
				size = word_at(ring, pos + 16);
			if (__builtin_expect(ring->realloc_pending, 0))
				return HEAP_RUN_BAD;
			run = node_to_stack(heap, node, &stack);
			if (__builtin_expect(resolve, 0) && run == HEAP_RUN_EMPTY &&
			    live_find(&heap->live, value) != BLOCK_NONE)
				run = free_unseen(heap, ring, value);
			if (run == HEAP_RUN_EMPTY)
				run = take_alloc(heap, ring, value, live, size, stack, 0);
			if (__builtin_expect(run == HEAP_RUN_WAIT, 0))
				wait_for(heap, ring, HEAP_WAIT_DEAD, value);
			break;
		}
		case WIRE_FREE:
		case WIRE_FREE_STACK: {
			uint32_t stack = 0;
			if (__builtin_expect(ring->realloc_pending, 0))
				return HEAP_RUN_BAD;
			if (tag == WIRE_FREE_STACK)
				run = node_to_stack(heap, (uint32_t)word_at(ring, pos + 8), &stack);
			if (run == HEAP_RUN_EMPTY)
				run = take_free(heap, ring, value, live, 0, stack, !resolve);
			if (run == HEAP_RUN_WAIT)
				wait_for(heap, ring, HEAP_WAIT_LIVE, value);
			break;
		}
		case WIRE_REALLOC_BEGIN:
		case WIRE_REALLOC_BEGIN_STACK:
			if (ring->realloc_pending)
				return HEAP_RUN_BAD;
			ring->realloc_aux = 0;
			if (tag == WIRE_REALLOC_BEGIN_STACK)
				run = node_to_stack(heap, (uint32_t)word_at(ring, pos + 8),
						    &ring->realloc_aux);
			ring->realloc_pending = true;
			ring->realloc_freed = false;
			ring->realloc_old = value;
			ring->realloc_tag = live;
			break;
		case WIRE_REALLOC_END:
		case WIRE_REALLOC_END_BIG: {
			uint64_t w1 = word_at(ring, pos + 8), size = w1 >> WIRE_NODE_BITS;
			if (tag == WIRE_REALLOC_END_BIG)
				size = word_at(ring, pos + 16);
			if (!ring->realloc_pending)
				return HEAP_RUN_BAD;
			if (resolve && ring->wait == HEAP_WAIT_DEAD)
				run = free_unseen(heap, ring, value);
			if (run == HEAP_RUN_EMPTY)
				run = take_realloc_end(heap, ring, value, live, size,
						       (uint32_t)w1 & (WIRE_NODE_MAX - 1),
						       !resolve);
			break;
		}
		case WIRE_REALLOC_FAIL:
			/* its old block cannot have been given to anybody else */
			if (!ring->realloc_pending || ring->realloc_old != value ||
			    ring->realloc_freed)
				return HEAP_RUN_BAD;
			ring->realloc_pending = false;
			break;
		case WIRE_TIME: {
			uint64_t ns =
				heap_clock_ns(&heap->clock, heap_clock_full(&heap->clock, value));
			if (ns > heap->limit_ns)
				ns = heap->limit_ns;
			heap_settle(heap, ns);
			if (ns > ring->now_ns)
				ring->now_ns = ns;
			yield = ring->now_ns > limit_ns;
			break;
		}
		case WIRE_THREAD:
			run = take_thread(heap, ring, value, word_at(ring, pos + 8));
			yield = ring->now_ns > limit_ns;
			break;
		case WIRE_MAP:
		case WIRE_UNMAP:
		case WIRE_REMAP:
			run = take_mapping(heap, ring, tag, value, word_at(ring, pos + 8),
					   word_at(ring, pos + 16));
			break;
		case WIRE_BRK:
			run = take_mapping(heap, ring, tag, value, word_at(ring, pos + 8), 0);
			break;
		case WIRE_LOST:
			run = take_lost(heap, ring, w0 >> 8);
			break;
		case WIRE_FORK:
			if (heap->fork && heap->fork(heap->fork_ctx, value) < 0)
				run = HEAP_RUN_FAILED;
			break;
		default: /* MARK, THREAD_END, SWITCH */
			run = take_simple(heap, ring, tag, value);
			break;
		}
		if (__builtin_expect(run != HEAP_RUN_EMPTY, 0))
			return run;
		ring->tail = pos + bytes;
		ring->taken++;
		resolve = false;
		if (yield)
			return HEAP_RUN_YIELD;
	}
	return HEAP_RUN_EMPTY;
}

/* ---- all rings --------------------------------------------------------------------------------------------------- */

static inline void publish_tail(struct source_heap *heap, struct heap_ring *ring)
{
	if (!heap->raw)
		__atomic_store_n(&ring->slot->tail, ring->tail, __ATOMIC_RELEASE);
}

/*
 * Count what stands in a closed ring from @ring->counted up to @to and nobody will take: record by record where the tags can
 * be read, behind that by the room it takes (an allocation and a free, with their stamps, have 32 bytes); at least @least,
 * for a rule may be broken without a record to blame for it.
 */
static int report_unread(struct source_heap *heap, struct heap_ring *ring, uint64_t to,
			 uint64_t least)
{
	uint64_t pos = ring->counted, read_to = heap->raw ? heap_raw_safe(ring) : to;
	uint64_t allocations = 0, frees = 0;
	while (pos < read_to) {
		unsigned tag = word_at(ring, pos) & 0xff;
		if (tag >= WIRE_TAG_MAX)
			break;
		allocations += tag == WIRE_ALLOC || tag == WIRE_ALLOC_BIG ||
			       tag == WIRE_REALLOC_END || tag == WIRE_REALLOC_END_BIG;
		frees += tag == WIRE_FREE || tag == WIRE_FREE_STACK || tag == WIRE_REALLOC_BEGIN ||
			 tag == WIRE_REALLOC_BEGIN_STACK;
		frees -= tag == WIRE_REALLOC_FAIL && frees;
		pos += tag_words[tag] * 8u;
	}
	uint64_t unread = pos < to ? (to - pos + 31) / 32 : 0;
	ring->counted = to;
	allocations += unread;
	frees += unread;
	if (!allocations && !frees)
		allocations = least;
	if (!allocations && !frees)
		return 0;
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return heap->err && heap->err->code ? heap->err->code : -EIO;
	ev->kind = EVENT_LOST;
	ev->value = LOSS_RING_DAMAGED;
	ev->addr = allocations;
	ev->block.v = frees < UINT32_MAX ? (uint32_t)frees : UINT32_MAX;
	heap->lost_frees_left += frees;
	heap->risk_order = heap->live.order;
	heap->stats.lost_allocations += allocations;
	heap->stats.lost_frees += frees;
	return 0;
}

static int close_ring(struct source_heap *heap, struct heap_ring *ring)
{
	uint64_t known = heap->raw ? ring->raw_head : ring->head;
	ring->closed = true;
	ring->wait = HEAP_WAIT_NO;
	ring->realloc_pending = false;
	ring->counted = ring->tail;
	if (!heap->raw)
		__atomic_store_n(&ring->slot->closed, 1, __ATOMIC_RELEASE);
	heap->stats.rings_closed++;
	int rc = report_unread(heap, ring, known, 1);
	ring->head = ring->safe = ring->tail;
	return rc;
}

int heap_report_closed(struct source_heap *heap)
{
	int rc = 0;
	for (uint32_t k = 0; !heap->raw && k < heap->active_count && rc == 0; k++) {
		struct heap_ring *ring = &heap->rings[heap->active[k]];
		uint64_t head = __atomic_load_n(&ring->slot->head, __ATOMIC_ACQUIRE) & ~7ULL;
		if (ring->closed && head > ring->counted && head - ring->counted <= ring->mask + 1)
			rc = report_unread(heap, ring, head, 0);
	}
	return rc;
}

/* Look at one ring's head. Return: 0, or negative errno of the sink or the file. */
static int refresh_head(struct source_heap *heap, uint32_t i)
{
	struct heap_ring *ring = &heap->rings[i];
	uint64_t head;
	if (ring->closed)
		return 0;
	if (heap->raw) {
		int rc = heap_raw_fill(heap, ring, &head);
		if (rc < 0)
			return rc;
	} else {
		head = __atomic_load_n(&ring->slot->head, __ATOMIC_ACQUIRE);
	}
	if (head == ring->head)
		return 0;
	if (head < ring->head || head - ring->tail > ring->mask + 1 || head % 8)
		return close_ring(heap, ring);
	ring->head = head;
	heap->news = true;
	if (ring->wait != HEAP_WAIT_NO && ring->wait_until_ns == UINT64_MAX)
		ring->wait_until_ns = heap_next_stamp(heap, ring);
	if (!ring->active) {
		ring->active = true;
		heap->active[heap->active_count++] = i;
	}
	return 0;
}

/*
 * Read the heads of all rings, twice: what the first reading found (safe) may be taken, since whatever had to come before
 * any of it, in whichever ring, was found by the second one at the latest. With one reading only, a ring that was read
 * late could hold what followed on records that an earlier one got meanwhile, for as long as we had lost the processor;
 * its frees would have been taken for those of earlier blocks. @first: the first reading looks at all rings, too, not
 * only at those that ever held data; @final: nobody writes any more.
 */
static int refresh_heads(struct source_heap *heap, bool first, bool final)
{
	int rc = 0;
	uint32_t slots = heap->layout.slot_count;
	heap->news = false;
	heap->epoch++;
	for (uint32_t i = 0; first && i < slots && rc == 0; i++)
		rc = refresh_head(heap, i);
	for (uint32_t k = 0; k < heap->active_count && rc == 0; k++) {
		struct heap_ring *ring = &heap->rings[heap->active[k]];
		if (!first)
			rc = refresh_head(heap, heap->active[k]);
		ring->safe = heap->raw ? heap_raw_safe(ring) : ring->head;
	}
	for (uint32_t i = 0; !heap->raw && i < slots && rc == 0; i++)
		rc = refresh_head(heap, i);
	for (uint32_t k = 0; final && !heap->raw && k < heap->active_count; k++)
		heap->rings[heap->active[k]].safe = heap->rings[heap->active[k]].head;
	if (rc < 0)
		return rc;
	/* after the heads, so that no stamp in what was committed can be later */
	if (!heap->raw) {
		heap_clock_sample(&heap->clock);
		heap->limit_ns = source_heap_now_ns(heap);
	}
	return 0;
}

static inline bool may_go_on(struct source_heap *heap, const struct heap_ring *ring)
{
	if (ring->wait == HEAP_WAIT_NO)
		return true;
	uint32_t block = live_find(&heap->live, ring->wait_addr);
	if (ring->wait == HEAP_WAIT_LIVE)
		return block != BLOCK_NONE;
	return block == BLOCK_NONE || free_by_realloc(heap, ring->wait_addr);
}

/* Does the record that @ring waits for stand in what @other has not yet given? Where much was lost most looks are in vain. */
static bool stands_ahead(struct source_heap *heap, const struct heap_ring *ring,
			 const struct heap_ring *other)
{
	uint64_t reach = MIN(MAX(heap->look_left, LOOK_AHEAD_LEAST), LOOK_AHEAD_BYTES);
	uint64_t end = other->tail + MIN(other->head - other->tail, reach);
	heap->look_left -= MIN(end - other->tail, heap->look_left);
	for (uint64_t pos = other->tail; pos < end;) {
		uint64_t w0 = word_at(other, pos);
		unsigned tag = w0 & 0xff;
		if (tag >= WIRE_TAG_MAX)
			return false;
		bool alloc = tag == WIRE_ALLOC || tag == WIRE_ALLOC_BIG ||
			     tag == WIRE_REALLOC_END || tag == WIRE_REALLOC_END_BIG;
		bool release = tag == WIRE_FREE || tag == WIRE_FREE_STACK ||
			       tag == WIRE_REALLOC_BEGIN || tag == WIRE_REALLOC_BEGIN_STACK;
		if (w0 >> 8 == ring->wait_addr && (ring->wait == HEAP_WAIT_LIVE ? alloc : release))
			return true;
		pos += tag_words[tag] * 8u;
	}
	return false;
}

/*
 * All that can go on has gone on: the ring whose wait nothing can end any more, the earliest of them. Where each waits for
 * what stands behind another's waiting record, an earlier guess was wrong: the earliest goes first, and what it waits for
 * is known to come (wait_ahead).
 */
static struct heap_ring *pick_hopeless(struct source_heap *heap)
{
	struct heap_ring *best = NULL, *earliest = NULL;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->wait == HEAP_WAIT_NO || ring->wait_epoch == heap->epoch)
			continue;
		if (!earliest || ring->now_ns < earliest->now_ns)
			earliest = ring;
		bool ahead = false;
		for (uint32_t k = 0; k < heap->active_count && !ahead; k++) {
			struct heap_ring *other = &heap->rings[heap->active[k]];
			ahead = other != ring && other->wait != HEAP_WAIT_NO &&
				stands_ahead(heap, ring, other);
		}
		if (!ahead && (!best || ring->now_ns < best->now_ns))
			best = ring;
	}
	if (!best && earliest)
		earliest->wait_ahead = true;
	return best ? best : earliest;
}

/* Everything else is past the moment of the waiting record: what it waits for does not come. The earliest such ring. */
static struct heap_ring *pick_overtaken(struct source_heap *heap)
{
	struct heap_ring *best = NULL;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->wait == HEAP_WAIT_NO || ring->wait_until_ns == UINT64_MAX)
			continue;
		bool overtaken = !best || ring->wait_until_ns < best->wait_until_ns;
		for (uint32_t k = 0; k < heap->active_count && overtaken; k++) {
			const struct heap_ring *other = &heap->rings[heap->active[k]];
			overtaken = other == ring || other->tail == other->head ||
				    other->now_ns > ring->wait_until_ns + STAMP_SLACK_NS;
		}
		if (overtaken)
			best = ring;
	}
	return best;
}

/*
 * The runnable ring with the earliest stamp, and the stamp at which another one has its turn. @blocked: there is one, but
 * what it holds is not safe yet, and nothing later may be taken before it.
 */
static struct heap_ring *pick_next(struct source_heap *heap, uint64_t *limit_ns, bool *waiting,
				   bool *blocked)
{
	struct heap_ring *best = NULL;
	*limit_ns = UINT64_MAX;
	*waiting = false;
	*blocked = false;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->tail == ring->head)
			continue;
		if (!may_go_on(heap, ring)) {
			*waiting = true;
			continue;
		}
		if (!best || ring->now_ns < best->now_ns) {
			if (best)
				*limit_ns = best->now_ns;
			best = ring;
		} else if (ring->now_ns < *limit_ns) {
			*limit_ns = ring->now_ns;
		}
	}
	if (*waiting)
		*limit_ns = 0; /* look after each stamp whether a wait has ended */
	*blocked = best && best->tail >= best->safe;
	return *blocked ? NULL : best;
}

ssize_t heap_merge(struct source_heap *heap, bool final)
{
	uint64_t most = 0;
	uint64_t refreshes = 0;
	int rc = refresh_heads(heap, heap->raw || !heap->active_count, final);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		const struct heap_ring *ring = &heap->rings[heap->active[i]];
		uint64_t held = ring->head - ring->tail;
		uint64_t permille = held ? held * 1000 / (ring->mask + 1) + 1 : 0;
		if (permille > most)
			most = permille;
	}
	for (;;) {
		uint64_t limit_ns;
		bool waiting, blocked, resolve = false;
		struct heap_ring *ring = pick_next(heap, &limit_ns, &waiting, &blocked);
		struct heap_ring *overtaken = ring && waiting ? pick_overtaken(heap) : NULL;
		if (overtaken && overtaken->wait_epoch == heap->epoch) {
			/* rings that looked empty may have got what it waits for */
			rc = refresh_heads(heap, heap->raw, final);
			if (rc < 0)
				return rc;
			continue;
		}
		if (overtaken) {
			ring = overtaken;
			resolve = true;
		} else if (!ring) {
			if (!waiting && !(blocked && final) && !(heap->raw && heap->news))
				break;
			if (refreshes >= REFRESH_MAX && !final)
				break;
			/* raw windows are small: there, what was to come may take many of them */
			ring = waiting && !blocked && !(heap->raw && heap->news)
				       ? pick_hopeless(heap)
				       : NULL;
			if (!ring) {
				refreshes++;
				rc = refresh_heads(heap, heap->raw, final);
				if (rc < 0)
					return rc;
				continue;
			}
			resolve = true;
		}
		uint64_t before = ring->tail;
		heap->stretch = ring;
		heap->stretch_from = heap->batched;
		enum heap_run run = run_ring(heap, ring, limit_ns, resolve);
		heap_settle(heap, heap_next_stamp(heap, ring));
		heap->stretch = NULL;
		if (run == HEAP_RUN_FAILED)
			return heap->err && heap->err->code ? heap->err->code : -EIO;
		if (run != HEAP_RUN_WAIT)
			ring->wait = HEAP_WAIT_NO;
		heap->look_left += (ring->tail - before) * LOOK_AHEAD_SHARE;
		heap->look_left = MIN(heap->look_left, LOOK_AHEAD_MOST);
		if (ring->tail != before)
			publish_tail(heap, ring);
		if (run == HEAP_RUN_BAD) {
			rc = close_ring(heap, ring);
			if (rc < 0)
				return rc;
		}
	}
	rc = heap_expire_debts(heap, final);
	if (rc == 0)
		rc = heap_flush(heap);
	return rc < 0 ? rc : (ssize_t)most;
}
