/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaps.h - the allocators of a process read from outside, into its breakdown: glibc, jemalloc,
 * tcmalloc, mimalloc, Go, CPython, HotSpot. What a reading says is struct allocator_reading of
 * proc/allocator.h.
 */
#ifndef HEAPS_HEAPS_H
#define HEAPS_HEAPS_H

#include <stdint.h>

#include "base/err.h"

struct breakdown;
struct target;

/**
 * heaps_read() - find the allocators of @target, fill @breakdown's allocators (which replaces those
 * of an earlier call) and relabel the mappings that they turn out to own; sums are computed anew.
 * @breakdown must keep every mapping. The target runs on; resident heap memory is copied once (some
 * 3 GB/s), memory is bounded. What is not resident is never read, so a heap that was swapped out in
 * part is read in part, and its consistency says so. An allocator that cannot be read is left out,
 * or said with consistency 0: only a lack of memory is an error. So is one whose tables ask for
 * more work than its memory warrants, or of which less than half agrees with itself: hostile, or
 * another version.
 */
int heaps_read(struct breakdown *breakdown, const struct target *target, struct err *err);

/**
 * heaps_recording() - whether the preload library records @target: 0 no, 1 yes, negative errno.
 * @port: where on 127.0.0.1 its recorder serves that; 0: nowhere. A reading of maps.
 */
int heaps_recording(const struct target *target, uint16_t *port);

#endif
