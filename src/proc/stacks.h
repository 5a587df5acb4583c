/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - several threads' stacks in one mapping. Since 2.42 glibc guards a stack by markers and
 * not by a mapping of its own, and the kernel joins neighbours: two hundred stacks may be one
 * mapping. Each is told apart by its thread's descriptor, which lies at its top and knows its
 * bounds.
 */
#ifndef PROC_STACKS_H
#define PROC_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "proc/region.h"
#include "proc/smaps.h"
#include "proc/target.h"
#include "proc/threads.h"

/** struct stack_block - a stack, its guard included. */
struct stack_block {
	uint64_t start, end;
	/* as the target sees it; 0: the thread has ended, its stack waits in the cache */
	pid_t tid;
};

/** struct stack_blocks - zeroed is empty; free @blocks. */
struct stack_blocks {
	struct stack_block *blocks;
	size_t count, room;
};

int stack_blocks_add(struct stack_blocks *to, const struct stack_block *block);

/**
 * stacks_in() - add the stacks that lie in @region, by address, each once. Looked for are tops:
 * where the mapping ends, where another stack or a guard begins, where one of the size of another
 * would end, and above a thread's pointer, as far as all is resident. Two system calls each;
 * nothing that is not resident is read. Return: 0 or -ENOMEM.
 */
int stacks_in(const struct target *target, struct pages *pages, const struct region *region,
	      const struct thread_stack *threads, size_t thread_count, struct stack_blocks *found);

#endif
