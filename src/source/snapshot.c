/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - mappings, pages, allocators of one process, in this order, into one struct snapshot.
 */
#include "source/snapshot.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "heaps/heaps.h"
#include "heaps/units.h"
#include "inject/freeze.h"
#include "proc/beside.h"
#include "proc/breakdown.h"
#include "proc/proc.h"
#include "source/heapfiles.h"
#include "source/threadfacts.h"
#include "wire/heap.h"

#define USER_END ((1ull << 47) - 4096) /* PAGEMAP_SCAN refuses what lies beyond */
#define HUGE (2ull << 20)
#define BLANK_MAX (4ull << 30) /* bytes of huge pages whose contents are looked at */
#define RUNS_MAX (1u << 26)
#define ROUNDS_MAX 4    /* of a reading during which memory moved */
#define MOVED_SHARE 400 /* a part in so many of RSS */

struct taking {
	struct snapshot *s;
	const struct target *target;
	struct breakdown *b;
	struct units units;
	/* as the kernel told them, of the whole address space */
	struct snapshot_run *scan;
	size_t scan_count, scan_room, run_room, own_room;
	/* a huge one */
	char *page;
	uint64_t blank_left;
	/* the one that manages memory here is Go's runtime */
	int only_go;
	int nomem;
};

/* ---- pages ----------------------------------------------------------------------------------- */

static int put_run(struct snapshot_run **runs, size_t *count, size_t *room, uint64_t start,
		   uint64_t end, uint32_t kinds)
{
	if (*count && (*runs)[*count - 1].end == start && (*runs)[*count - 1].kinds == kinds) {
		(*runs)[*count - 1].end = end;
		return 0;
	}
	if (*count == *room) {
		size_t grown_room = *room ? *room * 2 : 1024;
		struct snapshot_run *grown =
			grown_room > RUNS_MAX ? NULL : realloc(*runs, grown_room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		*runs = grown;
		*room = grown_room;
	}
	(*runs)[(*count)++] = (struct snapshot_run){ start, end, kinds };
	return 0;
}

static int take_scan(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct taking *t = ctx;
	uint32_t is = (kinds & PAGE_PRESENT && !(kinds & PAGE_ZERO) ? PAGE_IS_PRESENT : 0) |
		      (kinds & PAGE_SWAPPED ? PAGE_IS_SWAPPED : 0) |
		      (kinds & PAGE_FILE ? PAGE_IS_FILE : 0) |
		      (kinds & PAGE_HUGE ? PAGE_IS_HUGE : 0);
	if (!(is & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED)))
		return 0;
	return put_run(&t->scan, &t->scan_count, &t->scan_room, start, end, is);
}

static int add_run(struct taking *t, uint64_t start, uint64_t end, uint32_t kinds)
{
	return put_run(&t->s->runs, &t->s->run_count, &t->run_room, start, end, kinds);
}

static int is_blank(const char *page, uint64_t bytes)
{
	const uint64_t *words = (const uint64_t *)(const void *)page;
	uint64_t all = 0;
	for (uint64_t i = 0; i < bytes / 8; i += 8) {
		all |= words[i] | words[i + 1] | words[i + 2] | words[i + 3] | words[i + 4] |
		       words[i + 5] | words[i + 6] | words[i + 7];
		if (all)
			return 0;
	}
	return 1;
}

/*
 * Pages of huge ones that hold only zeroes. They were there when they were listed: to read them
 * brings nothing.
 */
static int add_huge(struct taking *t, uint64_t start, uint64_t end, uint32_t kinds)
{
	uint64_t page = t->s->page_bytes;
	if (!t->page)
		t->page = malloc(HUGE);
	int rc = 0;
	for (uint64_t at = start; at < end && !rc;) {
		uint64_t len = end - at < HUGE ? end - at : HUGE;
		ssize_t got = t->page && t->blank_left >= len
				      ? target_read(t->target, at, t->page, len)
				      : 0;
		t->blank_left -= got > 0 ? len : 0;
		for (uint64_t off = 0; off < len && !rc; off += page) {
			int blank = (uint64_t)(got > 0 ? got : 0) >= off + page &&
				    is_blank(t->page + off, page);
			rc = add_run(t, at + off, at + off + page,
				     kinds | (blank ? PAGE_IS_BLANK : 0));
		}
		at += len;
	}
	return rc;
}

struct sharing {
	struct taking *t;
	/* of the run that is being cut */
	uint64_t start, end;
	uint32_t kinds;
	int rc;
};

static int take_shared(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct sharing *sh = ctx;
	uint32_t is = sh->kinds | (kinds & PAGE_SHARED ? PAGE_IS_SHARED : 0);
	if (start > sh->start) /* gone since */
		sh->rc = add_run(sh->t, sh->start, start < sh->end ? start : sh->end, sh->kinds);
	if (!sh->rc && end > sh->start && start < sh->end)
		sh->rc = add_run(sh->t, start > sh->start ? start : sh->start,
				 end < sh->end ? end : sh->end, is);
	sh->start = end;
	return sh->rc;
}

/* The runs of one mapping, from *@next of the scan on. */
static int add_runs(struct taking *t, struct pages *pages, const struct region *r, size_t *next)
{
	int shared = region_shared_bytes(r) && r->anonymous_bytes;
	while (*next < t->scan_count && t->scan[*next].end <= r->start)
		++*next;
	for (size_t i = *next; i < t->scan_count && t->scan[i].start < r->end; i++) {
		uint64_t start = t->scan[i].start > r->start ? t->scan[i].start : r->start;
		uint64_t end = t->scan[i].end < r->end ? t->scan[i].end : r->end;
		uint32_t kinds = t->scan[i].kinds;
		int rc;
		if (shared && kinds & PAGE_IS_PRESENT && !(kinds & PAGE_IS_FILE)) {
			struct sharing sh = { t, start, end, kinds, 0 };
			rc = pages_each(pages, start, end, PAGE_PRESENT | PAGE_SHARED, take_shared,
					&sh, NULL);
			if (!rc && sh.start < end)
				rc = add_run(t, sh.start, end, kinds);
		} else if (kinds & PAGE_IS_HUGE && kinds & PAGE_IS_PRESENT && r->anon_huge_bytes) {
			rc = add_huge(t, start, end, kinds);
		} else {
			rc = add_run(t, start, end, kinds);
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static const struct {
	uint8_t class, exact;
} sheet_of[REGION_CLASS_COUNT] = {
	[REGION_ALLOCATOR] = { SHEET_FREE_PAGES, 0 },
	[REGION_RUNTIME] = { SHEET_RUNTIME, 0 },
	[REGION_NAMED] = { SHEET_NAMED, 1 },
	[REGION_STACK] = { SHEET_STACKS, 1 },
	[REGION_STACK_CACHE] = { SHEET_STACKS, 1 },
	[REGION_ANONYMOUS] = { SHEET_UNEXPLAINED, 0 },
	[REGION_JIT] = { SHEET_RUNTIME, 0 },
	[REGION_PROGRAM_TEXT] = { SHEET_DATA, 1 },
	[REGION_PROGRAM_RODATA] = { SHEET_DATA, 1 },
	[REGION_PROGRAM_DATA] = { SHEET_DATA, 1 },
	[REGION_PROGRAM_BSS] = { SHEET_DATA, 1 },
	[REGION_LIBRARY_TEXT] = { SHEET_DATA, 1 },
	[REGION_LIBRARY_RODATA] = { SHEET_DATA, 1 },
	[REGION_LIBRARY_DATA] = { SHEET_DATA, 1 },
	[REGION_LIBRARY_BSS] = { SHEET_DATA, 1 },
	[REGION_MAPPED_FILE] = { SHEET_FILES, 1 },
	[REGION_MEMFD] = { SHEET_SHARED, 1 },
	[REGION_SYSV_SHM] = { SHEET_SHARED, 1 },
	[REGION_POSIX_SHM] = { SHEET_SHARED, 1 },
	[REGION_SHARED_ANONYMOUS] = { SHEET_SHARED, 1 },
	[REGION_HUGETLB] = { SHEET_SHARED, 1 },
	[REGION_DEVICE] = { SHEET_KERNEL, 1 },
	[REGION_KERNEL_BUFFER] = { SHEET_KERNEL, 1 },
	[REGION_KERNEL_HELPER] = { SHEET_KERNEL, 1 },
	[REGION_INSTRUMENTATION] = { SHEET_KERNEL, 1 },
	[REGION_BYTELEDGER] = { SHEET_BYTELEDGER, 1 },
	[REGION_RESERVED] = { SHEET_UNEXPLAINED, 0 },
};

static int is_walked(const struct taking *t, const struct region *r)
{
	size_t low = 0, high = t->units.count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (t->units.units[mid].start + t->units.units[mid].bytes <= r->start)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->units.count && t->units.units[low].start < r->end;
}

static int is_ours(const struct region *r)
{
	const char *base = strrchr(r->name, '/');
	return base && strncmp(base, "/libbyteledger", 14) == 0;
}

static uint64_t most(uint64_t bytes, uint64_t limit)
{
	return bytes < limit ? bytes : limit;
}

/*
 * The kernel tells mappings a page of text at a time: one that grew or moved between two pages is
 * told twice, in part. What was told stands; of the second one the rest. 0: there is none.
 */
static int cut_region(struct region *r, uint64_t last)
{
	if (r->start < last) {
		uint64_t bytes = r->end > last ? r->end - last : 0;
		r->offset += last - r->start;
		r->start = last;
		r->rss_bytes = most(r->rss_bytes, bytes);
		r->pss_bytes = most(r->pss_bytes, bytes);
		r->anonymous_bytes = most(r->anonymous_bytes, r->rss_bytes);
		r->anon_huge_bytes = most(r->anon_huge_bytes, r->rss_bytes);
		r->lazy_free_bytes = most(r->lazy_free_bytes, r->rss_bytes);
		r->shared_clean_bytes = most(r->shared_clean_bytes, r->rss_bytes);
		r->shared_dirty_bytes = most(r->shared_dirty_bytes, r->rss_bytes);
		r->private_clean_bytes = most(r->private_clean_bytes, r->rss_bytes);
		r->private_dirty_bytes = most(r->private_dirty_bytes, r->rss_bytes);
		r->swap_bytes = most(r->swap_bytes, bytes);
	}
	return r->end > r->start;
}

static int overlaps(const struct breakdown *b)
{
	for (size_t i = 1; i < b->region_count; i++)
		if (b->regions[i].start < b->regions[i - 1].end)
			return 1;
	return 0;
}

/* What is in no RSS, but there because of it; @t->b tells what is mapped. */
static void take_beside(struct taking *t)
{
	struct beside *beside = calloc(1, sizeof(*beside));
	struct snapshot *s = t->s;
	s->held_bytes = s->cgroup_cache_bytes = s->cgroup_socket_bytes = UINT64_MAX;
	if (!beside)
		return;
	beside_read(t->target, t->b, 0, beside);
	s->held_bytes = beside->held_known ? beside->held_bytes : UINT64_MAX;
	if (beside->cgroup.version) {
		s->cgroup_cache_bytes = beside->cgroup.file_bytes;
		s->cgroup_socket_bytes = beside->cgroup.socket_bytes;
		s->limit_bytes =
			beside->cgroup.limit_bytes == UINT64_MAX ? 0 : beside->cgroup.limit_bytes;
	}
	beside_free(beside);
}

static int has_only_go(const struct breakdown *b)
{
	int go = 0;
	for (size_t i = 0; i < b->allocator_count; i++) {
		if (strncmp(b->allocators[i].allocator, "Go ", 3) != 0)
			return 0;
		go = 1;
	}
	return go;
}

static void take_region(struct taking *t, const struct region *r)
{
	struct snapshot_region *to = &t->s->regions[t->s->region_count++];
	*to = (struct snapshot_region){
		.start = r->start,
		.end = r->end,
		.rss_bytes = r->rss_bytes,
		.private_bytes = region_private_bytes(r),
		.shared_bytes = region_shared_bytes(r),
		.anonymous_bytes =
			r->anonymous_bytes < r->rss_bytes ? r->anonymous_bytes : r->rss_bytes,
		.swap_bytes = r->swap_bytes,
		.huge_bytes = r->anon_huge_bytes,
		.lazy_free_bytes = r->lazy_free_bytes,
		.class = sheet_of[r->class].class,
		.exact = sheet_of[r->class].exact,
		.label = snapshot_text(t->s, r->label),
	};
	if (is_ours(r))
		to->class = SHEET_BYTELEDGER;
	/* there is nobody else who would map it: tables, caches and stacks of the runtime's */
	if (to->class == SHEET_UNEXPLAINED && t->only_go) {
		to->class = SHEET_RUNTIME;
		to->label = snapshot_text(t->s, "Go runtime");
	}
	if (r->class == REGION_ALLOCATOR) {
		to->flags |= SNAPSHOT_ALLOCATOR;
		if (is_walked(t, r))
			to->class = SHEET_METADATA;
	}
	/*
	 * shared memory and files have no blocks; neither has what cannot be written, unless it is
	 * anonymous
	 */
	if (!(r->perms & REGION_SHARED) && r->rss_bytes + r->swap_bytes &&
	    to->class != SHEET_KERNEL &&
	    (!r->inode || (r->perms & REGION_WRITE && to->class == SHEET_DATA)) &&
	    r->start < USER_END)
		to->flags |= SNAPSHOT_PAGED;
	t->s->rss_bytes += r->rss_bytes;
	t->s->pss_bytes += r->pss_bytes;
	t->s->swap_bytes += r->swap_bytes;
	t->s->hugetlb_bytes += region_hugetlb_bytes(r);
}

static int by_start(const void *a, const void *b)
{
	const struct snapshot_range *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * What the library mapped in the target: it says so itself, in the memory that it shares with its
 * recorder.
 */
static void take_own(struct taking *t)
{
	struct wire_heap_header header;
	struct snapshot *s = t->s;
	for (size_t i = 0; i < t->b->region_count; i++) {
		const struct region *r = &t->b->regions[i];
		if (strncmp(r->name, "/memfd:byteledger", 17) != 0 || r->offset ||
		    r->end - r->start < sizeof(header) ||
		    target_read(t->target, r->start, &header, sizeof(header)) != sizeof(header) ||
		    header.magic != WIRE_HEAP_MAGIC)
			continue;
		size_t max = ARRAY_LEN(header.own_ranges);
		s->own = calloc(max, sizeof(*s->own));
		for (size_t k = 0; k < max && s->own; k++) {
			uint64_t lo = header.own_ranges[k][0], hi = header.own_ranges[k][1];
			if (lo < hi && hi < USER_END)
				s->own[s->own_count++] = (struct snapshot_range){ lo, hi };
		}
		if (s->own_count)
			qsort(s->own, s->own_count, sizeof(*s->own), by_start);
		size_t kept = 0;
		for (size_t k = 0; k < s->own_count; k++)
			if (!kept || s->own[k].start >= s->own[kept - 1].end)
				s->own[kept++] = s->own[k];
		s->own_count = kept;
		return;
	}
}

static int by_stack(const void *a, const void *b)
{
	const struct snapshot_stack *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static int take_stacks(struct taking *t)
{
	struct snapshot *s = t->s;
	s->stacks = calloc(t->b->thread_count + 1, sizeof(*s->stacks));
	if (!s->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < t->b->thread_count; i++) {
		const struct thread_stack *th = &t->b->threads[i];
		if (th->stack_start < th->stack_end)
			s->stacks[s->stack_count++] =
				(struct snapshot_stack){ th->stack_start, th->stack_end,
							 (uint32_t)th->tid };
	}
	if (s->stack_count)
		qsort(s->stacks, s->stack_count, sizeof(*s->stacks), by_stack);
	size_t kept = 0;
	for (size_t i = 0; i < s->stack_count; i++)
		if (!kept || s->stacks[i].start >= s->stacks[kept - 1].end)
			s->stacks[kept++] = s->stacks[i];
	s->stack_count = kept;
	return 0;
}

/* ---- allocators ------------------------------------------------------------------------------ */

_Static_assert(UNIT_CHUNKS == (int)SNAPSHOT_CHUNKS && UNIT_STACKS == (int)SNAPSHOT_STACKS,
	       "one numbering");
_Static_assert(PIECE_FREE == (int)SNAPSHOT_PIECE_FREE && PIECE_TABLES == (int)SNAPSHOT_PIECE_TABLES,
	       "one numbering");
_Static_assert(sizeof(struct piece) == sizeof(struct snapshot_piece), "one layout");

static int take_units(struct taking *t)
{
	struct snapshot *s = t->s;
	struct units *u = &t->units;
	s->units = calloc(u->count + 1, sizeof(*s->units));
	s->allocators = calloc(t->b->allocator_count + 1, sizeof(*s->allocators));
	s->sizes = calloc(UNITS_CLASSES, sizeof(*s->sizes));
	if (!s->units || !s->allocators || !s->sizes)
		return -ENOMEM;
	for (size_t i = 0; i < u->count; i++) {
		const struct unit *from = &u->units[i];
		s->units[s->unit_count++] = (struct snapshot_unit){
			.start = from->start,
			.bytes = from->bytes,
			.slot = from->slot,
			.head = from->head,
			.used = from->used,
			.cached = from->cached,
			.arena = from->arena,
			.kind = from->kind,
			.flags = from->flags,
			.allocator = from->allocator,
		};
	}
	/* the same layout: there may be millions */
	s->pieces = (struct snapshot_piece *)(void *)u->pieces;
	s->piece_count = u->piece_count;
	u->pieces = NULL;
	u->piece_count = 0;
	for (size_t i = 0; i < t->b->allocator_count; i++) {
		const struct allocator_reading *a = &t->b->allocators[i];
		s->allocators[s->allocator_count++] = (struct snapshot_allocator){
			.name = snapshot_text(s, a->allocator),
			.how = snapshot_text(s, a->how),
			.live_bytes = a->live_bytes,
			.free_page_bytes = a->free_page_bytes,
			.hole_bytes = a->hole_bytes,
			.cache_bytes = a->cache_bytes,
			.metadata_bytes = a->metadata_bytes,
			.live_count = a->live_count,
			.consistency =
				a->live_bytes == UINT64_MAX ? 0 : (uint32_t)(a->consistency * 100),
		};
	}
	for (unsigned i = 0; i < UNITS_CLASSES; i++)
		if (u->class_count[i])
			s->sizes[s->size_count++] =
				(struct snapshot_size){ units_class_bytes(i), u->class_count[i],
							u->class_bytes[i] };
	s->has_settings = u->has_settings;
	s->thresholds_set = u->thresholds_set;
	s->trim_threshold = u->trim_threshold;
	s->mmap_threshold = u->mmap_threshold;
	s->arena_max = u->arena_max;
	s->arenas = u->arenas;
	return 0;
}

/*
 * -------------------------------------------------------------------------------------------------
 */

/* How long the process has been running. */
static uint64_t age_of(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file)
		fclose(file);
	text[got] = '\0';
	const char *at = strrchr(text, ')');
	unsigned long long ticks;
	if (!at || sscanf(at,
			  ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			  "%*d %*d %llu",
			  &ticks) != 1)
		return 0;
	uint64_t start = ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)),
		 now = clock_ns(CLOCK_BOOTTIME);
	return now > start ? now - start : 0;
}

static int is_bare(const struct region *r)
{
	return !(r->perms & REGION_SHARED) && !r->inode && r->start < USER_END;
}

/* What of [@start, @end) is present; @run: a cursor that only rises. */
static uint64_t present_of(const struct taking *t, size_t *run, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;
	while (*run < t->scan_count && t->scan[*run].end <= start)
		++*run;
	for (size_t k = *run; k < t->scan_count && t->scan[k].start < end; k++) {
		uint64_t from = t->scan[k].start > start ? t->scan[k].start : start;
		uint64_t to = t->scan[k].end < end ? t->scan[k].end : end;
		bytes += t->scan[k].kinds & PAGE_IS_PRESENT ? to - from : 0;
	}
	return bytes;
}

/*
 * By how much the pages of memory without a file differ from what the mappings said: that moved in
 * between.
 */
static uint64_t moved_bytes(const struct taking *t)
{
	int64_t moved = 0;
	size_t run = 0;
	for (size_t i = 0; i < t->b->region_count; i++) {
		const struct region *r = &t->b->regions[i];
		if (is_bare(r))
			moved += (int64_t)r->rss_bytes -
				 (int64_t)present_of(t, &run, r->start, r->end);
	}
	return (uint64_t)(moved < 0 ? -moved : moved);
}

/* The kernel's figures, and right behind them the pages: that moment is the snapshot's. */
static int look_once(struct taking *t, struct pages *pages, const struct snapshot_opt *opt,
		     struct err *err)
{
	struct snapshot *s = t->s;
	const struct breakdown_opt look = { .facts = opt->quiet ? NULL : threadfacts_read,
					    .parts = opt->quiet,
					    .doubt_only = 1 };
	breakdown_free(t->b);
	t->b = breakdown_read(t->target, &look, err);
	if (!t->b)
		return err->code;
	/* right behind them */
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	s->time_ns = now - (now > opt->time_zero_ns ? opt->time_zero_ns : 0);
	s->realtime_ns = clock_ns(CLOCK_REALTIME);
	t->scan_count = 0;
	int rc = pages_each(pages, 0, USER_END,
			    PAGE_PRESENT | PAGE_SWAPPED | PAGE_FILE | PAGE_ZERO | PAGE_HUGE,
			    take_scan, t, &s->stall_ns);
	if (rc < 0)
		return rc == -ENOMEM ? err_set(err, rc, "cannot keep the pages of process %d",
					       (int)s->pid)
				     : target_fail(t->target, rc, "pages", err);
	s->scan_ns = clock_ns(CLOCK_MONOTONIC) - now;
	return 0;
}

static uint64_t rss_of(const struct breakdown *b)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < b->region_count; i++)
		bytes += b->regions[i].rss_bytes;
	return bytes;
}

/* All that needs the process: the shorter the better. */
static int read_all(struct taking *t, struct pages *pages, const struct snapshot_opt *opt,
		    struct err *err)
{
	struct snapshot *s = t->s;
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	int rc = look_once(t, pages, opt, err);
	/* what moved under the first look may stand still under the next */
	for (int round = 1; rc == 0 && round < ROUNDS_MAX &&
			    (overlaps(t->b) || moved_bytes(t) > rss_of(t->b) / MOVED_SHARE);
	     round++)
		rc = look_once(t, pages, opt, err);
	if (rc < 0)
		return rc;
	t->b->units = &t->units;
	t->b->files = &heapfiles;
	rc = heaps_read(t->b, t->target, err);
	if (rc < 0)
		return rc;
	if (t->b->reading.stall_ns > s->stall_ns)
		s->stall_ns = t->b->reading.stall_ns;
	s->page_table_bytes =
		t->b->totals.page_table_bytes == UINT64_MAX ? 0 : t->b->totals.page_table_bytes;
	s->status_rss_bytes = t->b->totals.rss_bytes;
	t->only_go = has_only_go(t->b);
	take_beside(t);
	take_own(t);
	s->regions = calloc(t->b->region_count + 1, sizeof(*s->regions));
	if (!s->regions)
		return err_set(err, -ENOMEM, "cannot keep the mappings of process %d", (int)s->pid);
	size_t next = 0, run = 0;
	uint64_t last = 0;
	int moved = moved_bytes(t) > rss_of(t->b) / MOVED_SHARE;
	for (size_t i = 0; i < t->b->region_count && !rc; i++) {
		struct region r = t->b->regions[i];
		if (!cut_region(&r, last))
			continue;
		last = r.end;
		s->smaps_rss_bytes += t->b->full ? r.rss_bytes : 0;
		if (moved && is_bare(&r))
			r.rss_bytes = r.anonymous_bytes = present_of(t, &run, r.start, r.end);
		take_region(t, &r);
		if (s->regions[s->region_count - 1].flags & SNAPSHOT_PAGED)
			rc = add_runs(t, pages, &r, &next);
	}
	if (!t->b->full && t->b->totals.hugetlb_bytes != UINT64_MAX)
		s->hugetlb_bytes = t->b->totals.hugetlb_bytes;
	s->window_ns = clock_ns(CLOCK_MONOTONIC) - began;
	return rc < 0 ? err_set(err, rc, "cannot keep the pages of process %d", (int)s->pid) : 0;
}

/* Some threads must not stand still until another one can be stopped, which may take a minute. */
static int stop(pid_t pid, struct freeze *freeze, struct err *err)
{
	if (freeze_await(pid) == 0)
		return freeze_begin(freeze, pid, err);
	err_set(err, -EBUSY,
		"cannot stop process %d: a thread of it waits for a device, a file system or the "
		"child of a vfork(); nothing was stopped",
		(int)pid);
	return err_hint(err, "once more, in a moment; without --freeze nothing is stopped");
}

static struct snapshot *take(pid_t pid, const struct snapshot_opt *opt, struct err *err)
{
	CLEANUP(target_close) struct target target = { 0 };
	CLEANUP(snapshot_freep) struct snapshot *s = calloc(1, sizeof(*s));
	struct taking t = { .s = s, .target = &target, .blank_left = opt->quiet ? 0 : BLANK_MAX };
	struct pages pages = { .fd = -1 };
	struct freeze freeze = { 0 };
	if (!s) {
		err_set(err, -ENOMEM, "cannot look at process %d", (int)pid);
		return NULL;
	}
	s->pid = (uint32_t)pid;
	s->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	s->mode = opt->freeze ? SNAPSHOT_FROZEN : SNAPSHOT_RUNNING;
	snapshot_text(s, "");
	int rc = target_open(&target, pid, err);
	if (rc == 0)
		rc = pages_open(&pages, &target, err);
	if (rc == 0 && opt->freeze)
		rc = stop(pid, &freeze, err);
	if (rc == 0) {
		memcpy(s->comm, target.comm, sizeof(s->comm));
		s->start_age_ns = age_of(pid);
		rc = read_all(&t, &pages, opt, err);
	}
	uint64_t stopped = freeze_end(&freeze);
	if (opt->freeze)
		s->stall_ns = stopped;
	if (rc == 0 && (take_stacks(&t) < 0 || take_units(&t) < 0))
		rc = err_set(err, -ENOMEM, "cannot keep the heap of process %d", (int)pid);
	pages_close(&pages);
	breakdown_free(t.b);
	units_fini(&t.units);
	free(t.scan);
	free(t.page);
	return rc < 0 ? NULL : STEAL(s);
}

struct snapshot *snapshot_take(pid_t pid, const struct snapshot_opt *opt, struct err *err)
{
	struct snapshot *s = take(pid, opt, err);
	/* one that took another program's place meanwhile has other memory, but is there */
	for (int round = 1; !s && err->code == -ESRCH && kill(pid, 0) == 0 && round < ROUNDS_MAX;
	     round++) {
		err_init(err);
		s = take(pid, opt, err);
	}
	return s;
}

/*
 * What wakes up shall wait for no reader: one of this kind takes its turn, and takes it from nobody
 * who has just become ready.
 */
void snapshot_step_back(void)
{
	const struct sched_param none = { 0 };
	sched_setscheduler(0, SCHED_BATCH, &none);
}

pid_t snapshot_recorder(pid_t pid)
{
	CLEANUP(target_close) struct target target = { 0 };
	struct err err = { 0 };
	char path[64], *line = NULL;
	size_t room = 0;
	pid_t found = 0;
	if (target_open(&target, pid, &err) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	while (maps && !found && getline(&line, &room, maps) > 0) {
		struct wire_heap_header header;
		unsigned long long start, offset;
		if (!strstr(line, "/memfd:"
				  "byteledger") ||
		    sscanf(line, "%llx-%*x %*s %llx", &start, &offset) != 2 || offset ||
		    target_read(&target, start, &header, sizeof(header)) != sizeof(header) ||
		    header.magic != WIRE_HEAP_MAGIC || header.detach)
			continue;
		found = (pid_t)header.recorder_pid;
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}
