/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - a clock's reading as one number. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/**
 * clock_ns() - nanoseconds of @clock: CLOCK_MONOTONIC for spans and timelines, CLOCK_REALTIME for
 * wall clock.
 */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
