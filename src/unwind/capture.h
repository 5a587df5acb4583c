/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * capture.h - one call from a hook to a stack number: remembered stacks first, a walk for what is new.
 *
 * Freestanding: no libc call, no allocation, no lock. Everything lives in memory that the caller hands over. This is
 * the in-process user of rule.h, cfi.h and step.h; the kernel side uses the same step with its own repetition.
 */
#ifndef UNWIND_CAPTURE_H
#define UNWIND_CAPTURE_H

#include <stdint.h>

#include "wire/heap.h"

/** struct unwind_process - what all threads of one process share; zero it, then unwind_process_init(). */
struct unwind_process;
/** struct unwind_thread - one thread's memory of its last stacks; lives in the slot's scratch memory. */
struct unwind_thread;

/** What the first step needs; callee-saved registers of the frame that called the hook. */
struct unwind_regs {
	uint64_t ip; /* return address into the caller: the innermost frame */
	uint64_t sp; /* the stack pointer after that return (the CFA of the hook) */
	uint64_t bp;
	uint64_t bx;
};

/**
 * Find the module that holds @pc and number it in the shared module table. Supplied by preload/ (it knows the loader);
 * called on a rule-cache miss only. Fills what the rule reader needs. Return: 1 found, 0 no module.
 */
struct unwind_module {
	uint64_t bias;
	uint64_t lo, hi;
	const uint8_t *eh_frame_hdr;       /* mapped, NULL where the module has none */
	uint64_t eh_frame_hdr_bytes;       /* bound for reads; 0 = unknown: up to hi */
	uint64_t readable_lo, readable_hi; /* the PT_LOAD that holds eh_frame_hdr and eh_frame */
	const void *
		table; /* compact table blob (wire/unwind.h) for modules without the header, or NULL */
};
typedef int (*unwind_find_module_fn)(void *ctx, uint64_t pc, struct unwind_module *module);

/**
 * unwind_process_bytes() / unwind_process_init() - set up the shared part (a rule cache that all threads fill) in
 * @memory of at least that many zeroed bytes. @base is the mapping laid out by wire/heap.h (nodes are made there).
 */
uint64_t unwind_process_bytes(void);
struct unwind_process *unwind_process_init(void *memory, void *base, unwind_find_module_fn find,
					   void *ctx);

/**
 * unwind_thread_init() - take over @memory (zeroed or formerly used for the same purpose; >= 32 KiB; more means more
 * remembered stacks). [@stack_lo, @stack_hi) bounds the thread's own stack; words outside of it are read only after
 * unwind_thread_add_stack() or a probe that cannot fault (process_vm_readv by the find callback's owner).
 */
struct unwind_thread *unwind_thread_init(void *memory, uint64_t bytes,
					 struct unwind_process *process, uint64_t stack_lo,
					 uint64_t stack_hi);

/**
 * unwind_capture() - the number of the current stack; any thread on its own struct unwind_thread.
 * Never fails: a walk that cannot go on yields a node below its enum wire_stop. Cost: about a cycle per saved word
 * where the stack was seen before, some 10 ns a fresh frame otherwise.
 */
uint32_t unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);

/** unwind_forget() - drop everything remembered (a module went away: stale rules). */
void unwind_forget(struct unwind_thread *thread);

#endif
