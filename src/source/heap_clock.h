/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_clock.h - cycle counts to nanoseconds: a continuous, monotone mapping between moments at
 * which both clocks were read. In order of use: heap_clock_init(), heap_clock_sample() or _add()
 * now and then, heap_clock_ns() of what heap_clock_full() makes of a stamp.
 */
#ifndef SOURCE_HEAP_CLOCK_H
#define SOURCE_HEAP_CLOCK_H

#include <stdint.h>

#define HEAP_ANCHORS 64

struct heap_anchor {
	/* ns since CLOCK_MONOTONIC's zero */
	uint64_t cycles, ns;
	/* ns per cycle up to the next anchor */
	double slope;
};
struct heap_clock {
	/* circular, ascending */
	struct heap_anchor anchors[HEAP_ANCHORS];
	uint32_t first, count;
	uint64_t start_ns;
};

uint64_t heap_cycles(void);
void heap_clock_init(struct heap_clock *clock, uint64_t start_cycles, uint64_t start_ns);
/**
 * heap_clock_add() - a later moment; one that does not advance both clocks is ignored. Where the
 * counter has jumped back what is known of it is forgotten, but for its rate.
 */
void heap_clock_add(struct heap_clock *clock, uint64_t cycles, uint64_t ns);
/**
 * heap_clock_sample() - read both clocks, unless the last reading is younger than half a
 * millisecond.
 */
void heap_clock_sample(struct heap_clock *clock);
/** heap_clock_ns() - nanoseconds since start of a full cycle count; 0 for what lies before it. */
uint64_t heap_clock_ns(const struct heap_clock *clock, uint64_t cycles);
/**
 * heap_clock_full() - the cycle count whose low 56 bits are @low and that lies nearest to the last
 * anchor.
 */
uint64_t heap_clock_full(const struct heap_clock *clock, uint64_t low);

#endif
