/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - a thread's life seen from its allocator calls: birth, slots, signals, late events. */
#include "preload/thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/libc.h"
#include "preload/modules.h"
#include "preload/more.h"
#include "preload/next.h"
#include "preload/note.h"
#include "preload/ring.h"
#include "preload/start.h"

__thread struct thread self = { .sync = SYNC_UNBORN };
struct proc_page proc;
struct process process;

void count_lost(struct thread *t, enum wire_lost reason, uint64_t allocations, uint64_t bytes,
		uint64_t frees)
{
	struct wire_heap_header *heap = process.heap;
	if (!heap && reason != WIRE_LOST_EARLY)
		return;
	/* one instruction each, so that a signal handler in between does no harm */
	struct wire_lost_count *lost = reason == WIRE_LOST_EARLY ? &process.early
				       : t->slot                 ? &t->slot->lost[reason]
								 : &heap->lost[reason];
	__atomic_fetch_add(&lost->allocations, allocations, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&lost->bytes, bytes, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&lost->frees, frees, __ATOMIC_SEQ_CST);
	if (reason == WIRE_LOST_EARLY)
		count_early();
}

void count_early(void)
{
	/* switched off at the start: then nothing was to be recorded, and nothing is lost */
	if ((__atomic_load_n(&proc.word, __ATOMIC_SEQ_CST) & MODE_MASK) != MODE_ON)
		return;
	struct wire_lost_count *to = &process.heap->lost[WIRE_LOST_EARLY];
	struct wire_lost_count *from = &process.early;
	__atomic_fetch_add(&to->allocations,
			   __atomic_exchange_n(&from->allocations, 0, __ATOMIC_SEQ_CST),
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&to->bytes, __atomic_exchange_n(&from->bytes, 0, __ATOMIC_SEQ_CST),
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&to->frees, __atomic_exchange_n(&from->frees, 0, __ATOMIC_SEQ_CST),
			   __ATOMIC_RELAXED);
}

/* ---- slots ---- */

/* Without the key nobody tells of a thread's end: the slot of one that is gone. */
static COLD struct wire_heap_slot *slot_inherit(uint32_t tid)
{
	for (uint32_t i = 0; i < process.heap->slot_count && !process.seccomp; i++) {
		struct wire_heap_slot *slot = &process.slots[i];
		uint32_t owner = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
		if (owner && !slot->closed && sys3(SYS_tgkill, process.pid, owner, 0) == -ESRCH &&
		    __atomic_compare_exchange_n(&slot->owner, &owner, tid, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

static struct wire_heap_slot *slot_claim(uint32_t tid)
{
	uint32_t count = process.heap->slot_count;
	uint32_t hint = __atomic_load_n(&process.slot_hint, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < count; i++) {
		/*
		 * the first slots are the large ones: start there unless they are known to be taken
		 */
		uint32_t at = (hint + i) % count;
		struct wire_heap_slot *slot = &process.slots[at];
		uint32_t free_slot = 0;
		if (__atomic_load_n(&slot->owner, __ATOMIC_RELAXED) || slot->closed)
			continue;
		if (__atomic_compare_exchange_n(&slot->owner, &free_slot, tid, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			__atomic_store_n(&process.slot_hint, at + 1, __ATOMIC_RELAXED);
			uint32_t top = __atomic_load_n(&process.slot_top, __ATOMIC_RELAXED);
			while (top < at + 1 &&
			       !__atomic_compare_exchange_n(&process.slot_top, &top, at + 1, 1,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
				;
			return slot;
		}
	}
	return process.have_key ? NULL : slot_inherit(tid);
}

static void slot_release(struct thread *t)
{
	struct wire_heap_slot *slot = t->slot;
	uint32_t at = (uint32_t)(slot - process.slots);
	more_give(t);
	t->slot = NULL;
	t->unwind = t->walker = NULL;
	t->ring = NULL;
	__atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
	uint32_t hint = __atomic_load_n(&process.slot_hint, __ATOMIC_RELAXED);
	while (at < hint && !__atomic_compare_exchange_n(&process.slot_hint, &hint, at, 1,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* ---- the key whose destructor tells of a thread's end ---- */

static uint32_t key_users;

/* Return: 1 thread_end() will be called for @t. */
static int key_set(struct thread *t)
{
	int rc = EINVAL, calls = !no_calls();
	/* a handler that jumped out would be one that uses it for good */
	uint64_t before = calls ? block_signals() : 0;
	__atomic_fetch_add(&key_users, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&process.have_key, __ATOMIC_SEQ_CST) && libc_has(pthread_setspecific))
		rc = pthread_setspecific((pthread_key_t)process.key, t);
	__atomic_fetch_sub(&key_users, 1, __ATOMIC_SEQ_CST);
	if (calls)
		unblock_signals(before);
	return rc == 0;
}

void thread_renew(struct thread *t, uint32_t tid)
{
	const struct thread before = *t;
	*t = (struct thread){ .sync = SYNC_UNBORN,
			      .tid = before.tid ? tid : 0,
			      .stack_lo = before.stack_lo,
			      .stack_hi = before.stack_hi,
			      .stack_floor = before.stack_floor,
			      .own = before.own,
			      .session = process.session };
}

void thread_forked(void)
{
	key_users = 0;
}

int thread_key_give(void)
{
	if (!__atomic_exchange_n(&process.have_key, 0, __ATOMIC_SEQ_CST))
		return 0;
	/*
	 * whoever sets a value must not meet the program's key of the same number; who waits may
	 * hold what they want
	 */
	for (int i = 0; __atomic_load_n(&key_users, __ATOMIC_SEQ_CST); i++) {
		if (i == 1000) {
			__atomic_store_n(&process.have_key, 1, __ATOMIC_SEQ_CST);
			return 0;
		}
		sys0(SYS_sched_yield);
	}
	return libc_has(pthread_key_delete) && pthread_key_delete((pthread_key_t)process.key) == 0;
}

static void unwind_start(struct thread *t)
{
	void *more = more_of(t);
	t->walker = unwind_thread_init(more ? more : (char *)process.heap + t->slot->scratch_off,
				       more ? MORE_PIECE : t->slot->scratch_bytes, process.unwind,
				       t->stack_lo, t->stack_hi);
	if (!no_calls())
		unwind_stack_doubt(t->walker);
	t->unwind = process.sample_bytes || process.closes ? NULL : t->walker;
}

static void slot_take(struct thread *t, struct wire_heap_slot *slot)
{
	ring_attach(t, slot);
	unwind_start(t);
	t->gen = __atomic_load_n(&process.heap->module_gen, __ATOMIC_RELAXED);
}

/*
 * Where this thread's stack lies. pthread_getattr_np() would know, but takes a lock of the thread
 * which the caller of the very first malloc may hold (it allocates itself): measured, a JVM hangs.
 * The thread control block lies at the top of the stack, whoever made it; downwards the stack is as
 * far as it can be read, up to the guard page. What is not reached from there (coroutines,
 * alternate stacks) the stepper asks about page by page.
 */
#define STACK_STEP (64u << 10) /* readable pages below the stack pointer that are taken along */
#define STACK_REACH (1u << 20) /* further down it is hardly the same stack */
#define STACK_JUMP_MAX (128u << 20)

static int stack_below(struct thread *t, uint64_t sp)
{
	uint64_t lo = t->stack_lo, to = sp & ~4095UL;
	if (t->stack_floor || lo - to > STACK_REACH)
		return 0;
	if (no_calls()) {
		t->stack_lo =
			/*
			 * nobody can be asked; a thread so near its control block is on its own
			 * stack
			 */
			to;
		return 1;
	}
	while (lo > to - STACK_STEP) {
		if (!page_probe(NULL, lo - 4096)) {
			t->stack_floor = 1;
			break;
		}
		lo -= 4096;
	}
	if (lo > to)
		return 0; /* something else, below our guard page */
	t->stack_lo = lo;
	return 1;
}

static void find_stack(struct thread *t)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0), tcb = (uint64_t)pthread_self();
	/*
	 * where nobody can be asked for a thread's number all have the process's; so has whichever
	 * thread forked, in the child
	 */
	if (process.seccomp || process.forked
		    ? here >= process.main_stack_lo && here < process.main_stack_hi
		    : t->tid == process.pid) {
		t->stack_lo = process.main_stack_lo;
		t->stack_hi = process.main_stack_hi;
		t->stack_floor = 1;
		return;
	}
	t->stack_hi = tcb;
	t->stack_lo = tcb & ~4095UL;
	if (here < tcb)
		stack_below(t, here);
}

COLD void stack_grew(struct thread *t, uint64_t sp)
{
	if (stack_below(t, sp))
		unwind_start(t);
}

void thread_memory(struct thread *t)
{
	if (more_look(t))
		unwind_start(t);
}

uint32_t stepper_count(void)
{
	return __atomic_load_n(&process.slot_top, __ATOMIC_ACQUIRE) + MORE_PIECES;
}

struct unwind_thread *stepper_at(uint32_t i)
{
	if (i < MORE_PIECES)
		return more_at(i);
	const struct wire_heap_slot *slot = &process.slots[i - MORE_PIECES];
	if (!__atomic_load_n(&slot->owner, __ATOMIC_RELAXED))
		return NULL;
	return (struct unwind_thread *)((char *)process.heap + slot->scratch_off);
}

int stacks_change(uint64_t at, uint64_t bytes)
{
	struct wire_heap_header *heap = process.heap;
	uint64_t hi;
	int told = 0;
	/* not in the child of a fork, whose parent's book this still is */
	if (!heap || !process.unwind || (proc.word & MODE_MASK) <= MODE_OFF)
		return 0;
	at &= ~4095UL;
	if (__builtin_add_overflow(at, bytes, &hi))
		hi = UINT64_MAX;
	for (uint32_t i = 0, count = stepper_count(); i < count; i++) {
		struct unwind_thread *stepper = stepper_at(i);
		if (stepper)
			told |= unwind_stack_changed(stepper, at, hi);
	}
	if (!told)
		return 0;
	self.outer.sp = 0; /* perhaps left behind by an exception, and on the page */
	unwind_process_stacks_changed(process.unwind);
	return 1;
}

static COLD int thread_born(struct thread *t)
{
	t->own = 1;
	if (!t->tid) {
		t->tid = process.seccomp ? process.pid : (uint32_t)sys0(SYS_gettid);
		find_stack(t);
	}
	struct wire_heap_slot *slot = slot_claim(t->tid);
	if (!slot) {
		t->state = THREAD_POOR;
	} else if (!key_set(t)) {
		/* nobody would tell us of the thread's end: the slot would be lost for good */
		if (t->tid == process.pid) {
			t->state = THREAD_READY;
			slot_take(t, slot);
		} else {
			__atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
			t->state = THREAD_POOR;
		}
	} else {
		t->state = THREAD_READY;
		slot_take(t, slot);
	}
	t->own = 0;
	return t->state == THREAD_READY;
}

static void recover(struct thread *t);

void thread_end(void *arg)
{
	struct thread *t = arg;
	if (t != &self || (proc.word & MODE_MASK) < MODE_OFF)
		return;
	if (t->session != process.session) {
		thread_renew(t, t->tid);
		return;
	}
	int saved_errno = errno;
	/* the thread ends out of a handler that interrupted a hook */
	if (SYNC_KIND(t->sync) == SYNC_OWN || SYNC_KIND(t->sync) == SYNC_NEXT)
		recover(t);
	/* destructors of other keys may still allocate and free: ask again until the last round */
	if (++t->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		uint32_t sync = t->sync;
		t->sync = SYNC_OWN;
		t->own = 1;
		int again = key_set(t);
		t->own = 0;
		t->sync = sync;
		errno = saved_errno;
		if (again)
			return;
	}
	t->sync = SYNC_OWN;
	if (t->slot) {
		uint64_t *to = ring_room_slow(t, 8, 0);
		if (to) {
			to[0] = (uint64_t)t->tid << 8 | WIRE_THREAD_END;
			ring_publish(t, 8);
		}
		slot_release(t);
	}
	t->state = THREAD_DEAD;
	t->sync = SYNC_UNBORN;
	errno = saved_errno;
}

/* ---- the slow way in ---- */

/*
 * Whether a signal handler jumped out of the hook that @sync speaks of (siglongjmp(); while waiting
 * for room in the ring, most likely). Its caller's frame was deeper than ours is, and both are on
 * the thread's own stack: no handler can have got there, unless that is where its alternate stack
 * lies.
 */
static COLD int left_by_jump(struct thread *t, uint64_t sp)
{
	uint32_t up = (uint32_t)(sp >> 4) << 8;
	uint64_t bytes = (uint64_t)((up - (t->sync & ~0xffu)) >> 8) << 4;
	stack_t alt;
	if (t->sync < 256 || !bytes || bytes > STACK_JUMP_MAX || sp >= t->stack_hi || no_calls())
		return 0;
	if (sp - bytes < t->stack_lo && !stack_below(t, sp - bytes))
		return 0;
	return !sys_failed(sys2(SYS_sigaltstack, NULL, &alt)) && !(alt.ss_flags & SS_ONSTACK);
}

/*
 * What that hook held: records that it had begun to write, the stepper's memory, the modules' lock.
 */
static COLD void recover(struct thread *t)
{
	t->skip_free = NULL;
	t->own = 0;
	t->inner = 0;
	modules_left();
	if (t->slot) {
		t->head = __atomic_load_n(&t->slot->head, __ATOMIC_RELAXED);
		t->limit = t->soft = 0;
		t->unnamed = 1; /* what was written and not published is gone */
		if (t->walker)
			unwind_start(t);
		/*
		 * whether it moved is not known; its room was kept, and no new block may lie there
		 * before
		 */
		if (t->realloc_old && t->head >= t->realloc_begin && t->head < t->realloc_end)
			note_realloc_fail(t, t->realloc_old);
	}
	t->realloc_old = NULL;
	t->sync = SYNC_UNBORN;
}

static uint32_t nested(struct thread *t, uint64_t pc)
{
	if (t->own)
		return PASS;
	if (SYNC_KIND(t->sync) == SYNC_NEXT) {
		/*
		 * one of its calls whose last step was a jump to another: what it returns to is the
		 * hook of the first
		 */
		if (pc - own_code.lo < own_code.hi - own_code.lo)
			return PASS;
		/*
		 * an allocator that is built of its own public calls, or a handler of a signal that
		 * came while it ran
		 */
		if (!allocator_is_libc && pc >= allocator_lo && pc < allocator_hi)
			return PASS;
		for (unsigned i = 0; i < NEXT_CARRIED_MAX; i++)
			if (pc - next_carried[i].lo < next_carried[i].hi - next_carried[i].lo)
				return PASS;
	}
	return PASS_LOST(WIRE_LOST_NESTED);
}

/* The recorder's wishes. */
static void obey(struct thread *t)
{
	struct wire_heap_header *heap = process.heap;
	uint32_t word = proc.word, mode = word & MODE_MASK;
	if (mode != MODE_ON && mode != MODE_SUSPENDED)
		return;
	uint32_t want = heap->detach ? MODE_OFF : heap->enabled_wanted ? MODE_ON : MODE_SUSPENDED;
	if (want == mode)
		return;
	if (__atomic_compare_exchange_n((uint32_t *)&proc.word, &word, (word & ~MODE_MASK) | want,
					0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
	    want != MODE_OFF)
		t->switched = want == MODE_ON ? 2 : 1;
}

uint32_t hook_enter(struct thread *t, enum hook_kind kind, uint64_t sp)
{
	int saved_errno = errno;
	uint32_t in = SYNC_KIND(t->sync);
	if (unlikely(t->session != process.session)) {
		/* the hook that it is in began in another session, which has ended */
		if (in == SYNC_OWN || in == SYNC_NEXT)
			return PASS;
		thread_renew(t, t->tid);
	}
	if (in == SYNC_OWN || in == SYNC_NEXT) {
		if (left_by_jump(t, sp)) {
			recover(t);
			in = SYNC_UNBORN;
		} else if (in == SYNC_OWN || kind != HOOK_REGION) {
			return nested(t, ((const uint64_t *)sp)[-1]);
		}
	}
	if (unlikely((proc.word & MODE_MASK) < MODE_OFF)) {
		/* done, and the word still is wiped: the child of a fork */
		if (__atomic_load_n(&process.started, __ATOMIC_ACQUIRE) == START_DONE &&
		    (proc.word & MODE_MASK) < MODE_OFF)
			return PASS;
		/*
		 * The start looks names up, which may allocate; a region call may come from an
		 * allocator that holds its lock (measured: chromium's own spins for ever). A malloc
		 * or our constructor starts instead.
		 */
		if (kind == HOOK_REGION)
			return PASS;
		uint32_t sync = t->sync;
		t->sync = SYNC_OWN;
		t->own = 1;
		start_once();
		t->own = 0;
		t->sync = sync;
		errno = saved_errno;
		if ((proc.word & MODE_MASK) < MODE_OFF) /* somebody else is still at it */
			return PASS_LOST(WIRE_LOST_EARLY);
	}
	if (unlikely((proc.word & MODE_MASK) == MODE_IDLE)) {
		if (!process.wanted || process.seccomp)
			return PASS;
		uint32_t sync = t->sync;
		t->sync = SYNC_OWN;
		t->own = 1;
		start_late();
		t->own = 0;
		t->sync = sync;
		errno = saved_errno;
	}
	obey(t);
	uint32_t word = proc.word, mode = word & MODE_MASK;
	if (mode == MODE_OFF || (mode == MODE_SUSPENDED && kind == HOOK_ALLOC))
		return PASS;
	if (mode != MODE_ON && mode != MODE_SUSPENDED)
		return PASS;
	if (in == SYNC_NEXT) /* a region call of the allocator itself */
		return t->slot ? REGION_INNER : PASS;
	t->sync = SYNC_IN(SYNC_OWN, sp);
	if (t->state == THREAD_UNBORN)
		thread_born(t);
	if (!t->slot) {
		struct wire_heap_slot *slot = slot_claim(t->tid);
		if (!slot) {
			t->sync = SYNC_UNBORN;
			errno = saved_errno;
			return PASS_LOST(WIRE_LOST_NO_SLOT);
		}
		slot_take(t, slot);
	}
	uint32_t gen = __atomic_load_n(&process.heap->module_gen, __ATOMIC_ACQUIRE);
	if (unlikely(process.closes))
		t->unwind = NULL;
	if (t->gen != gen) {
		if (t->walker)
			unwind_forget(t->walker);
		t->gen = gen;
	}
	errno = saved_errno;
	return word;
}

void hook_leave(struct thread *t)
{
	if (t->state == THREAD_READY) {
		/*
		 * what hook_enter() found out holds for the next call too, unless the word changed
		 * since
		 */
		uint32_t word = proc.word;
		uint32_t gen = __atomic_load_n(&process.heap->module_gen, __ATOMIC_ACQUIRE);
		t->sync = (word & MODE_MASK) == MODE_ON && t->gen == gen ? word : SYNC_UNBORN;
		return;
	}
	if (t->slot) /* an exception leaves a call that was lost for want of one, too */
		slot_release(t);
	t->sync = SYNC_UNBORN;
}
