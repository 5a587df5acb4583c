/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h - what the hooks have in common, inlined into each: hooks.c (malloc and its family) and
 * own_hooks.c of patch.
 */
#ifndef PRELOAD_BODY_H
#define PRELOAD_BODY_H

#include "preload/hooks.h"
#include "preload/note.h"

/*
 * An event belongs to the operator new that led here, if one did: the outermost call counts. The
 * runtime asks for what was asked of it, at least 1, rounded up to a multiple of @align at most;
 * anything else is its own affair (the exception of an operator new that failed).
 */
static ALWAYS_INLINE void note_obtained_aligned(struct thread *t, const void *block, size_t size,
						size_t align, REGS)
{
	uint64_t pc = caller_pc(sp);
	if (t->outer.sp) {
		const struct outer *o = &t->outer;
		/*
		 * left behind by an exception? then the word is gone, or this is not the runtime's
		 * call
		 */
		if (o->sp > sp && o->sp - sp < OUTER_REACH && in_outer(o, pc) &&
		    caller_pc(o->sp) == o->pc) {
			if (size - (o->size ? o->size : 1) < align) {
				size = o->size;
				pc = o->pc;
				sp = o->sp;
				bp = o->bp;
				bx = o->bx;
			}
			t->outer.sp = 0;
		}
	}
	note_alloc(t, block, size, pc, sp, bp, bx);
}

static ALWAYS_INLINE void note_obtained(struct thread *t, const void *block, size_t size, REGS)
{
	note_obtained_aligned(t, block, size, 1, sp, bp, bx);
}

/*
 * A call of @size bytes that is not recorded. The operator new that led here, if one did, has its
 * count with that.
 */
static COLD void count_obtained(struct thread *t, uint32_t answer, size_t size)
{
	if (t->outer.sp && !t->outer.size && size == 1)
		size = 0;
	t->outer.sp = 0;
	count_lost(t, answer - 1, 1, size, 0);
}

/* Count what @answer says about a call that obtained @block. */
static ALWAYS_INLINE void *counted(struct thread *t, uint32_t answer, void *block, size_t size)
{
	if (answer != PASS && answer < PASS_MAX && block)
		count_obtained(t, answer, size);
	return block;
}

/*
 * Around the next definition, for a call that is not recorded. What it calls in turn is not lost
 * once more, where there is no slot. Within the hook of another call its frame is the first that an
 * exception passes, and may be the last: an allocator may catch what it threw itself (an operator
 * new that does not throw, made of one that does).
 */
static inline void passed_begin(struct thread *t, uint32_t answer, uint64_t sp)
{
	if (answer == PASS_LOST(WIRE_LOST_NO_SLOT))
		t->sync = SYNC_IN(SYNC_NEXT, sp);
	else if (SYNC_KIND(t->sync) == SYNC_NEXT)
		t->inner++;
}

static inline void passed_end(struct thread *t, uint32_t answer)
{
	if (answer == PASS_LOST(WIRE_LOST_NO_SLOT))
		t->sync = SYNC_UNBORN;
	else if (SYNC_KIND(t->sync) == SYNC_NEXT && t->inner)
		t->inner--;
}

/*
 * Common begin and end of a call that obtains a block, where the next definition may come back to a
 * hook. @sync is what obtain_enter() returned.
 */
static inline uint32_t obtain_enter(struct thread *t, int *fast, uint64_t sp)
{
	uint32_t sync = t->sync;
	*fast = sync == proc.word;
	if (likely(*fast)) {
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		return sync;
	}
	sync = hook_enter(t, HOOK_ALLOC, sp);
	if (sync >= PASS_MAX)
		t->sync = SYNC_IN(SYNC_NEXT, sp);
	else
		passed_begin(t, sync, sp);
	return sync;
}

static ALWAYS_INLINE void obtain_done(struct thread *t, int fast, uint32_t sync, void *block,
				      size_t size, size_t align, REGS)
{
	if (unlikely(sync < PASS_MAX)) {
		passed_end(t, sync);
		counted(t, sync, block, size);
		return;
	}
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (likely(block && proc.word & MODE_MASK)) /* not in a forked child */
		note_obtained_aligned(t, block, size, align ? align : 1, sp, bp, bx);
	if (likely(fast))
		t->sync = sync;
	else
		hook_leave(t);
}

/* What serves a realloc; NULL: the next definition. */
struct resize {
	uint64_t (*next)(uint64_t, uint64_t, uint64_t, uint64_t);
	/* more has none of the functions that are hooked so */
	uint64_t arg[4];
};

static ALWAYS_INLINE void *resize(const struct resize *call, void *old, size_t size)
{
	if (!call)
		return next.realloc(old, size);
	return (void *)call->next(call->arg[0], call->arg[1], call->arg[2], call->arg[3]);
}

/* A call like realloc(), of @old, which may be NULL, to @size; the hook is entered. */
static ALWAYS_INLINE void *realloc_body(struct thread *t, const struct resize *call, void *old,
					size_t size, REGS)
{
	void *block;
	if (!old) {
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		block = resize(call, NULL, size);
		t->sync = SYNC_IN(SYNC_OWN, sp);
		if (likely(block && proc.word & MODE_MASK)) /* not in a forked child */
			note_obtained(t, block, size, sp, bp, bx);
		return block;
	}
	if (unlikely(!size)) {
		/* releases; some allocators then return a new, empty block */
		note_free(t, old, sp, bp, bx);
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		block = resize(call, old, 0);
		t->sync = SYNC_IN(SYNC_OWN, sp);
		if (block && proc.word & MODE_MASK)
			note_obtained(t, block, 0, sp, bp, bx);
		return block;
	}
	int begun = note_realloc_begin(t, old, sp, bp, bx);
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	block = resize(call, old, size);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (unlikely(!(proc.word & MODE_MASK))) {
		/* the child that a signal handler forked meanwhile: the ring is its parent's */
		t->realloc_old = NULL;
		return block;
	}
	if (likely(begun)) {
		if (likely(block))
			note_realloc_end(t, block, size,
					 capture_alloc(t, size, caller_pc(sp), sp, bp, bx));
		else
			note_realloc_fail(t, old);
	} else if (block) {
		ring_dropped(t, 0, 0, 1); /* a failed one frees nothing */
		note_obtained(t, block, size, sp, bp, bx);
	}
	return block;
}

#endif
