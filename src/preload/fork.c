/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - what happens around a fork of the C library's: the child is followed where that was
 * asked for, and never writes into its parent's book.
 */
#include "preload/fork.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "preload/helper.h"
#include "preload/note.h"
#include "preload/ring.h"
#include "preload/start.h"
#include "preload/thread.h"

/* ---- a fork by a signal handler that interrupted a hook ---- */

/*
 * The hook goes on in the child, and its ring, its place and the stepper's memory are shared with
 * the parent, where the same hook goes on: the child gets its own. Copied before, while nobody else
 * writes there. Such a child is not followed: what the hook is about to write belongs to neither
 * book. Each thread has its own: several may fork at once.
 */
struct kept_hook {
	struct wire_heap_slot slot;
	_Alignas(4096) char scratch[];
};

static void drop_hook(struct thread *t)
{
	struct kept_hook *kept = t->fork_kept;
	t->fork_kept = NULL;
	if (kept)
		sys2(SYS_munmap, kept, sizeof(*kept) + kept->slot.scratch_bytes);
}

static void keep_hook(struct thread *t)
{
	if (!t->slot || process.seccomp)
		return;
	long rc = sys6(SYS_mmap, 0, (long)(sizeof(struct kept_hook) + t->slot->scratch_bytes),
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(rc))
		return;
	struct kept_hook *kept = (struct kept_hook *)rc;
	kept->slot = *t->slot;
	memcpy(kept->scratch, (char *)process.heap + kept->slot.scratch_off,
	       kept->slot.scratch_bytes);
	t->fork_kept = kept;
}

static void give_hook(struct thread *t)
{
	struct kept_hook *kept = t->fork_kept;
	struct wire_heap_slot *slot = &kept->slot;
	sys5(SYS_mremap, kept->scratch, slot->scratch_bytes, slot->scratch_bytes,
	     MREMAP_MAYMOVE | MREMAP_FIXED, (char *)process.heap + slot->scratch_off);
	sys6(SYS_mmap, (long)process.heap + (long)slot->ring_off, slot->ring_bytes,
	     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	slot->tail =
		t->head; /* nobody reads it: all of it is free, whatever the parent's still held */
	t->slot = slot;
	t->fork_kept = NULL; /* its first page stays: the slot */
}

/* ---- a child that is followed ---- */

void fork_settle(void)
{
	if (!__atomic_load_n(&process.starter, __ATOMIC_RELAXED) || process.seccomp ||
	    !helper_settled() || !__atomic_exchange_n(&process.starter, 0, __ATOMIC_RELAXED))
		return;
	sys2(SYS_munmap, process.starter_heap, sizeof(*process.starter_heap));
	process.starter_heap = NULL;
}

/*
 * Tell our recorder the moment at which the child's books begin: it hands the blocks that live then
 * to the child's.
 */
static void announce(struct thread *t)
{
	if (process.raw)
		return; /* nobody reads it meanwhile */
	if (hook_enter(t, HOOK_FREE, (uint64_t)__builtin_frame_address(0)) < PASS_MAX)
		return;
	t->soft = 0; /* with a stamp, so that what other threads did before stands before */
	uint64_t *to = ring_room(t, 8);
	if (to) {
		t->fork_number = __atomic_add_fetch(&process.forks, 1, __ATOMIC_RELAXED);
		to[0] = (uint64_t)t->fork_number << 8 | WIRE_FORK;
		ring_publish(t, 8);
		/*
		 * As the recorder's beat does: whatever other threads write from here on begins
		 * with a stamp, which is later than this one's. Without it a free that followed the
		 * fork within a beat, or before the recorder's first, could be read in front of it,
		 * and the child would not inherit the block.
		 */
		__atomic_add_fetch(&process.heap->tick, 1, __ATOMIC_SEQ_CST);
	}
	hook_leave(t);
}

void fork_prepare(void)
{
	struct thread *t = &self;
	uint32_t in = SYNC_KIND(t->sync);
	uint32_t word = proc.word, mode = word & MODE_MASK;
	t->fork_word = 0;
	t->fork_number = 0;
	drop_hook(t); /* of a fork that a handler jumped out of */
	if (in == SYNC_OWN)
		keep_hook(t);
	if (in == SYNC_OWN || in == SYNC_NEXT || !process.follow || process.seccomp ||
	    mode <= MODE_OFF)
		return;
	t->fork_word = word;
	int subreaper = 0;
	sys2(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper);
	if (subreaper || sys0(SYS_getpid) == 1)
		process.reaper = 1;
	if (mode != MODE_IDLE)
		announce(t);
}

void fork_parent(void)
{
	drop_hook(&self);
}

void fork_child(void)
{
	struct thread *t = &self;
	if (t->fork_kept)
		give_hook(t);
	else if (t->fork_word)
		start_child(t);
}
