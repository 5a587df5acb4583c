/* SPDX-License-Identifier: Apache-2.0 */
/*
 * more.c - memory for threads that meet more stacks than their slot's has room for: which of a
 * program's threads do, nobody knows when the slots are laid out.
 *
 * Pieces are handed out as long as slots that no thread has ever taken, and whose memory therefore
 * nobody has touched, would have taken as much: the library stays within its budget. Where more
 * threads come, the pieces go back.
 */
#include "preload/more.h"

#include <sys/mman.h>

#include "preload/start.h"

static uint8_t taken[MORE_PIECES];

static char *piece(uint32_t i)
{
	return (char *)process.unwind + unwind_process_bytes() + (uint64_t)i * MORE_PIECE;
}

/* How many there may be. */
static uint32_t allowed(void)
{
	uint32_t count = process.heap->slot_count, most = process.pieces;
	uint32_t top = __atomic_load_n(&process.slot_top, __ATOMIC_RELAXED);
	const struct wire_heap_slot *last = &process.slots[count - 1];
	/* the last ones are the smallest */
	uint64_t room = (uint64_t)(count - top) * (last->ring_bytes + last->scratch_bytes);
	return room / MORE_PIECE < most ? (uint32_t)(room / MORE_PIECE) : most;
}

struct unwind_thread *more_at(uint32_t i)
{
	return __atomic_load_n(&taken[i], __ATOMIC_ACQUIRE) ? (struct unwind_thread *)piece(i)
							    : NULL;
}

void *more_of(const struct thread *t)
{
	return t->more ? piece(t->more - 1u) : NULL;
}

void more_give(struct thread *t)
{
	uint32_t i = t->more - 1u;
	if (!t->more)
		return;
	t->more = 0;
	/* to whoever comes next it is worth what it has touched, unless slots have */
	if (i >= allowed() && !no_calls())
		sys3(SYS_madvise, piece(i), MORE_PIECE, MADV_DONTNEED);
	__atomic_store_n(&taken[i], 0, __ATOMIC_RELEASE);
}

int more_look(struct thread *t)
{
	uint32_t most = allowed();
	if (t->more) {
		if (t->more <= most)
			return 0;
		more_give(t);
		return 1;
	}
	if (!unwind_crowded(t->walker) || t->slot->scratch_bytes >= MORE_PIECE)
		return 0;
	for (uint32_t i = 0; i < most; i++) {
		if (__atomic_exchange_n(&taken[i], 1, __ATOMIC_ACQUIRE))
			continue;
		t->more = (uint8_t)(i + 1);
		return 1;
	}
	return 0;
}

void more_forked(void)
{
	for (uint32_t i = 0; i < MORE_PIECES; i++)
		taken[i] = 0;
}
