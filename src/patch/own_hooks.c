/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_hooks.c - hooks of allocators that the program carries itself, see own.h. One for each kind
 * of function; which argument is what, the call's description says.
 */
#include <string.h>

#include "patch/own.h"
#include "preload/body.h"

/*
 * In functions that call the next definition: some look who calls them along the frame pointers,
 * sanitizers' for example.
 */
static ALWAYS_INLINE void keep_frame_pointer(void)
{
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
}

static ALWAYS_INLINE uint64_t argument(unsigned which, uint64_t a, uint64_t b, uint64_t c,
				       uint64_t d)
{
	return which == 0 ? a : which == 1 ? b : which == 2 ? c : d;
}

/*
 * A product that overflows is more than there can be: the call fails, and is not taken for one of 0
 * bytes.
 */
static ALWAYS_INLINE size_t asked(const struct own_call *own, uint64_t a, uint64_t b, uint64_t c,
				  uint64_t d)
{
	size_t size = argument(own->shape.size, a, b, c, d);
	if (own->shape.count != OWN_NONE &&
	    __builtin_mul_overflow(size, argument(own->shape.count, a, b, c, d), &size))
		return SIZE_MAX;
	return size;
}

static ALWAYS_INLINE size_t alignment(const struct own_call *own, uint64_t a, uint64_t b,
				      uint64_t c, uint64_t d)
{
	return own->shape.align == OWN_NONE ? 1 : argument(own->shape.align, a, b, c, d);
}

static ALWAYS_INLINE uint64_t obtain(int text, OWN_ARGS)
{
	(void)ax;
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	uint64_t block = own->next(a, b, c, d);
	size_t size = !text ? asked(own, a, b, c, d) : block ? strlen((const char *)block) + 1 : 0;
	obtain_done(t, fast, sync, (void *)block, size, alignment(own, a, b, c, d), sp, bp, bx);
	return block;
}

HIDDEN uint64_t own_obtain(OWN_ARGS)
{
	keep_frame_pointer();
	return obtain(0, a, b, c, d, own, sp, bp, bx, ax);
}

HIDDEN uint64_t own_obtain_text(OWN_ARGS)
{
	keep_frame_pointer();
	return obtain(1, a, b, c, d, own, sp, bp, bx, ax);
}

HIDDEN uint64_t own_obtain_to(OWN_ARGS)
{
	keep_frame_pointer();
	(void)ax;
	struct thread *t = &self;
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	uint64_t rc = own->next(a, b, c, d);
	void *const *to = (void *const *)argument(own->shape.block, a, b, c, d);
	obtain_done(t, fast, sync, (int)rc == 0 ? *to : NULL, asked(own, a, b, c, d),
		    alignment(own, a, b, c, d), sp, bp, bx);
	return rc;
}

static COLD uint64_t release_slow(struct thread *t, void *block, OWN_ARGS)
{
	keep_frame_pointer();
	uint32_t answer = hook_enter(t, HOOK_FREE, sp);
	if (answer < PASS_MAX) {
		if (answer != PASS && block != t->skip_free)
			count_lost(t, answer - 1, 0, 0, 1);
		passed_begin(t, answer, sp);
		uint64_t passed = own_next_release(a, b, c, d, own, ax);
		passed_end(t, answer);
		return passed;
	}
	if (block != t->skip_free)
		note_free(t, block, sp, bp, bx);
	else
		t->skip_free = NULL;
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	uint64_t rc = own_next_release(a, b, c, d, own, ax);
	hook_leave(t);
	return rc;
}

HIDDEN uint64_t own_release(OWN_ARGS)
{
	keep_frame_pointer();
	struct thread *t = &self;
	void *block = (void *)argument(own->shape.block, a, b, c, d);
	uint32_t sync = t->sync;
	if (unlikely(!block))
		return own_next_release(a, b, c, d, own, ax);
	if (unlikely(sync != proc.word))
		return release_slow(t, block, a, b, c, d, own, sp, bp, bx, ax);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (likely(block != t->skip_free))
		note_free(t, block, sp, bp, bx);
	else
		t->skip_free = NULL;
	t->sync = SYNC_IN(SYNC_NEXT, sp);
	uint64_t rc = own_next_release(a, b, c, d, own, ax);
	t->sync = sync;
	return rc;
}

/* As realloc_body(), for a function that releases the block where it fails. */
static ALWAYS_INLINE void *resize_body(struct thread *t, const struct own_call *own,
				       const struct resize *call, void *old, size_t size, REGS)
{
	void *block = realloc_body(t, call, old, size, sp, bp, bx);
	if (unlikely(!block && old && size && own->shape.kind == OWN_RESIZE_OR_FREE &&
		     proc.word & MODE_MASK))
		note_free(t, old, sp, bp, bx);
	return block;
}

static COLD void *resize_slow(struct thread *t, const struct own_call *own,
			      const struct resize *call, void *old, size_t size, REGS)
{
	keep_frame_pointer();
	uint32_t answer = hook_enter(t, old ? HOOK_REALLOC : HOOK_ALLOC, sp);
	void *block;
	if (answer < PASS_MAX) {
		passed_begin(t, answer, sp);
		block = resize(call, old, size);
		passed_end(t, answer);
		if (answer != PASS && (block || (old && !size)))
			count_lost(t, answer - 1, block != NULL, block ? size : 0, old != NULL);
		return block;
	}
	if ((answer & MODE_MASK) == MODE_SUSPENDED) {
		/*
		 * allocations are not recorded now, so nothing can take the address before this
		 * free is written
		 */
		t->sync = SYNC_IN(SYNC_NEXT, sp);
		block = resize(call, old, size);
		t->sync = SYNC_IN(SYNC_OWN, sp);
		int freed = block || !size || own->shape.kind == OWN_RESIZE_OR_FREE;
		if (old && freed && proc.word & MODE_MASK)
			note_free(t, old, sp, bp, bx);
	} else {
		block = resize_body(t, own, call, old, size, sp, bp, bx);
	}
	hook_leave(t);
	return block;
}

HIDDEN uint64_t own_resize(OWN_ARGS)
{
	keep_frame_pointer();
	(void)ax;
	struct thread *t = &self;
	const struct resize call = { own->next, { a, b, c, d } };
	void *old = (void *)argument(own->shape.block, a, b, c, d);
	size_t size = asked(own, a, b, c, d);
	uint32_t sync = t->sync;
	if (unlikely(sync != proc.word))
		return (uint64_t)resize_slow(t, own, &call, old, size, sp, bp, bx);
	t->sync = SYNC_IN(SYNC_OWN, sp);
	barrier();
	void *block = resize_body(t, own, &call, old, size, sp, bp, bx);
	t->sync = sync;
	return (uint64_t)block;
}

/* The block stays where it is, so nobody else can get its address meanwhile. */
HIDDEN uint64_t own_resize_in_place(OWN_ARGS)
{
	keep_frame_pointer();
	(void)ax;
	struct thread *t = &self;
	void *block = (void *)argument(own->shape.block, a, b, c, d);
	size_t size = asked(own, a, b, c, d);
	int fast;
	uint32_t sync = obtain_enter(t, &fast, sp);
	uint64_t got = own->next(a, b, c, d);
	if (unlikely(sync < PASS_MAX)) {
		passed_end(t, sync);
		if (sync != PASS && got >= size)
			count_lost(t, sync - 1, 1, size, 1);
		return got;
	}
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (got >= size && proc.word & MODE_MASK) {
		if (note_realloc_begin(t, block, sp, bp, bx)) {
			note_realloc_end(t, block, size,
					 capture_alloc(t, size, caller_pc(sp), sp, bp, bx));
		} else {
			ring_dropped(t, 0, 0, 1);
			note_obtained(t, block, size, sp, bp, bx);
		}
	}
	if (likely(fast))
		t->sync = sync;
	else
		hook_leave(t);
	return got;
}

/*
 * The personality of the entries' frames: an exception passes (std::bad_alloc out of an operator
 * new), or the thread ends in the midst of it. The hook is left then. Numbers of the Itanium C++
 * ABI, exception handling, 1.6.1 and 1.6.2: 2 is _UA_CLEANUP_PHASE, 8 _URC_CONTINUE_UNWIND.
 */
HIDDEN int own_personality(int version, int actions, uint64_t class, void *exception,
			   void *context);
HIDDEN int own_personality(int version, int actions, uint64_t class, void *exception, void *context)
{
	struct thread *t = &self;
	(void)version;
	(void)class;
	(void)exception;
	(void)context;
	if (!(actions & 2) || SYNC_KIND(t->sync) != SYNC_NEXT)
		return 8;
	if (t->inner) { /* see passed_begin() */
		t->inner--;
		return 8;
	}
	if (t->realloc_old && proc.word & MODE_MASK) {
		t->sync = SYNC_OWN;
		note_realloc_fail(t, t->realloc_old);
	}
	hook_leave(t);
	return 8;
}
