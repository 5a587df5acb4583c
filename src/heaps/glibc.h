/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc.h - glibc's malloc read from outside, without symbols: the arenas are found by the shape of their bins (an empty
 * bin points at itself), every chunk is stepped over, caches are followed. Layouts: the fields from `top` on have stood
 * still since 2.26; what stands before them is found out. 64-bit, little-endian targets.
 *
 * All that is read is hostile: each pointer must be aligned and lie in memory that is known to be a heap, each size must
 * fit, each list is bounded, and what contradicts itself lowers the consistency instead of being believed.
 */
#ifndef HEAPS_GLIBC_H
#define HEAPS_GLIBC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/memory.h"
#include "proc/region.h"

#define GLIBC_ARENAS_MAX 4096u
#define GLIBC_SPANS_MAX (1u << 18)

enum glibc_kind { GLIBC_MAIN, GLIBC_HEAP, GLIBC_MMAPPED };

/** struct glibc_span - a stretch of address space that malloc manages. */
struct glibc_span {
	uint64_t start, end;
	uint64_t chunks; /* where its chunks begin; of a large block the header */
	uint32_t arena;  /* index; 0 is the main arena. Unused for GLIBC_MMAPPED */
	uint8_t kind;    /* enum glibc_kind */
};

struct glibc_arena {
	uint64_t addr, bins, top; /* struct malloc_state, its bins array, the topmost chunk */
	uint64_t system_bytes;    /* what the arena says it took from the system */
};

/** struct glibc_totals - bytes by what they are; chunks are counted whole, headers included, as mallinfo2() does. */
struct glibc_totals {
	uint64_t live_bytes, live_count; /* handed out, large blocks included */
	uint64_t free_bytes, free_count; /* in bins, and the topmost chunks */
	uint64_t free_page_bytes;        /* of those: whole pages, resident */
	uint64_t hole_bytes;             /* of those: resident parts of pages */
	uint64_t tcache_bytes, fastbin_bytes;
	uint64_t cached_count;   /* chunks in either cache */
	uint64_t metadata_bytes; /* arenas, heap headers, thread caches' tables, fences */
	uint64_t mmapped_bytes, mmapped_count; /* large blocks; part of live */
	uint64_t unclear_bytes; /* could not be stepped over, or contradicted themselves */
	uint64_t thread_caches;
};

struct glibc_reading {
	struct glibc_arena *arenas;
	size_t arena_count;
	struct glibc_span *spans; /* by address, not overlapping */
	size_t span_count;
	uint64_t
		claimed_bytes; /* what malloc itself says it has: arenas, and large blocks where that is known */
	uint64_t params; /* address of mp_, 0 = not recognised */
	uint64_t params_mmapped_bytes, params_sbrk_base;
	struct glibc_totals totals;
	double consistency; /* per cent */
	uint64_t copied_bytes;
	unsigned retried; /* spans walked a second time */
};

/** What glibc_walk() tells of each chunk, if asked. */
enum glibc_state { GLIBC_LIVE, GLIBC_FREE };
typedef int (*glibc_chunk_fn)(void *ctx, uint64_t addr, uint64_t bytes, enum glibc_state state);

/**
 * glibc_find() - arenas, heaps and large blocks among @regions (every one, by address), no chunk is looked at: some ms.
 * Return: 1 found, 0 where no glibc malloc has been used here, negative errno with @err. Release with glibc_fini().
 */
int glibc_find(const struct memory *memory, const struct region *regions, size_t count,
	       struct glibc_reading *reading, struct err *err);
/**
 * glibc_walk() - step over every chunk of what glibc_find() found and fill totals and consistency. Copies what is resident
 * once; what was swapped out is unclear up to where a chain of chunks begins again. Memory: some 300 KiB. @fn may be NULL; it sees chunks before caches are subtracted (cached ones as live), and a span that is walked again again; nonzero
 * ends the walk and is returned.
 */
int glibc_walk(const struct memory *memory, struct glibc_reading *reading, glibc_chunk_fn fn,
	       void *ctx, struct err *err);
void glibc_fini(struct glibc_reading *reading);

/** glibc_is_library() - a mapping of the C library, by its name. */
int glibc_is_library(const struct region *region);

/** glibc_span_at() - the span that holds @addr, NULL if none does. O(log n). */
const struct glibc_span *glibc_span_at(const struct glibc_reading *reading, uint64_t addr);

/* For glibc_walk() alone: the lists of free blocks that look like live ones (glibc_cache.c). */
#define GLIBC_TCACHE_BINS 64
#define GLIBC_TCACHE_CHUNK 0x290 /* 64 16-bit counts and 64 heads; glibc 2.30 to 2.41 */
#define GLIBC_TCACHES_MAX 4096

struct glibc_tcache {
	uint64_t addr; /* of the table itself */
	uint64_t heads[GLIBC_TCACHE_BINS];
	uint16_t counts[GLIBC_TCACHE_BINS];
};
/** glibc_tcache_looks() - 1 if the 640 bytes at @body could be a thread cache's table: cheap, most are refused. */
int glibc_tcache_looks(const struct glibc_reading *reading, const void *body);
/** glibc_caches() - follow thread caches and fastbins; moves what they hold from live to cached. */
void glibc_caches(const struct memory *memory, struct glibc_reading *reading,
		  const uint64_t *tables, size_t table_count);

#endif
