/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - a thread's life seen from its allocator calls, and the guard of every hook.
 *
 * One comparison guards every hook: the thread's @sync against the process's @word. They are equal
 * exactly when the process records, the thread is READY, no module went away since its last event,
 * it is in no hook, and this is not the child of a fork (the kernel wipes the page that holds
 * @word). Everything else takes the slow path.
 *
 * A circle of files: whoever comes first starts the library (start), which makes the thread
 * (thread) that has a ring (ring); a ring waits as a thread that may be the child of a fork (fork),
 * whose recording begins anew (start).
 */
#ifndef PRELOAD_THREAD_H
#define PRELOAD_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "preload/process.h"
#include "unwind/capture.h"
#include "wire/heap.h"

/* Values of @sync that equal no process word. */
#define SYNC_UNBORN 1u /* the thread never called, or must look at the process again */
#define SYNC_NEXT 2u   /* inside a hook, in the next definition */
#define SYNC_OWN 3u    /* inside a hook, in our own code */
/*
 * Inside a hook the upper bits say where on the stack: a handler may have jumped out of it. 0: not
 * known.
 */
#define SYNC_IN(sync, sp) ((uint32_t)((sp) >> 4) << 8 | (sync))
#define SYNC_KIND(sync) ((sync)&0xffu)

enum thread_state {
	THREAD_UNBORN = 0,
	THREAD_READY, /* owns a slot */
	THREAD_DEAD,  /* has given its slot back: takes one for each event */
	THREAD_POOR,  /* found no slot: like DEAD */
};

/** What an operator new remembers for the malloc that it will call; @sp 0 = nothing. */
struct outer {
	uint64_t sp, pc, bp, bx;
	/* of the runtime that serves it */
	const struct code_range *code;
	size_t size;
};

struct thread {
	uint32_t sync;
	/* of the last stamp */
	uint32_t tick;
	/* bytes ever written to the ring */
	uint64_t head;
	/* up to here a record can be written without looking at anything else */
	uint64_t soft;
	/* is own_rseq, unless the thread has lost its processor since the last stamp */
	uint64_t *mark;
	/* the slot's ring; @head modulo @mask + 1 */
	char *ring;
	uint64_t mask;
	struct wire_heap_slot *slot;
	/* NULL: no scratch memory, or see @walker */
	struct unwind_thread *unwind;
	struct outer outer;
	/* operator delete has written this free already */
	void *skip_free;
	/* between the two records of a realloc, see recover() */
	const void *realloc_old;
	/* of the hook around a region hook */
	uint32_t outer_sync;
	/* the ring is full here, as of the last look at the tail */
	uint64_t limit;
	/* cycles of the last stamp in this ring, 0 = none */
	uint64_t stamped;
	/* where that stands */
	uint64_t stamped_at;
	/* bytes behind it that need no other one */
	uint32_t allowance;
	/* since the last record that went into the ring */
	uint64_t lost, lost_frees, lost_bytes;
	/* policy limit: 10 % of any second */
	uint64_t second_began_ns, second_waited_ns;
	/* an old heartbeat that is no evidence for a moment, and when that began */
	uint64_t stood_beat, stood_ns;
	uint64_t stack_lo, stack_hi;
	uint32_t tid;
	/* module_gen that @unwind knows */
	uint32_t gen;
	/* enum thread_state */
	uint8_t state;
	/* what is called now is called by us: neither recorded nor lost */
	uint8_t own;
	/* key destructor rounds seen */
	uint8_t rounds;
	/* 1 + the piece of memory that its stepper has besides the slot's (more.h) */
	uint8_t more;
	/* nothing more to be found below @stack_lo */
	uint8_t stack_floor;
	/* WIRE_THREAD to write before the next record: the slot had another owner */
	uint8_t unnamed;
	/* WIRE_SWITCH to write before the next record: 1 + value */
	uint8_t switched;
	/* the process word as this thread's fork began; 0 = its child is not followed */
	uint32_t fork_word;
	/* of its WIRE_FORK record; 0 = there is none */
	uint32_t fork_number;
	/* NULL: no scratch memory; with sampling it stands here only */
	struct unwind_thread *walker;
	/* as last written to a ring */
	uint64_t name[2];
	/* bytes that decide nothing yet */
	int64_t sample_left;
	/* of the random numbers; 0 = not begun */
	uint64_t sample_state;
	/* where the ring's head is once the begin of @realloc_old is published, */
	uint64_t realloc_begin;
	/* and once its end is */
	uint64_t realloc_end;
	/* calls that are passed over since they are within the hook of another one */
	uint32_t inner;
	/* its vfork child, which runs on it, forbade itself system calls */
	uint8_t forbidden;
	/* of the hook that a handler forks out of, see fork.c */
	struct kept_hook *fork_kept;
	/* process.session that all of this is of */
	uint32_t session;
};

extern __thread struct thread self __attribute__((tls_model("initial-exec"))) HIDDEN;

/**
 * no_calls() - whether system calls are forbidden to who is running: to the process, or to a vfork
 * child of it.
 */
static inline int no_calls(void)
{
	return unlikely(process.seccomp || self.forbidden);
}

enum hook_kind { HOOK_ALLOC, HOOK_FREE, HOOK_REALLOC, HOOK_REGION };
/*
 * Answers of hook_enter() below PASS_MAX: call the next definition and record nothing; 1 + reason:
 * count it as lost.
 */
#define PASS 0u
#define PASS_LOST(reason) (1u + (reason))
#define PASS_MAX 16u
#define REGION_INNER \
	17u /* a region call within an allocator call: record, then put SYNC_NEXT back */

/**
 * hook_enter() - the slow way into a hook, for whatever the one comparison did not settle. @sp: its
 * caller's, see hooks.h. Return: below PASS_MAX (see there), else the hook may record, with
 * self.sync == SYNC_OWN; end with hook_leave().
 */
uint32_t hook_enter(struct thread *t, enum hook_kind kind, uint64_t sp) HIDDEN;
void hook_leave(struct thread *t) HIDDEN;

/** count_lost() - one or more calls that were not recorded; async-signal-safe. */
void count_lost(struct thread *t, enum wire_lost reason, uint64_t allocations, uint64_t bytes,
		uint64_t frees) HIDDEN;
/**
 * count_early() - hand what other threads called during the start to the recorder, once it records.
 */
void count_early(void) HIDDEN;

/** stack_grew() - @sp lies below the known stack: look whether it is the same one. */
void stack_grew(struct thread *t, uint64_t sp) HIDDEN;

/**
 * stacks_change() - what can be read in [@at, @at + @bytes) is about to change, or has changed. Any
 * thread, in a hook too; a glance at each thread. Return: 1 it is part of a stack that the stepper
 * trusts.
 */
int stacks_change(uint64_t at, uint64_t bytes) HIDDEN;

/**
 * thread_memory() - between captures: the stepper's memory, if the thread met more stacks than it
 * has room for.
 */
void thread_memory(struct thread *t) HIDDEN COLD;

/**
 * stepper_at() - the memory of some thread's stepper, or what was one; NULL: nobody's. @i: up to
 * stepper_count(). Any thread.
 */
struct unwind_thread *stepper_at(uint32_t i) HIDDEN;
uint32_t stepper_count(void) HIDDEN;

/** thread_end() - the key's destructor. */
void thread_end(void *arg) HIDDEN;

/**
 * thread_renew() - @t as it is before its first call, but for what is known of its stack: what it
 * had was of another book. @tid: of another process, too, if not 0 is kept.
 */
void thread_renew(struct thread *t, uint32_t tid) HIDDEN;

/** thread_forked() - in the child of a fork: no other thread is at anything. */
void thread_forked(void) HIDDEN;

/** thread_key_give() - the program needs the last key, which is ours. Return: 1 it is free now. */
int thread_key_give(void) HIDDEN;

#endif
