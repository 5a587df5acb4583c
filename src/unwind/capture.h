/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * capture.h - one call from a hook to a stack number: remembered stacks first, a walk for what is
 * new.
 *
 * Freestanding: no libc call, no allocation, no lock. Everything lives in memory that the caller
 * hands over. This is the in-process user of rule.h, cfi.h and step.h; the kernel side uses the
 * same step with its own repetition.
 *
 * Never faults: inside [stack_lo, stack_hi) the words at and above a stack pointer in use are
 * there, as far as the probe callback found when the thread came there first, or after
 * unwind_stack_changed() told that it may be otherwise now; every page outside of that is asked for
 * before it is read, at every capture.
 */
#ifndef UNWIND_CAPTURE_H
#define UNWIND_CAPTURE_H

#include <stdint.h>

#include "wire/heap.h"

/**
 * struct unwind_process - what all threads of one process share; zero it, then
 * unwind_process_init().
 */
struct unwind_process;
/**
 * struct unwind_thread - one thread's memory of its last stacks; lives in the slot's scratch
 * memory.
 */
struct unwind_thread;

/** What the first step needs; callee-saved registers of the frame that called the hook. */
struct unwind_regs {
	/* return address into the caller: the innermost frame */
	uint64_t ip;
	/* the stack pointer after that return (the CFA of the hook) */
	uint64_t sp;
	uint64_t bp;
	/* 0 where not known: only frames whose CFA hangs on rbx miss it */
	uint64_t bx;
};

/** Call frame records that no header announces (preload/frames.h); NULL where there are none. */
struct unwind_frames {
	/* mapped; the bounds of what may be read */
	const uint8_t *eh_frame, *eh_lo, *eh_hi;
	/* a copy: addresses are those of the file */
	const uint8_t *debug_frame;
	uint64_t debug_bytes;
};

/** Where one loaded object and its unwind data stand. */
struct unwind_module {
	uint64_t bias;
	uint64_t lo, hi;
	/* mapped, NULL where the module has none */
	const uint8_t *eh_frame_hdr;
	/* bound for reads; 0 = unknown: up to readable_hi */
	uint64_t eh_frame_hdr_bytes;
	/* the PT_LOAD that holds eh_frame_hdr and eh_frame */
	uint64_t readable_lo, readable_hi;
	/* where @search_file was set */
	struct unwind_frames frames;
	/* in: the header has no entry, look further */
	int search_file;
	/* module generation since which the address has meant this; UNWIND_CODE too */
	uint32_t since;
};

enum unwind_found {
	UNWIND_NOT_CODE =
		0, /* @pc is not in executable memory: not a frame, the walk ends before it */
	UNWIND_MODULE = 1, /* @module is filled */
	UNWIND_CODE = 2    /* executable memory of no module (JIT), or nobody can tell */
};

/**
 * Find the module that holds @pc (and number it in the shared module table). Supplied by preload/
 * (it knows the loader); called on a rule-cache miss only. Return: enum unwind_found.
 */
typedef int (*unwind_find_module_fn)(void *ctx, uint64_t pc, struct unwind_module *module);

/**
 * Whether the 4096-byte page that holds @addr can be read; must not fault, allocate or change
 * errno. One system call does: rt_sigprocmask(-1, addr, NULL, 8) gives EFAULT where it cannot be
 * read and EINVAL where it can, but for the address 0, which is no set at all. Return 0 for the
 * first page, and where system calls are forbidden: the stack is then partial (WIRE_STOP_READ).
 */
typedef int (*unwind_probe_fn)(void *ctx, uint64_t addr);

/**
 * unwind_process_bytes() / unwind_process_init() - set up the shared part (a rule cache that all
 * threads fill) in
 * @memory of at least that many zeroed bytes (page aligned; touched where used). @base is the
 * mapping laid out by
 * wire/heap.h: nodes are made there, and its module_gen is watched. @probe NULL: nothing outside
 * known stacks is read.
 */
uint64_t unwind_process_bytes(void);
struct unwind_process *unwind_process_init(void *memory, void *base, unwind_find_module_fn find,
					   unwind_probe_fn probe, void *ctx);

/**
 * unwind_process_changed() - recipes found so far may be stale (a module came where other code
 * was): every thread drops what it remembers at its next capture. A raised module_gen has the same
 * effect by itself. Any thread.
 */
void unwind_process_changed(struct unwind_process *process);

/**
 * unwind_process_reused() - an object in [@lo, @hi) went away: what comes there is other code. From
 * the next generation on nodes of these addresses are told apart by what struct unwind_module.since
 * says; everywhere else it has to be 0. One thread at a time, before module_gen is raised.
 */
void unwind_process_reused(struct unwind_process *process, uint64_t lo, uint64_t hi);

/**
 * unwind_register_frame() / unwind_deregister_frame() - frames announced by
 * __register_frame*(@begin): one or more call frame records, ended by a zero length; they stay
 * where they are until taken back. At most 1024 blocks are kept, more are ignored (their frames
 * fall back to frame pointers). Any thread; lock-free. O(records).
 */
void unwind_register_frame(struct unwind_process *process, const void *begin);
void unwind_deregister_frame(struct unwind_process *process, const void *begin);

/**
 * unwind_process_forked() - in the child of a fork, before its first capture: what other threads
 * had begun is nobody's now.
 */
void unwind_process_forked(struct unwind_process *process);

/**
 * unwind_thread_init() - take over @memory (zeroed or formerly used for the same purpose; >= 32
 * KiB; more means more remembered stacks). [@stack_lo, @stack_hi) bounds the thread's own stack;
 * equal where it is not known. Call again when the bounds change. O(1).
 */
struct unwind_thread *unwind_thread_init(void *memory, uint64_t bytes,
					 struct unwind_process *process, uint64_t stack_lo,
					 uint64_t stack_hi);

/**
 * unwind_capture() - the number of the current stack; any thread on its own struct unwind_thread,
 * not re-entrant (a capture that a signal handler left by longjmp is noticed at the next one).
 * Never fails: a walk that cannot go on yields a node below its enum wire_stop. Cost: about a cycle
 * per saved word where the stack was seen before, some 10 ns a fresh frame otherwise. Stack used:
 * under 1 KiB.
 */
uint32_t unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);

/**
 * unwind_expect() - unwind_capture() will be called at (@ip, @sp) soon, after some other work: let
 * the processor bring what it looks at first. Changes nothing, reads nothing of the stack; some 30
 * instructions. Same thread as unwind_capture().
 */
void unwind_expect(const struct unwind_thread *thread, uint64_t ip, uint64_t sp);

/**
 * unwind_stack_changed() - what can be read in [@lo, @hi) is about to change, or has changed: any
 * thread, for any @thread, or memory that was one. Return: 1 @thread trusts words there;
 * unwind_process_stacks_changed() then has to follow once all threads were told. O(1).
 */
int unwind_stack_changed(struct unwind_thread *thread, uint64_t lo, uint64_t hi);

/**
 * unwind_process_stacks_changed() - every thread forgets, and those whose stack changed look anew,
 * at its next capture.
 */
void unwind_process_stacks_changed(struct unwind_process *process);

/**
 * unwind_stack_keyed() - any key of protection may close words of @thread's stack from now on,
 * without a system call.
 */
void unwind_stack_keyed(struct unwind_thread *thread);

/**
 * unwind_stack_ask() - before each unwind_capture() in a program that may close pages by system
 * calls which nobody sees: are those pages above @sp there whose words are remembered? Costs a
 * probe a page; from the first time on nothing further out is read without one.
 */
void unwind_stack_ask(struct unwind_thread *thread, uint64_t sp);

/**
 * unwind_stack_doubt() - behind unwind_thread_init(): the first capture asks for the pages that it
 * takes for granted.
 */
void unwind_stack_doubt(struct unwind_thread *thread);

/**
 * unwind_crowded() - since unwind_thread_init() @thread met more stacks than its memory holds. Same
 * thread.
 */
int unwind_crowded(const struct unwind_thread *thread);

/** unwind_forget() - drop everything this thread remembers. O(1). */
void unwind_forget(struct unwind_thread *thread);

/** What a thread's captures were answered by; for tests and tuning. */
struct unwind_stats {
	/* captures that the memo could not answer */
	uint64_t misses;
	/* frames walked for them */
	uint64_t fresh_frames;
	/* of them, those that met the last stack */
	uint64_t joins;
	/* recipes that were not in the thread's own cache */
	uint64_t rules;
	/* stacks too deep to remember */
	uint64_t deep;
};
void unwind_thread_stats(const struct unwind_thread *thread, struct unwind_stats *stats);

#endif
