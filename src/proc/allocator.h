/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator.h - a row of a breakdown: what an allocator holds, read from outside (room heaps): its
 * live blocks, what it keeps free though resident, its own bookkeeping. Racy (the target runs on),
 * so each says how far its parts agreed.
 */
#ifndef PROC_ALLOCATOR_H
#define PROC_ALLOCATOR_H

#include <stdint.h>

/** struct allocator_reading - bytes; UINT64_MAX in any of them: not known. */
struct allocator_reading {
	/* "glibc malloc", "jemalloc" */
	char allocator[32];
	/* how it was found and read, for people */
	char how[160];
	/* handed out */
	uint64_t live_bytes;
	/* free, whole resident pages: a trim would return them */
	uint64_t free_page_bytes;
	/* free and resident, but sharing pages with live blocks */
	uint64_t hole_bytes;
	/* per-thread and other caches */
	uint64_t cache_bytes;
	uint64_t metadata_bytes;
	/* address space it holds */
	uint64_t reserved_bytes;
	/* of those; less the four above it is what live blocks occupy */
	uint64_t resident_bytes;
	/* blocks; UINT64_MAX: unknown */
	uint64_t live_count;
	/* per cent of what was walked that passed every check */
	double consistency;
	/*
	 * of a heap that is collected, where its runtime says so; paced 0: the three are not known
	 */
	int paced;
	/* growth between collections; -1: switched off */
	int gc_percent;
	/* live bytes at which the next collection ends; UINT64_MAX: none */
	uint64_t goal_bytes;
	/* in no span, and kept */
	uint64_t idle_bytes;
	/* given back to the kernel, address space kept */
	uint64_t released_bytes;
	/* 1: every block was looked at; 0: from the allocator's own counters */
	int exact;
};

#endif
