/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_cxx.c - operator new and delete.
 *
 * The next operator new may throw, so nothing is held across the call. It is remembered as the outermost call instead;
 * the malloc that it makes takes its event from there. An allocator with an operator new of its own makes none: then
 * the event is written here.
 */
#include "preload/hooks.h"
#include "preload/note.h"

/* Whether this call was made by an operator new that is remembered already (new[] calls new). */
static ALWAYS_INLINE int inside_outer(const struct thread *t, uint64_t sp)
{
	const struct outer *o = &t->outer;
	return o->sp > sp && o->sp - sp < OUTER_REACH && caller_pc(o->sp) == o->pc &&
	       caller_pc(sp) - cxx_lo < cxx_hi - cxx_lo;
}

/* No C++ runtime anywhere: what the standard asks for, but for the exception that nobody could catch. */
static COLD void *plain_new(size_t size, uintptr_t align)
{
	extern void *malloc(size_t);
	extern void *aligned_alloc(size_t, size_t);
	return align ? aligned_alloc(align, size) : malloc(size ? size : 1);
}

static ALWAYS_INLINE void *new_body(enum cxx_new form, size_t size, uintptr_t b, uintptr_t c, REGS)
{
	struct thread *t = &self;
	if (unlikely(!next.cxx_new[form])) {
		if (!process.resolved)
			hook_free(NULL, sp, bp,
				  bx); /* makes the first hooked call of the process */
		uint32_t sync = t->sync;
		uint8_t own = t->own;
		t->sync = SYNC_OWN;
		t->own = 1;
		if (!next.cxx_new[form])
			next_cxx();
		t->own = own;
		t->sync = sync;
		if (!next.cxx_new[form])
			return plain_new(size, form & 2 ? b : 0);
	}
	if (t->sync == SYNC_OWN || t->sync == SYNC_NEXT || inside_outer(t, sp))
		return next.cxx_new[form](size, b, c);
	t->outer =
		(struct outer){ .sp = sp, .pc = caller_pc(sp), .bp = bp, .bx = bx, .size = size };
	void *block = next.cxx_new[form](size, b, c);
	if (likely(t->outer.sp != sp))
		return block; /* a malloc took it */
	t->outer.sp = 0;
	if (!block)
		return block;
	uint32_t answer = hook_enter(t, HOOK_ALLOC, caller_pc(sp));
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
	if (unlikely(!next.cxx_delete[form])) {
		/* every delete of the C++ runtimes ends in free() */
		if (!next.cxx_delete[DEL]) {
			hook_free(block, sp, bp, bx);
			return;
		}
		form = DEL;
	}
	uint32_t sync = t->sync;
	if (unlikely(!block || block == t->skip_free || boot_owns(block))) {
		if (!boot_owns(block))
			next.cxx_delete[form](block, b, c);
		return;
	}
	if (likely(sync == proc.word)) {
		t->sync = SYNC_OWN;
		note_free(t, block, sp, bp, bx);
		t->sync = sync;
	} else {
		uint32_t answer = hook_enter(t, HOOK_FREE, caller_pc(sp));
		if (answer >= PASS_MAX) {
			note_free(t, block, sp, bp, bx);
			hook_leave(t);
		} else if (answer != PASS) {
			count_lost(t, answer - 1, 0, 0, 1);
		}
	}
	t->skip_free = block;
	next.cxx_delete[form](block, b, c);
	t->skip_free = NULL;
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
