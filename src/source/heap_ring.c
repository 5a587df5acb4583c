/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_ring.c - merge the rings into one stream.
 *
 * Order. Rings are taken in the order of their stamps, stretch by stretch. Stamps are coarse (one a
 * kilobyte of records and one a tick), so the books themselves decide the rest: an allocation of a
 * live address and a free of a dead one wait until the other rings have caught up (the alternation
 * rule). How long is bounded without any clock: a free is written before the block is released and
 * an allocation after it was obtained, so whatever must come first stood in its ring *before* the
 * waiting record was committed. Once all heads were read again after that, and everything up to
 * them was taken, or everything up to the stamp that follows the waiting record, waiting is over:
 * the free is of a block that we never saw, or was taken for another block of the same address
 * (struct heap_debt), or a record was lost. One case needs more care: a realloc releases its old
 * block in the middle. Another thread's allocation of that address may be seen before the realloc's
 * end; the pending realloc is then known to have moved, and its free is taken at once.
 */
#include <errno.h>
#include <sys/param.h>

#include "base/huge.h"
#include "source/heap_internal.h"

/*
 * Heads are read this often in one call before the caller gets its turn (flush, timeline, signals).
 */
#define REFRESH_MAX 64
/*
 * Nor is it kept longer by threads that contradict each other as fast as their records are taken.
 */
#define MERGE_MOST_NS 50000000u

static inline void publish_tail(struct source_heap *heap, struct heap_ring *ring)
{
	if (!heap->tables.raw)
		__atomic_store_n(&ring->slot->tail, ring->tail, __ATOMIC_RELEASE);
}

/*
 * Count what stands in a closed ring from @ring->counted up to @to and nobody will take: record by
 * record where the tags can be read, behind that by the room it takes (an allocation and a free,
 * with their stamps, have 32 bytes); at least @least, for a rule may be broken without a record to
 * blame for it.
 */
static int report_unread(struct source_heap *heap, struct heap_ring *ring, uint64_t to,
			 uint64_t least)
{
	uint64_t pos = ring->counted, read_to = heap->tables.raw ? heap_raw_safe(ring) : to;
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
		return heap->out.err && heap->out.err->code ? heap->out.err->code : -EIO;
	ev->kind = EVENT_LOST;
	ev->value = LOSS_RING_DAMAGED;
	ev->addr = allocations;
	ev->block.v = frees < UINT32_MAX ? (uint32_t)frees : UINT32_MAX;
	heap->books.lost_frees_left += frees;
	heap->books.risk_order = heap->books.live.order;
	heap->stats.lost_allocations += allocations;
	heap->stats.lost_frees += frees;
	return 0;
}

static int close_ring(struct source_heap *heap, struct heap_ring *ring)
{
	uint64_t known = heap->tables.raw ? ring->raw_head : ring->head;
	ring->closed = true;
	ring->wait = HEAP_WAIT_NO;
	heap_end_realloc(heap, ring);
	ring->counted = ring->tail;
	if (!heap->tables.raw)
		__atomic_store_n(&ring->slot->closed, 1, __ATOMIC_RELEASE);
	heap->stats.rings_closed++;
	int rc = report_unread(heap, ring, known, 1);
	ring->head = ring->safe = ring->tail;
	return rc;
}

int heap_report_closed(struct source_heap *heap)
{
	int rc = 0;
	for (uint32_t k = 0; !heap->tables.raw && k < heap->merge.active_count && rc == 0; k++) {
		struct heap_ring *ring = &heap->merge.rings[heap->merge.active[k]];
		uint64_t head = __atomic_load_n(&ring->slot->head, __ATOMIC_ACQUIRE) & ~7ULL;
		if (ring->closed && head > ring->counted && head - ring->counted <= ring->mask + 1)
			rc = report_unread(heap, ring, head, 0);
	}
	return rc;
}

/* Look at one ring's head. Return: 0, or negative errno of the sink or the file. */
static int refresh_head(struct source_heap *heap, uint32_t i)
{
	struct heap_ring *ring = &heap->merge.rings[i];
	uint64_t head;
	if (ring->closed || heap->merge.sealed)
		return 0;
	if (heap->tables.raw) {
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
	heap->merge.news = true;
	if (ring->wait != HEAP_WAIT_NO && ring->wait_until_ns == UINT64_MAX)
		ring->wait_until_ns = heap_next_stamp(heap, ring);
	if (!ring->active) {
		ring->active = true;
		heap->merge.active[heap->merge.active_count++] = i;
	}
	return 0;
}

/*
 * Read the heads of all rings, twice: what the first reading found (safe) may be taken, since
 * whatever had to come before any of it, in whichever ring, was found by the second one at the
 * latest. With one reading only, a ring that was read late could hold what followed on records that
 * an earlier one got meanwhile, for as long as we had lost the processor; its frees would have been
 * taken for those of earlier blocks. @first: the first reading looks at all rings, too, not only at
 * those that ever held data; @final: nobody writes any more.
 */
static int refresh_heads(struct source_heap *heap, bool first, bool final)
{
	int rc = 0;
	uint32_t slots = heap->tables.layout.slot_count;
	heap->merge.news = false;
	heap->merge.epoch++;
	for (uint32_t i = 0; first && i < slots && rc == 0; i++)
		rc = refresh_head(heap, i);
	for (uint32_t k = 0; k < heap->merge.active_count && rc == 0; k++) {
		struct heap_ring *ring = &heap->merge.rings[heap->merge.active[k]];
		if (!first)
			rc = refresh_head(heap, heap->merge.active[k]);
		ring->safe = heap->tables.raw ? heap_raw_safe(ring) : ring->head;
	}
	for (uint32_t i = 0; !heap->tables.raw && i < slots && rc == 0; i++)
		rc = refresh_head(heap, i);
	for (uint32_t k = 0; final && !heap->tables.raw && k < heap->merge.active_count; k++)
		heap->merge.rings[heap->merge.active[k]].safe =
			heap->merge.rings[heap->merge.active[k]].head;
	if (rc < 0)
		return rc;
	/* after the heads, so that no stamp in what was committed can be later */
	if (!heap->tables.raw) {
		heap_clock_sample(&heap->clock);
		heap->limit_ns = source_heap_now_ns(heap);
	}
	return 0;
}

/*
 * For the ends of waits. A target that writes on after its recording has ended, which none of our
 * hooks does, is listened to so often and no more: it would keep us for ever.
 */
static int refresh_again(struct source_heap *heap, uint64_t *listened, bool final)
{
	heap->merge.sealed = final && !heap->tables.raw && ++*listened > REFRESH_MAX;
	return refresh_heads(heap, heap->tables.raw, final);
}

#define ROOM_AHEAD ((size_t)256 << 10)
#define ROOM_FROM \
	((size_t)32 << 10) /* what is touched less is left to the program: most end before */

/*
 * Of @bytes at @at, written from their begin on, the program has written @used: bring what comes
 * next. *@there: brought so far.
 */
static void bring(char *at, size_t bytes, size_t used, size_t *there)
{
	if (used < ROOM_FROM || *there == bytes || used + ROOM_AHEAD / 2 <= *there)
		return;
	size_t from = *there;
	*there = MIN(bytes, (used + ROOM_AHEAD) & ~(size_t)4095);
	huge_populate(at + from, *there - from);
}

void heap_make_room(struct source_heap *heap)
{
	const struct wire_heap_header *h = &heap->tables.layout;
	if (heap->tables.raw)
		return;
	size_t nodes = h->node_max * sizeof(struct wire_node);
	size_t used = __atomic_load_n(&heap->tables.header->node_count, __ATOMIC_RELAXED) *
		      sizeof(struct wire_node);
	size_t index = h->index_entries * sizeof(uint32_t);
	size_t index_each = index / h->node_max;
	bring(heap->tables.base + h->nodes_off, nodes, MIN(used, nodes), &heap->nodes_there);
	/*
	 * the entries of a node's children stand where it does (unwind/nodes.h), or, of few,
	 * anywhere
	 */
	bring(heap->tables.base + h->index_off, index,
	      MIN(used / sizeof(struct wire_node) * index_each, index), &heap->index_there);
	for (uint32_t i = 0; i < heap->merge.active_count; i++) {
		struct heap_ring *ring = &heap->merge.rings[heap->merge.active[i]];
		size_t bytes = ring->mask + 1;
		bring((char *)ring->base, bytes, MIN(ring->head, bytes), &ring->there);
	}
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
ssize_t heap_merge_rings(struct source_heap *heap, bool final)
{
	uint64_t most = 0;
	uint64_t refreshes = 0, listened = 0;
	int rc = refresh_heads(heap, heap->tables.raw || !heap->merge.active_count, final);
	if (rc == 0)
		rc = heap_take_nodes(&heap->names);
	if (rc < 0)
		return rc;
	if (!final)
		heap_make_room(heap);
	const uint64_t begun_ns = heap->limit_ns;
	for (uint32_t i = 0; i < heap->merge.active_count; i++) {
		const struct heap_ring *ring = &heap->merge.rings[heap->merge.active[i]];
		uint64_t held = ring->head - ring->tail;
		uint64_t permille = held ? held * 1000 / (ring->mask + 1) + 1 : 0;
		if (permille > most)
			most = permille;
	}
	for (;;) {
		uint64_t limit_ns;
		bool waiting, blocked, resolve = false;
		struct heap_ring *ring =
			heap_pick_next(&heap->merge, &limit_ns, &waiting, &blocked);
		struct heap_ring *overtaken =
			ring && waiting ? heap_pick_overtaken(&heap->merge) : NULL;
		int past = ring && waiting && !overtaken
				   ? heap_count_past(&heap->merge, ring->now_ns)
				   : 0;
		if ((overtaken && overtaken->wait_epoch == heap->merge.epoch) || past == 1) {
			/* rings that looked empty may have got what it waits for */
			if (!final && heap->limit_ns - begun_ns > MERGE_MOST_NS)
				break;
			rc = refresh_again(heap, &listened, final);
			if (rc < 0)
				return rc;
			continue;
		}
		if (past)
			overtaken = heap_pick_hopeless(&heap->merge, ring->now_ns);
		if (overtaken) {
			ring = overtaken;
			resolve = true;
		} else if (!ring) {
			if (!waiting && !(blocked && final) &&
			    !(heap->tables.raw && heap->merge.news))
				break;
			if (refreshes >= REFRESH_MAX && !final)
				break;
			/* raw windows are small: there, what was to come may take many of them */
			ring = waiting && !blocked && !(heap->tables.raw && heap->merge.news)
				       ? heap_pick_hopeless(&heap->merge, UINT64_MAX)
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
			return heap->out.err && heap->out.err->code ? heap->out.err->code : -EIO;
		if (run != HEAP_RUN_WAIT)
			ring->wait = HEAP_WAIT_NO;
		heap->merge.look_left += (ring->tail - before) * LOOK_AHEAD_SHARE;
		heap->merge.look_left = MIN(heap->merge.look_left, LOOK_AHEAD_MOST);
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
