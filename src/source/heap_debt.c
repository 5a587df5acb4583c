/* SPDX-License-Identifier: Apache-2.0 */
/* heap_debt.c - frees that cannot be matched in order: foreign ones, and those settled later (struct heap_debt). */
#include <errno.h>

#include "source/heap_internal.h"

static enum heap_run heap_foreign_free(struct source_heap *heap, uint32_t thread, uint64_t addr,
				       uint32_t aux_stack)
{
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return HEAP_RUN_FAILED;
	ev->kind = EVENT_FREE_FOREIGN;
	ev->thread.v = thread;
	ev->addr = addr;
	ev->aux_stack.v = aux_stack;
	heap->stats.foreign_frees++;
	return HEAP_RUN_EMPTY;
}

/* Where the chain names entry @at: its index + 1; with HEAP_DEBTS the chain's end. */
static uint16_t *debt_link(struct source_heap *heap, uint64_t addr, uint32_t at)
{
	uint16_t *link = heap_debt_chain(heap, addr);
	while (*link && *link != at + 1)
		link = &heap->debts[*link - 1].next;
	return link;
}

/* The last entry takes the place of entry @at, which goes. */
static void debt_remove(struct source_heap *heap, uint32_t at)
{
	struct heap_debt *debts = heap->debts;
	*debt_link(heap, debts[at].addr, at) = debts[at].next;
	heap->credit_count -= debts[at].credit;
	uint32_t last = --heap->debt_count;
	if (at != last) {
		*debt_link(heap, debts[last].addr, last) = (uint16_t)(at + 1);
		debts[at] = debts[last];
	}
}

void heap_add_debt(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
		   uint32_t aux_stack, bool credit)
{
	*debt_link(heap, addr, HEAP_DEBTS) = (uint16_t)(heap->debt_count + 1);
	heap->debts[heap->debt_count++] = (struct heap_debt){ .addr = addr,
							      .ns = heap_event_time(heap, ring),
							      .thread = ring->thread,
							      .aux_stack = aux_stack,
							      .credit = credit };
	heap->credit_count += credit;
	heap->stats.swapped++;
}

bool heap_take_debt(struct source_heap *heap, uint64_t addr, bool credit, struct heap_debt *debt)
{
	for (uint32_t i = *heap_debt_chain(heap, addr); i; i = heap->debts[i - 1].next) {
		if (heap->debts[i - 1].addr != addr || heap->debts[i - 1].credit != credit)
			continue;
		*debt = heap->debts[i - 1];
		debt_remove(heap, i - 1);
		return true;
	}
	return false;
}

static bool heap_freed_lately(struct source_heap *heap, const struct heap_ring *ring, uint64_t addr)
{
	const struct heap_recent *recent = heap_recent_pair(heap, addr);
	uint32_t now = heap_recent_time(heap_event_time(heap, ring));
	recent += recent->addr != heap_recent_addr(addr);
	return recent->addr == heap_recent_addr(addr) &&
	       now - recent->time <= heap_recent_time(HEAP_DEBT_NS);
}

/* A free of a dead block that has waited long enough: owed to the address's next block, or foreign. */
enum heap_run heap_free_of_dead(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
				uint32_t aux_stack)
{
	if (heap->active_count > 1 && heap->debt_count < HEAP_DEBTS &&
	    (ring->wait_ahead || heap_freed_lately(heap, ring, addr))) {
		heap_add_debt(heap, ring, addr, aux_stack, false);
		return HEAP_RUN_EMPTY;
	}
	return heap_foreign_free(heap, ring->thread, addr, aux_stack);
}

/* The block at @addr goes, outside the usual order. */
enum heap_run heap_free_out_of_turn(struct source_heap *heap, uint64_t addr, uint32_t thread,
				    uint32_t aux_stack, uint8_t flags)
{
	struct live_block row;
	uint32_t block = live_remove(&heap->live, addr, &row);
	if (block == BLOCK_NONE)
		return HEAP_RUN_EMPTY;
	heap_note_free(heap, addr, heap->last_ns);
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return HEAP_RUN_FAILED;
	heap->stats.live_bytes -= row.bytes;
	heap->stats.frees += !(flags & EVENT_F_IMPLIED);
	ev->kind = EVENT_FREE;
	ev->flags = flags;
	ev->thread.v = thread;
	ev->addr = addr;
	ev->bytes = row.bytes;
	ev->stack.v = row.stack;
	ev->aux_stack.v = aux_stack;
	ev->block.v = block;
	return HEAP_RUN_EMPTY;
}

/* A new block at an address that owes a free: take it. */
enum heap_run heap_pay_debt(struct source_heap *heap, uint64_t addr)
{
	struct heap_debt debt;
	if (!heap_take_debt(heap, addr, false, &debt))
		return HEAP_RUN_EMPTY;
	return heap_free_out_of_turn(heap, addr, debt.thread, debt.aux_stack, 0);
}

enum heap_run heap_report_disorder(struct source_heap *heap)
{
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return HEAP_RUN_FAILED;
	ev->kind = EVENT_LOST;
	ev->value = LOSS_DISORDER;
	ev->block.v = 1;
	heap->risk_order = heap->live.order;
	heap->stats.lost_frees++;
	heap->stats.contradictions++;
	return HEAP_RUN_EMPTY;
}

/* What nobody claimed in its time is what it looked like at first. */
int heap_expire_debts(struct source_heap *heap, bool all)
{
	for (uint32_t i = 0; i < heap->debt_count;) {
		const struct heap_debt debt = heap->debts[i];
		if (!all && debt.ns + HEAP_DEBT_NS > heap->last_ns) {
			i++;
			continue;
		}
		debt_remove(heap, i);
		enum heap_run run = debt.credit ? heap_report_disorder(heap)
						: heap_foreign_free(heap, debt.thread, debt.addr,
								    debt.aux_stack);
		if (run != HEAP_RUN_EMPTY)
			return heap->err && heap->err->code ? heap->err->code : -EIO;
	}
	return 0;
}
