/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - the preload library comes into a process that runs, records what it allocates from
 * then on, and is quiet again.
 *
 * In order of use:
 * 	attach_begin(): one thread, at a place where it holds nothing, loads the library, which
 * 		makes the shared memory; the process goes on as before;
 * 	attach_take_memory(): that, for a recorder;
 * 	attach_lead(): all threads stand still while the words through which objects call are led to
 * 		the hooks, some milliseconds; again where objects came since;
 * 	attach_undo(): they are put back likewise; the library stays, and is called by nobody;
 * 	attach_freep(). Should this process end before, another one of its own does that. That one
 * 		leads the thread aside, too: should it be killed meanwhile, the thread comes back by
 * 		itself (call_guard() of inject/call.h), but for one that is led out of the
 * 		allocator step by step, of which the kernel leaves a trap.
 */
#ifndef INJECT_ATTACH_H
#define INJECT_ATTACH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct attach;

struct attach_opt {
	pid_t pid;
	/* of libbyteledger-heap.so */
	const char *library;
	/* as in struct wire_heap_header; @budget_bytes 0: the default */
	uint64_t budget_bytes, sample_bytes;
	uint32_t on_full, free_stacks, stamp_every_event, name_threads;
};

/**
 * attach_begin() - takes 30 ms, two seconds at most where no thread stands at a safe place. On the
 * thread that calls all the others, too, before any other thread of this process is made. NULL with
 * @err, and a hint, where it cannot be, and the process goes on as it was.
 */
struct attach *attach_begin(const struct attach_opt *opt, struct err *err);
/** attach_take_memory() - the descriptor, once; the caller's. */
int attach_take_memory(struct attach *attach);
/** attach_lead() - 0 or negative errno with @err: nothing leads to the hooks. */
int attach_lead(struct attach *attach, struct err *err);
/**
 * attach_look() - lead what came since, if anything did: a word is read, and now and then, or where
 * something came, the loader's book. @now_ns: any clock's, the same each time.
 */
void attach_look(struct attach *attach, uint64_t now_ns);
/**
 * attach_undo() - 0, also where the process has ended or runs another program. Negative errno with
 * @err: a thread cannot be stopped now; the other process of ours does it later.
 */
int attach_undo(struct attach *attach, struct err *err);
void attach_freep(struct attach **attach);

#endif
