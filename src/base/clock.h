/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - a clock's reading as one number, and back. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

/** clock_of() - @time in nanoseconds; it is not negative. clock_time() - and back. */
static inline uint64_t clock_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static inline struct timespec clock_time(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
}

/**
 * clock_ns() - nanoseconds of @clock: CLOCK_MONOTONIC for spans and timelines, CLOCK_REALTIME for
 * wall clock.
 */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return clock_of(&t);
}

#endif
