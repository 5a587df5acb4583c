/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - where a process's memory is at one instant, as the kernel and its allocators say:
 * mappings, which of their pages are resident, and what allocators hold, stretch by stretch. Made
 * by source/snapshot.c, kept in a recording (SNAPSHOT block), joined with the live blocks of that
 * instant by view/reconcile.c. Bytes; everything sorted by address; nothing overlaps.
 */
#ifndef MODEL_SNAPSHOT_H
#define MODEL_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** The lines of a sheet, in their order. */
enum sheet_class {
	SHEET_LIVE,
	SHEET_WASTE,
	SHEET_FREE_PAGES,
	SHEET_HOLES,
	SHEET_CACHES,
	SHEET_METADATA,
	SHEET_RUNTIME,
	SHEET_MMAP,
	SHEET_NAMED,
	SHEET_STACKS,
	SHEET_DATA,
	SHEET_FILES,
	SHEET_SHARED,
	SHEET_HUGE,
	SHEET_KERNEL,
	SHEET_BYTELEDGER,
	SHEET_UNEXPLAINED, /* no line of its own: what is left */
	SHEET_CLASSES
};
/** sheet_class_name() - the words of JSON: "heap-live". */
const char *sheet_class_name(unsigned class);

enum snapshot_region_flag {
	SNAPSHOT_PAGED = 1, /* its pages stand in the runs */
	SNAPSHOT_ALLOCATOR =
		/*
		 * some allocator's, by its label: what is not walked in it is free, cached or in
		 * part used
		 */
	2,
};
struct snapshot_region {
	uint64_t start, end;
	uint64_t rss_bytes, private_bytes, shared_bytes, anonymous_bytes, swap_bytes, huge_bytes,
		lazy_free_bytes;
	/* of snapshot.text */
	uint32_t label;
	/* enum sheet_class: whose its pages are unless something better is known;
	 * SHEET_UNEXPLAINED: nobody's */
	uint8_t class;
	uint8_t flags;
	uint8_t exact;
};

enum snapshot_page {
	PAGE_IS_PRESENT = 1,
	PAGE_IS_SWAPPED = 2,
	PAGE_IS_FILE = 4,
	PAGE_IS_HUGE = 8,
	PAGE_IS_SHARED = 16, /* with another process, after a fork */
	PAGE_IS_BLANK = 32,  /* of a huge page, holds only zeroes */
};
struct snapshot_run {
	uint64_t start, end;
	/* enum snapshot_page */
	uint32_t kinds;
};

/* As struct unit and struct piece of heaps/units.h, whose numbers these are. */
enum snapshot_unit_kind {
	SNAPSHOT_CHUNKS = 1,
	SNAPSHOT_SLAB,
	SNAPSHOT_BLOCK,
	SNAPSHOT_FREE,
	SNAPSHOT_TABLES,
	SNAPSHOT_RUNTIME,
	SNAPSHOT_RUNTIME_FREE,
	SNAPSHOT_STACKS,
	SNAPSHOT_UNIT_KINDS
};
enum snapshot_unit_flag {
	SNAPSHOT_DECAYS = 1,
	SNAPSHOT_GIVEN = 2,
	SNAPSHOT_MAIN = 4,
	SNAPSHOT_OWN_BLOCK = 8
};
struct snapshot_unit {
	uint64_t start, bytes, slot, head;
	uint32_t used, cached;
	uint16_t arena;
	uint8_t kind, flags, allocator;
};
enum snapshot_piece_kind {
	SNAPSHOT_PIECE_FREE = 1,
	SNAPSHOT_PIECE_TOP,
	SNAPSHOT_PIECE_CACHED,
	SNAPSHOT_PIECE_TABLES
};
struct snapshot_piece {
	uint64_t start;
	uint64_t bytes : 56;
	uint64_t kind : 8;
};

struct snapshot_stack {
	/* of a thread */
	uint64_t start, end;
	uint32_t tid;
};
struct snapshot_range {
	uint64_t start, end;
};
struct snapshot_allocator {
	/* of snapshot.text */
	uint32_t name, how;
	/* UINT64_MAX: not known */
	uint64_t live_bytes, free_page_bytes, hole_bytes, cache_bytes, metadata_bytes, live_count;
	/* hundredths of a per cent; 0: not read */
	uint32_t consistency;
};
/** Blocks in use by the walk's word, by size: of chunks of any size. */
struct snapshot_size {
	/* the smallest size of this class, blocks, their bytes */
	uint64_t bytes, count, sum;
};

enum snapshot_mode { SNAPSHOT_RUNNING, SNAPSHOT_FROZEN };
struct snapshot {
	uint32_t pid;
	/* enum snapshot_mode */
	uint8_t mode;
	/* of the instant: since the recording's start, or CLOCK_MONOTONIC where there is none */
	uint64_t time_ns;
	uint64_t realtime_ns;
	/* from the first look to the last; the pages were looked at within @scan_ns of it */
	uint64_t window_ns;
	uint64_t scan_ns, stall_ns;
	uint64_t page_bytes;
	/* sums of the mappings (PSS 0: not known); status */
	uint64_t rss_bytes, pss_bytes, swap_bytes, hugetlb_bytes, page_table_bytes;
	/* how long the process had been running */
	uint64_t status_rss_bytes, start_age_ns;
	/*
	 * The sum of smaps, 0: it was not read. Not @rss_bytes where memory moved between it and
	 * the pages: of mappings without a file the pages count then, for they are of the
	 * snapshot's moment.
	 */
	uint64_t smaps_rss_bytes;
	/*
	 * beside it: files without a name that are open and not mapped; its cgroup's page cache and
	 * sockets. UINT64_MAX: not known
	 */
	uint64_t held_bytes, cgroup_cache_bytes, cgroup_socket_bytes;
	char comm[32];

	struct snapshot_region *regions;
	struct snapshot_run *runs;
	struct snapshot_unit *units;
	struct snapshot_piece *pieces;
	struct snapshot_stack *stacks;
	struct snapshot_range *own;
	struct snapshot_allocator *allocators;
	struct snapshot_size *sizes;
	size_t region_count, run_count, unit_count, piece_count, stack_count, own_count,
		allocator_count, size_count;
	/* strings, each with its NUL; the first is "" */
	char *text;
	size_t text_bytes, text_room;
	/* of the cgroup; 0: none, or not known */
	uint64_t limit_bytes;
	/* glibc's settings in force */
	int has_settings, thresholds_set;
	uint64_t trim_threshold, mmap_threshold, arena_max;
	uint32_t arenas;
};
void snapshot_free(struct snapshot *snapshot);
void snapshot_freep(struct snapshot **snapshot);
/** snapshot_text() - the place of @text, put there if it is new; 0 ("") without memory. */
uint32_t snapshot_text(struct snapshot *snapshot, const char *text);
static inline const char *snapshot_string(const struct snapshot *snapshot, uint32_t at)
{
	return at < snapshot->text_bytes ? snapshot->text + at : "";
}
/**
 * snapshot_touched_again() - bytes of whole pages that were free, and there, in @at, and are in use
 * and there in @later: what would not have stayed away for so long. O(pieces + units + runs).
 */
uint64_t snapshot_touched_again(const struct snapshot *at, const struct snapshot *later);
/**
 * snapshot_check() - what came from a file: in order, no overlap, no end before its start, sums
 * that cannot overflow, kinds and strings that exist. 0 or -EBADMSG.
 */
int snapshot_check(const struct snapshot *snapshot);

#endif
