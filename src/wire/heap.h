/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap.h - the shared memory between the preload library (producer) and the recorder (consumer).
 *
 * One memfd named "byteledger", sealed against shrinking and growing, holds everything:
 *
 *     header | slot table | module table | strings | node index | nodes | per-slot scratch | rings
 *
 * All places are byte offsets from the start of the file, written once by whoever creates it
 * (wire_heap_layout() in wire/heap_layout.h) before anybody else maps it. A slot is taken by one
 * thread at a time by compare-and-swap on
 * @owner; each slot has a ring (padded at its end, so that no record is ever split) and scratch
 * memory for the stepper (never read by the recorder). The recorder trusts nothing in here: it
 * copies, validates, then uses; a ring that breaks a rule is closed and counted (docs/rules.md).
 *
 * Memory order: the producer stores words, then @head with release; the recorder loads @head with
 * acquire and stores
 * @tail with release. Nodes and modules are complete before their count/index is published with
 * release.
 */
#ifndef WIRE_HEAP_H
#define WIRE_HEAP_H

#include <stdint.h>

#include "wire/heap_filter.h"

#define WIRE_HEAP_MAGIC 0x3170616568646c62ULL /* "bldheap1" */
#define WIRE_HEAP_VERSION 5
#define WIRE_OWN_BYTES 128
#define WIRE_LINE 64 /* cache line */
#define WIRE_EXE_BYTES 1024
#define WIRE_CMDLINE_BYTES (64u << 10) /* of the string area, at most */
#define WIRE_SAMPLE_MAX (1u << 30)
/*
 * So many bytes of records behind a stamp at most, in which each record has a word at least, comes
 * the next one.
 */
#define WIRE_STAMP_BYTES 1024u
/*
 * Raw mode has no recorder whose tick asks for stamps: an event that much later than its ring's
 * last one gets its own, too. A millisecond at 1 GHz, the slowest that x86-64's counter runs.
 */
#define WIRE_RAW_STAMP_CYCLES (1u << 20)

/* ---- stacks: nodes of one prefix tree -------------------------------------------------------- */

/*
 * A stack is the number of a node {pc, parent}; the path to node 0 names the callers, outermost
 * last. A parent's number is always smaller than its child's. pc is the return address, so that pc
 * - 1 lies in the calling instruction; for a frame that was interrupted by a signal pc is the
 * interrupted address plus one, so the same subtraction gives the right instruction. Nodes 1 ..
 * WIRE_STOP_MAX-1 are not frames: a stack that hangs below node R (enum wire_stop) instead of node
 * 0 is partial, R says why. A stack that *is* node R has no frame at all.
 */
enum wire_stop {
	WIRE_STOP_END = 0,         /* complete: reached main's caller's end or the thread's start */
	WIRE_STOP_GAP = 1,         /* no unwind rule for this address in a module that has rules */
	WIRE_STOP_NO_MODULE = 2,   /* the address lies in no module (JIT code, hand-made code) */
	WIRE_STOP_UNSUPPORTED = 3, /* a rule that cannot be expressed or evaluated */
	WIRE_STOP_READ = 4,        /* a stack word could not be read or lies outside the stack */
	WIRE_STOP_NO_PROGRESS = 5, /* the frame address did not grow */
	WIRE_STOP_TOO_DEEP = 6,    /* more frames than the walk may have */
	WIRE_STOP_GUESSED =
		7, /* reached the end, but with at least one frame-pointer guess on the way */
	WIRE_STOP_NODES_FULL = 8, /* the node table is full: the stack has no number */
	WIRE_STOP_NO_SCRATCH = 9, /* the thread has no scratch memory, nothing was walked */
	WIRE_STOP_OFF = 10,       /* stacks were switched off */
	WIRE_STOP_UNSAMPLED = 12, /* not one of those that have a stack (11: see enum stack_stop) */
	WIRE_STOP_MAX = 16
};

struct wire_node {
	/*
	 * low WIRE_NODE_PC_BITS; above, the number's lap. Written last; 0: nothing complete stands
	 * here
	 */
	uint64_t pc;
	uint32_t parent;
	/* a value of wire_heap_header.module_gen: pc belongs to the module that was there then */
	uint32_t gen;
};
_Static_assert(sizeof(struct wire_node) == 16, "wire_node");

#define WIRE_NODE_BITS 28 /* room in an event word */
#define WIRE_NODE_MAX (1u << WIRE_NODE_BITS)
/*
 * Node N stands at place N & (node_max - 1) of the table, and N / node_max is its lap: a place is
 * used again once the recorder has copied what stood there (wire_heap_header.node_tail). Numbers
 * are never used again; there are so many. The first place of each lap stands for none. Without a
 * recorder there is the first lap only, nor are there further ones where node_max is no power of
 * two.
 */
#define WIRE_NODE_NUMBERS (1u << 25)
#define WIRE_NODE_PC_BITS 48
#define WIRE_NODE_PC_MASK ((1ULL << WIRE_NODE_PC_BITS) - 1)

/* ---- modules --------------------------------------------------------------------------------- */

/*
 * One loaded ELF object. Entries are only added. One that is gone goes on (@gen_until is cleared)
 * where the same file, by its build id, comes to the same place and no other code was met there
 * meanwhile; where the table is full, it begins anew for a file without build id, or behind others
 * (@gen_from is raised first). The recorder maps (pc, gen) to a module.
 */
struct wire_module {
	/* address minus ELF virtual address */
	uint64_t bias;
	/* [lo, hi) covers all PT_LOAD segments */
	uint64_t lo, hi;
	/* module_gen since which no other object has been seen where it lies */
	uint32_t gen_from;
	/* module_gen at which it was found gone; 0 = still there */
	uint32_t gen_until;
	/* in the string area, not NUL-terminated; the executable's own, "[vdso]", absolute */
	uint32_t path_off;
	uint16_t path_len;
	/* 0 = none */
	uint8_t build_id_len;
	/* 1 = gone, and code of no object was met there since */
	uint8_t taken;
	uint8_t build_id[24];
};
_Static_assert(sizeof(struct wire_module) == 64, "wire_module");

/* ---- ring records ---------------------------------------------------------------------------- */

/*
 * A record is 1 to 3 words of 8 bytes. Word 0 is value << 8 | tag. "addr" is a user address (fits
 * 56 bits). An allocation's word 1 is size << WIRE_NODE_BITS | node for sizes below
 * WIRE_SIZE_SMALL, tag *_BIG otherwise: word 1 = node, word 2 = size.
 *
 * A realloc is BEGIN(old) before the call, then exactly one of END(new) or FAIL(old) after it, by
 * the same thread, with no other block record in between. FREE is written before the block is
 * released, ALLOC after it was obtained.
 */
enum wire_tag {
	WIRE_PAD = 0,                 /* an empty word, skipped */
	WIRE_FREE = 1,                /* addr */
	WIRE_FREE_STACK = 2,          /* addr; node */
	WIRE_ALLOC = 3,               /* addr; size|node */
	WIRE_ALLOC_BIG = 4,           /* addr; node; size */
	WIRE_REALLOC_BEGIN = 5,       /* old addr */
	WIRE_REALLOC_BEGIN_STACK = 6, /* old addr; node (free's stack): FREE_STACKS */
	WIRE_REALLOC_END = 7,         /* new addr; size|node */
	WIRE_REALLOC_END_BIG = 8,     /* new addr; node; size */
	WIRE_REALLOC_FAIL = 9,        /* old addr: it still lives */
	WIRE_TIME =
		10, /* low 56 bits of the cycle counter: everything after happened at or after it */
	WIRE_THREAD =
		/* tid: what follows in this ring is that thread's; word 1 = full cycle counter */
	11,
	WIRE_MAP =
		/*
		 * addr; node | prot << 32 | flags << 40 (low 24 bits); length. Behind WIRE_REMAP 0.
		 * In prot WIRE_MAP_INNER: within a call of an allocator that is recorded
		 */
	12,
	WIRE_UNMAP = 13, /* addr; node; length */
	WIRE_REMAP =
		14, /* old addr; node; old length   - always followed by WIRE_MAP for the new place,
		       whose protection and flags are those that the old one had */
	WIRE_BRK = 15,  /* new break; node */
	WIRE_MARK = 16, /* user's 32-bit marker */
	WIRE_LOST =
		/*
		 * block records lost just here: frees << WIRE_LOST_BITS | allocations, each
		 * saturating; word 1 = bytes of the allocations
		 */
	17,
	WIRE_THREAD_END = 18, /* tid */
	WIRE_SWITCH = 19,     /* 1 = recording switched on here, 0 = off */
	WIRE_FORK =
		20, /* number: the thread forks here; the child is followed if the fork succeeds */
	WIRE_NAME =
		/*
		 * tid; 16 bytes, NUL-padded: the name of the ring's thread from here on, as far as
		 * it looked
		 */
	21,
	WIRE_TAG_MAX = 22
};
#define WIRE_LOST_BITS 28
#define WIRE_LOST_EACH_MAX ((1u << WIRE_LOST_BITS) - 1)
#define WIRE_SIZE_SMALL (1ULL << (64 - WIRE_NODE_BITS))
#define WIRE_RECORD_WORDS_MAX 3

#define WIRE_MAP_INNER 0x80u

/* Why a call was not recorded. Names for these are in model/loss.h; numbers are never reused. */
enum wire_lost {
	WIRE_LOST_RING_FULL = 0, /* policy limit/drop, or the recorder's heart stopped */
	WIRE_LOST_NO_SLOT = 1,   /* more threads than slots */
	WIRE_LOST_NESTED = 2,  /* an allocator call from a signal handler that interrupted a hook */
	WIRE_LOST_EARLY = 3,   /* before shared memory was there */
	WIRE_LOST_SECCOMP = 4, /* full ring where no system call is allowed */
	WIRE_LOST_REGION =
		5, /* changes of the address space that a full ring refused, as @allocations */
	WIRE_LOST_MAX = 8
};

struct wire_lost_count {
	uint64_t allocations, bytes, frees;
};

/* ---- slots and header ------------------------------------------------------------------------ */

struct wire_heap_slot {
	/* line 0: set at layout time, but for the owner */

	/* 0 = free; else tid of the thread that holds it (CAS) */
	_Alignas(WIRE_LINE) uint32_t owner;
	/* power of two, multiple of the page size */
	uint32_t ring_bytes;
	uint64_t ring_off;
	uint64_t scratch_off;
	uint32_t scratch_bytes;
	/* recorder: 1 = a rule was broken, ring no longer read, producer must not write */
	uint32_t closed;

	/* line 1 */

	/* producer: bytes ever written */
	_Alignas(WIRE_LINE) uint64_t head;
	/* producer: back-pressure, counted */
	uint64_t waits, wait_ns;

	/* line 2 */

	/* recorder: bytes ever read */
	_Alignas(WIRE_LINE) uint64_t tail;
	/* lines 3-5: producer */
	_Alignas(WIRE_LINE) struct wire_lost_count lost[WIRE_LOST_MAX];
};
_Static_assert(sizeof(struct wire_heap_slot) == 384, "wire_heap_slot");

enum wire_on_full { WIRE_FULL_WAIT = 0, WIRE_FULL_LIMIT = 1, WIRE_FULL_DROP = 2 };

/* NONE again where it failed, but after RAW, system calls by number, whose end nobody sees. */
enum wire_exec { WIRE_EXEC_NONE = 0, WIRE_EXEC_ENTERED = 1, WIRE_EXEC_RAW = 2 };

/* Bits of what a recorder is asked from outside; WIRE_STEER_BITS of them. */
enum wire_steer {
	WIRE_STEER_MARK = 1, /* record EVENT_MARK */
	WIRE_STEER_SYNC = 2, /* everything that happened before stands in the file */
};
#define WIRE_STEER_BITS 2

struct wire_heap_header {
	/* set at layout time */
	uint64_t magic;
	uint32_t version, header_bytes;
	uint64_t total_bytes;
	uint32_t slot_count, module_max;
	uint64_t slots_off, modules_off, strings_off, index_off, nodes_off;
	/* index_entries: power of two */
	uint32_t string_bytes, node_max, index_entries;
	/* enum wire_on_full */
	uint32_t on_full;
	/* 1 = record the stack of free */
	uint32_t free_stacks;
	/* 1 = cycle counter on every event (--time-resolution 1ns) */
	uint32_t stamp_every_event;
	/* on 127.0.0.1 the recorder serves what it records, without a token; 0 = not */
	uint32_t served_port;
	/* 1 = write WIRE_NAME records */
	uint32_t name_threads;
	/* one stack for so many bytes on average; 0 = for every allocation */
	uint64_t sample_bytes;
	/* one moment on both clocks (CLOCK_MONOTONIC), taken at creation */
	uint64_t start_cycles, start_ns;

	/* recorder's line: read by every hook, written with each tick */

	/* changes about every two milliseconds while the recorder runs */
	_Alignas(WIRE_LINE) uint32_t tick;
	/* 0 = none yet (raw mode: none ever) */
	uint32_t recorder_pid;
	/* CLOCK_MONOTONIC of the last tick */
	uint64_t heartbeat_ns;
	/* 1 = stop recording, nothing is read any more */
	uint32_t detach;
	/* recorder/user: 1 = record, 0 = suspended (signals flip it in the target) */
	uint32_t enabled_wanted;
	/* the recorder has copied all nodes before this one */
	uint32_t node_tail;
	/*
	 * 1 = stamp every record: threads hand blocks to each other faster than coarse stamps tell
	 * apart. Times of events are not meant by that: those are what @stamp_every_event says
	 */
	uint32_t stamp_closely;
	/*
	 * futex: 1 = the recorder sleeps, and ticks and beats with it; who has something to say
	 * sets 0 and wakes it
	 */
	uint32_t asleep;
	/* futex: 1 = what was there as @exit_waits was seen stands in the file */
	uint32_t last_block;

	/* target's lines */

	/* next free node number (CAS) */
	_Alignas(WIRE_LINE) uint32_t node_count;
	/* bumped when a module was found unloaded */
	_Alignas(WIRE_LINE) uint32_t module_gen;
	/* entries complete, release */
	uint32_t module_count;
	uint32_t string_used;
	/* 1 = the library has mapped this and will record */
	uint32_t attached;
	/* as the target sees itself */
	uint32_t target_pid;
	/* 1 = exit hooks ran: the target ends on its own account */
	uint32_t exiting;
	/* enum wire_exec */
	uint32_t exec_called;
	/* objects for which the table had no room */
	uint32_t modules_nameless;
	/* losses without a slot, updated atomically */
	struct wire_lost_count lost[WIRE_LOST_MAX];
	/* address ranges of the library's own mappings in the target, [lo, hi) */
	uint64_t own_ranges[8][2];
	/*
	 * both clocks once more, by the exit hook: a raw file has no recorder to calibrate them. 0
	 * = never ran
	 */
	uint64_t end_cycles, end_ns;
	/* VmHWM as the exit hook read it; 0 = not known */
	uint64_t peak_rss_bytes;
	/* VmRSS and VmSize at the same moment, and what RSS consisted of */
	uint64_t end_rss_bytes, end_virtual_bytes;
	uint64_t end_anon_bytes, end_file_bytes, end_shmem_bytes, end_swap_bytes;
	/*
	 * /proc/self/exe as the library read it, with its NUL; "" = not known, or longer. Complete
	 * before @attached: by the time that the recorder asks /proc an exec may have put another
	 * program there
	 */
	char exe[WIRE_EXE_BYTES];
	/* CLOCK_REALTIME at @start_ns; 0 = not known */
	uint64_t start_realtime_ns;

	/*
	 * the child of a fork that is followed: whose, which of the parent's WIRE_FORK it was, and
	 * who records the parent
	 */

	/* 0 = not forked; 0 = the parent's blocks are not known */
	uint32_t forked_from, fork_number;
	uint32_t fork_recorder;
	/* who started the target, as it began to be recorded; 0 = not known */
	uint32_t parent_pid;
	/* raw mode: whoever reads the file applies it; "" = none */
	char filter[WIRE_FILTER_BYTES];
	/* /proc/self/cmdline, likewise, in the string area; 0 bytes = not known, or longer */
	uint32_t cmdline_off, cmdline_bytes;
	/*
	 * titles of the allocators that the program carries itself and that are hooked, with
	 * commas; "" = none
	 */
	char own_allocators[WIRE_OWN_BYTES];
	/*
	 * the recorder wants a last look at the memory of a process that ends: the exit hook waits
	 * for @looked_last, as long as the recorder's heart beats, two seconds at most. Both are
	 * the recorder's; 0 = no
	 */
	uint32_t look_last, looked_last;
	/* 1 = the target may make no system call to wake anybody */
	uint32_t stay_awake;
	/* 1 = it has ended but for waiting for @last_block */
	uint32_t exit_waits;
	/*
	 * who steers from another process (inject/steer.h) writes a mark's number and its moment
	 * (CLOCK_MONOTONIC), then @steer_asked: enum wire_steer below a number that is new. The
	 * recorder sets @steer_done to that once it is done
	 */
	uint32_t steer_mark;
	uint64_t steer_ns;
	uint32_t steer_asked, steer_done;
	/* raw mode: WIRE_ENV_FAMILY; 0 = none */
	uint64_t family;
	/* children of forks that were to be followed, and are not recorded */
	uint32_t unrecorded_children;
};
_Static_assert(sizeof(struct wire_heap_header) <= 4096, "the slots begin behind one page");

#endif
