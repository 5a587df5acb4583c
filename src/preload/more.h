/* SPDX-License-Identifier: Apache-2.0 */
/* more.h - memory for threads that meet more stacks than their slot's has room for. */
#ifndef PRELOAD_MORE_H
#define PRELOAD_MORE_H

#include <stdint.h>

#include "preload/thread.h"
#include "wire/heap_layout.h"

#define MORE_PIECE (1u << 20)
#define MORE_PIECES 12u

/**
 * more_bytes() - how much of it goes with @heap, behind the steppers' shared cache; touched as far
 * as used. 0: the address space is limited.
 */
static inline uint64_t more_bytes(const struct wire_heap_header *heap)
{
	return heap->slot_count <= WIRE_HEAP_SLOTS_TIGHT ? 0 : (uint64_t)MORE_PIECE * MORE_PIECES;
}

/** more_at() - piece @i where a thread has it; NULL. Any thread. */
struct unwind_thread *more_at(uint32_t i) HIDDEN;
/** more_of() - @t's piece; NULL: it has none. */
void *more_of(const struct thread *t) HIDDEN;
/**
 * more_look() - whether @t should have a piece, or give its own back: as long as slots that nobody
 * has taken leave room for it. Between captures. Return: 1 it is to begin anew with what it has
 * now.
 */
int more_look(struct thread *t) HIDDEN COLD;
/** more_give() - @t ends, or loses its slot. */
void more_give(struct thread *t) HIDDEN;
/** more_forked() - in the child of a fork: nobody has any. */
void more_forked(void) HIDDEN;

#endif
