/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.c - malloc and its family. Entered from entry_x86_64.S with the caller's registers behind
 * the arguments.
 *
 * Each hook has a fast half, taken when one comparison says that nothing special is going on, and a
 * slow half that finds out what is. Both write the event with the same inlined body.
 */
#include <errno.h>
#include <string.h>

#include "preload/body.h"

/* ---- before there is a next definition, and for calls that are not recorded ---- */

/* Where the next definition is not there yet, a block of the boot pool. */
static COLD void *pass_malloc(size_t size)
{
	if (unlikely(!next.malloc)) {
		void *block = boot_alloc(size, 16);
		if (!block)
			errno = ENOMEM;
		return block;
	}
	return next.malloc(size);
}

/* ---- malloc ---- */

static ALWAYS_INLINE void *malloc_body(struct thread *t, size_t size, REGS)
{
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	void *block = next.malloc(size);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (likely(block &&
		   proc.word &
			   MODE_MASK)) /* not in a child that a signal handler forked meanwhile */
		note_obtained(t, block, size, sp, bp, bx);
	return block;
}

static COLD void *malloc_slow(struct thread *t, size_t size, REGS)
{
	uint32_t answer = hook_enter(t, HOOK_ALLOC, sp);
	if (answer < PASS_MAX)
		return counted(t, answer, pass_malloc(size), size);
	void *block = malloc_body(t, size, sp, bp, bx);
	hook_leave(t);
	return block;
}

/*
 * The process word changed while the allocator ran: ask again. In the child of a fork the answer is
 * no.
 */
static COLD void *obtained_late(struct thread *t, void *block, size_t size, REGS)
{
	uint32_t answer = hook_enter(t, HOOK_ALLOC, sp);
	if (answer < PASS_MAX)
		return counted(t, answer, block, size);
	note_obtained(t, block, size, sp, bp, bx);
	hook_leave(t);
	return block;
}

/*
 * Before the next definition, where it needs no guard. An operator new that led here has expected
 * its own stack.
 */
static ALWAYS_INLINE void plain_begin(struct thread *t, uint32_t sync, uint64_t sp)
{
	if (likely(!t->outer.sp))
		capture_soon(t, sync, caller_pc(sp), sp);
}

/*
 * The end of malloc() and calloc() where the next definition needed no guard. What a signal handler
 * did meanwhile is recorded already and does not matter.
 */
static ALWAYS_INLINE void *plain_obtained(struct thread *t, void *block, size_t size, REGS,
					  uint32_t sync)
{
	t->sync = SYNC_IN(SYNC_OWN, sp);
	barrier();
	/*
	 * a signal handler may have forked before: the child must not write into its parent's ring
	 */
	if (unlikely(sync != proc.word)) {
		t->sync = sync;
		return obtained_late(t, block, size, sp, bp, bx);
	}
	note_obtained(t, block, size, sp, bp, bx);
	barrier();
	t->sync = sync;
	return block;
}

HIDDEN void *hook_malloc(size_t size, REGS)
{
	struct thread *t = &self;
	uint32_t sync = t->sync;
	if (unlikely(sync != proc.word))
		return malloc_slow(t, size, sp, bp, bx);
	if (likely(sync & MODE_PLAIN)) {
		plain_begin(t, sync, sp);
		void *block = next.malloc(size);
		if (unlikely(!block))
			return NULL;
		return plain_obtained(t, block, size, sp, bp, bx, sync);
	}
	void *block = malloc_body(t, size, sp, bp, bx);
	t->sync = sync;
	return block;
}

/* ---- calloc ---- */

static ALWAYS_INLINE void *calloc_body(struct thread *t, size_t count, size_t each, REGS)
{
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	void *block = next.calloc(count, each);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	/*
	 * then the product did not overflow; not in a child that a signal handler forked meanwhile
	 */
	if (likely(block && proc.word & MODE_MASK))
		note_obtained(t, block, count * each, sp, bp, bx);
	return block;
}

static COLD void *calloc_slow(struct thread *t, size_t count, size_t each, REGS)
{
	uint32_t answer = hook_enter(t, HOOK_ALLOC, sp);
	if (unlikely(!next.calloc)) {
		size_t size; /* the pool is zeroed and never reused */
		void *block = NULL;
		if (!__builtin_mul_overflow(count, each, &size))
			block = boot_alloc(size, 16);
		if (!block)
			errno = ENOMEM;
		return counted(t, answer, block, count * each);
	}
	if (answer < PASS_MAX)
		return counted(t, answer, next.calloc(count, each), count * each);
	void *block = calloc_body(t, count, each, sp, bp, bx);
	hook_leave(t);
	return block;
}

HIDDEN void *hook_calloc(size_t count, size_t each, REGS)
{
	struct thread *t = &self;
	uint32_t sync = t->sync;
	if (unlikely(sync != proc.word))
		return calloc_slow(t, count, each, sp, bp, bx);
	if (likely(sync & MODE_PLAIN)) {
		plain_begin(t, sync, sp);
		void *plain = next.calloc(count, each);
		if (unlikely(!plain))
			return NULL;
		return plain_obtained(t, plain, count * each, sp, bp, bx, sync);
	}
	void *block = calloc_body(t, count, each, sp, bp, bx);
	t->sync = sync;
	return block;
}

/* ---- free ---- */

void note_free_stack(struct thread *t, const void *block, REGS)
{
	uint32_t node = capture(t, caller_pc(sp), sp, bp, bx);
	uint64_t *to = ring_room(t, 16);
	if (unlikely(!to)) {
		ring_dropped(t, 0, 0, 1);
		return;
	}
	to[0] = (uint64_t)block << 8 | WIRE_FREE_STACK;
	to[1] = node;
	ring_publish(t, 16);
}

static COLD void free_slow(struct thread *t, void *block, REGS)
{
	if (!block || boot_owns(block))
		return;
	uint32_t answer = hook_enter(t, HOOK_FREE, sp);
	if (answer < PASS_MAX) {
		if (answer != PASS && block != t->skip_free)
			count_lost(t, answer - 1, 0, 0, 1);
		/* else it can only be a block of the loader's own, early allocator */
		if (next.free)
			next.free(block);
		return;
	}
	if (block != t->skip_free)
		note_free(t, block, sp, bp, bx);
	else
		t->skip_free = NULL;
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	next.free(block);
	hook_leave(t);
}

/* The fast way in, and yet something is to be done: the first half of hook_free() says what. */
static COLD void free_odd(struct thread *t, void *block, REGS, uint32_t sync)
{
	if (unlikely(boot_owns(block)))
		return;
	if (likely(block && block != t->skip_free)) {
		t->sync = SYNC_IN(SYNC_OWN, sp);
		note_free(t, block, sp, bp, bx);
	} else if (block) {
		t->skip_free =
			NULL; /* the address may be given out before operator delete returns */
	}
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	next.free(block);
	t->sync = sync;
}

HIDDEN void hook_free(void *block, REGS)
{
	struct thread *t = &self;
	uint32_t sync = t->sync;
	if (unlikely(sync != proc.word)) {
		free_slow(t, block, sp, bp, bx);
		return;
	}
	if (block == t->skip_free && sync & MODE_PLAIN) {
		/*
		 * NULL, or operator delete's, which has noted it; the address may be given out
		 * before it returns
		 */
		t->skip_free = NULL;
		next.free(block);
		return;
	}
	if (unlikely(!(sync & MODE_PLAIN) || boot_owns(block) || !block)) {
		free_odd(t, block, sp, bp, bx, sync);
		return;
	}
	t->sync = SYNC_IN(SYNC_OWN, sp);
	barrier();
	uint64_t head = t->head;
	if (unlikely(sync != proc.word || /* as in plain_obtained() */
		     !stamp_holds(t) || head + 8 > t->soft)) {
		t->sync = sync;
		free_slow(t, block, sp, bp, bx);
		return;
	}
	/* before: another thread may own the address the instant it returns */
	*(uint64_t *)(t->ring + (head & t->mask)) = (uint64_t)block << 8 | WIRE_FREE;
	t->head = head + 8;
	__atomic_store_n(&t->slot->head, head + 8, __ATOMIC_RELEASE);
	barrier();
	t->sync = sync;
	next.free(block);
}

HIDDEN void hook_cfree(void *block, REGS)
{
	hook_free(block, sp, bp, bx);
}

/*
 * Note the free of @block, and keep silent about the free() that the next definition may make of
 * it.
 */
static void sized_begin(struct thread *t, void *block, REGS)
{
	enter_and_note_free(t, block, sp, bp, bx);
	t->skip_free = block;
}

HIDDEN void hook_free_sized(void *block, size_t size, REGS)
{
	struct thread *t = &self;
	if (!next.free_sized || !block || block == t->skip_free || boot_owns(block)) {
		hook_free(block, sp, bp, bx);
		return;
	}
	void *outer = t->skip_free;
	sized_begin(t, block, sp, bp, bx);
	next.free_sized(block, size);
	t->skip_free = outer;
}

HIDDEN void hook_free_aligned_sized(void *block, size_t align, size_t size, REGS)
{
	struct thread *t = &self;
	if (!next.free_aligned_sized || !block || block == t->skip_free || boot_owns(block)) {
		hook_free(block, sp, bp, bx);
		return;
	}
	void *outer = t->skip_free;
	sized_begin(t, block, sp, bp, bx);
	next.free_aligned_sized(block, align, size);
	t->skip_free = outer;
}

/* ---- realloc ---- */

static COLD void *realloc_boot(void *old, size_t size)
{
	size_t had = boot_size(old);
	void *block = pass_malloc(size);
	if (block)
		memcpy(block, old, had < size ? had : size);
	return block;
}

static COLD void *realloc_slow(struct thread *t, void *old, size_t size, REGS)
{
	uint32_t answer = hook_enter(t, old ? HOOK_REALLOC : HOOK_ALLOC, sp);
	void *block;
	if (unlikely(!next.realloc)) {
		if (old && !boot_owns(old))
			return NULL;
		return counted(t, answer, old ? realloc_boot(old, size) : pass_malloc(size), size);
	}
	if (answer < PASS_MAX) {
		if (old && boot_owns(old))
			return realloc_boot(old, size);
		block = next.realloc(old, size);
		if (answer != PASS && (block || (old && !size)))
			count_lost(t, answer - 1, block != NULL, block ? size : 0, old != NULL);
		return block;
	}
	if (old && boot_owns(old)) {
		/* to the program a realloc, to the next allocator a new block */
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		block = realloc_boot(old, size);
		t->sync = SYNC_IN(SYNC_OWN, sp);
		if (block && proc.word & MODE_MASK)
			note_obtained(t, block, size, sp, bp, bx);
	} else if ((answer & MODE_MASK) == MODE_SUSPENDED) {
		/*
		 * allocations are not recorded now, so nothing can take the address before this
		 * free is written
		 */
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		block = next.realloc(old, size);
		t->sync = SYNC_IN(SYNC_OWN, sp);
		if ((block || !size) && proc.word & MODE_MASK)
			note_free(t, old, sp, bp, bx);
	} else {
		block = realloc_body(t, NULL, old, size, sp, bp, bx);
	}
	hook_leave(t);
	return block;
}

HIDDEN void *hook_realloc(void *old, size_t size, REGS)
{
	struct thread *t = &self;
	uint32_t sync = t->sync;
	if (unlikely(sync != proc.word || boot_owns(old)))
		return realloc_slow(t, old, size, sp, bp, bx);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	barrier();
	void *block = realloc_body(t, NULL, old, size, sp, bp, bx);
	t->sync = sync;
	return block;
}

HIDDEN void *hook_reallocarray(void *old, size_t count, size_t each, REGS)
{
	size_t size;
	if (unlikely(__builtin_mul_overflow(count, each, &size))) {
		errno = ENOMEM;
		return NULL;
	}
	/*
	 * by definition the same as realloc() of the product; the caller's registers make it the
	 * outermost call
	 */
	return hook_realloc(old, size, sp, bp, bx);
}

/* ---- aligned blocks: rarer, so one function each ---- */

HIDDEN int hook_posix_memalign(void **to, size_t align, size_t size, REGS)
{
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	int rc;
	if (likely(next.posix_memalign)) {
		rc = next.posix_memalign(to, align, size);
	} else {
		void *block = boot_alloc(size, align);
		if (block)
			*to = block;
		rc = block ? 0 : ENOMEM;
	}
	obtain_done(t, fast, sync, rc == 0 ? *to : NULL, size, align, sp, bp, bx);
	return rc;
}

HIDDEN void *hook_memalign(size_t align, size_t size, REGS)
{
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	void *block = next.memalign ? next.memalign(align, size) : boot_alloc(size, align);
	obtain_done(t, fast, sync, block, size, align, sp, bp, bx);
	return block;
}

HIDDEN void *hook_aligned_alloc(size_t align, size_t size, REGS)
{
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	void *block =
		next.aligned_alloc ? next.aligned_alloc(align, size) : boot_alloc(size, align);
	obtain_done(t, fast, sync, block, size, align, sp, bp, bx);
	return block;
}

HIDDEN void *hook_valloc(size_t size, REGS)
{
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	void *block = next.valloc ? next.valloc(size) : boot_alloc(size, 4096);
	obtain_done(t, fast, sync, block, size, 1, sp, bp, bx);
	return block;
}

HIDDEN void *hook_pvalloc(size_t size, REGS)
{
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	void *block = next.pvalloc ? next.pvalloc(size) : boot_alloc(size, 4096);
	obtain_done(t, fast, sync, block, size, 1, sp, bp, bx);
	return block;
}
