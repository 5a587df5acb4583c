/* SPDX-License-Identifier: Apache-2.0 */
/*
 * note.h - writing one event; inline, because this is the hot path. All of it runs under SYNC_OWN.
 */
#ifndef PRELOAD_NOTE_H
#define PRELOAD_NOTE_H

#include "preload/next.h"
#include "preload/ring.h"
#include "preload/sample.h"
#include "preload/thread.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/** Where a hook was called from, as the entry stubs saw it. */
struct caller {
	uint64_t sp, bp, bx;
};

static ALWAYS_INLINE uint64_t caller_pc(uint64_t sp)
{
	return ((const uint64_t *)sp)[-1];
}

/*
 * Whether @pc is the runtime that @outer led to: its code, or ours, where it got here by a jump
 * (new[] to new).
 */
static ALWAYS_INLINE int in_outer(const struct outer *outer, uint64_t pc)
{
	return pc - outer->code->lo < outer->code->hi - outer->code->lo ||
	       pc - own_code.lo < own_code.hi - own_code.lo;
}

static ALWAYS_INLINE uint32_t capture(struct thread *t, uint64_t pc, uint64_t sp, uint64_t bp,
				      uint64_t bx)
{
	if (unlikely(!t->unwind))
		return capture_always(t, pc, sp, bp, bx);
	if (unlikely(sp < t->stack_lo && !t->stack_floor))
		stack_grew(t, sp);
	struct unwind_regs regs = { .ip = pc, .sp = sp, .bp = bp, .bx = bx };
	uint32_t node = unwind_capture(t->unwind, &regs);
	if (unlikely(node == WIRE_STOP_NODES_FULL) && ring_wait_nodes(t))
		node = unwind_capture(t->unwind, &regs);
	return node;
}

/*
 * An allocation is about to be made: what its capture will look at is brought meanwhile. Outside of
 * a hook's own code, where t->sync is @sync, the process word.
 */
static ALWAYS_INLINE void capture_soon(struct thread *t, uint32_t sync, uint64_t pc, uint64_t sp)
{
	t->sync = SYNC_IN(SYNC_OWN, sp); /* for a signal handler that forks */
	barrier();
	if (likely(sync == proc.word && t->unwind))
		unwind_expect(t->unwind, pc, sp);
	barrier();
	t->sync = sync;
}

/* Of an allocation of @size bytes. */
static ALWAYS_INLINE uint32_t capture_alloc(struct thread *t, size_t size, uint64_t pc, uint64_t sp,
					    uint64_t bp, uint64_t bx)
{
	if (unlikely(!t->unwind))
		return capture_sampled(t, size, pc, sp, bp, bx);
	return capture(t, pc, sp, bp, bx);
}

static ALWAYS_INLINE void put_sized(uint64_t *to, uint32_t tag, uint64_t addr, uint64_t size,
				    uint32_t node, unsigned *bytes)
{
	/* the *_BIG form of a tag is the next number */
	if (likely(size < WIRE_SIZE_SMALL)) {
		to[0] = addr << 8 | tag;
		to[1] = size << WIRE_NODE_BITS | node;
		*bytes = 16;
	} else {
		to[0] = addr << 8 | (tag + 1);
		to[1] = node;
		to[2] = size;
		*bytes = 24;
	}
}

/** note_alloc() - @block was obtained. */
static ALWAYS_INLINE void note_alloc(struct thread *t, const void *block, size_t size, uint64_t pc,
				     uint64_t sp, uint64_t bp, uint64_t bx)
{
	uint32_t node = capture_alloc(t, size, pc, sp, bp, bx);
	uint64_t *to = ring_room(t, size < WIRE_SIZE_SMALL ? 16 : 24);
	if (unlikely(!to)) {
		ring_dropped(t, 1, size, 0);
		return;
	}
	unsigned bytes;
	put_sized(to, WIRE_ALLOC, (uint64_t)block, size, node, &bytes);
	ring_publish(t, bytes);
}

/** note_free_stack() - note_free() where the stacks of frees are recorded, too. */
void note_free_stack(struct thread *t, const void *block, uint64_t sp, uint64_t bp,
		     uint64_t bx) HIDDEN;

/** note_free() - @block is about to be released. */
static ALWAYS_INLINE void note_free(struct thread *t, const void *block, uint64_t sp, uint64_t bp,
				    uint64_t bx)
{
	if (unlikely(process.free_stacks)) {
		note_free_stack(t, block, sp, bp, bx);
		return;
	}
	uint64_t *to = ring_room(t, 8);
	if (unlikely(!to)) {
		ring_dropped(t, 0, 0, 1);
		return;
	}
	to[0] = (uint64_t)block << 8 | WIRE_FREE;
	ring_publish(t, 8);
}

/*
 * For who jumps out of here, at whatever instruction: the publishing alone decides what is written.
 */
static ALWAYS_INLINE void realloc_publish_begin(struct thread *t, const void *old, unsigned bytes)
{
	t->realloc_begin = t->head + bytes;
	barrier(); /* from here on the rest may be there or not */
	t->realloc_end = UINT64_MAX;
	t->realloc_old = old;
	ring_publish(t, bytes);
}

static ALWAYS_INLINE void realloc_publish_end(struct thread *t, unsigned bytes)
{
	t->realloc_end = t->head + bytes;
	ring_publish(t, bytes);
	t->realloc_old = NULL;
}

/**
 * note_realloc_begin() - before the call. Return: 1 written, 0 dropped: counted by the caller once
 * it is a free.
 */
static ALWAYS_INLINE int note_realloc_begin(struct thread *t, const void *old, uint64_t sp,
					    uint64_t bp, uint64_t bx)
{
	uint64_t *to;
	if (unlikely(process.free_stacks)) {
		uint32_t node = capture(t, caller_pc(sp), sp, bp, bx);
		to = ring_room(t, 16);
		if (unlikely(!to))
			return 0;
		to[0] = (uint64_t)old << 8 | WIRE_REALLOC_BEGIN_STACK;
		to[1] = node;
		realloc_publish_begin(t, old, 16);
		return 1;
	}
	to = ring_room(t, 8);
	if (unlikely(!to))
		return 0;
	to[0] = (uint64_t)old << 8 | WIRE_REALLOC_BEGIN;
	realloc_publish_begin(t, old, 8);
	return 1;
}

/* A realloc's end: its room was kept when its beginning was written. */
static ALWAYS_INLINE uint64_t *kept_room(struct thread *t, unsigned bytes)
{
	if (likely(t->head + bytes <= t->soft))
		return (uint64_t *)(t->ring + (t->head & t->mask));
	return ring_room_slow(t, bytes, 1);
}

static ALWAYS_INLINE void note_realloc_end(struct thread *t, const void *block, size_t size,
					   uint32_t node)
{
	unsigned bytes;
	uint64_t *to = kept_room(t, size < WIRE_SIZE_SMALL ? 16 : 24);
	put_sized(to, WIRE_REALLOC_END, (uint64_t)block, size, node, &bytes);
	realloc_publish_end(t, bytes);
}

static ALWAYS_INLINE void note_realloc_fail(struct thread *t, const void *old)
{
	uint64_t *to = kept_room(t, 8);
	to[0] = (uint64_t)old << 8 | WIRE_REALLOC_FAIL;
	realloc_publish_end(t, 8);
}

/**
 * enter_and_note_free() - from outside: @block is about to be released, by whatever way the next
 * definition goes.
 */
static ALWAYS_INLINE void enter_and_note_free(struct thread *t, const void *block, uint64_t sp,
					      uint64_t bp, uint64_t bx)
{
	uint32_t sync = t->sync;
	if (likely(sync == proc.word)) {
		t->sync = SYNC_IN(SYNC_OWN, sp);
		note_free(t, block, sp, bp, bx);
		t->sync = sync;
		return;
	}
	uint32_t answer = hook_enter(t, HOOK_FREE, sp);
	if (answer >= PASS_MAX) {
		note_free(t, block, sp, bp, bx);
		hook_leave(t);
	} else if (answer != PASS) {
		count_lost(t, answer - 1, 0, 0, 1);
	}
}

#endif
