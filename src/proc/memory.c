/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/search.h"

#define PIECE_COST 128u
#define PAGE_COST 32u
#define MEMORY_RECENT_NS 20000000u

/* ---- a process ------------------------------------------------------------------------------- */

static ssize_t process_read(void *ctx, const struct target_piece *pieces, unsigned count)
{
	struct memory_process *process = ctx;
	uint64_t before = turns_begin(&process->pages->turns);
	ssize_t got = target_read_pieces(process->target, pieces, count);
	turns_end(&process->pages->turns, before, &process->stall_ns);
	return got;
}

struct runs {
	struct memory_run *runs;
	size_t count, max;
};

static int add_run(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct runs *r = ctx;
	(void)kinds;
	if (r->count && r->runs[r->count - 1].end == start) {
		r->runs[r->count - 1].end = end;
		return 0;
	}
	if (r->count == r->max)
		return 1;
	r->runs[r->count++] = (struct memory_run){ start, end };
	return 0;
}

static ssize_t process_resident(void *ctx, uint64_t start, uint64_t end, struct memory_run *runs,
				size_t max)
{
	struct memory_process *process = ctx;
	struct runs r = { .runs = runs, .max = max };
	int rc = pages_each(process->pages, start, end, PAGE_PRESENT, add_run, &r,
			    &process->stall_ns);
	return rc < 0 ? rc : (ssize_t)r.count;
}

static void process_think(void *ctx)
{
	struct memory_process *process = ctx;
	turns_over(&process->pages->turns);
}

void memory_of_process(struct memory *memory, struct memory_process *process)
{
	*memory = (struct memory){ .ctx = process,
				   .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
				   .read = process_read,
				   .resident = process_resident,
				   .think = process_think,
				   .there = &process->there };
}

/* What is known to be resident. */
static ssize_t read_pieces(const struct memory *memory, const struct target_piece *pieces,
			   unsigned count)
{
	uint64_t cost = MEMORY_CALL;
	for (unsigned i = 0; i < count; i++)
		cost += PIECE_COST + pieces[i].len;
	int rc = memory_spend(memory, cost);
	return rc < 0 ? rc : memory->read(memory->ctx, pieces, count);
}

/* The kernel looks at every page that is there. */
static ssize_t resident_runs(const struct memory *memory, uint64_t start, uint64_t end,
			     struct memory_run *runs, size_t max)
{
	int rc = memory_spend(memory, MEMORY_CALL);
	if (rc < 0)
		return rc;
	ssize_t count = memory->resident(memory->ctx, start, end, runs, max);
	uint64_t bytes = 0;
	for (ssize_t i = 0; i < count; i++)
		bytes += runs[i].end - runs[i].start;
	rc = memory_spend(memory, bytes / memory->page_bytes * PAGE_COST);
	return rc < 0 ? rc : count;
}

static void enter(uint64_t *pages, const struct memory_run *run, uint64_t page)
{
	for (uint64_t at = run->start / page; at < run->end / page; at++)
		pages[at % MEMORY_STRETCH_PAGES / 64] |= 1ull << (at % 64);
}

/* Pages of one stretch, [@first, @end): entered as they are now. */
static void look(const struct memory *memory, uint64_t *pages, uint64_t first, uint64_t end)
{
	struct memory_run runs[MEMORY_STRETCH_PAGES / 2];
	uint64_t page = memory->page_bytes;
	ssize_t count = resident_runs(memory, first * page, end * page, runs, ARRAY_LEN(runs));
	for (ssize_t i = 0; i < count; i++)
		enter(pages, &runs[i], page);
}

static int has_pages(const uint64_t *pages, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		if (!(pages[first % MEMORY_STRETCH_PAGES / 64] >> (first % 64) & 1))
			return 0;
	return 1;
}

/* Whether all of [@addr, @addr + @len) is resident. */
static int is_there(const struct memory *memory, uint64_t addr, size_t len)
{
	uint64_t last, now[MEMORY_STRETCH_PAGES / 64], first = addr / memory->page_bytes;
	if (!len || __builtin_add_overflow(addr, len - 1, &last))
		return !len;
	last /= memory->page_bytes;
	while (first <= last) {
		uint64_t stretch = first / MEMORY_STRETCH_PAGES, *pages = now;
		uint64_t from = stretch * MEMORY_STRETCH_PAGES, to = from + MEMORY_STRETCH_PAGES;
		uint64_t end = last < to ? last + 1 : to;
		memset(now, 0, sizeof(now));
		if (memory->there) {
			pages = memory->there->pages[stretch % MEMORY_STRETCHES];
			uint64_t *held = &memory->there->stretch[stretch % MEMORY_STRETCHES];
			if (*held != stretch + 1) {
				*held = stretch + 1;
				memory->there->looked_ns[stretch % MEMORY_STRETCHES] =
					clock_ns(CLOCK_MONOTONIC);
				memset(pages, 0, sizeof(now));
				look(memory, pages, from, to);
			}
		}
		if (!has_pages(pages, first, end)) {
			/* it may have come since */
			look(memory, pages, first, end);
			if (!has_pages(pages, first, end))
				return 0;
		}
		first = end;
	}
	return 1;
}

ssize_t memory_read_pieces(const struct memory *memory, const struct target_piece *pieces,
			   unsigned count)
{
	unsigned there = 0;
	while (there < count && is_there(memory, pieces[there].addr, pieces[there].len))
		there++;
	if (memory_is_spent(memory))
		return -E2BIG;
	return there || !count ? read_pieces(memory, pieces, there) : -EFAULT;
}

static int whole(ssize_t got, size_t len)
{
	return got < 0 ? (int)got : (size_t)got == len ? 0 : -EFAULT;
}

int memory_read(const struct memory *memory, uint64_t addr, void *to, size_t len)
{
	struct target_piece piece = { .addr = addr, .to = to, .len = len };
	return whole(memory_read_pieces(memory, &piece, 1), len);
}

int memory_read_resident(const struct memory *memory, uint64_t addr, void *to, size_t len)
{
	struct memory_run runs[64];
	uint64_t end, at = addr;
	if (__builtin_add_overflow(addr, len, &end))
		return -EFAULT;
	uint64_t page = memory->page_bytes, limit = (end + page - 1) & ~(page - 1);
	for (ssize_t count = ARRAY_LEN(runs); at < end && count == ARRAY_LEN(runs);) {
		/* residency is asked for in whole pages */
		count = resident_runs(memory, at & ~(page - 1), limit, runs, ARRAY_LEN(runs));
		if (count < 0)
			return (int)count;
		for (ssize_t i = 0; i < count; i++) {
			uint64_t from = runs[i].start > at ? runs[i].start : at;
			uint64_t stop = runs[i].end < end ? runs[i].end : end;
			if (stop <= from)
				continue;
			memset((char *)to + (at - addr), 0, from - at);
			struct target_piece piece = { from, (char *)to + (from - addr),
						      stop - from };
			int rc = whole(read_pieces(memory, &piece, 1), stop - from);
			if (rc < 0)
				return rc;
			at = stop;
		}
	}
	memset((char *)to + (at - addr), 0, end - at);
	return 0;
}

/* ---- residency ------------------------------------------------------------------------------- */

/*
 * One reader after the other goes through the same pages: what the one before was told a moment ago
 * is true for the next.
 */
static ssize_t recall_slice(struct memory_pages *pages)
{
	const struct memory_there *there = pages->memory->there;
	uint64_t page = pages->memory->page_bytes, now = clock_ns(CLOCK_MONOTONIC);
	uint64_t stretch_bytes = MEMORY_STRETCH_PAGES * page;
	size_t count = 0;
	if (MEMORY_SLICE % stretch_bytes)
		return -ENOENT;
	for (uint64_t at = pages->start; at < pages->end; at += stretch_bytes) {
		uint64_t stretch = at / stretch_bytes, slot = stretch % MEMORY_STRETCHES;
		if (there->stretch[slot] != stretch + 1 ||
		    now - there->looked_ns[slot] > MEMORY_RECENT_NS)
			return -ENOENT;
	}
	for (uint64_t at = pages->start / page; at < pages->end / page; at++) {
		uint64_t slot = at / MEMORY_STRETCH_PAGES % MEMORY_STRETCHES;
		if (!has_pages(there->pages[slot], at, at + 1))
			continue;
		if (count && pages->runs[count - 1].end == at * page)
			pages->runs[count - 1].end += page;
		else
			pages->runs[count++] = (struct memory_run){ at * page, (at + 1) * page };
	}
	return (ssize_t)count;
}

static void remember_slice(const struct memory_pages *pages)
{
	struct memory_there *there = pages->memory->there;
	uint64_t page = pages->memory->page_bytes, now = clock_ns(CLOCK_MONOTONIC);
	uint64_t stretch_bytes = MEMORY_STRETCH_PAGES * page;
	if (MEMORY_SLICE % stretch_bytes)
		return;
	for (uint64_t at = pages->start; at < pages->end; at += stretch_bytes) {
		uint64_t stretch = at / stretch_bytes, slot = stretch % MEMORY_STRETCHES;
		there->stretch[slot] = stretch + 1;
		there->looked_ns[slot] = now;
		memset(there->pages[slot], 0, sizeof(there->pages[slot]));
		for (size_t i = 0; i < pages->count; i++) {
			struct memory_run run = pages->runs[i];
			run.start = run.start > at ? run.start : at;
			run.end = run.end < at + stretch_bytes ? run.end : at + stretch_bytes;
			if (run.start < run.end)
				enter(there->pages[slot], &run, page);
		}
	}
}

/*
 * What is known is one slice; or, of a longer stretch that is asked for at once, as much as the
 * runs have room for: one of terabytes is nearly empty, and asking slice by slice would take
 * minutes.
 */
static void load_slice(struct memory_pages *pages, uint64_t addr, uint64_t end)
{
	pages->start = addr & ~(MEMORY_SLICE - 1);
	pages->end = pages->start + MEMORY_SLICE;
	if (end > pages->end && end <= UINT64_MAX - MEMORY_SLICE)
		pages->end = (end + MEMORY_SLICE - 1) & ~(MEMORY_SLICE - 1);
	pages->at = 0;
	int one = pages->memory->there && pages->end - pages->start == MEMORY_SLICE;
	ssize_t known = one ? recall_slice(pages) : -ENOENT, count = known;
	if (known < 0)
		count = resident_runs(pages->memory, pages->start, pages->end, pages->runs,
				      MEMORY_SLICE_RUNS);
	pages->count = count > 0 ? (size_t)count : 0;
	if (one && known < 0 && count >= 0)
		remember_slice(pages);
	/*
	 * a slice has no more runs than there is room for; of a longer stretch the rest is not
	 * known yet
	 */
	if (count == MEMORY_SLICE_RUNS && pages->runs[count - 1].end > addr)
		pages->end = pages->runs[count - 1].end;
}

/* Runs of [@start, @end); calls @fn for each. */
static void each_run(struct memory_pages *pages, uint64_t start, uint64_t end,
		     void (*fn)(void *ctx, uint64_t start, uint64_t end), void *ctx)
{
	while (start < end) {
		if (start < pages->start || start >= pages->end)
			load_slice(pages, start, end);
		uint64_t stop = pages->end > start && pages->end < end ? pages->end : end;
		if (pages->at >= pages->count || pages->runs[pages->at].start > start)
			pages->at = 0;
		while (pages->at < pages->count && pages->runs[pages->at].end <= start)
			pages->at++;
		for (size_t i = pages->at; i < pages->count && pages->runs[i].start < stop; i++) {
			const struct memory_run *run = &pages->runs[i];
			fn(ctx, run->start > start ? run->start : start,
			   run->end < stop ? run->end : stop);
		}
		start = stop;
	}
}

static void add_bytes(void *ctx, uint64_t start, uint64_t end)
{
	*(uint64_t *)ctx += end - start;
}

uint64_t memory_resident(struct memory_pages *pages, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;
	each_run(pages, start, end, add_bytes, &bytes);
	return bytes;
}

uint64_t memory_resident_from(struct memory_pages *pages, uint64_t start, uint64_t end)
{
	while (start < end) {
		if (start < pages->start || start >= pages->end)
			load_slice(pages, start, end);
		size_t at = search_beyond(pages->runs, pages->count, sizeof(*pages->runs),
					  offsetof(struct memory_run, end), start);
		if (at < pages->count) {
			uint64_t first = pages->runs[at].start;
			first = first > start ? first : start;
			return first < end ? first : end;
		}
		start = pages->end > start ? pages->end : end;
	}
	return end;
}

/* ---- the sliding copy ------------------------------------------------------------------------ */

int memory_window_init(struct memory_window *window, const struct memory *memory)
{
	memset(window, 0, sizeof(*window));
	window->memory = window->pages.memory = memory;
	window->page_shift = (unsigned)__builtin_ctzll(memory->page_bytes);
	window->bytes = malloc(MEMORY_WINDOW_PAGES * memory->page_bytes);
	return window->bytes ? 0 : -ENOMEM;
}

void memory_window_fini(struct memory_window *window)
{
	free(window->bytes);
	window->bytes = NULL;
	window->len = 0;
}

void memory_window_begin(struct memory_window *window, uint64_t limit)
{
	window->len = 0;
	window->valid = 0;
	window->limit = limit;
}

struct pieces {
	struct memory_window *window;
	unsigned count;
	struct target_piece pieces[MEMORY_WINDOW_PAGES];
};

static void add_piece(void *ctx, uint64_t start, uint64_t end)
{
	struct pieces *p = ctx;
	if (p->count < MEMORY_WINDOW_PAGES)
		p->pieces[p->count++] =
			(struct target_piece){ .addr = start,
					       .to = p->window->bytes + (start - p->window->start),
					       .len = end - start };
}

static void mark(struct memory_window *window, uint64_t start, uint64_t end)
{
	uint64_t page = window->memory->page_bytes;
	for (uint64_t at = start; at + page <= end; at += page)
		window->valid |= 1u << ((at - window->start) >> window->page_shift);
}

/* Copy what is resident from @base on: one call as long as everything can be read. */
static void fill(struct memory_window *window, uint64_t base)
{
	uint64_t page = window->memory->page_bytes, end;
	if (__builtin_add_overflow(base, MEMORY_WINDOW_PAGES * page, &end) || end > window->limit)
		end = window->limit > base ? (window->limit + page - 1) & ~(page - 1) : base + page;
	if (end > base + MEMORY_WINDOW_PAGES * page)
		end = base + MEMORY_WINDOW_PAGES * page;
	window->start = base;
	window->len = end - base;
	window->valid = 0;
	struct pieces p = { .window = window };
	each_run(&window->pages, base, end, add_piece, &p);
	if (!p.count)
		return;
	ssize_t got = read_pieces(window->memory, p.pieces, p.count);
	for (unsigned i = 0; i < p.count && got > 0; i++) {
		uint64_t len = (uint64_t)got < p.pieces[i].len ? (uint64_t)got : p.pieces[i].len;
		mark(window, p.pieces[i].addr, p.pieces[i].addr + len);
		window->copied_bytes += len;
		got -= (ssize_t)len;
	}
}

/* A page that was not copied: it may have come, or come back, since the slice was looked at. */
static int fetch_page(struct memory_window *window, uint64_t at)
{
	uint64_t page = window->memory->page_bytes;
	unsigned bit = (unsigned)((at - window->start) >> window->page_shift);
	if (window->valid >> bit & 1)
		return 0;
	if (memory_read(window->memory, at, window->bytes + (at - window->start), page) < 0)
		return -EFAULT;
	window->valid |= 1u << bit;
	return 0;
}

const void *memory_window_fetch(struct memory_window *window, uint64_t addr, size_t len)
{
	uint64_t page = window->memory->page_bytes, end;
	if (!len || len > MEMORY_WINDOW_ASK_MAX || __builtin_add_overflow(addr, len, &end) ||
	    end > UINT64_MAX - MEMORY_WINDOW_PAGES * page)
		return NULL;
	uint64_t base = addr & ~(page - 1);
	if (addr < window->start || addr - window->start >= window->len ||
	    window->len - (addr - window->start) < len)
		fill(window, base);
	if (addr - window->start >= window->len || window->len - (addr - window->start) < len) {
		/* beyond the limit that the walk gave: only what was asked for */
		window->len = ((end + page - 1) & ~(page - 1)) - window->start;
		if (window->len > MEMORY_WINDOW_PAGES * page)
			return NULL;
	}
	for (uint64_t at = base; at < end; at += page) {
		if (fetch_page(window, at) < 0)
			return NULL;
	}
	return window->bytes + (addr - window->start);
}
