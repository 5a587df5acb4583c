/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_ring.c - merge the rings into one stream.
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
#include <sys/param.h>

#include "source/heap_internal.h"

/* Heads are read this often in one call before the caller gets its turn (flush, timeline, signals). */
#define REFRESH_MAX 64
/* Nor is it kept longer by threads that contradict each other as fast as their records are taken. */
#define MERGE_MOST_NS 50000000u
/* Counters of different processors may differ by this much, and a stamp may be read this much too early. */
#define STAMP_SLACK_NS 1000

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
		unsigned tag = heap_word_at(ring, pos) & 0xff;
		if (tag >= WIRE_TAG_MAX)
			break;
		allocations += tag == WIRE_ALLOC || tag == WIRE_ALLOC_BIG ||
			       tag == WIRE_REALLOC_END || tag == WIRE_REALLOC_END_BIG;
		frees += tag == WIRE_FREE || tag == WIRE_FREE_STACK || tag == WIRE_REALLOC_BEGIN ||
			 tag == WIRE_REALLOC_BEGIN_STACK;
		frees -= tag == WIRE_REALLOC_FAIL && frees;
		pos += heap_record_bytes[tag];
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
	heap_end_realloc(heap, ring);
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
	if (ring->closed || heap->sealed)
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

/*
 * For the ends of waits. A target that writes on after its recording has ended, which none of our hooks does, is listened to
 * so often and no more: it would keep us for ever.
 */
static int refresh_again(struct source_heap *heap, uint64_t *listened, bool final)
{
	heap->sealed = final && !heap->raw && ++*listened > REFRESH_MAX;
	return refresh_heads(heap, heap->raw, final);
}

static inline bool may_go_on(struct source_heap *heap, const struct heap_ring *ring)
{
	if (ring->wait == HEAP_WAIT_NO)
		return true;
	uint32_t block = live_find(&heap->live, ring->wait_addr);
	if (ring->wait == HEAP_WAIT_LIVE)
		return block != BLOCK_NONE;
	return block == BLOCK_NONE || heap_free_by_realloc(heap, ring->wait_addr);
}

/*
 * Does the record that @ring waits for stand in what @other has not yet given? Where nobody may look any more it is said to:
 * then a debt finds out. Many threads that hand blocks to each other would have us look at everything for each record.
 */
static bool stands_ahead(struct source_heap *heap, const struct heap_ring *ring,
			 const struct heap_ring *other)
{
	uint64_t held = other->head - other->tail, reach = MIN(heap->look_left, LOOK_AHEAD_BYTES);
	uint64_t end = other->tail + MIN(held, reach);
	heap->look_left -= end - other->tail;
	for (uint64_t pos = other->tail; pos < end;) {
		uint64_t w0 = heap_word_at(other, pos);
		unsigned tag = w0 & 0xff;
		if (tag >= WIRE_TAG_MAX)
			return false;
		bool alloc = tag == WIRE_ALLOC || tag == WIRE_ALLOC_BIG ||
			     tag == WIRE_REALLOC_END || tag == WIRE_REALLOC_END_BIG;
		bool release = tag == WIRE_FREE || tag == WIRE_FREE_STACK ||
			       tag == WIRE_REALLOC_BEGIN || tag == WIRE_REALLOC_BEGIN_STACK;
		if (w0 >> 8 == ring->wait_addr && (ring->wait == HEAP_WAIT_LIVE ? alloc : release))
			return true;
		pos += heap_record_bytes[tag];
	}
	if (heap->raw && other->head < other->raw_head)
		return true; /* behind the window */
	return held > reach && reach < LOOK_AHEAD_BYTES;
}

/* Whether @ring waits for a record that was before @now_ns, if it ever was; what was later cannot end its wait. */
static bool waits_before(struct source_heap *heap, const struct heap_ring *ring, uint64_t now_ns)
{
	return ring->wait != HEAP_WAIT_NO &&
	       (now_ns == UINT64_MAX ||
		(now_ns > STAMP_SLACK_NS && ring->wait_until_ns < now_ns - STAMP_SLACK_NS &&
		 !may_go_on(heap, ring)));
}

/*
 * All that can go on has gone on, or is past @now_ns: the ring whose wait nothing can end any more, the earliest of them.
 * Where each waits for what stands behind another's waiting record, an earlier guess was wrong: the earliest goes first, and
 * what it waits for is known to come (wait_ahead). Not before all of them may be asked: else one that has just begun to wait
 * would be held for one that waits for ever.
 */
static struct heap_ring *pick_hopeless(struct source_heap *heap, uint64_t now_ns)
{
	struct heap_ring *best = NULL, *earliest = NULL;
	bool all = true;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->wait == HEAP_WAIT_NO)
			continue;
		if (ring->wait_epoch == heap->epoch || !waits_before(heap, ring, now_ns)) {
			all = false;
			continue;
		}
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
	if (best || !all)
		return best;
	if (earliest)
		earliest->wait_ahead = true;
	return earliest;
}

/* Rings that wait for what was before @now_ns: 0 there are none, 1 the heads have to be read again first, 2 there are. */
static int count_past(struct source_heap *heap, uint64_t now_ns)
{
	int found = 0;
	for (uint32_t i = 0; i < heap->active_count && found != 1; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (waits_before(heap, ring, now_ns))
			found = ring->wait_epoch == heap->epoch ? 1 : 2;
	}
	return found;
}

/* Everything else is past the moment of the waiting record: what it waits for does not come. The earliest such ring. */
static struct heap_ring *pick_overtaken(struct source_heap *heap)
{
	struct heap_ring *best = NULL;
	const struct heap_ring *first = NULL;
	uint64_t second_ns = UINT64_MAX;
	for (uint32_t i = 0; i < heap->active_count; i++) {
		const struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->tail == ring->head)
			continue;
		if (!first || ring->now_ns < first->now_ns) {
			second_ns = first ? first->now_ns : UINT64_MAX;
			first = ring;
		} else if (ring->now_ns < second_ns) {
			second_ns = ring->now_ns;
		}
	}
	for (uint32_t i = 0; i < heap->active_count; i++) {
		struct heap_ring *ring = &heap->rings[heap->active[i]];
		if (ring->wait == HEAP_WAIT_NO || ring->wait_until_ns == UINT64_MAX)
			continue;
		uint64_t others_ns = ring == first ? second_ns : first ? first->now_ns : UINT64_MAX;
		if (others_ns > ring->wait_until_ns + STAMP_SLACK_NS &&
		    (!best || ring->wait_until_ns < best->wait_until_ns))
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

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
ssize_t heap_merge(struct source_heap *heap, bool final)
{
	uint64_t most = 0;
	uint64_t refreshes = 0, listened = 0;
	int rc = refresh_heads(heap, heap->raw || !heap->active_count, final);
	if (rc == 0)
		rc = heap_take_nodes(heap);
	if (rc < 0)
		return rc;
	if (!final)
		heap_make_room(heap);
	const uint64_t begun_ns = heap->limit_ns;
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
		int past = ring && waiting && !overtaken ? count_past(heap, ring->now_ns) : 0;
		if ((overtaken && overtaken->wait_epoch == heap->epoch) || past == 1) {
			/* rings that looked empty may have got what it waits for */
			if (!final && heap->limit_ns - begun_ns > MERGE_MOST_NS)
				break;
			rc = refresh_again(heap, &listened, final);
			if (rc < 0)
				return rc;
			continue;
		}
		if (past)
			overtaken = pick_hopeless(heap, ring->now_ns);
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
				       ? pick_hopeless(heap, UINT64_MAX)
				       : NULL;
			if (!ring) {
				refreshes++;
				rc = refresh_again(heap, &listened, final);
				if (rc < 0)
					return rc;
				continue;
			}
			resolve = true;
		}
		uint64_t before = ring->tail;
		heap->stretch = ring;
		heap->stretch_from = heap->batched;
		enum heap_run run = heap_run_ring(heap, ring, limit_ns, resolve);
		if (heap->batched != heap->stretch_from)
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
