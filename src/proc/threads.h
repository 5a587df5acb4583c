/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - the threads of a process and where their stacks are. */
#ifndef PROC_THREADS_H
#define PROC_THREADS_H

#include <stdint.h>

#include "base/err.h"
#include "proc/target.h"

/** struct thread_fact - what BPF reads without stopping anybody. */
struct thread_fact {
	pid_t tid;
	uint64_t stack_pointer;
};
/** Facts of @pid's threads, malloc'd; 0 or negative errno. */
typedef int (*threads_facts_fn)(pid_t pid, struct thread_fact **facts, size_t *count,
				struct err *err);

struct thread_stack {
	pid_t tid;
	/* as the target sees it, which is what its thread descriptors hold */
	pid_t ns_tid;
	char name[32];
	/* 0, 0: not found */
	uint64_t stack_start, stack_end;
	/* 0: unknown (the thread was running) */
	uint64_t stack_pointer;
	/* of the stack mapping */
	uint64_t rss_bytes;
	/* enum region_how */
	uint8_t how;
};

#define THREADS_MAX 65536u

/** threads_own_id() - @tid of @target as that sees it, in its own PID namespace. */
pid_t threads_own_id(const struct target *target, pid_t tid);

/**
 * threads_read() - every thread with its name and, where it is blocked and may be read, its stack
 * pointer; by tid, malloc'd. Some 15 us a thread. Where one runs @facts (may be NULL) is asked.
 * Threads that end meanwhile are left out; at most THREADS_MAX.
 */
int threads_read(const struct target *target, threads_facts_fn facts, struct thread_stack **threads,
		 size_t *count, struct err *err);

/**
 * threads_find() - by tid as the target sees it (@ns) or as we do; NULL if there is none. O(log n),
 * O(n) for @ns.
 */
struct thread_stack *threads_find(struct thread_stack *threads, size_t count, pid_t tid, int ns);

/** struct thread_descriptor - glibc's struct pthread, recognised by its two pointers to itself. */
struct thread_descriptor {
	/* what fs base is on x86-64 */
	uint64_t addr;
	/* 0: the thread has ended, its stack waits in the cache */
	pid_t tid;
	/* what its stack has, the guard below included; 0, 0: not understood */
	uint64_t block_start, block_end;
};
/**
 * threads_descriptor() - look for a thread descriptor in the topmost 8 KiB below @end (and not
 * below @start). 1 found, 0 not, negative errno where memory may not be read. x86-64 and glibc
 * only: elsewhere 0.
 */
int threads_descriptor(const struct target *target, uint64_t start, uint64_t end,
		       struct thread_descriptor *found);

#endif
