/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc.h - glibc's malloc read from outside, without symbols: the arenas are found by the shape of
 * their bins (an empty bin points at itself), every chunk is stepped over, caches are followed.
 * Layouts: 2.26 to 2.44 in three shapes of an arena and three of a thread's cache, told apart by
 * the ring of arenas and by the size of the cache's chunk; any other is "unknown" and gets no
 * figures. 64-bit, little-endian targets.
 *
 * All that is read is hostile: each pointer must be aligned and lie in memory that is known to be a
 * heap, each size must fit, each list is bounded, and what contradicts itself lowers the
 * consistency instead of being believed.
 */
#ifndef HEAPS_GLIBC_H
#define HEAPS_GLIBC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "heaps/units.h"
#include "proc/memory.h"
#include "proc/region.h"

#define GLIBC_ARENAS_MAX 4096u
#define GLIBC_SPANS_MAX (1u << 18)

enum glibc_kind { GLIBC_MAIN, GLIBC_HEAP, GLIBC_MMAPPED };

/** struct glibc_span - a stretch of address space that malloc manages. */
struct glibc_span {
	uint64_t start, end;
	/* where its chunks begin; of a large block the header */
	uint64_t chunks;
	/* index; 0 is the main arena. Unused for GLIBC_MMAPPED */
	uint32_t arena;
	/* enum glibc_kind */
	uint8_t kind;
};

struct glibc_arena {
	/* struct malloc_state, its bins array, the topmost chunk */
	uint64_t addr, bins, top;
	/* what the arena says it took from the system */
	uint64_t system_bytes;
};

/**
 * struct glibc_totals - bytes by what they are; chunks are counted whole, headers included, as
 * mallinfo2() does.
 */
struct glibc_totals {
	/* handed out, large blocks included */
	uint64_t live_bytes, live_count;
	/* in bins and fastbins, and the topmost chunks */
	uint64_t free_bytes, free_count;
	/* of those: whole pages, resident */
	uint64_t free_page_bytes;
	/* of those: resident parts of pages */
	uint64_t hole_bytes;
	/* of threads */
	uint64_t tcache_bytes, cached_count;
	/* part of free: malloc_trim() merges them */
	uint64_t fastbin_bytes;
	/* arenas, heap headers, thread caches' tables, fences */
	uint64_t metadata_bytes;
	/* large blocks; part of live */
	uint64_t mmapped_bytes, mmapped_count;
	/* could not be stepped over, or contradicted themselves */
	uint64_t unclear_bytes;
	/* could not be stepped over, since swapped out */
	uint64_t absent_bytes;
	uint64_t thread_caches;
};

struct glibc_reading {
	struct glibc_arena *arenas;
	size_t arena_count;
	/* by address, not overlapping */
	struct glibc_span *spans;
	size_t span_count;
	/* what malloc itself says it has: arenas, and large blocks where that is known */
	uint64_t claimed_bytes;
	/* address of mp_, 0 = not recognised */
	uint64_t params;
	uint64_t params_mmapped_bytes, params_sbrk_base;
	/* settings in force; 0 without @params */
	uint64_t trim_threshold, mmap_threshold, top_pad, arena_max;
	int no_dyn_threshold;
	/* bytes of struct malloc_state before its bins: 24 since 2.43, 112 from 2.27 on */
	uint64_t before;
	/* 1: neither, or thread caches of an unknown shape: no figures */
	int unknown;
	/* 1: a list was not followed to its end */
	int limited;
	struct glibc_totals totals;
	/* per cent */
	double consistency;
	uint64_t copied_bytes;
	/* spans walked a second time */
	unsigned retried;
};

/**
 * glibc_find() - arenas, heaps and large blocks among @regions (every one, by address), no chunk is
 * looked at: some ms. Return: 1 found, 0 where no glibc malloc has been used here, negative errno
 * with @err. Release with glibc_fini().
 */
int glibc_find(const struct memory *memory, const struct region *regions, size_t count,
	       struct glibc_reading *reading, struct err *err);
/**
 * glibc_walk() - step over every chunk of what glibc_find() found and fill totals and consistency.
 * Copies what is resident once; what was swapped out is passed over up to where a chain of chunks
 * begins again. Memory: some 300 KiB, 16 bytes a free chunk, and where there are fastbins 16 for
 * each small chunk that may be in one. @units: what it holds is added; NULL for none.
 */
int glibc_walk(const struct memory *memory, struct glibc_reading *reading, struct units *units,
	       struct err *err);
void glibc_fini(struct glibc_reading *reading);

/** glibc_is_library() - a mapping of the C library, by its name. */
int glibc_is_library(const struct region *region);

/** glibc_span_at() - the span that holds @addr, NULL if none does. O(log n). */
const struct glibc_span *glibc_span_at(const struct glibc_reading *reading, uint64_t addr);

/* For glibc_walk() alone: the lists of free blocks that look like live ones (glibc_cache.c). */
#define GLIBC_TCACHES_MAX 4096
#define GLIBC_TCACHE_CHUNK 0x290 /* from 2.30 to 2.41 */
/** struct glibc_tcache_shape - a thread cache's table: numbers, then heads. */
struct glibc_tcache_shape {
	uint32_t chunk, bins, count_bytes;
	/* the numbers are free slots, not blocks: since 2.42 */
	int slots_left;
	/* each block carries a key */
	int keyed;
};
#define GLIBC_TABLE_MOST 760
/**
 * glibc_table_bytes() - of a table's content: its numbers, then its heads. The chunk's last word
 * belongs to it as well.
 */
static inline size_t glibc_table_bytes(const struct glibc_tcache_shape *shape)
{
	return shape->bins * (shape->count_bytes + 8u);
}
extern const struct glibc_tcache_shape glibc_tcache_shapes[3];
/** glibc_tcache_shape() - by the size of its chunk; NULL: none has it. */
const struct glibc_tcache_shape *glibc_tcache_shape(uint64_t chunk_bytes);

struct glibc_table {
	uint64_t addr;
	const struct glibc_tcache_shape *shape;
};
/** struct glibc_link - a small chunk in use whose first word may lead on in a list of free ones. */
struct glibc_link {
	uint64_t chunk, next;
};
struct glibc_lists {
	struct glibc_table tables[GLIBC_TCACHES_MAX];
	size_t table_count;
	/* some fastbin holds chunks */
	int fast;
	/* links are mixed with their own address (since 2.32): -1 unknown */
	int mixed;
	/* by address */
	struct glibc_link *links;
	size_t link_count, link_room;
	/* pieces: free chunks, the cached ones, tables. Sorted and joined in the end */
	struct units found;
	/* in use, by size */
	uint64_t class_count[UNITS_CLASSES], class_bytes[UNITS_CLASSES];
};
/**
 * glibc_tcache_looks() - 1 if the @shape's bytes at @body could be a thread cache's table: cheap,
 * most are refused.
 */
int glibc_tcache_looks(const struct glibc_reading *reading, const struct glibc_tcache_shape *shape,
		       const void *body);
/** glibc_lists_begin() - before the walk: whether there are fastbins, and how links are stored. */
void glibc_lists_begin(const struct memory *memory, struct glibc_reading *reading,
		       struct glibc_lists *lists);
/** glibc_link_of() - where @stored, a word at @at, leads. */
static inline uint64_t glibc_link_of(uint64_t at, uint64_t stored, int mixed)
{
	return mixed ? (at >> 12) ^ stored : stored;
}
/**
 * glibc_caches() - follow thread caches and fastbins; moves what they hold from live to cached, or
 * free. -ENOMEM.
 */
int glibc_caches(const struct memory *memory, struct glibc_reading *reading,
		 struct glibc_lists *lists);

#endif
