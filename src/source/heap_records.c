/* SPDX-License-Identifier: Apache-2.0 */
/* heap_records.c - the records of one ring, taken into the books and made events, until one has to wait (heap_ring.c). */
#include <errno.h>
#include <string.h>
#include <sys/param.h>

#include "source/heap_internal.h"

/* As far as the next stamp can be: what a record waits for can only stand before that, which has to be known. */
#define LOOK_STAMP_RECORDS (WIRE_STAMP_BYTES / 8 + 32)
/* More than one wait in so many events is a crowd; looked at when so many more have waited. */
#define CROWD_EVENTS 64u
#define CROWD_WAITS 32u
/* Bytes that a thread still writes until it looks at what it is asked for. */
#define CROWD_NOTICED 2048u

/* Twice as many as a program can have, since a block may be taken as live a little longer than it is. */
#define ADDRESSES (1ULL << 57)

const uint8_t heap_tag_words[WIRE_TAG_MAX] = {
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
	[WIRE_NAME] = 3,
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

/* ---- block records ----------------------------------------------------------------------------------------------- */

static inline enum heap_run node_to_stack(struct source_heap *heap, uint32_t node, uint32_t *stack)
{
	if (__builtin_expect(node < heap->node_cap, 1)) {
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
bool heap_free_by_realloc(struct source_heap *heap, uint64_t addr)
{
	for (uint32_t i = 0; heap->realloc_count && i < heap->active_count; i++) {
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
	for (unsigned i = 0; i < LOOK_STAMP_RECORDS && pos < ring->head; i++) {
		uint64_t w0 = heap_word_at(ring, pos);
		unsigned tag = w0 & 0xff;
		if (tag == WIRE_TIME)
			return heap_clock_ns(&heap->clock, heap_clock_full(&heap->clock, w0 >> 8));
		if (tag >= WIRE_TAG_MAX)
			break;
		pos += heap_tag_words[tag] * 8u;
	}
	return UINT64_MAX;
}

/*
 * Threads that share one arena hand blocks to each other within what two stamps tell apart: each contradiction costs a
 * search, and a guess may be wrong. Such a program is asked to stamp each record, which costs it some 20 ns apiece, and for
 * good: it will do so again. A stamp of a free is from before the release, one of an allocation from behind it, so that
 * those of one address have the order of what happened. What stands in the rings by now is not waited for: its
 * contradictions become debts at once.
 */
static __attribute__((noinline)) void look_at_crowd(struct source_heap *heap)
{
	uint64_t events = heap->stats.allocations + heap->stats.frees;
	bool crowd = events - heap->crowd_events < CROWD_WAITS * CROWD_EVENTS;
	heap->crowd_waits = heap->stats.waits;
	heap->crowd_events = events;
	if (!crowd || heap->active_count < 2)
		return;
	if (!heap->raw)
		__atomic_store_n(&heap->header->stamp_closely, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		uint64_t held = heap->raw
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
	ring->wait_epoch = heap->epoch;
	ring->wait_until_ns = heap_next_stamp(heap, ring);
	if (++heap->stats.waits - heap->crowd_waits >= CROWD_WAITS)
		look_at_crowd(heap);
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
	/* the slot's last owner ended inside a realloc, which nobody goes on with: as far as is known it failed */
	heap_end_realloc(heap, ring);
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
		 uint64_t bytes, uint32_t node, bool wait, bool unseen)
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
	if (unseen && live_find(&heap->live, addr) != BLOCK_NONE)
		run = free_unseen(heap, ring, addr);
	if (run == HEAP_RUN_EMPTY)
		run = take_alloc(heap, ring, addr, tag, bytes, stack, EVENT_F_REALLOC);
	if (run == HEAP_RUN_WAIT) {
		wait_for(heap, ring, HEAP_WAIT_DEAD, addr);
		return run;
	}
	heap_end_realloc(heap, ring);
	return run;
}

/* What lives has always fitted into an address space; no sum over it is watched, here or behind. */
static inline bool has_room(const struct source_heap *heap, uint64_t size)
{
	return size < WIRE_SIZE_SMALL || (size <= ADDRESSES && heap->stats.live_bytes <= ADDRESSES);
}

/* One record of any kind; @live is the tag of what its first word, @w0, names. */
static __attribute__((noinline)) enum heap_run take_record(struct source_heap *heap,
							   struct heap_ring *ring, uint64_t w0,
							   uint32_t live, bool resolve)
{
	const uint64_t pos = ring->tail, value = w0 >> 8;
	const unsigned tag = w0 & 0xff;
	if (tag >= WIRE_TAG_MAX || ring->head - pos < heap_tag_words[tag] * 8u)
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
			run = node_to_stack(heap, (uint32_t)heap_word_at(ring, pos + 8), &stack);
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
			run = node_to_stack(heap, (uint32_t)heap_word_at(ring, pos + 8),
					    &ring->realloc_aux);
		ring->realloc_pending = true;
		heap->realloc_count++;
		ring->realloc_freed = false;
		ring->realloc_old = value;
		ring->realloc_tag = live;
		break;
	case WIRE_REALLOC_END:
	case WIRE_REALLOC_END_BIG: {
		uint64_t w1 = heap_word_at(ring, pos + 8), size = w1 >> WIRE_NODE_BITS;
		if (tag == WIRE_REALLOC_END_BIG)
			size = heap_word_at(ring, pos + 16);
		if (!ring->realloc_pending || !has_room(heap, size))
			return HEAP_RUN_BAD;
		/* its wait may have ended while others' went on */
		bool unseen = crowd || (resolve && ring->wait == HEAP_WAIT_DEAD);
		run = take_realloc_end(heap, ring, value, live, size,
				       (uint32_t)w1 & (WIRE_NODE_MAX - 1), !resolve, unseen);
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
		run = heap_name_thread(heap, ring->thread, (const char *)name);
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

/* Look at the record at @pos, so that its block is on its way into the cache when its turn comes. Return: where the next one stands. */
static inline __attribute__((always_inline)) uint64_t look_at(const struct source_heap *heap,
							      const struct heap_ring *ring,
							      uint64_t pos, struct heap_ahead *to)
{
	uint64_t w0 = heap_word_at(ring, pos);
	unsigned tag = w0 & 0xff;
	to->w0 = w0;
	to->tag = live_tag(&heap->live, w0 >> 8);
	live_prefetch(&heap->live, to->tag);
	/* what is no record will never be passed */
	return pos + (tag < WIRE_TAG_MAX ? heap_tag_words[tag] * 8u : 8u);
}

/*
 * @ahead: the table of live blocks does not fit into a near cache, so the records that follow are looked at early. Their
 * first words are read once, then. Nearly all records are allocations and frees of known stacks and blocks.
 */
static inline __attribute__((always_inline)) enum heap_run
run_records(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns, bool resolve,
	    const bool ahead)
{
	const uint64_t head = ring->head, safe = ring->safe;
	uint64_t pos = ring->tail, look = ring->ahead_pos;
	if (ahead && look < pos) {
		look = pos;
		ring->looked = ring->taken;
	}
	while (ahead && look < head && ring->looked - ring->taken < HEAP_AHEAD)
		look = look_at(heap, ring, look, &ring->ahead[ring->looked++ % HEAP_AHEAD]);
	ring->ahead_pos = look;
	bool plain = !resolve && !ring->realloc_pending && ring->thread != HEAP_NO_THREAD;
	while (pos < safe) {
		struct heap_ahead here, *next = &here;
		if (ahead) {
			next = &ring->ahead[ring->taken % HEAP_AHEAD];
		} else {
			here.w0 = heap_word_at(ring, pos);
			here.tag = live_tag(&heap->live, here.w0 >> 8);
		}
		const uint64_t w0 = next->w0, value = w0 >> 8;
		const uint32_t live = next->tag;
		const unsigned tag = w0 & 0xff;
		enum heap_run run = HEAP_RUN_WAIT;
		uint64_t bytes;
		if (plain && tag == WIRE_FREE) {
			bytes = 8;
			run = take_free(heap, ring, value, live, 0, 0, true);
		} else if (plain && tag == WIRE_ALLOC && head - pos >= 16) {
			uint64_t w1 = heap_word_at(ring, pos + 8);
			uint32_t stack, node = (uint32_t)w1 & (WIRE_NODE_MAX - 1);
			bytes = 16;
			run = node_to_stack(heap, node, &stack);
			if (__builtin_expect(run == HEAP_RUN_EMPTY, 1))
				run = take_alloc(heap, ring, value, live, w1 >> WIRE_NODE_BITS,
						 stack, 0);
		}
		if (__builtin_expect(run != HEAP_RUN_EMPTY, 0)) {
			if (run == HEAP_RUN_WAIT)
				run = take_record(heap, ring, w0, live, resolve);
			if (run != HEAP_RUN_EMPTY)
				return run;
			bytes = heap_tag_words[tag] * 8u;
			resolve = false;
			plain = !ring->realloc_pending && ring->thread != HEAP_NO_THREAD;
		}
		pos += bytes;
		ring->tail = pos;
		if (ahead) {
			ring->taken++;
			if (look < head) {
				look = look_at(heap, ring, look, next);
				ring->looked++;
				live_prefetch_row(
					&heap->live,
					ring->ahead[(ring->taken + HEAP_AHEAD / 2 - 1) % HEAP_AHEAD]
						.tag);
				ring->ahead_pos = look;
			}
		}
		if ((tag == WIRE_TIME || tag == WIRE_THREAD) && ring->now_ns > limit_ns)
			return HEAP_RUN_YIELD;
	}
	return HEAP_RUN_EMPTY;
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
	return heap->live.mask < HEAP_NEAR ? run_near(heap, ring, limit_ns, resolve)
					   : run_far(heap, ring, limit_ns, resolve);
}
