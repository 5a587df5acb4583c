/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.h - what bpf/pages.bpf.c and its loader share: who owns each physical page, the stacks that
 * owners stand for, what each stack has live, and the few things that the kernel side tells by
 * itself.
 *
 * Every table is an array that user space maps: nothing is streamed, so nothing can be lost on the
 * way.
 */
#ifndef WIRE_PAGES_H
#define WIRE_PAGES_H

#include <stdint.h>

/*
 * An owner, one word a physical page, 0 = nobody's. Parts of an owner table hold
 * 2^WIRE_PAGES_PART_SHIFT pages: one value of an array may not be indexed further than 512 MiB.
 */
#define WIRE_PAGES_PART_SHIFT 26
#define WIRE_PAGES_STACK_BITS 23
#define WIRE_PAGES_STACK(owner) ((owner) & ((1u << WIRE_PAGES_STACK_BITS) - 1))
#define WIRE_PAGES_ORDER_SHIFT 23 /* 4 bits: the page came in a block of 2^order */
#define WIRE_PAGES_ORDER(owner) ((owner) >> WIRE_PAGES_ORDER_SHIFT & 15)
#define WIRE_PAGES_CACHE (1u << 27) /* in the page cache now */
#define WIRE_PAGES_KERNEL \
	(1u << 28) /* for the kernel's own use: page tables, slab, pipes, sockets */
#define WIRE_PAGES_MOVED (1u << 29) /* migration has brought it here */

/** Stacks that are none; real ones follow. */
enum wire_pages_stack {
	WIRE_PAGES_NOBODY = 0,
	WIRE_PAGES_FULL = 1, /* the table of stacks, or that of their frames, was full */
	WIRE_PAGES_BUSY = 2, /* no room to walk in: walks were interrupted by walks */
	WIRE_PAGES_FIRST = 8
};

#define WIRE_PAGES_EXACT 1    /* frame 0 is an exact address + 1, not one behind a call */
#define WIRE_PAGES_UNTABLED 2 /* by the kernel's own walk: what is behind frame 0 may be no code */

/** A stack, by number. Frames stand in the pool, innermost first, "addresses after". */
struct wire_pages_stack_head {
	/* CLOCK_MONOTONIC; written last, 0 = not complete yet */
	uint64_t first_ns;
	/* its key in the table of numbers */
	uint64_t hash;
	uint32_t tgid;
	/* execs of the process before */
	uint32_t epoch;
	/* first word in the pool */
	uint32_t at;
	uint16_t count;
	/* enum wire_stop */
	uint8_t stop;
	uint8_t flags;
};
_Static_assert(sizeof(struct wire_pages_stack_head) == 32, "wire_pages_stack_head");

/**
 * What a stack has, in pages; by the same number. Sums over CPUs, so that one may be below 0 for a
 * moment.
 */
struct wire_pages_live {
	/* neither of the next two: anonymous or shared memory */
	int64_t anon;
	int64_t cache, kernel;
	/* came */
	uint64_t ever;
};
_Static_assert(sizeof(struct wire_pages_live) == 32, "wire_pages_live");

/*
 * Frames stand in multiples of so many words. Numbers of stacks that nobody needs any more (their
 * process has ended, they have no page) are given back to the kernel side in rings, one a size:
 * user space writes and moves tail, programs take at head.
 */
#define WIRE_PAGES_CLASS_WORDS 8
#define WIRE_PAGES_CLASSES 64 /* more than there are sizes; a power of two */
#define WIRE_PAGES_RING 4096
struct wire_pages_ring {
	uint32_t head, tail;
	uint32_t stack[WIRE_PAGES_RING];
};

/** A process that is followed, by process id. */
struct wire_pages_process {
	uint32_t epoch;
	uint32_t flags;
	/*
	 * to whom its pages are charged: another only for a child that borrows its parent's memory
	 */
	uint32_t owner;
	uint32_t reserved;
	/* mapped executable when it was looked at last */
	uint64_t code_pages;
	/* when a walk met code that is not described */
	uint64_t asked_ns;
};
#define WIRE_PAGES_FOLLOW 1  /* its children, too */
#define WIRE_PAGES_BORROWS 2 /* vfork: in its parent's memory until it execs */
#define WIRE_PAGES_BY_NAME 4 /* the kernel side took it up by its name */
#define WIRE_PAGES_PROCESSES_MAX 1024

/** Which stack mapped what was there already, by 64 KiB of address space. */
struct wire_pages_window_key {
	/* address >> 16 */
	uint64_t window;
	uint32_t tgid, reserved;
};
struct wire_pages_window {
	/* mapped pages of the page cache or of shared memory here */
	uint32_t file;
	/* was given new pages here */
	uint32_t anon;
};
#define WIRE_PAGES_WINDOW_SHIFT 16

/** A page fault that is being handled, by the low bits of the thread's id. */
struct wire_pages_fault {
	uint64_t addr;
	/* that was noted last, + 1 */
	uint64_t window;
	uint32_t tid;
	uint32_t pending;
	uint32_t window_stack;
	uint32_t windows;
	/* address that the system call before was asked to bring in, + 1 */
	uint64_t populated;
};
#define WIRE_PAGES_FAULTS 16384

enum wire_pages_event_kind {
	WIRE_PAGES_FORK = 1,  /* pid = the child, other = its parent */
	WIRE_PAGES_EXEC,      /* pid */
	WIRE_PAGES_EXIT,      /* pid: the last thread is gone */
	WIRE_PAGES_CODE,      /* pid has code that it did not have */
	WIRE_PAGES_STACK_CAME /* a stack got a number while nobody looked: pages_asleep was set */
};
struct wire_pages_event {
	uint64_t time_ns;
	uint32_t kind, pid, other, epoch;
};

enum wire_pages_counter {
	WIRE_PAGES_COUNT_STACKS_FULL,
	WIRE_PAGES_COUNT_POOL_FULL,
	WIRE_PAGES_COUNT_BUSY,    /* no scratch */
	WIRE_PAGES_COUNT_ID_BUSY, /* the table of ids refused for the moment */
	/* pages beyond the end of the owner table: memory that was added */
	WIRE_PAGES_COUNT_BEYOND,
	WIRE_PAGES_COUNT_STALE, /* owners that nobody had freed, cleared by the next allocation */
	WIRE_PAGES_COUNT_MOVED, /* by migration, with their owner */
	WIRE_PAGES_COUNT_MOVES_FULL, /* not noted: their owner is lost */
	WIRE_PAGES_COUNT_EVENTS_LOST,
	WIRE_PAGES_COUNT_PROCESSES_FULL,
	WIRE_PAGES_COUNT_WINDOWS_FULL,
	WIRE_PAGES_COUNT_WALKS, /* stacks walked by tables */
	/* by the kernel's own frame pointer walk: the process was not described yet */
	WIRE_PAGES_COUNT_UNTABLED,
	WIRE_PAGES_COUNTERS = 16
};

#endif
