/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smaps.h - the readings of a process's mappings: smaps (exact, walks every page), and the cheap
 * ones: maps or PROCMAP_QUERY for the list, PAGEMAP_SCAN or pagemap for what is resident.
 * Everything streams: memory is bounded by one line. Text is parsed by the address-range grammar
 * alone; what breaks it is an error, never a guess.
 */
#ifndef PROC_SMAPS_H
#define PROC_SMAPS_H

#include "base/err.h"
#include "proc/region.h"
#include "proc/target.h"
#include "proc/turns.h"

/**
 * Takes a region; its name is lent for the call. Return: 0 to go on, else that value ends the
 * reading.
 */
typedef int (*region_fn)(void *ctx, struct region *region);

#define READING_UNKNOWN_MAX 16
/** struct reading - what a reading says about itself. */
struct reading {
	uint64_t regions;
	/*
	 * the longest stretch of system calls without a pause: the target's mmap() waits at most
	 * that long
	 */
	uint64_t stall_ns;
	uint64_t total_ns;
	/* Fields of smaps that this version does not know, with their sums. */
	struct {
		char key[24];
		uint64_t bytes;
	} unknown[READING_UNKNOWN_MAX];
	unsigned unknown_count;
	/* sources: "smaps"; "maps", "PROCMAP_QUERY"; "PAGEMAP_SCAN", "pagemap" */
	const char *list, *pages;
};

/**
 * smaps_each() - every mapping with all its figures, in order of address. Costs some 37 ns a
 * resident 4 KiB page and 3 us a mapping, and makes the target's mmap() wait for the walk of one
 * mapping at a time: in turns with it (turns.h) as @how says, unless it is this process.
 */
int smaps_each(const struct target *target, enum turns_how how, region_fn fn, void *ctx,
	       struct reading *reading, struct err *err);
/**
 * smaps_parse() - the same from any descriptor with smaps or maps text; -EBADMSG where the text is
 * neither.
 */
int smaps_parse(int fd, region_fn fn, void *ctx, struct reading *reading, struct err *err);

/**
 * maps_each() - names and addresses only, no page is walked; 0.3 us a mapping, and so few of them a
 * call that there are pauses, but nobody is raised: @fn may take turns of its own.
 */
int maps_each(const struct target *target, region_fn fn, void *ctx, struct reading *reading,
	      struct err *err);

/**
 * struct maps_query - PROCMAP_QUERY (Linux 6.11) with its descriptor kept open; -ENOTTY where the
 * kernel lacks it.
 */
struct maps_query {
	int fd;
	char name[4096];
};
int maps_query_open(struct maps_query *query, const struct target *target, struct err *err);
void maps_query_close(struct maps_query *query);
/**
 * maps_query_at() - the mapping that holds @addr, or with @or_next the next one above; 0.4 us.
 * Return: 0 (its name is lent until the next call), -ENOENT where there is none, -ENOTTY where the
 * kernel has no PROCMAP_QUERY.
 */
int maps_query_at(struct maps_query *query, uint64_t addr, int or_next, struct region *region);

/**
 * struct pages - what is resident, without walking page tables for PSS. For one thread, up to
 * pages_close(): it may be raised (turns.h).
 */
struct pages {
	int fd;
	/* PAGEMAP_SCAN (Linux 6.7) works here */
	int scan;
	/* it tells guard markers (Linux 6.15) */
	int guards;
	struct turns turns;
};
/**
 * pages_open() - probes PAGEMAP_SCAN once; falls back to pagemap, which costs three times as much.
 */
int pages_open(struct pages *pages, const struct target *target, struct err *err);
void pages_close(struct pages *pages);
/** pages_turns() - in turns as @how says and not by TURNS_PAUSES; right after pages_open(). */
void pages_turns(struct pages *pages, enum turns_how how);

enum page_kind {
	PAGE_PRESENT = 1,
	PAGE_SWAPPED = 2,
	PAGE_GUARD = 4,
	/* facts that come with pages of the kinds above, where they are asked for */
	PAGE_FILE = 8,  /* a file's page or shared memory */
	PAGE_ZERO = 16, /* the kernel's page of zeroes: part of no RSS. By PAGEMAP_SCAN alone */
	PAGE_HUGE = 32, /* likewise */
	PAGE_SHARED =
		/*
		 * mapped by another process, too: pagemap is read, 8 bytes a page, and nothing of
		 * the two above is known
		 */
	64,
};
/** Takes a run of pages of one mixture of kinds; 0 to go on. */
typedef int (*pages_fn)(void *ctx, uint64_t start, uint64_t end, unsigned kinds);
/**
 * pages_each() - runs of pages of any of @kinds in [@start, @end), in order, in slices of at most
 * 64 MiB of address space a system call, in turns with the target; the longest that the target may
 * have waited goes to @stall_ns if it was longer. 11 ns a present page. The zero page counts as
 * present. Return: 0, @fn's value, or negative errno (-ENODATA where @kinds cannot be told apart
 * here: PAGE_GUARD before 6.13).
 */
int pages_each(struct pages *pages, uint64_t start, uint64_t end, unsigned kinds, pages_fn fn,
	       void *ctx, uint64_t *stall_ns);
/** pages_count() - present and swapped bytes of a range. */
int pages_count(struct pages *pages, uint64_t start, uint64_t end, uint64_t *rss_bytes,
		uint64_t *swap_bytes, uint64_t *stall_ns);

/**
 * struct proc_totals - the kernel's own sums, beside which ours are put. -1 (UINT64_MAX): not told.
 */
struct proc_totals {
	/* status */
	uint64_t rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t virtual_bytes, peak_bytes, swap_bytes, page_table_bytes, hugetlb_bytes,
		locked_bytes, pinned_bytes;
	uint64_t threads;
};
/**
 * totals_read() - from status; 20 us. The kernel's counters may lag behind smaps by some pages a
 * CPU.
 */
int totals_read(const struct target *target, struct proc_totals *totals, struct err *err);
/**
 * walk_turns() - turns for calls that walk pages of @target, all of them by one call at worst: what
 * that would take is known from the kernel's counters.
 */
void walk_turns(struct turns *turns, const struct target *target, enum turns_how how);
/** struct rollup - sums that smaps_rollup tells. */
struct rollup {
	uint64_t rss_bytes, pss_bytes, private_bytes, swap_bytes;
};
/**
 * rollup_all() - one walk of all pages, as @how says unless it is this process. -ESRCH for a
 * process without memory.
 */
int rollup_all(const struct target *target, enum turns_how how, struct rollup *rollup,
	       uint64_t *stall_ns, struct err *err);
/** rollup_read() - Rss and Pss of smaps_rollup, one walk of all pages. */
int rollup_read(const struct target *target, enum turns_how how, uint64_t *rss_bytes,
		uint64_t *pss_bytes, uint64_t *stall_ns, struct err *err);

#endif
