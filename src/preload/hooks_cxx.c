/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_cxx.c - operator new and delete.
 *
 * The next operator new may throw, so nothing is held across the call. It is remembered as the
 * outermost call instead; the malloc that it makes takes its event from there. An allocator with an
 * operator new of its own makes none: then the event is written here.
 */
#include <errno.h>

#include "preload/hooks.h"
#include "preload/note.h"

/*
 * Whether this call was made by an operator new that is remembered already (new[] calls new). Where
 * the runtime calls, that one's frame is there; elsewhere it may be left of another stack, which is
 * gone.
 */
static ALWAYS_INLINE int inside_outer(const struct thread *t, uint64_t sp)
{
	const struct outer *o = &t->outer;
	return o->sp > sp && o->sp - sp < OUTER_REACH && in_outer(o, caller_pc(sp)) &&
	       caller_pc(o->sp) == o->pc;
}

/*
 * No C++ runtime anywhere: what the standard asks for, but for the exception that nobody could
 * catch.
 */
static COLD void *plain_new(size_t size, uintptr_t align, REGS)
{
	return align ? hook_aligned_alloc(align, size, sp, bp, bx)
		     : hook_malloc(size ? size : 1, sp, bp, bx);
}

/* Nothing in the global scope: what the caller's object has. */
static COLD const struct cxx_own *own_of(struct thread *t, uint64_t sp, struct cxx_own *spare)
{
	uint32_t sync = t->sync;
	uint8_t own = t->own;
	int saved_errno = errno;
	t->sync = SYNC_IN(SYNC_OWN, sp);
	t->own = 1;
	const struct cxx_own *found = next_cxx_of(caller_pc(sp), spare);
	t->own = own;
	t->sync = sync;
	errno = saved_errno;
	return found;
}

static ALWAYS_INLINE void *new_body(enum cxx_new form, size_t size, uintptr_t b, uintptr_t c, REGS)
{
	struct thread *t = &self;
	void *(*call)(size_t, uintptr_t, uintptr_t) = next.cxx_new[form];
	const struct code_range *code = &cxx_code;
	if (unlikely(!call)) {
		struct cxx_own spare;
		if (!process.resolved) /* makes the first hooked call of the process */
			hook_free(NULL, sp, bp, bx);
		call = next.cxx_new[form];
		const struct cxx_own *own = call ? NULL : own_of(t, sp, &spare);
		if (own) {
			call = own->cxx_new[form];
			code = &own->code;
		}
		if (!call)
			return plain_new(size, form & 2 ? b : 0, sp, bp, bx);
		if (own == &spare) /* dies with this frame: the malloc that it calls counts */
			return call(size, b, c);
	}
	uint32_t kind = SYNC_KIND(t->sync);
	if (kind == SYNC_OWN || kind == SYNC_NEXT || cxx_new_replaced[form] || inside_outer(t, sp))
		return call(size, b, c);
	t->outer = (struct outer){
		.sp = sp, .pc = caller_pc(sp), .bp = bp, .bx = bx, .code = code, .size = size
	};
	uint32_t sync = t->sync;
	if (likely(sync == proc.word))
		capture_soon(t, sync, caller_pc(sp), sp);
	void *block = call(size, b, c);
	if (likely(t->outer.sp != sp))
		return block; /* a malloc took it */
	t->outer.sp = 0;
	if (!block)
		return block;
	uint32_t answer = hook_enter(t, HOOK_ALLOC, sp);
	if (answer < PASS_MAX) {
		if (answer != PASS)
			count_lost(t, answer - 1, 1, size, 0);
		return block;
	}
	note_alloc(t, block, size, caller_pc(sp), sp, bp, bx);
	hook_leave(t);
	return block;
}

HIDDEN void *hook_new(size_t size, REGS)
{
	return new_body(NEW, size, 0, 0, sp, bp, bx);
}

HIDDEN void *hook_newa(size_t size, REGS)
{
	return new_body(NEWA, size, 0, 0, sp, bp, bx);
}

#define NEW2(name, form)                                       \
	HIDDEN void *name(size_t size, uintptr_t b, REGS)      \
	{                                                      \
		return new_body(form, size, b, 0, sp, bp, bx); \
	}
#define NEW3(name, form)                                               \
	HIDDEN void *name(size_t size, uintptr_t b, uintptr_t c, REGS) \
	{                                                              \
		return new_body(form, size, b, c, sp, bp, bx);         \
	}
NEW2(hook_new_nt, NEW_NT)
NEW2(hook_new_al, NEW_AL)
NEW3(hook_new_al_nt, NEW_AL_NT)
NEW2(hook_newa_nt, NEWA_NT)
NEW2(hook_newa_al, NEWA_AL)
NEW3(hook_newa_al_nt, NEWA_AL_NT)

/* delete never throws; the free that it makes is told to be silent. */
static ALWAYS_INLINE void delete_body(enum cxx_delete form, void *block, uintptr_t b, uintptr_t c,
				      REGS)
{
	struct thread *t = &self;
	void (*call)(void *, uintptr_t, uintptr_t) = next.cxx_delete[form];
	if (unlikely(!call)) {
		struct cxx_own spare;
		call = next.cxx_delete[DEL];
		if (!call) {
			const struct cxx_own *own = own_of(t, sp, &spare);
			call = own->cxx_delete[form] ? own->cxx_delete[form] : own->cxx_delete[DEL];
		}
		/* no C++ runtime: then our own operator new called malloc() */
		if (!call) {
			hook_free(block, sp, bp, bx);
			return;
		}
	}
	if (unlikely(!block || block == t->skip_free || cxx_delete_replaced[form] ||
		     boot_owns(block))) {
		if (!boot_owns(block))
			call(block, b, c);
		return;
	}
	enter_and_note_free(t, block, sp, bp, bx);
	void *outer = t->skip_free; /* a replaced operator may delete something else first */
	t->skip_free = block;
	call(block, b, c);
	t->skip_free = outer;
}

HIDDEN void hook_del(void *block, REGS)
{
	delete_body(DEL, block, 0, 0, sp, bp, bx);
}

HIDDEN void hook_dela(void *block, REGS)
{
	delete_body(DELA, block, 0, 0, sp, bp, bx);
}

#define DELETE2(name, form)                                 \
	HIDDEN void name(void *block, uintptr_t b, REGS)    \
	{                                                   \
		delete_body(form, block, b, 0, sp, bp, bx); \
	}
#define DELETE3(name, form)                                           \
	HIDDEN void name(void *block, uintptr_t b, uintptr_t c, REGS) \
	{                                                             \
		delete_body(form, block, b, c, sp, bp, bx);           \
	}
DELETE2(hook_del_sz, DEL_SZ)
DELETE2(hook_del_nt, DEL_NT)
DELETE2(hook_del_al, DEL_AL)
DELETE3(hook_del_sz_al, DEL_SZ_AL)
DELETE3(hook_del_al_nt, DEL_AL_NT)
DELETE2(hook_dela_sz, DELA_SZ)
DELETE2(hook_dela_nt, DELA_NT)
DELETE2(hook_dela_al, DELA_AL)
DELETE3(hook_dela_sz_al, DELA_SZ_AL)
DELETE3(hook_dela_al_nt, DELA_AL_NT)
