/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_region.c - the address space: mmap, munmap, mremap, brk, sbrk as events of their own, with
 * stacks.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/note.h"

/*
 * Begin of a region hook. Return: below PASS_MAX: record nothing; else end with
 * region_leave(@answer).
 */
static uint32_t region_enter(struct thread *t, uint64_t sp)
{
	uint32_t answer;
	if (likely(t->sync == proc.word))
		answer = t->sync;
	else
		answer = hook_enter(t, HOOK_REGION, sp);
	if (answer == REGION_INNER)
		t->outer_sync = t->sync;
	if (answer >= PASS_MAX)
		t->sync = SYNC_IN(SYNC_OWN, sp);
	return answer;
}

static void region_leave(struct thread *t, uint32_t answer)
{
	if (answer == REGION_INNER)
		t->sync = t->outer_sync;
	else
		hook_leave(t);
}

/* A region record of up to three words; one that a full ring refuses is counted. */
static void put_region(struct thread *t, uint32_t tag, uint64_t addr, uint64_t word1,
		       uint64_t word2, unsigned bytes)
{
	uint64_t *to = ring_room_slow(t, bytes, 0); /* a stamp is nothing beside a system call */
	if (!to) {
		count_lost(t, WIRE_LOST_REGION, 1, 0, 0);
		return;
	}
	to[0] = addr << 8 | tag;
	to[1] = word1;
	if (bytes > 16)
		to[2] = word2;
	ring_publish(t, bytes);
}

static void put_map(struct thread *t, uint64_t addr, uint64_t bytes, int prot, int flags,
		    uint32_t node)
{
	uint64_t word = node | (uint64_t)(prot & 0xff) << 32 | (uint64_t)(flags & 0xffffff) << 40;
	put_region(t, WIRE_MAP, addr, word, bytes, 24);
}

static void *mapped(void *at, size_t bytes, int prot, int flags, int fd, off_t off, REGS)
{
	struct thread *t = &self;
	void *result;
	uint32_t answer = region_enter(t, sp);
	if (answer >= PASS_MAX) {
		result = next.mmap(at, bytes, prot, flags, fd, off);
		if (result != MAP_FAILED)
			put_map(t, (uint64_t)result, bytes,
				(prot & 0x7f) | (answer == REGION_INNER ? WIRE_MAP_INNER : 0),
				flags, capture(t, caller_pc(sp), sp, bp, bx));
		region_leave(t, answer);
		return result;
	}
	if (likely(next.mmap))
		return next.mmap(at, bytes, prot, flags, fd, off);
	long rc = sys6(SYS_mmap, (long)at, (long)bytes, prot, flags, fd, off);
	if (sys_failed(rc)) {
		errno = (int)-rc;
		return MAP_FAILED;
	}
	return (void *)rc;
}

HIDDEN void *hook_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off, REGS)
{
	if (likely(!(flags & MAP_FIXED) || !stacks_change((uint64_t)at, bytes)))
		return mapped(at, bytes, prot, flags, fd, off, sp, bp, bx);
	void *result = mapped(at, bytes, prot, flags, fd, off, sp, bp, bx);
	stacks_change((uint64_t)at, bytes);
	return result;
}

static int unmapped(void *at, size_t bytes, REGS)
{
	struct thread *t = &self;
	uint32_t answer = region_enter(t, sp);
	int rc;
	if (answer >= PASS_MAX) {
		/*
		 * Stamped before: another thread may get the place the instant it returns. Shown to
		 * the recorder only once it has succeeded.
		 */
		uint32_t node = capture(t, caller_pc(sp), sp, bp, bx);
		uint64_t *to = ring_room_slow(t, 24, 0);
		if (to) {
			to[0] = (uint64_t)at << 8 | WIRE_UNMAP;
			to[1] = node;
			to[2] = bytes;
		}
		rc = next.munmap(at, bytes);
		if (rc == 0 && to)
			ring_publish(t, 24);
		else if (rc == 0)
			count_lost(t, WIRE_LOST_REGION, 1, 0, 0);
		if (rc == 0)
			modules_unmapped((uint64_t)at, bytes);
		region_leave(t, answer);
		return rc;
	}
	if (likely(next.munmap))
		return next.munmap(at, bytes);
	long raw = sys2(SYS_munmap, at, bytes);
	if (sys_failed(raw)) {
		errno = (int)-raw;
		return -1;
	}
	return 0;
}

HIDDEN int hook_munmap(void *at, size_t bytes, REGS)
{
	int told = stacks_change((uint64_t)at, bytes);
	int rc = unmapped(at, bytes, sp, bp, bx);
	if (unlikely(told))
		stacks_change((uint64_t)at, bytes);
	return rc;
}

static void *remapped(void *old, size_t old_bytes, size_t bytes, int flags, void *to, REGS)
{
	struct thread *t = &self;
	uint32_t answer = region_enter(t, sp);
	void *result;
	if (answer >= PASS_MAX) {
		result = next.mremap(old, old_bytes, bytes, flags, to);
		if (result != MAP_FAILED) {
			uint32_t node = capture(t, caller_pc(sp), sp, bp, bx);
			/* both or none: the room behind a record is kept for one more */
			uint64_t *at = ring_room_slow(t, 24, 0);
			if (!at) {
				count_lost(t, WIRE_LOST_REGION, 2, 0, 0);
			} else {
				at[0] = (uint64_t)old << 8 | WIRE_REMAP;
				at[1] = node;
				at[2] = old_bytes;
				ring_publish(t, 24);
				at = kept_room(t, 24);
				at[0] = (uint64_t)result << 8 | WIRE_MAP;
				at[1] = node;
				at[2] = bytes;
				ring_publish(t, 24);
			}
		}
		region_leave(t, answer);
		return result;
	}
	if (likely(next.mremap))
		return next.mremap(old, old_bytes, bytes, flags, to);
	long rc = sys5(SYS_mremap, old, old_bytes, bytes, flags, to);
	if (sys_failed(rc)) {
		errno = (int)-rc;
		return MAP_FAILED;
	}
	return (void *)rc;
}

HIDDEN void *hook_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to,
			 uintptr_t r9, REGS)
{
	(void)r9;
	int told = stacks_change((uint64_t)old, old_bytes);
	if (flags & MREMAP_FIXED)
		told |= stacks_change((uint64_t)to, bytes);
	void *result = remapped(old, old_bytes, bytes, flags, to, sp, bp, bx);
	if (unlikely(told)) {
		stacks_change((uint64_t)old, old_bytes);
		if (flags & MREMAP_FIXED)
			stacks_change((uint64_t)to, bytes);
	}
	return result;
}

extern void *__sbrk(intptr_t by) __attribute__((weak)); /* glibc's own name for it */

/*
 * Before the table is filled: constructors, and allocators that live on the break. Libc keeps the
 * book of the break.
 */
static COLD void *early_sbrk(intptr_t by)
{
	void *(*libc_sbrk)(intptr_t) = next.sbrk ? next.sbrk : __sbrk;
	if (!libc_sbrk) {
		void *found = next_behind("sbrk");
		memcpy(&libc_sbrk, &found, sizeof(found));
	}
	if (libc_sbrk)
		return libc_sbrk(by);
	errno = ENOMEM;
	return (void *)-1;
}

static COLD int early_brk(void *at)
{
	char *now = early_sbrk(0);
	return now == (void *)-1 || early_sbrk((char *)at - now) == (void *)-1 ? -1 : 0;
}

HIDDEN int hook_brk(void *at, REGS)
{
	struct thread *t = &self;
	uint32_t answer = region_enter(t, sp);
	int rc = likely(next.brk) ? next.brk(at) : early_brk(at);
	if (answer >= PASS_MAX) {
		if (rc == 0)
			put_region(t, WIRE_BRK, (uint64_t)at, capture(t, caller_pc(sp), sp, bp, bx),
				   0, 16);
		region_leave(t, answer);
	}
	return rc;
}

HIDDEN void *hook_sbrk(intptr_t by, REGS)
{
	struct thread *t = &self;
	uint32_t answer = region_enter(t, sp);
	char *old = likely(next.sbrk) ? next.sbrk(by) : early_sbrk(by);
	if (answer >= PASS_MAX) {
		if (old != (void *)-1 && by != 0)
			put_region(t, WIRE_BRK, (uint64_t)(old + by),
				   capture(t, caller_pc(sp), sp, bp, bx), 0, 16);
		region_leave(t, answer);
	}
	return old;
}
