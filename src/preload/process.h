/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what the library knows about the process; thread.h says what it knows about the
 * calling thread.
 */
#ifndef PRELOAD_PROCESS_H
#define PRELOAD_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "preload/sys.h"
#include "wire/heap.h"

/* Low byte of the process word; the upper bits are an epoch that makes threads look again. */
enum mode {
	MODE_NONE = 0,         /* not started, or the child of a fork */
	MODE_OFF = 0x20,       /* never records: AT_SECURE, no memory, detached */
	MODE_IDLE = 0x21,      /* alone and switched off so far: nothing was created yet */
	MODE_SUSPENDED = 0x22, /* frees are written, allocations are not */
	MODE_ON = 0x23,
};
#define MODE_MASK 0x7fu
/* the next allocator never comes back to us, and frees need no stack: no guard around it */
#define MODE_PLAIN 0x80u
#define MODE_EPOCH 0x100u

/* A page of its own: wiped in the child of a fork, whoever makes it (raw clone included). */
extern struct proc_page {
	/* enum mode | epoch */
	_Alignas(4096) volatile uint32_t word;
	char rest[4096 - sizeof(uint32_t)];
} proc HIDDEN;

enum start { START_NONE, START_BUSY, START_DONE };

extern struct process {
	/* the shared mapping; NULL before the start */
	struct wire_heap_header *heap;
	struct wire_heap_slot *slots;
	struct unwind_process *unwind;
	/* enum start */
	uint32_t started;
	/* next is filled */
	uint32_t resolved;
	/* no system call from now on */
	uint32_t seccomp;
	uint32_t slot_hint;
	/* of more memory behind @unwind (more.h) */
	uint32_t pieces;
	/* slots that ever had an owner lie below */
	uint32_t slot_top;
	uint32_t have_key;
	uint32_t pid;
	uint32_t free_stacks;
	/* 0 = every allocation has a stack */
	uint64_t sample_bytes;
	/* of glibc's rseq area from the thread pointer; 0 = there is none */
	int64_t rseq_offset;
	/* there is code that may close pages by itself: stacks are asked for at each capture */
	uint32_t closes;
	/* without a byteledger parent */
	uint32_t alone;
	/* it came into a process that ran: the loader leads nobody to the hooks */
	uint32_t injected;
	/* calls of dlclose() */
	uint32_t closed;
	/* how often it was led to record: what a thread knows is of one session */
	uint32_t session;
	/* before there is a header: switched on by a call or signal */
	uint32_t wanted;
	/* the children of forks are recorded, too */
	uint32_t follow;
	/* as in struct options */
	const char *next, *library;
	/* WIRE_FORK records so far */
	uint32_t forks;
	/* this is such a child: its first thread may run on any stack */
	uint32_t forked;
	/* orphans become children of this process, or of one that it was forked from */
	uint32_t reaper;
	/* 1 = reads @starter_heap while it starts the recorder of this child */
	uint32_t starter;
	/* the parent's book, as long as that may read it */
	struct wire_heap_header *starter_heap;
	/* rdtsc faults */
	uint32_t no_tsc;
	uint64_t last_cycles;
	/* the mapping is a file that nobody reads meanwhile */
	uint32_t raw;
	/* pthread_key_t */
	uint32_t key;
	uint64_t main_stack_lo, main_stack_hi;
	/* other threads' calls during the start: there is no header yet */
	struct wire_lost_count early;
} process HIDDEN;

/** stamp() - the cycle counter, or its last known value where reading it would fault. */
static inline uint64_t stamp(void)
{
	return likely(!process.no_tsc) ? cycles() : process.last_cycles;
}

#endif
