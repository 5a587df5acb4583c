/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack.h - what the kernel side of the stepper and its loader share: the tables it walks by, and
 * the stacks it sends.
 *
 * Tables stand in one flat array ("words"): blobs of wire/unwind.h, each at a multiple of 8 bytes.
 * A process has a range of "places", its executable mappings in order of address. A range is
 * written whole, published by one update of the process's entry, and never changed while it is
 * published.
 */
#ifndef WIRE_STACK_H
#define WIRE_STACK_H

#include <stdint.h>

#define WIRE_STACK_FRAMES_MAX 256
#define WIRE_STACK_PLACES_MAX 65536 /* executable mappings of all processes; a power of two */
#define WIRE_STACK_PLACE_PROBES 13  /* halvings that empty 4096 places of one process */
#define WIRE_STACK_PROCESS_PLACES_MAX 4096
#define WIRE_STACK_PROCESSES_MAX 1024
#define WIRE_STACK_CACHE_BITS 12 /* recipes remembered per scratch slot */
#define WIRE_STACK_SLOTS 2       /* scratch slots per CPU: a second walk may interrupt the first */

/** One executable mapping. */
struct wire_stack_place {
	uint64_t lo, hi;
	/* address of the table's idx[0] in this process */
	uint64_t text_lo;
	/* 0 = code without a table (JIT): frame pointers are tried */
	uint32_t text_bytes;
	/* numbers of the table's first elements, counted in u32 from the start of words */
	uint32_t idx, row;
	/* likewise, counted in u64 */
	uint32_t rule;
};
_Static_assert(sizeof(struct wire_stack_place) == 40, "wire_stack_place");

/** The entry of a process, by process id. */
struct wire_stack_process {
	/* of its places; count <= WIRE_STACK_PROCESS_PLACES_MAX */
	uint32_t first, count;
	/* a number that no other table had: recipes remembered under it belong to it (17 bits) */
	uint32_t generation;
	uint32_t reserved;
};
_Static_assert(sizeof(struct wire_stack_process) == 16, "wire_stack_process");
#define WIRE_STACK_GENERATIONS (1u << 17)

/** A remembered recipe. tag = address | generation << 47, 0 = free. */
struct wire_stack_rule {
	uint64_t tag, rule;
};
struct wire_stack_rules {
	struct wire_stack_rule rule[1u << WIRE_STACK_CACHE_BITS];
};

/** A captured stack; ring buffer record of offsetof(frame) + count * 8 bytes. */
struct wire_stack {
	/* CLOCK_MONOTONIC */
	uint64_t time_ns;
	/* first argument of the probed function */
	uint64_t arg;
	uint32_t pid, tid;
	/* frames, innermost first */
	uint16_t count;
	/* enum wire_stop */
	uint8_t stop;
	/* frames found by frame pointer; 255 = 255 or more */
	uint8_t guessed;
	/* of user memory; saturating */
	uint16_t reads;
	/* recipes that were not remembered; saturating */
	uint16_t missed;
	/* "addresses after": return addresses, exact ones + 1 */
	uint64_t frame[WIRE_STACK_FRAMES_MAX];
};
_Static_assert(sizeof(struct wire_stack) == 32 + 8 * WIRE_STACK_FRAMES_MAX, "wire_stack");

/**
 * Counters of one CPU; the loader adds them up. captures = sum of stops. seen = captures + busy +
 * untracked.
 */
enum wire_stack_counter {
	WIRE_STACK_STOPS = 0,      /* 16 counters, by enum wire_stop */
	WIRE_STACK_CAPTURES = 16,  /* walks begun */
	WIRE_STACK_BUSY = 17,      /* no walk: both scratch slots of the CPU were in use */
	WIRE_STACK_UNTRACKED = 18, /* no walk: the process has no entry */
	WIRE_STACK_RING_FULL = 19, /* walked, but the ring had no room */
	WIRE_STACK_FRAMES = 20,
	WIRE_STACK_READS = 21,
	WIRE_STACK_READS_FAILED = 22,
	WIRE_STACK_GUESSED = 23,
	WIRE_STACK_MISSED = 24,
	WIRE_STACK_EXTENTS_LOST =
		25, /* mappings, or names of them, that the kernel's tables had no room for */
	WIRE_STACK_COUNTERS = 32
};

/** What was mapped where, and by whom: the key of the kernel's tables of extents and of names. */
struct wire_extent_key {
	uint64_t start;
	uint32_t pid, reserved;
};
struct wire_extent {
	uint64_t bytes;
	/* CLOCK_MONOTONIC */
	uint64_t time_ns;
	/* arg of the wire_stack record that shows it; 0 = none */
	uint64_t stack;
};
#define WIRE_EXTENT_NAME_BYTES 80 /* ANON_VMA_NAME_MAX_LEN */
/** A name that the kernel refused to keep; "" takes names away. */
struct wire_extent_name {
	uint64_t bytes;
	uint64_t time_ns;
	char name[WIRE_EXTENT_NAME_BYTES];
};
_Static_assert(sizeof(struct wire_extent_key) == 16 && sizeof(struct wire_extent) == 24 &&
		       sizeof(struct wire_extent_name) == 96,
	       "wire_extent");

#endif
