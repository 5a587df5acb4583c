/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - where a record goes: the quick half here, the slow one in ring.c. */
#ifndef PRELOAD_RING_H
#define PRELOAD_RING_H

#include <stdint.h>

#include "preload/thread.h"

extern const char
	own_rseq[] HIDDEN; /* what @mark shows as long as the thread keeps its processor */

/**
 * ring_room_slow() - make room for a record of @bytes (at most 24): stamp, pad at the ring's end,
 * wait or drop.
 * @kept: the room was kept by the record before (a realloc's end): cannot fail. Return: where to
 *   write, or NULL - the
 * caller counts the loss with ring_dropped(). Only by the ring's owner.
 */
uint64_t *ring_room_slow(struct thread *t, unsigned bytes, int kept) HIDDEN;
/**
 * ring_wait_nodes() - the table of nodes is full: wait until the recorder has made room, under the
 * rules of a full ring. Return: 1 there is room, 0 the stack stays without a number.
 */
int ring_wait_nodes(struct thread *t) HIDDEN COLD;
/** ring_dropped() - count what ring_room_slow() refused. */
void ring_dropped(struct thread *t, uint64_t allocations, uint64_t bytes, uint64_t frees) HIDDEN;
/**
 * ring_wait_drained() - until the recorder has read what stands in all rings now; at most
 * @limit_ns. Return: 1 it has.
 */
int ring_wait_drained(uint64_t limit_ns) HIDDEN;
/**
 * ring_wake() - the recorder may sleep: something is about to be written, or said otherwise. Any
 * thread; mostly no call.
 */
void ring_wake(void) HIDDEN;
/**
 * ring_wait_last_block() - at the program's end, until what it wrote stands in the recorder's file:
 * bounded by its heartbeat, and some seconds. Not where it would drop on a full ring.
 */
void ring_wait_last_block(void) HIDDEN;
/** ring_attach() - continue the ring of @slot, which the thread has just taken. */
void ring_attach(struct thread *t, struct wire_heap_slot *slot) HIDDEN;

/**
 * stamp_holds() - neither has the recorder ticked nor the thread stood still since its last stamp.
 */
static inline int stamp_holds(const struct thread *t)
{
	return t->tick == __atomic_load_n(&process.heap->tick, __ATOMIC_RELAXED) &&
	       __atomic_load_n(t->mark, __ATOMIC_RELAXED) == (uint64_t)own_rseq;
}

/**
 * ring_room() - where a record of @bytes goes; NULL if it must be dropped. Behind it a realloc's
 * end always fits.
 */
static inline uint64_t *ring_room(struct thread *t, unsigned bytes)
{
	barrier(); /* @sync says that this thread writes, before it does */
	if (unlikely(!stamp_holds(t) || t->head + bytes > t->soft))
		return ring_room_slow(t, bytes, 0);
	return (uint64_t *)(t->ring + (t->head & t->mask));
}

static inline void ring_publish(struct thread *t, unsigned bytes)
{
	t->head += bytes;
	__atomic_store_n(&t->slot->head, t->head, __ATOMIC_RELEASE);
	barrier();
}

#endif
