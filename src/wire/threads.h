/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * threads.h - where a thread's user stack is, from the kernel (bpf/threads.bpf.c) to the loader,
 * one behind the other.
 */
#ifndef WIRE_THREADS_H
#define WIRE_THREADS_H

#include <stdint.h>

struct wire_thread {
	/* as the reader's pid namespace numbers it */
	uint32_t tid;
	uint32_t reserved;
	/* at its last entry into the kernel */
	uint64_t stack_pointer;
};
_Static_assert(sizeof(struct wire_thread) == 16, "wire_thread");

#endif
