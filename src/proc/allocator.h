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
	char allocator[32];       /* "glibc malloc", "jemalloc" */
	char how[160];            /* how it was found and read, for people */
	uint64_t live_bytes;      /* handed out */
	uint64_t free_page_bytes; /* free, whole resident pages: a trim would return them */
	uint64_t hole_bytes;      /* free and resident, but sharing pages with live blocks */
	uint64_t cache_bytes;     /* per-thread and other caches */
	uint64_t metadata_bytes;
	uint64_t reserved_bytes; /* address space it holds */
	uint64_t resident_bytes; /* of those; less the four above it is what live blocks occupy */
	uint64_t live_count;     /* blocks; UINT64_MAX: unknown */
	double consistency;      /* per cent of what was walked that passed every check */
	/*
	 * of a heap that is collected, where its runtime says so; paced 0: the three are not known
	 */
	int paced;
	int gc_percent;      /* growth between collections; -1: switched off */
	uint64_t goal_bytes; /* live bytes at which the next collection ends; UINT64_MAX: none */
	uint64_t idle_bytes; /* in no span, and kept */
	uint64_t released_bytes; /* given back to the kernel, address space kept */
	int exact; /* 1: every block was looked at; 0: from the allocator's own counters */
};

#endif
