/* SPDX-License-Identifier: Apache-2.0 */
/* glibc_walk.c - from chunk to chunk: a size leads to the next, whose lowest bit says whether this one is in use. */
#include "heaps/glibc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN 32u
#define CHUNK_FREE_HEAD 48u /* what malloc_trim() leaves of a free chunk: links of both lists */
#define BEFORE_BINS 112u
#define AFTER_BINS \
	2088u /* bins, binmap, next, next_free, attached_threads, system_mem, max_system_mem */
#define RESYNC_MAX (64u << 20) /* looked through for the next chain of chunks behind damage */
#define RESYNC_CHAIN 12
#define FENCE_MAX 64u
#define LOOK_COST 8u /* of memory_spend(): a place where a chain might begin */

struct chunk {
	uint64_t prev_size, word;
};

struct walk {
	const struct memory *memory;
	struct glibc_reading *reading;
	struct memory_window window;
	struct memory_pages pages; /* for free chunks: behind the window */
	glibc_chunk_fn fn;
	void *ctx;
	uint64_t *tables; /* addresses of what looks like a thread cache */
	size_t table_count;
};

static uint64_t size_of(uint64_t word)
{
	return word & ~7ull;
}

static void add_free(struct walk *w, struct glibc_totals *t, uint64_t at, uint64_t size)
{
	uint64_t page = w->memory->page_bytes;
	uint64_t first = (at + CHUNK_FREE_HEAD + page - 1) & ~(page - 1),
		 last = (at + size) & ~(page - 1);
	t->free_bytes += size;
	t->free_count++;
	if (first >= last) {
		t->hole_bytes +=
			size; /* lies on one or two pages with live neighbours or its own header */
		return;
	}
	t->free_page_bytes += memory_resident(&w->pages, first, last);
	/* the page that holds the header was written; the one behind belongs to the next chunk's header too */
	t->hole_bytes += size - (last - first);
}

/* A free chunk's size is repeated behind it; where both disagree one of them was read while it changed. */
static void add_chunk(struct walk *w, struct glibc_totals *t, uint64_t at, uint64_t size,
		      const struct chunk *next)
{
	if (next->word & 1) {
		t->live_bytes += size;
		t->live_count++;
	} else {
		add_free(w, t, at, size);
		if (next->prev_size != size)
			t->unclear_bytes += size;
	}
}

static void note_table(struct walk *w, uint64_t body)
{
	const void *bytes = memory_window_at(&w->window, body, 640);
	if (bytes && w->table_count < GLIBC_TCACHES_MAX && glibc_tcache_looks(w->reading, bytes))
		w->tables[w->table_count++] = body;
}

static int read_chunk(struct walk *w, uint64_t at, struct chunk *chunk)
{
	const void *bytes = memory_window_at(&w->window, at, sizeof(*chunk));
	if (!bytes)
		return -EFAULT;
	memcpy(chunk, bytes, sizeof(*chunk));
	return 0;
}

static int is_absent(struct walk *w, uint64_t at)
{
	uint64_t page = w->memory->page_bytes, base = at & ~(page - 1);
	return !memory_resident(&w->pages, base, base + page);
}

static int plausible(uint64_t size, uint64_t left)
{
	return size >= CHUNK_MIN && !(size & 8) && size <= left;
}

/* 1 if a chain of chunks begins at @at: a dozen plausible ones, or fewer that end exactly at the end or the top. */
static int chain_at(struct walk *w, uint64_t at, uint64_t end, uint64_t top)
{
	struct chunk chunk;
	for (unsigned i = 0; i < RESYNC_CHAIN; i++) {
		if (at == end || at == top)
			return i > 1 || at == top;
		if (end - at < CHUNK_MIN || read_chunk(w, at, &chunk) < 0 ||
		    !plausible(size_of(chunk.word), end - at))
			return 0;
		if (i && !(chunk.word & 1) && chunk.prev_size < CHUNK_MIN)
			return 0;
		at += size_of(chunk.word);
	}
	return 1;
}

/*
 * The next address from @at on where a chain begins; @end where there is none. What is not resident cannot be read, and is
 * passed over.
 */
static uint64_t resync(struct walk *w, uint64_t at, uint64_t end, uint64_t top)
{
	uint64_t page = w->memory->page_bytes;
	uint64_t p = memory_resident_from(&w->pages, at, end);
	uint64_t stop = end - p > RESYNC_MAX ? p + RESYNC_MAX : end;
	for (; p + CHUNK_MIN <= stop && !memory_spend(w->memory, LOOK_COST); p += 16) {
		if (!(p & (page - 1)))
			p = memory_resident_from(&w->pages, p, stop);
		if (p + CHUNK_MIN <= stop && chain_at(w, p, end, top))
			return p;
	}
	return end;
}

/* Where @span's chunks begin. */
static uint64_t first_chunk(struct walk *w, const struct glibc_span *span, uint64_t top)
{
	const struct glibc_arena *arena = &w->reading->arenas[span->arena];
	if (span->chunks)
		return span->chunks;
	if (span->kind == GLIBC_HEAP && arena->addr - span->start < 4096)
		return (arena->bins + AFTER_BINS + 15) & ~15ull;
	uint64_t at = span->start;
	if (span->kind == GLIBC_HEAP)
		at += 32; /* struct heap_info is 32 bytes, or 48 since 2.35 */
	return resync(w, at, span->end, top);
}

/*
 * One span, added to @t. The header that ends a chunk decides about the chunk before it, so one is always pending.
 * Return: 0, or what w->fn said.
 */
static int walk_span(struct walk *w, const struct glibc_span *span, struct glibc_totals *t)
{
	uint64_t top = w->reading->arenas[span->arena].top, end = span->end;
	int has_top = top >= span->start && top < end;
	memory_window_begin(&w->window, end);
	uint64_t at = first_chunk(w, span, has_top ? top : end), pending = 0;
	uint64_t gap = at - span->start;
	if (gap <= 8192 && span->kind != GLIBC_MAIN)
		t->metadata_bytes += gap;
	else if (span->kind == GLIBC_MAIN && gap < 4096)
		t->metadata_bytes += gap; /* alignment, what the C library took before malloc */
	else
		t->unclear_bytes += gap;
	uint64_t before = 0;
	while (at < end) {
		struct chunk chunk;
		if (end - at < sizeof(chunk) || read_chunk(w, at, &chunk) < 0) {
			/* swapped out, say: the next chain is looked for; or not mapped any more */
			uint64_t next =
				is_absent(w, at) ? resync(w, at, end, has_top ? top : end) : end;
			t->unclear_bytes += next - (pending ? pending : at);
			pending = before = 0;
			at = next;
			continue;
		}
		uint64_t size = size_of(chunk.word), left = end - at;
		int fence = size < CHUNK_MIN && !(size & 8);
		if (!fence && !plausible(size, left)) {
			/* read while it changed, or damaged: the chunk before it led here wrongly */
			uint64_t from = pending ? pending + 16 : at + 16;
			uint64_t next = resync(w, from, end, has_top ? top : end);
			t->unclear_bytes += next - (pending ? pending : at);
			pending = 0;
			at = next;
			continue;
		}
		if (pending) {
			add_chunk(w, t, pending, at - pending, &chunk);
			int rc = w->fn ? w->fn(w->ctx, pending, at - pending,
					       chunk.word & 1 ? GLIBC_LIVE : GLIBC_FREE)
				       : 0;
			if (rc)
				return rc;
			if (at - pending == GLIBC_TCACHE_CHUNK && chunk.word & 1)
				before = pending + 16;
		}
		if (fence) { /* the end of a heap that could not grow, or of brk before somebody else's sbrk() */
			if (end - at <= FENCE_MAX) {
				t->metadata_bytes += end - at;
				return 0;
			}
			uint64_t next = resync(w, at + 16, end, has_top ? top : end);
			if (next - at <= FENCE_MAX)
				t->metadata_bytes += next - at;
			else
				t->unclear_bytes += next - at;
			pending = 0;
			at = next;
			continue;
		}
		if (at == top || at + size == end) { /* the topmost chunk is free by definition */
			add_free(w, t, at, size);
			if (at + size < end)
				t->metadata_bytes +=
					end - at - size; /* brk is not used to its end */
			pending = 0;
			int rc = w->fn ? w->fn(w->ctx, at, size, GLIBC_FREE) : 0;
			if (before)
				note_table(w, before);
			return rc;
		}
		if (before) {
			/* looked at here, where the window still holds it, or nearly */
			note_table(w, before);
			before = 0;
		}
		pending = at;
		at += size;
	}
	return 0;
}

static void add_totals(struct glibc_totals *to, const struct glibc_totals *from)
{
	to->live_bytes += from->live_bytes;
	to->live_count += from->live_count;
	to->free_bytes += from->free_bytes;
	to->free_count += from->free_count;
	to->free_page_bytes += from->free_page_bytes;
	to->hole_bytes += from->hole_bytes;
	to->metadata_bytes += from->metadata_bytes;
	to->unclear_bytes += from->unclear_bytes;
}

/* How much of what malloc says it has was accounted for, in per cent; too much counts like too little. */
static double agreement(const struct glibc_reading *r)
{
	const struct glibc_totals *t = &r->totals;
	double clear = (double)t->live_bytes + (double)t->free_bytes + (double)t->metadata_bytes +
		       (double)t->tcache_bytes + (double)t->fastbin_bytes;
	double claimed = (double)r->claimed_bytes;
	if (claimed <= 0 || clear <= 0)
		return 0;
	double share = clear < claimed ? clear / claimed : claimed / clear;
	double unclear = (double)t->unclear_bytes / (clear + (double)t->unclear_bytes);
	double both = share < 1 - unclear ? share : 1 - unclear;
	return both * 100;
}

int glibc_walk(const struct memory *memory, struct glibc_reading *reading, glibc_chunk_fn fn,
	       void *ctx, struct err *err)
{
	struct walk *w = calloc(1, sizeof(*w));
	int rc = w ? memory_window_init(&w->window, memory) : -ENOMEM;
	if (!rc && !(w->tables = malloc(GLIBC_TCACHES_MAX * sizeof(*w->tables))))
		rc = -ENOMEM;
	if (rc < 0)
		goto out;
	w->memory = w->pages.memory = memory;
	w->reading = reading;
	w->fn = fn;
	w->ctx = ctx;
	for (size_t i = 0; i < reading->span_count && !rc; i++) {
		const struct glibc_span *span = &reading->spans[i];
		if (span->kind == GLIBC_MMAPPED)
			continue;
		struct glibc_totals t = { 0 };
		size_t tables = w->table_count;
		rc = walk_span(w, span, &t);
		if (!rc && t.unclear_bytes > (span->end - span->start) / 100) {
			/* a running program moved under the reader: once more */
			struct glibc_totals again = { 0 };
			struct glibc_arena *arena = &reading->arenas[span->arena];
			uint64_t top;
			if (memory_read(memory, arena->bins - 16, &top, 8) == 0)
				arena->top = top;
			w->table_count = tables;
			reading->retried++;
			rc = walk_span(w, span, &again);
			if (!rc && again.unclear_bytes <= t.unclear_bytes)
				t = again;
		}
		add_totals(&reading->totals, &t);
	}
	if (rc)
		goto out;
	reading->totals.live_bytes += reading->totals.mmapped_bytes;
	reading->totals.live_count += reading->totals.mmapped_count;
	glibc_caches(memory, reading, w->tables, w->table_count);
	reading->consistency = agreement(reading);
	reading->copied_bytes = w->window.copied_bytes;
out:
	if (w) {
		memory_window_fini(&w->window);
		free(w->tables);
		free(w);
	}
	return rc < 0 && err ? err_set(err, rc, "cannot read the heap of glibc's malloc") : rc;
}
