/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator.h - what an allocator holds, read from outside: its live blocks, what it keeps free though resident, its own
 * bookkeeping. The readings are racy (the target runs on), so each carries how far its parts agreed.
 */
#ifndef PROC_ALLOCATOR_H
#define PROC_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct breakdown;
struct target;

/** struct allocator_reading - bytes; UINT64_MAX in any of them: not known. */
struct allocator_reading {
	char allocator[32];       /* "glibc malloc", "jemalloc" */
	char how[96];             /* how it was found and read, for people */
	uint64_t live_bytes;      /* handed out */
	uint64_t free_page_bytes; /* free, whole resident pages: a trim would return them */
	uint64_t hole_bytes;      /* free and resident, but sharing pages with live blocks */
	uint64_t cache_bytes;     /* per-thread and other caches */
	uint64_t metadata_bytes;
	uint64_t reserved_bytes; /* address space it holds */
	uint64_t resident_bytes; /* of those; less the four above it is what live blocks occupy */
	uint64_t live_count;     /* blocks; UINT64_MAX: unknown */
	double consistency;      /* per cent of what was walked that passed every check */
	int exact; /* 1: every block was looked at; 0: from the allocator's own counters */
};

/**
 * struct proc_symbols - where symbols are, for readers that need them; source fills it from sym, embed has none (NULL).
 * @address: of @name in the mapped module @path, in the target's address space; 0, or -ENOENT.
 */
struct proc_symbols {
	void *ctx;
	int (*address)(void *ctx, const char *path, const char *name, uint64_t *addr);
};

/**
 * allocators_read() - find the allocators of @target, fill @breakdown's allocators (which replaces those of an earlier call)
 * and relabel the mappings that they turn out to own; sums are computed anew. @breakdown must keep every mapping. The target
 * runs on; resident heap memory is copied once (some 3 GB/s), memory is bounded. What is not resident is never
 * read, so a heap that was swapped out in part is read in part, and its consistency says so. @symbols may be NULL. An allocator that
 * cannot be read is left out, or said with consistency 0: only a lack of memory is an error. So is one whose tables ask for
 * more work than its memory warrants, or of which less than half agrees with itself: hostile, or another version.
 */
int allocators_read(struct breakdown *breakdown, const struct target *target,
		    const struct proc_symbols *symbols, struct err *err);

/* For the readers alone. */
struct memory;
/** allocators_add() - one more reading of @breakdown, zeroed; NULL without memory. */
struct allocator_reading *allocators_add(struct breakdown *breakdown);
/** allocators_unread() - @allocator is in use here, but cannot be read: @why, for people. 0 or -ENOMEM. */
int allocators_unread(struct breakdown *breakdown, const char *allocator, const char *why);
/**
 * allocators_judge() - whether what was read of @allocator is worth telling. 1: it is; 0: not, a row without figures says
 * why (its mappings must keep their names, too); -ENOMEM. @consistency: per cent.
 */
int allocators_judge(struct breakdown *breakdown, const struct memory *memory,
		     const char *allocator, double consistency);
/** allocators_claim() - name the mappings whose @claims entry n is not 0 @labels[n - 1]. 0 or -ENOMEM. */
int allocators_claim(struct breakdown *breakdown, const uint8_t *claims, unsigned class,
		     const char *const *labels, const char *owner);
/** allocators_present() - what of the @claims' mappings is resident, of what is or was swapped out: 0 to 1. */
double allocators_present(const struct breakdown *breakdown, const uint8_t *claims);
/** The readers: 0 (whether there is something to read or not), or -ENOMEM. */
int allocators_glibc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_cpython(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_hotspot(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_jemalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_mimalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_tcmalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int allocators_go(struct breakdown *breakdown, const struct memory *memory, struct err *err);

#endif
