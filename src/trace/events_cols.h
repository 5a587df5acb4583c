/* SPDX-License-Identifier: Apache-2.0 */
/* events_cols.h - what the two sides of the event coding share. */
#ifndef TRACE_EVENTS_COLS_H
#define TRACE_EVENTS_COLS_H

#include <stdint.h>

enum events_col {
	EVC_META = 0,   /* sums before this block: allocations, their bytes, frees */
	EVC_KIND = 1,   /* a byte an event: kind | flags << 4 */
	EVC_TIME = 2,   /* runs: events, nanoseconds before the first of them */
	EVC_THREAD = 3, /* runs: events, thread */
	EVC_BLOCK = 4,  /* alloc, free: zigzag, from the last block number */
	EVC_STACK = 5,  /* all but free: zigzag, from the last stack */
	EVC_BYTES = 6,  /* alloc */
	EVC_ADDR = 7,   /* alloc: zigzag, from the address which that number had last */
	EVC_AUX = 8,    /* free: who freed */
	EVC_OTHER = 9,  /* neither alloc nor free: addr, bytes, value, aux stack, block */
	EVC_COUNT
};

/* A live block, or the last address of a dead one (0 in the beginning, and where damage has hidden it). */
struct slot {
	uint64_t addr, bytes;
	uint32_t stack; /* SLOT_FREE = dead */
};
#define SLOT_FREE 0xffffffffu

#endif
