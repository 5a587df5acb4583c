/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_merge.c - which ring has its turn.
 *
 * Rings are taken in the order of their stamps, stretch by stretch. Stamps are coarse (one a
 * kilobyte of records and one a tick), so the books themselves decide the rest: an allocation of a
 * live address and a free of a dead one wait until the other rings have caught up (the alternation
 * rule). How long is bounded without any clock, see heap_ring.c.
 */
#include "source/heap_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

/*
 * Counters of different processors may differ by this much, and a stamp may be read this much too
 * early.
 */
#define STAMP_SLACK_NS 1000

int heap_merge_init(struct heap_merge *merge, uint32_t count, struct err *err)
{
	merge->rings = calloc(count, sizeof(*merge->rings));
	merge->active = calloc(count, sizeof(*merge->active));
	if (!merge->rings || !merge->active)
		return err_set(err, -ENOMEM, "cannot allocate the recorder's tables");
	return 0;
}

void heap_merge_fini(struct heap_merge *merge)
{
	free(merge->rings);
	free(merge->active);
}

bool heap_may_go_on(struct heap_merge *merge, const struct heap_ring *ring)
{
	if (ring->wait == HEAP_WAIT_NO)
		return true;
	uint32_t block = live_find(&merge->books->live, ring->wait_addr);
	if (ring->wait == HEAP_WAIT_LIVE)
		return block != BLOCK_NONE;
	return block == BLOCK_NONE || merge->free_by_realloc(merge->ctx, ring->wait_addr);
}

/*
 * Does the record that @ring waits for stand in what @other has not yet given? Where nobody may
 * look any more it is said to: then a debt finds out. Many threads that hand blocks to each other
 * would have us look at everything for each record.
 */
static bool stands_ahead(struct heap_merge *merge, const struct heap_ring *ring,
			 const struct heap_ring *other)
{
	uint64_t held = other->head - other->tail, reach = MIN(merge->look_left, LOOK_AHEAD_BYTES);
	uint64_t end = other->tail + MIN(held, reach);
	merge->look_left -= end - other->tail;
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
	if (merge->raw && other->head < other->raw_head)
		return true; /* behind the window */
	return held > reach && reach < LOOK_AHEAD_BYTES;
}

/*
 * Whether @ring waits for a record that was before @now_ns, if it ever was; what was later cannot
 * end its wait.
 */
static bool waits_before(struct heap_merge *merge, const struct heap_ring *ring, uint64_t now_ns)
{
	return ring->wait != HEAP_WAIT_NO &&
	       (now_ns == UINT64_MAX ||
		(now_ns > STAMP_SLACK_NS && ring->wait_until_ns < now_ns - STAMP_SLACK_NS &&
		 !heap_may_go_on(merge, ring)));
}

/*
 * All that can go on has gone on, or is past @now_ns: the ring whose wait nothing can end any more,
 * the earliest of them. Where each waits for what stands behind another's waiting record, an
 * earlier guess was wrong: the earliest goes first, and what it waits for is known to come
 * (wait_ahead). Not before all of them may be asked: else one that has just begun to wait would be
 * held for one that waits for ever.
 */
struct heap_ring *heap_pick_hopeless(struct heap_merge *merge, uint64_t now_ns)
{
	struct heap_ring *best = NULL, *earliest = NULL;
	bool all = true;
	for (uint32_t i = 0; i < merge->active_count; i++) {
		struct heap_ring *ring = &merge->rings[merge->active[i]];
		if (ring->wait == HEAP_WAIT_NO)
			continue;
		if (ring->wait_epoch == merge->epoch || !waits_before(merge, ring, now_ns)) {
			all = false;
			continue;
		}
		if (!earliest || ring->now_ns < earliest->now_ns)
			earliest = ring;
		bool ahead = false;
		for (uint32_t k = 0; k < merge->active_count && !ahead; k++) {
			struct heap_ring *other = &merge->rings[merge->active[k]];
			ahead = other != ring && other->wait != HEAP_WAIT_NO &&
				stands_ahead(merge, ring, other);
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

/*
 * Rings that wait for what was before @now_ns: 0 there are none, 1 the heads have to be read again
 * first, 2 there are.
 */
int heap_count_past(struct heap_merge *merge, uint64_t now_ns)
{
	int found = 0;
	for (uint32_t i = 0; i < merge->active_count && found != 1; i++) {
		struct heap_ring *ring = &merge->rings[merge->active[i]];
		if (waits_before(merge, ring, now_ns))
			found = ring->wait_epoch == merge->epoch ? 1 : 2;
	}
	return found;
}

/*
 * Everything else is past the moment of the waiting record: what it waits for does not come. The
 * earliest such ring.
 */
struct heap_ring *heap_pick_overtaken(struct heap_merge *merge)
{
	struct heap_ring *best = NULL;
	const struct heap_ring *first = NULL;
	uint64_t second_ns = UINT64_MAX;
	for (uint32_t i = 0; i < merge->active_count; i++) {
		const struct heap_ring *ring = &merge->rings[merge->active[i]];
		if (ring->tail == ring->head)
			continue;
		if (!first || ring->now_ns < first->now_ns) {
			second_ns = first ? first->now_ns : UINT64_MAX;
			first = ring;
		} else if (ring->now_ns < second_ns) {
			second_ns = ring->now_ns;
		}
	}
	for (uint32_t i = 0; i < merge->active_count; i++) {
		struct heap_ring *ring = &merge->rings[merge->active[i]];
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
 * The runnable ring with the earliest stamp, and the stamp at which another one has its turn.
 * @blocked: there is one, but what it holds is not safe yet, and nothing later may be taken before
 * it.
 */
struct heap_ring *heap_pick_next(struct heap_merge *merge, uint64_t *limit_ns, bool *waiting,
				 bool *blocked)
{
	struct heap_ring *best = NULL;
	*limit_ns = UINT64_MAX;
	*waiting = false;
	*blocked = false;
	for (uint32_t i = 0; i < merge->active_count; i++) {
		struct heap_ring *ring = &merge->rings[merge->active[i]];
		if (ring->tail == ring->head)
			continue;
		if (!heap_may_go_on(merge, ring)) {
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
