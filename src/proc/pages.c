/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.c - the cheap readings: PROCMAP_QUERY, PAGEMAP_SCAN, pagemap. The layouts are the kernel's
 * (include/uapi/linux/fs.h of 6.11); Debian 12's headers are older, so they stand here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/smaps.h"

#define SLICE \
	(64ull << 20) /* bytes of address space a call: bounds how long the target's mmap() waits */
/* of CPU: a call this short was over nothing: larger slices for terabytes without pages */
#define FAST_NS 50000u
#define RUNS 512u
#define CALL_PAGES \
	8192u /* found by a call, which holds the target's lock for 0.1 ms a thousand at worst */

struct kernel_maps_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define KERNEL_MAPS_QUERY _IOWR('f', 17, struct kernel_maps_query)
#define QUERY_COVERING_OR_NEXT 0x10u
_Static_assert(sizeof(struct kernel_maps_query) == 104, "the kernel's layout");

struct kernel_page_run {
	uint64_t start, end, categories;
};
struct kernel_page_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define KERNEL_PAGE_SCAN _IOWR('f', 16, struct kernel_page_scan)
#define SCAN_FILE (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define SCAN_ZERO (1u << 5)
#define SCAN_HUGE (1u << 6)
#define SCAN_GUARD (1u << 8)
_Static_assert(sizeof(struct kernel_page_scan) == 96, "the kernel's layout");

/* Bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst). */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61)
#define ENTRY_GUARD (1ull << 58)
#define ENTRY_EXCLUSIVE (1ull << 56)

int maps_query_open(struct maps_query *query, const struct target *target, struct err *err)
{
	query->fd = target_file(target, "maps", err);
	if (query->fd < 0)
		return query->fd;
	struct region region;
	int rc = maps_query_at(query, 0, 1, &region);
	if (rc == -ENOTTY) {
		maps_query_close(query);
		return err_set(err, rc, "cannot ask for single mappings");
	}
	return rc == -ENOENT ? 0 : rc;
}

void maps_query_close(struct maps_query *query)
{
	if (query->fd >= 0)
		close(query->fd);
	query->fd = -1;
}

/**
 * escape_lines() - as the text of maps shows names: a line end is "\\012". What does not fit is
 * cut.
 */
static void escape_lines(char *name, size_t size)
{
	for (char *at = name; (at = strchr(at, '\n')) != NULL; at += 4) {
		size_t rest = strlen(at + 1), room = size - 1 - (size_t)(at - name);
		if (room < 4) {
			*at = '\0';
			return;
		}
		if (rest > room - 4)
			rest = room - 4;
		memmove(at + 4, at + 1, rest);
		at[4 + rest] = '\0';
		memcpy(at, "\\012", 4);
	}
}

int maps_query_at(struct maps_query *query, uint64_t addr, int or_next, struct region *region)
{
	struct kernel_maps_query ask = {
		.size = sizeof(ask),
		.query_flags = or_next ? QUERY_COVERING_OR_NEXT : 0,
		.query_addr = addr,
		.vma_name_size = sizeof(query->name),
		.vma_name_addr = (uintptr_t)query->name,
	};
	if (ioctl(query->fd, KERNEL_MAPS_QUERY, &ask) < 0) {
		/*
		 * before 6.11 there is no ioctl at all; a path too long for the buffer is not worth
		 * a failure
		 */
		if (errno != ENAMETOOLONG)
			return -errno;
		ask.vma_name_size = 0;
		ask.vma_name_addr = 0;
		if (ioctl(query->fd, KERNEL_MAPS_QUERY, &ask) < 0)
			return -errno;
	}
	memset(region, 0, sizeof(*region));
	region->start = ask.vma_start;
	region->end = ask.vma_end;
	region->offset = ask.vma_offset;
	region->inode = ask.inode;
	region->dev_major = ask.dev_major;
	region->dev_minor = ask.dev_minor;
	region->page_bytes = ask.vma_page_size;
	region->perms =
		ask.vma_flags & 15; /* readable, writable, executable, shared: the same bits */
	query->name[ask.vma_name_size && ask.vma_name_size <= sizeof(query->name)
			    ? ask.vma_name_size - 1
			    : 0] = '\0';
	escape_lines(query->name, sizeof(query->name));
	region->name = query->name;
	region->label = "";
	return 0;
}

int pages_open(struct pages *pages, const struct target *target, struct err *err)
{
	*pages = (struct pages){ .fd = -1 };
	turns_init(&pages->turns, TURNS_PAUSES, target->tid);
	pages->fd = target_file(target, "pagemap", err);
	if (pages->fd < 0)
		return pages->fd;
	struct kernel_page_run run;
	struct kernel_page_scan scan = { .size = sizeof(scan),
					 .start = 0,
					 .end = (uint64_t)sysconf(_SC_PAGESIZE),
					 .vec = (uintptr_t)&run,
					 .vec_len = 1,
					 .category_anyof_mask = SCAN_PRESENT,
					 .return_mask = SCAN_PRESENT };
	pages->scan = ioctl(pages->fd, KERNEL_PAGE_SCAN, &scan) >= 0;
	scan.return_mask |= SCAN_GUARD;
	pages->guards = pages->scan && ioctl(pages->fd, KERNEL_PAGE_SCAN, &scan) >= 0;
	return 0;
}

void pages_turns(struct pages *pages, enum turns_how how)
{
	turns_init(&pages->turns, how, pages->turns.pid);
}

void pages_close(struct pages *pages)
{
	turns_over(&pages->turns);
	if (pages->fd >= 0)
		close(pages->fd);
	pages->fd = -1;
}

/* One call, which ends at *@reached: at @end, or where it has found enough. */
static int scan_call(struct pages *pages, uint64_t start, uint64_t end, unsigned kinds, pages_fn fn,
		     void *ctx, uint64_t *stall_ns, uint64_t *reached)
{
	struct kernel_page_run runs[RUNS];
	uint64_t mask = (kinds & PAGE_PRESENT ? SCAN_PRESENT : 0) |
			(kinds & PAGE_SWAPPED ? SCAN_SWAPPED : 0) |
			(kinds & PAGE_GUARD ? SCAN_GUARD : 0);
	uint64_t more = (kinds & PAGE_FILE ? SCAN_FILE : 0) | (kinds & PAGE_ZERO ? SCAN_ZERO : 0) |
			(kinds & PAGE_HUGE ? SCAN_HUGE : 0);
	struct kernel_page_scan scan = { .size = sizeof(scan),
					 .start = start,
					 .end = end,
					 .vec = (uintptr_t)runs,
					 .vec_len = RUNS,
					 .max_pages = CALL_PAGES,
					 .category_anyof_mask = mask,
					 .return_mask =
						 mask | more | (pages->guards ? SCAN_GUARD : 0) };
	uint64_t before = turns_begin(&pages->turns);
	int count = ioctl(pages->fd, KERNEL_PAGE_SCAN, &scan);
	int rc = count < 0 ? (errno == EINVAL && kinds & PAGE_GUARD ? -ENODATA : -errno) : 0;
	turns_end(&pages->turns, before, stall_ns);
	if (rc < 0)
		return rc;
	*reached = scan.walk_end > start ? scan.walk_end : end;
	for (int i = 0; i < count; i++) {
		unsigned found = (runs[i].categories & SCAN_PRESENT ? PAGE_PRESENT : 0) |
				 (runs[i].categories & SCAN_GUARD     ? PAGE_GUARD
				  : runs[i].categories & SCAN_SWAPPED ? PAGE_SWAPPED
								      : 0) |
				 (runs[i].categories & SCAN_FILE ? PAGE_FILE : 0) |
				 (runs[i].categories & SCAN_ZERO ? PAGE_ZERO : 0) |
				 (runs[i].categories & SCAN_HUGE ? PAGE_HUGE : 0);
		/* a guard marker is an entry of swap to the kernel */
		rc = found & kinds ? fn(ctx, runs[i].start, runs[i].end, found) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
static int entries_slice(struct pages *pages, uint64_t start, uint64_t end, unsigned kinds,
			 pages_fn fn, void *ctx, uint64_t *stall_ns)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), entries[RUNS];
	uint64_t run = start;
	unsigned run_kinds = 0;
	while (start < end) {
		uint64_t want = (end - start) / page;
		if (want > RUNS)
			want = RUNS;
		uint64_t before = turns_begin(&pages->turns);
		ssize_t got = pread(pages->fd, entries, want * 8, (off_t)(start / page * 8));
		int failed = got < 0 ? errno : 0;
		turns_end(&pages->turns, before, stall_ns);
		if (failed == EINTR)
			continue;
		if (failed)
			return -failed;
		if (got < 8)
			break;
		for (ssize_t i = 0; i < got / 8; i++, start += page) {
			unsigned found = (entries[i] & ENTRY_PRESENT ? PAGE_PRESENT : 0) |
					 (entries[i] & ENTRY_GUARD     ? PAGE_GUARD
					  : entries[i] & ENTRY_SWAPPED ? PAGE_SWAPPED
								       : 0);
			if (found & kinds & PAGE_PRESENT)
				found |= (entries[i] & ENTRY_FILE ? PAGE_FILE : 0) |
					 (entries[i] & ENTRY_EXCLUSIVE ? 0 : PAGE_SHARED);
			found &= kinds;
			if (found == run_kinds)
				continue;
			int rc = run_kinds ? fn(ctx, run, start, run_kinds) : 0;
			if (rc)
				return rc;
			run = start;
			run_kinds = found;
		}
	}
	return run_kinds ? fn(ctx, run, start, run_kinds) : 0;
}

int pages_each(struct pages *pages, uint64_t start, uint64_t end, unsigned kinds, pages_fn fn,
	       void *ctx, uint64_t *stall_ns)
{
	/*
	 * PAGEMAP_SCAN fails as a whole above the top of user space, where vsyscall lies; pagemap
	 * has nothing to say there either.
	 */
	if (start >> 63)
		return 0;
	int entries = !pages->scan || kinds & PAGE_SHARED;
	for (uint64_t slice = SLICE; start < end;) {
		uint64_t stop = end - start > slice ? start + slice : end, reached = stop,
			 before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		int rc =
			entries ? entries_slice(pages, start, stop, kinds, fn, ctx, stall_ns)
				: scan_call(pages, start, stop, kinds, fn, ctx, stall_ns, &reached);
		if (rc)
			return rc;
		uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		start = reached;
		if (took <= FAST_NS && slice < 1ull << 50)
			slice *= 2;
		else if (took > FAST_NS && slice > SLICE)
			slice /= 2;
	}
	return 0;
}

struct tally {
	uint64_t present, swapped;
};

static int tally(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct tally *sums = ctx;
	if (kinds & PAGE_PRESENT)
		sums->present += end - start;
	else if (kinds & PAGE_SWAPPED)
		sums->swapped += end - start;
	return 0;
}

int pages_count(struct pages *pages, uint64_t start, uint64_t end, uint64_t *rss_bytes,
		uint64_t *swap_bytes, uint64_t *stall_ns)
{
	struct tally sums = { 0 };
	int rc = pages_each(pages, start, end, PAGE_PRESENT | PAGE_SWAPPED, tally, &sums, stall_ns);
	*rss_bytes = sums.present;
	*swap_bytes = sums.swapped;
	return rc;
}
