/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_records.c - the records of one ring, taken into the books and made events, until one has to
 * wait (heap_ring.c).
 */
#include <errno.h>
#include <string.h>
#include <sys/param.h>

#include "source/heap_internal.h"

/*
 * As far as the next stamp can be: what a record waits for can only stand before that, which has to
 * be known.
 */
#define LOOK_STAMP_RECORDS (WIRE_STAMP_BYTES / 8 + 32)
/* More than one wait in so many events is a crowd; looked at when so many more have waited. */
#define CROWD_EVENTS 64u
#define CROWD_WAITS 32u
/* Bytes that a thread still writes until it looks at what it is asked for. */
#define CROWD_NOTICED 2048u

/*
 * Twice as many as a program can have, since a block may be taken as live a little longer than it
 * is.
 */
#define ADDRESSES (1ULL << 57)

const uint8_t heap_record_bytes[256] = {
	[WIRE_PAD] = 8,
	[WIRE_FREE] = 8,
	[WIRE_FREE_STACK] = 16,
	[WIRE_ALLOC] = 16,
	[WIRE_ALLOC_BIG] = 24,
	[WIRE_REALLOC_BEGIN] = 8,
	[WIRE_REALLOC_BEGIN_STACK] = 16,
	[WIRE_REALLOC_END] = 16,
	[WIRE_REALLOC_END_BIG] = 24,
	[WIRE_REALLOC_FAIL] = 8,
	[WIRE_TIME] = 8,
	[WIRE_THREAD] = 16,
	[WIRE_MAP] = 24,
	[WIRE_UNMAP] = 24,
	[WIRE_REMAP] = 24,
	[WIRE_BRK] = 16,
	[WIRE_MARK] = 8,
	[WIRE_LOST] = 16,
	[WIRE_THREAD_END] = 8,
	[WIRE_SWITCH] = 8,
	[WIRE_FORK] = 8,
	[WIRE_NAME] = 24,
	[WIRE_TAG_MAX... 255] = 8,
};

/*
 * The next place in the batch; NULL after a failure of the sink. The caller fills every field it
 * does not zero.
 */
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
	ev->time_ns = heap_told(heap, ring ? heap_event_time(heap, ring) : heap->last_ns);
	ev->thread.v = ring && ring->thread != HEAP_NO_THREAD ? ring->thread : 0;
	ev->block.v = BLOCK_NONE;
	return ev;
}

/* ---- block records --------------------------------------------------------------------------- */

static inline enum heap_run node_to_stack(struct source_heap *heap, uint32_t node, uint32_t *stack)
{
	if (__builtin_expect(node < heap->names.node_cap, 1)) {
		*stack = heap->names.node_stack[node];
		if (__builtin_expect(*stack != 0, 1))
			return HEAP_RUN_EMPTY;
	}
	return heap_define_stack(&heap->names, node, stack);
}

/*
 * A place in the batch becomes the end of @row's block; @last is the order of the thread's last
 * allocation.
 */
static inline void fill_free(struct event *ev, uint32_t thread, uint64_t ns, uint64_t last,
			     uint32_t block, const struct live_block *row, uint8_t flags,
			     uint32_t aux_stack)
{
	*ev = (struct event){
		.kind = EVENT_FREE,
		.flags = flags | (last == row->order ? EVENT_F_TEMPORARY : 0),
		.thread.v = thread,
		.time_ns = ns,
		.addr = row->addr,
		.bytes = row->bytes,
		.stack.v = row->stack,
		.aux_stack.v = aux_stack,
		.block.v = block,
	};
}

/* The same for a new block. */
static inline void fill_alloc(struct event *ev, uint32_t thread, uint64_t ns, uint32_t block,
			      uint64_t addr, uint64_t bytes, uint32_t stack, uint8_t flags)
{
	*ev = (struct event){
		.kind = EVENT_ALLOC,
		.flags = flags,
		.thread.v = thread,
		.time_ns = ns,
		.addr = addr,
		.bytes = bytes,
		.stack.v = stack,
		.block.v = block,
	};
}

/*
 * Take a block out of the books; @wait: say WAIT if nothing lives there, else it is a free of a
 * foreign block.
 */
static inline __attribute__((always_inline)) enum heap_run take_free(struct source_heap *heap,
								     struct heap_ring *ring,
								     uint64_t addr, uint8_t flags,
								     uint32_t aux_stack, bool wait)
{
	struct live_block row;
	struct heap_debt credit;
	if (__builtin_expect(heap->books.credit_count != 0, 0) &&
	    heap_settle_debt(&heap->books, addr, true, &credit))
		return HEAP_RUN_EMPTY;
	uint32_t block = live_remove(&heap->books.live, addr, &row);
	if (__builtin_expect(block == BLOCK_NONE, 0)) {
		if (wait)
			return HEAP_RUN_WAIT;
		return heap_free_of_dead(heap, ring, addr, aux_stack);
	}
	if (heap->merge.active_count > 1)
		heap_note_free(&heap->books, addr, heap->last_ns);
	heap->books.live_bytes -= row.bytes;
	struct event *ev = next_place(heap);
	if (!ev)
		return HEAP_RUN_FAILED;
	fill_free(ev, ring->thread, heap_told(heap, heap_event_time(heap, ring)), ring->last_order,
		  block, &row, flags, aux_stack);
	heap->stats.frees++;
	return HEAP_RUN_EMPTY;
}

static inline __attribute__((always_inline)) enum heap_run take_alloc(struct source_heap *heap,
								      struct heap_ring *ring,
								      uint64_t addr, uint64_t bytes,
								      uint32_t stack, uint8_t flags)
{
	uint32_t block;
	enum live_result result = live_add(&heap->books.live, addr, bytes, stack, &block);
	if (__builtin_expect(result != LIVE_OK, 0)) {
		if (result == LIVE_EXISTS)
			return HEAP_RUN_WAIT;
		err_set(heap->out.err, -ENOMEM, "cannot keep track of %u live blocks",
			heap->books.live.count);
		return HEAP_RUN_FAILED;
	}
	struct event *ev = next_place(heap);
	if (!ev)
		return HEAP_RUN_FAILED;
	fill_alloc(ev, ring->thread, heap_told(heap, heap_event_time(heap, ring)), block, addr,
		   bytes, stack, flags);
	heap->stats.allocations++;
	heap->books.live_bytes += bytes;
	ring->last_order = heap->books.live.order;
	return __builtin_expect(heap->books.debt_count != 0, 0) ? heap_pay_debt(heap, addr)
								: HEAP_RUN_EMPTY;
}

/* The books say that @addr lives, and its free does not come: free it, so that the books go on. */
static enum heap_run free_unseen(struct source_heap *heap, struct heap_ring *ring, uint64_t addr)
{
	if (heap->books.lost_frees_left) {
		heap->books.lost_frees_left--; /* counted already, where it was lost */
		return heap_free_out_of_turn(heap, addr, ring->thread, 0, EVENT_F_IMPLIED);
	}
	if (heap->merge.active_count > 1 && heap->books.debt_count < HEAP_DEBTS) {
		heap_add_debt(heap, ring, addr, 0, true);
		return heap_free_out_of_turn(heap, addr, ring->thread, 0, 0);
	}
	enum heap_run run = heap_report_disorder(heap);
	return run == HEAP_RUN_EMPTY
		       ? heap_free_out_of_turn(heap, addr, ring->thread, 0, EVENT_F_IMPLIED)
		       : run;
}

/*
 * Another thread's realloc of @addr is under way and has released it: take its free now. True if
 * there was one.
 */
bool heap_free_by_realloc(void *ctx, uint64_t addr)
{
	struct source_heap *heap = ctx;
	for (uint32_t i = 0; heap->merge.realloc_count && i < heap->merge.active_count; i++) {
		struct heap_ring *other = &heap->merge.rings[heap->merge.active[i]];
		if (!other->realloc_pending || other->realloc_freed || other->realloc_old != addr)
			continue;
		other->realloc_freed = true;
		return take_free(heap, other, addr, EVENT_F_REALLOC, other->realloc_aux, false) ==
		       HEAP_RUN_EMPTY;
	}
	return false;
}

uint64_t heap_next_stamp(const struct source_heap *heap, const struct heap_ring *ring)
{
	uint64_t pos = ring->tail;
	for (unsigned i = 0; i < LOOK_STAMP_RECORDS && pos < ring->head; i++) {
		uint64_t w0 = heap_word_at(ring, pos);
		unsigned tag = w0 & 0xff;
		if (tag == WIRE_TIME)
			return heap_clock_ns(&heap->clock, heap_clock_full(&heap->clock, w0 >> 8));
		if (tag >= WIRE_TAG_MAX)
			break;
		pos += heap_record_bytes[tag];
	}
	return UINT64_MAX;
}

/*
 * Threads that share one arena hand blocks to each other within what two stamps tell apart: each
 * contradiction costs a search, and a guess may be wrong. Such a program is asked to stamp each
 * record, which costs it some 20 ns apiece, and for good: it will do so again. A stamp of a free is
 * from before the release, one of an allocation from behind it, so that those of one address have
 * the order of what happened. What stands in the rings by now is not waited for: its contradictions
 * become debts at once.
 */
static __attribute__((noinline)) void look_at_crowd(struct source_heap *heap)
{
	uint64_t events = heap->stats.allocations + heap->stats.frees;
	bool crowd = events - heap->merge.crowd_events < CROWD_WAITS * CROWD_EVENTS;
	heap->merge.crowd_waits = heap->stats.waits;
	heap->merge.crowd_events = events;
	if (!crowd || heap->merge.active_count < 2)
		return;
	if (!heap->tables.raw)
		__atomic_store_n(&heap->tables.header->stamp_closely, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < heap->merge.active_count; i++) {
		struct heap_ring *ring = &heap->merge.rings[heap->merge.active[i]];
		uint64_t held = heap->tables.raw
					? ring->raw_head - ring->tail
					: MIN(__atomic_load_n(&ring->slot->head, __ATOMIC_RELAXED) -
						      ring->tail,
					      ring->mask + 1);
		ring->crowd_until = ring->tail + held + CROWD_NOTICED;
	}
}

static inline void wait_for(struct source_heap *heap, struct heap_ring *ring, enum heap_wait what,
			    uint64_t addr)
{
	ring->wait = (uint8_t)what;
	ring->wait_ahead = false;
	ring->wait_addr = addr;
	ring->wait_epoch = heap->merge.epoch;
	ring->wait_until_ns = heap_next_stamp(heap, ring);
	if (++heap->stats.waits - heap->merge.crowd_waits >= CROWD_WAITS)
		look_at_crowd(heap);
}

/* ---- other records --------------------------------------------------------------------------- */

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

/* From here on @ring is written by @tid. */
static enum heap_run switch_thread(struct source_heap *heap, struct heap_ring *ring, uint32_t tid)
{
	if (ring->thread != HEAP_NO_THREAD)
		heap->names.threads[ring->thread].last_order = ring->last_order;
	enum heap_run run = heap_thread_of(&heap->names, tid, ring->now_ns, &ring->thread);
	/* of the many in the shared row it is not known whose the last one was */
	if (run == HEAP_RUN_EMPTY)
		ring->last_order = ring->thread < HEAP_THREADS_MAX
					   ? heap->names.threads[ring->thread].last_order
					   : 0;
	return run;
}

/* From here on it is called so, @name having 16 bytes; what came before is handed on first. */
static enum heap_run name_thread(struct source_heap *heap, uint32_t thread, const char *name)
{
	if (heap_is_called(&heap->names, thread, name))
		return HEAP_RUN_EMPTY;
	return heap_flush(heap) < 0 ? HEAP_RUN_FAILED
				    : heap_call_thread(&heap->names, thread, name);
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
	/*
	 * the slot's last owner ended inside a realloc, which nobody goes on with: as far as is
	 * known it failed
	 */
	heap_end_realloc(heap, ring);
	return switch_thread(heap, ring, (uint32_t)tid);
}

static enum heap_run take_simple(struct source_heap *heap, struct heap_ring *ring, unsigned tag,
				 uint64_t value)
{
	if (tag == WIRE_THREAD_END && ring->thread != HEAP_NO_THREAD) {
		heap->names.threads[ring->thread].ended = true;
		heap->names.threads[ring->thread].end_ns = ring->now_ns;
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

/* ---- one ring -------------------------------------------------------------------------------- */

static __attribute__((noinline)) enum heap_run
take_realloc_end(struct source_heap *heap, struct heap_ring *ring, uint64_t addr, uint64_t bytes,
		 uint32_t node, bool wait, bool unseen)
{
	uint32_t stack;
	enum heap_run run = node_to_stack(heap, node, &stack);
	if (run != HEAP_RUN_EMPTY)
		return run;
	uint64_t old = ring->realloc_old;
	if (!ring->realloc_freed) {
		run = take_free(heap, ring, old, EVENT_F_REALLOC, ring->realloc_aux, wait);
		if (run == HEAP_RUN_WAIT)
			wait_for(heap, ring, HEAP_WAIT_LIVE, old);
		if (run != HEAP_RUN_EMPTY)
			return run;
		ring->realloc_freed = true;
	}
	if (unseen && live_find(&heap->books.live, addr) != BLOCK_NONE)
		run = free_unseen(heap, ring, addr);
	if (run == HEAP_RUN_EMPTY)
		run = take_alloc(heap, ring, addr, bytes, stack, EVENT_F_REALLOC);
	if (run == HEAP_RUN_WAIT) {
		wait_for(heap, ring, HEAP_WAIT_DEAD, addr);
		return run;
	}
	heap_end_realloc(heap, ring);
	return run;
}

/* @freed: its old block is taken out of the books already. */
static void begin_realloc(struct source_heap *heap, struct heap_ring *ring, uint64_t old,
			  uint32_t aux_stack, bool freed)
{
	ring->realloc_pending = true;
	heap->merge.realloc_count++;
	ring->realloc_freed = freed;
	ring->realloc_old = old;
	ring->realloc_aux = aux_stack;
}

/* What lives has always fitted into an address space; no sum over it is watched, here or behind. */
static inline bool has_room(const struct source_heap *heap, uint64_t size)
{
	return size < WIRE_SIZE_SMALL || (size <= ADDRESSES && heap->books.live_bytes <= ADDRESSES);
}

/* One record of any kind, whose first word is @w0. */
static __attribute__((noinline)) enum heap_run
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one kind of record a case */
take_record(struct source_heap *heap, struct heap_ring *ring, uint64_t w0, bool resolve)
{
	const uint64_t pos = ring->tail, value = w0 >> 8;
	const unsigned tag = w0 & 0xff;
	if (tag >= WIRE_TAG_MAX || ring->head - pos < heap_record_bytes[tag])
		return HEAP_RUN_BAD;
	if (ring->thread == HEAP_NO_THREAD && tag != WIRE_THREAD && tag != WIRE_TIME &&
	    tag != WIRE_PAD && tag != WIRE_LOST)
		return HEAP_RUN_BAD;
	enum heap_run run = HEAP_RUN_EMPTY;
	const bool crowd = pos < ring->crowd_until;
	if (__builtin_expect(crowd, 0))
		resolve = ring->wait_ahead = true;
	switch (tag) {
	case WIRE_PAD:
		break;
	case WIRE_ALLOC:
	case WIRE_ALLOC_BIG: {
		uint64_t w1 = heap_word_at(ring, pos + 8), size = w1 >> WIRE_NODE_BITS;
		uint32_t stack, node = (uint32_t)w1 & (WIRE_NODE_MAX - 1);
		if (tag == WIRE_ALLOC_BIG)
			size = heap_word_at(ring, pos + 16);
		if (__builtin_expect(ring->realloc_pending, 0) || !has_room(heap, size))
			return HEAP_RUN_BAD;
		run = node_to_stack(heap, node, &stack);
		if (__builtin_expect(resolve, 0) && run == HEAP_RUN_EMPTY &&
		    live_find(&heap->books.live, value) != BLOCK_NONE)
			run = free_unseen(heap, ring, value);
		if (run == HEAP_RUN_EMPTY)
			run = take_alloc(heap, ring, value, size, stack, 0);
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
			run = node_to_stack(heap, (uint32_t)heap_word_at(ring, pos + 8), &stack);
		if (run == HEAP_RUN_EMPTY)
			run = take_free(heap, ring, value, 0, stack, !resolve);
		if (run == HEAP_RUN_WAIT)
			wait_for(heap, ring, HEAP_WAIT_LIVE, value);
		break;
	}
	case WIRE_REALLOC_BEGIN:
	case WIRE_REALLOC_BEGIN_STACK: {
		if (ring->realloc_pending)
			return HEAP_RUN_BAD;
		uint32_t stack = 0;
		if (tag == WIRE_REALLOC_BEGIN_STACK)
			run = node_to_stack(heap, (uint32_t)heap_word_at(ring, pos + 8), &stack);
		begin_realloc(heap, ring, value, stack, false);
		break;
	}
	case WIRE_REALLOC_END:
	case WIRE_REALLOC_END_BIG: {
		uint64_t w1 = heap_word_at(ring, pos + 8), size = w1 >> WIRE_NODE_BITS;
		if (tag == WIRE_REALLOC_END_BIG)
			size = heap_word_at(ring, pos + 16);
		if (!ring->realloc_pending || !has_room(heap, size))
			return HEAP_RUN_BAD;
		/* its wait may have ended while others' went on */
		bool unseen = crowd || (resolve && ring->wait == HEAP_WAIT_DEAD);
		run = take_realloc_end(heap, ring, value, size, (uint32_t)w1 & (WIRE_NODE_MAX - 1),
				       !resolve, unseen);
		break;
	}
	case WIRE_REALLOC_FAIL:
		/* its old block cannot have been given to anybody else */
		if (!ring->realloc_pending || ring->realloc_old != value || ring->realloc_freed)
			return HEAP_RUN_BAD;
		heap_end_realloc(heap, ring);
		break;
	case WIRE_TIME: {
		uint64_t ns = heap_clock_ns(&heap->clock, heap_clock_full(&heap->clock, value));
		if (ns > heap->limit_ns)
			ns = heap->limit_ns;
		heap_settle(heap, ns);
		if (ns > ring->now_ns)
			ring->now_ns = ns;
		ring->exact = true;
		break;
	}
	case WIRE_THREAD:
		run = take_thread(heap, ring, value, heap_word_at(ring, pos + 8));
		break;
	case WIRE_MAP:
	case WIRE_UNMAP:
	case WIRE_REMAP:
		run = take_mapping(heap, ring, tag, value, heap_word_at(ring, pos + 8),
				   heap_word_at(ring, pos + 16));
		break;
	case WIRE_BRK:
		run = take_mapping(heap, ring, tag, value, heap_word_at(ring, pos + 8), 0);
		break;
	case WIRE_LOST:
		run = take_lost(heap, ring, w0 >> 8);
		break;
	case WIRE_NAME: {
		const uint64_t name[2] = { heap_word_at(ring, pos + 8),
					   heap_word_at(ring, pos + 16) };
		run = name_thread(heap, ring->thread, (const char *)name);
		break;
	}
	case WIRE_FORK:
		if (heap->fork && heap->fork(heap->fork_ctx, value) < 0)
			run = HEAP_RUN_FAILED;
		break;
	default: /* MARK, THREAD_END, SWITCH */
		run = take_simple(heap, ring, tag, value);
		break;
	}
	return run;
}

/* What the @found records will need of the large table. */
static __attribute__((noinline)) void fetch_far(const struct live *live, struct heap_ring *ring,
						uint32_t found)
{
	for (; ring->far_rows != ring->far_buckets; ring->far_rows++)
		live_prefetch_row(live, (uint32_t)ring->far[ring->far_rows % HEAP_FAR]);
	for (; ring->far_buckets != found; ring->far_buckets++) {
		uint64_t *far = &ring->far[ring->far_buckets % HEAP_FAR];
		*far = live_prefetch(live, *far);
	}
}

/*
 * Look at the next record, without a branch on it: whether its block is near is as good as random.
 * Return: whether a group is complete.
 */
static inline __attribute__((always_inline)) bool
look_next(const struct source_heap *heap, struct heap_ring *ring, struct heap_look *look)
{
	const uint64_t w0 = heap_word_at(ring, look->pos), addr = w0 >> 8;
	ring->far[look->found % HEAP_FAR] = addr;
	look->found += !live_is_near(&heap->books.live, addr);
	if (heap->merge.active_count > 1)
		__builtin_prefetch(heap_recent_pair(&heap->books, addr), 1);
	look->pos += heap_record_bytes[w0 & 0xff];
	return ++look->looked % HEAP_LOOK_GROUP == 0;
}

static __attribute__((noinline)) void look_ahead(const struct source_heap *heap,
						 struct heap_ring *ring)
{
	const uint64_t end = MIN(ring->head, ring->tail + HEAP_LOOK_BYTES);
	if (ring->look.pos < ring->tail)
		ring->look.pos = ring->tail;
	while (ring->look.pos < end) {
		if (look_next(heap, ring, &ring->look))
			fetch_far(&heap->books.live, ring, ring->look.found);
	}
}

/*
 * Whether the record behind the realloc's beginning at @pos is its end, and will be taken with it:
 * then it did not fail.
 */
static inline bool moves(const struct heap_ring *ring, uint64_t pos)
{
	return ring->head - pos >= 24 && pos + 8 < ring->safe &&
	       (heap_word_at(ring, pos + 8) & 0xff) == WIRE_REALLOC_END;
}

/*
 * Take allocations, frees and reallocs of known stacks and blocks, which nearly all records are, as
 * long as the batch has room. What it stops at is for take_record() to judge.
 */
static inline __attribute__((always_inline)) void
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
take_plain(struct source_heap *heap, struct heap_ring *ring, const bool ahead)
{
	const uint64_t head = ring->head, safe = ring->safe;
	struct event *ev = &heap->batch[heap->batched], *const end = &heap->batch[HEAP_BATCH];
	const uint64_t now = MAX(ring->now_ns, heap->last_ns), told = heap_told(heap, now);
	const uint32_t thread = ring->thread;
	const bool several = heap->merge.active_count > 1, debts = heap->books.debt_count != 0;
	struct heap_look look = ring->look;
	uint64_t pos = ring->tail, last = ring->last_order, frees = 0, live_bytes = 0;
	uint64_t renewed = 0; /* by the realloc whose end comes next */
	const struct event *const from = ev;
	for (; pos < safe && ev < end; ev++) {
		const uint64_t w0 = heap_word_at(ring, pos), addr = w0 >> 8;
		const unsigned tag = w0 & 0xff;
		bool renews = false;
		if (__builtin_expect(debts, 0) && *heap_debt_chain(&heap->books, addr))
			break;
		if (tag == WIRE_FREE || (renews = tag == WIRE_REALLOC_BEGIN && moves(ring, pos))) {
			struct live_block row;
			if (__builtin_expect(renewed != 0, 0)) /* its end was overwritten */
				break;
			uint32_t block = live_remove(&heap->books.live, addr, &row);
			if (__builtin_expect(block == BLOCK_NONE, 0))
				break;
			if (several)
				heap_note_free(&heap->books, addr, now);
			fill_free(ev, thread, told, last, block, &row, renews ? EVENT_F_REALLOC : 0,
				  0);
			renewed = renews ? w0 : 0;
			live_bytes -= row.bytes;
			frees++;
			pos += 8;
		} else if (tag == (renewed ? WIRE_REALLOC_END : WIRE_ALLOC) && head - pos >= 16) {
			uint64_t w1 = heap_word_at(ring, pos + 8), bytes = w1 >> WIRE_NODE_BITS;
			uint32_t node = (uint32_t)w1 & (WIRE_NODE_MAX - 1), block;
			uint32_t stack =
				node < heap->names.node_cap ? heap->names.node_stack[node] : 0;
			if (__builtin_expect(!stack, 0) ||
			    __builtin_expect(live_add(&heap->books.live, addr, bytes, stack,
						      &block) != LIVE_OK,
					     0))
				break;
			fill_alloc(ev, thread, told, block, addr, bytes, stack,
				   renewed ? EVENT_F_REALLOC : 0);
			renewed = 0;
			live_bytes += bytes;
			last = heap->books.live.order;
			pos += 16;
		} else {
			break;
		}
		if (ahead && look.pos < head && look_next(heap, ring, &look))
			fetch_far(&heap->books.live, ring, look.found);
	}
	if (ev == from)
		return;
	if (renewed)
		begin_realloc(heap, ring, renewed >> 8, 0, true);
	heap->last_ns = now;
	heap->batched = (uint32_t)(ev - heap->batch);
	heap->stats.frees += frees;
	heap->stats.allocations += (uint64_t)(ev - from) - frees;
	heap->books.live_bytes += live_bytes;
	ring->last_order = last;
	ring->tail = pos;
	ring->look = look;
}

/*
 * @ahead: the table of live blocks does not fit into a near cache, so the records that follow are
 * looked at early.
 */
static inline __attribute__((always_inline)) enum heap_run
run_records(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns, bool resolve,
	    const bool ahead)
{
	if (ahead)
		look_ahead(heap, ring);
	for (;; resolve = false) {
		if (!resolve && !ring->realloc_pending && ring->thread != HEAP_NO_THREAD)
			take_plain(heap, ring, ahead);
		if (ring->tail >= ring->safe)
			return HEAP_RUN_EMPTY;
		const uint64_t w0 = heap_word_at(ring, ring->tail);
		const unsigned tag = w0 & 0xff;
		enum heap_run run = take_record(heap, ring, w0, resolve);
		if (run != HEAP_RUN_EMPTY)
			return run;
		ring->tail += heap_record_bytes[tag];
		if (ahead && ring->look.pos < ring->head && look_next(heap, ring, &ring->look))
			fetch_far(&heap->books.live, ring, ring->look.found);
		if ((tag == WIRE_TIME || tag == WIRE_THREAD) && ring->now_ns > limit_ns)
			return HEAP_RUN_YIELD;
	}
}

static __attribute__((noinline)) enum heap_run
run_near(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns, bool resolve)
{
	return run_records(heap, ring, limit_ns, resolve, false);
}

static __attribute__((noinline)) enum heap_run
run_far(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns, bool resolve)
{
	return run_records(heap, ring, limit_ns, resolve, true);
}

enum heap_run heap_run_ring(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns,
			    bool resolve)
{
	return heap->books.live.mask < HEAP_AHEAD_FROM ? run_near(heap, ring, limit_ns, resolve)
						       : run_far(heap, ring, limit_ns, resolve);
}
