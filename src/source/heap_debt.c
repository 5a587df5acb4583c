/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_debt.c - frees that cannot be matched in order: foreign ones, and those settled later
 * (heap_books.h): made events.
 */
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

void heap_add_debt(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
		   uint32_t aux_stack, bool credit)
{
	heap_owe(&heap->books, (struct heap_debt){ .addr = addr,
						   .ns = heap_event_time(heap, ring),
						   .thread = ring->thread,
						   .aux_stack = aux_stack,
						   .credit = credit });
	heap->stats.swapped++;
}

/*
 * A free of a dead block that has waited long enough: owed to the address's next block, or foreign.
 */
enum heap_run heap_free_of_dead(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
				uint32_t aux_stack)
{
	if (heap->merge.active_count > 1 && heap->books.debt_count < HEAP_DEBTS &&
	    (ring->wait_ahead ||
	     heap_freed_lately(&heap->books, addr, heap_event_time(heap, ring)))) {
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
	uint32_t block = live_remove(&heap->books.live, addr, &row);
	if (block == BLOCK_NONE)
		return HEAP_RUN_EMPTY;
	heap_note_free(&heap->books, addr, heap->last_ns);
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return HEAP_RUN_FAILED;
	heap->books.live_bytes -= row.bytes;
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
	if (!heap_settle_debt(&heap->books, addr, false, &debt))
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
	heap->books.risk_order = heap->books.live.order;
	heap->stats.lost_frees++;
	heap->stats.contradictions++;
	return HEAP_RUN_EMPTY;
}

/* What nobody claimed in its time is what it looked like at first. */
int heap_expire_debts(struct source_heap *heap, bool all)
{
	struct heap_debt debt;
	uint32_t at = 0;
	while (heap_debt_due(&heap->books, all ? UINT64_MAX : heap->last_ns, &at, &debt)) {
		enum heap_run run = debt.credit ? heap_report_disorder(heap)
						: heap_foreign_free(heap, debt.thread, debt.addr,
								    debt.aux_stack);
		if (run != HEAP_RUN_EMPTY)
			return heap->out.err && heap->out.err->code ? heap->out.err->code : -EIO;
	}
	return 0;
}
