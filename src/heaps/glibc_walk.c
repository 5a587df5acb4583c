/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc_walk.c - from chunk to chunk: a size leads to the next, whose lowest bit says whether this
 * one is in use.
 */
#include "heaps/glibc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN 32u
#define CHUNK_FREE_HEAD 48u /* what malloc_trim() leaves of a free chunk: links of both lists */
#define FAST_CHUNK_MAX 176u /* what a fastbin may hold */
#define LINKS_MAX (1u << 24)
#define TABLE_MIN 0x200u /* a chunk of such a size at the start of the heap is a thread's cache */
#define TABLE_MAX 0x500u
#define TABLE_NUMBERS 64u /* of lists that it has at least */
#define TABLE_HEADS 256u  /* from here on there are heads alone: up to 128 numbers of two bytes */
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
	/* for free chunks: behind the window */
	struct memory_pages pages;
	struct glibc_lists *lists;
	int nomem;
};

static uint64_t size_of(uint64_t word)
{
	return word & ~7ull;
}

static void add_free(struct walk *w, struct glibc_totals *t, uint64_t at, uint64_t size,
		     enum piece_kind kind)
{
	t->free_bytes += size;
	t->free_count++;
	w->nomem |= units_piece(&w->lists->found, at, size, kind) < 0;
}

static int in_spans(const struct walk *w, uint64_t addr)
{
	return !(addr & 15) && glibc_span_at(w->reading, addr);
}

/* Where fastbins are in use: a small chunk whose first word may be a link in one. */
static void note_link(struct walk *w, uint64_t at)
{
	struct glibc_lists *l = w->lists;
	const void *bytes = memory_window_at(&w->window, at + 16, 8);
	uint64_t stored, next;
	if (!bytes)
		return;
	memcpy(&stored, bytes, 8);
	next = glibc_link_of(at + 16, stored, l->mixed);
	if ((next && !in_spans(w, next)) || l->link_count == LINKS_MAX)
		return;
	if (l->link_count == l->link_room) {
		size_t room = l->link_room ? l->link_room * 2 : 4096;
		struct glibc_link *grown = realloc(l->links, room * sizeof(*grown));
		if (!grown) {
			w->nomem = 1;
			return;
		}
		l->links = grown;
		l->link_room = room;
	}
	l->links[l->link_count++] = (struct glibc_link){ at, stored };
}

/*
 * A free chunk's size is repeated behind it; where both disagree one of them was read while it
 * changed.
 */
static void add_chunk(struct walk *w, struct glibc_totals *t, uint64_t at, uint64_t size,
		      const struct chunk *next)
{
	if (next->word & 1) {
		t->live_bytes += size;
		t->live_count++;
		unsigned class = units_class(size - 8);
		w->lists->class_count[class]++;
		w->lists->class_bytes[class] += size - 8;
	} else {
		add_free(w, t, at, size, PIECE_FREE);
		if (next->prev_size != size)
			t->unclear_bytes += size;
	}
}

static void note_table(struct walk *w, uint64_t body, const struct glibc_tcache_shape *shape)
{
	const void *bytes = memory_window_at(&w->window, body, glibc_table_bytes(shape));
	struct glibc_lists *l = w->lists;
	if (bytes && l->table_count < GLIBC_TCACHES_MAX &&
	    glibc_tcache_looks(w->reading, shape, bytes))
		l->tables[l->table_count++] = (struct glibc_table){ body, shape };
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

/*
 * 1 if a chain of chunks begins at @at: a dozen plausible ones, or fewer that end exactly at the
 * end or the top.
 */
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
 * The next address from @at on where a chain begins; @end where there is none. What is not resident
 * cannot be read, and is passed over.
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

/* What could not be stepped over: swapped out, or it contradicted itself. */
static void leave_out(struct walk *w, struct glibc_totals *t, uint64_t start, uint64_t end)
{
	uint64_t there = memory_resident(&w->pages, start, end);
	t->unclear_bytes += there;
	t->absent_bytes += end - start - there;
}

/*
 * One span, added to @t. The header that ends a chunk decides about the chunk before it, so one is
 * always pending.
 */
/* one walk from chunk to chunk; what a damaged one may do is looked at where it is read */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
static void walk_span(struct walk *w, const struct glibc_span *span, struct glibc_totals *t)
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
		leave_out(w, t, span->start, at);
	if (gap <= 8192)
		w->nomem |= units_piece(&w->lists->found, span->start, gap, PIECE_TABLES) < 0;
	const struct glibc_tcache_shape *shape = NULL;
	uint64_t table = 0;
	int fast = w->lists->fast;
	while (at < end && !w->nomem) {
		struct chunk chunk;
		if (end - at < sizeof(chunk) || read_chunk(w, at, &chunk) < 0) {
			/* swapped out, say: the next chain is looked for; or not mapped any more */
			uint64_t next =
				is_absent(w, at) ? resync(w, at, end, has_top ? top : end) : end;
			leave_out(w, t, pending ? pending : at, next);
			pending = table = 0;
			at = next;
			continue;
		}
		uint64_t size = size_of(chunk.word), left = end - at;
		int fence = size < CHUNK_MIN && !(size & 8);
		if (!fence && !plausible(size, left)) {
			/*
			 * read while it changed, or damaged: the chunk before it led here wrongly
			 */
			uint64_t from = pending ? pending + 16 : at + 16;
			uint64_t next = resync(w, from, end, has_top ? top : end);
			leave_out(w, t, pending ? pending : at, next);
			pending = 0;
			at = next;
			continue;
		}
		if (pending) {
			uint64_t bytes = at - pending;
			add_chunk(w, t, pending, bytes, &chunk);
			if (fast && bytes <= FAST_CHUNK_MAX && chunk.word & 1)
				note_link(w, pending);
			const struct glibc_tcache_shape *may =
				chunk.word & 1 ? glibc_tcache_shape(bytes) : NULL;
			if (table) /* looked at here, where the window still holds it, or nearly */
				note_table(w, table, shape);
			table = may ? pending + 16 : 0;
			shape = may;
		}
		/* the end of a heap that could not grow, or of brk before somebody else's sbrk() */
		if (fence) {
			uint64_t next = end - at <= FENCE_MAX
						? end
						: resync(w, at + 16, end, has_top ? top : end);
			if (next - at <= FENCE_MAX) {
				t->metadata_bytes += next - at;
				w->nomem |= units_piece(&w->lists->found, at, next - at,
							PIECE_TABLES) < 0;
			} else {
				leave_out(w, t, at, next);
			}
			pending = 0;
			at = next;
			continue;
		}
		if (at == top || at + size == end) { /* the topmost chunk is free by definition */
			add_free(w, t, at, size,
				 span->kind == GLIBC_HEAP && at == top ? PIECE_TOP : PIECE_FREE);
			if (at + size < end) { /* brk is not used to its end */
				t->metadata_bytes += end - at - size;
				w->nomem |= units_piece(&w->lists->found, at + size,
							end - at - size, PIECE_TABLES) < 0;
			}
			if (table)
				note_table(w, table, shape);
			return;
		}
		pending = at;
		at += size;
	}
}

/*
 * The first chunk that malloc makes is the cache of the thread that called it; since 2.42 it comes
 * with the first free() only, so a chunk of no table's size is one of an unknown shape where it has
 * what a table has: places left, mostly equal, and heads of lists.
 */
static int table_is_unknown(struct walk *w)
{
	const struct glibc_reading *r = w->reading;
	struct chunk chunk;
	uint64_t at = (r->params_sbrk_base + 15) & ~15ull, words[TABLE_MAX / 8];
	if (w->lists->table_count || !r->params_sbrk_base ||
	    memory_read(w->memory, at, &chunk, sizeof(chunk)) < 0)
		return 0;
	uint64_t size = size_of(chunk.word);
	if (size < TABLE_MIN || size > TABLE_MAX || glibc_tcache_shape(size) ||
	    memory_read(w->memory, at + 16, words, size - 16) < 0)
		return 0;
	uint16_t left[TABLE_NUMBERS];
	unsigned most = 0, full = 0;
	memcpy(left, words, sizeof(left));
	for (unsigned i = 0; i < TABLE_NUMBERS; i++)
		most = left[i] > most ? left[i] : most;
	for (unsigned i = 0; i < TABLE_NUMBERS; i++)
		full += left[i] == most;
	for (uint64_t i = TABLE_HEADS / 8; i < (size - 16) / 8; i++)
		if (words[i] && (words[i] & 15 || !glibc_span_at(r, words[i])))
			return 0;
	return most && full >= TABLE_NUMBERS / 2;
}

static void add_totals(struct glibc_totals *to, const struct glibc_totals *from)
{
	to->live_bytes += from->live_bytes;
	to->live_count += from->live_count;
	to->free_bytes += from->free_bytes;
	to->free_count += from->free_count;
	to->metadata_bytes += from->metadata_bytes;
	to->unclear_bytes += from->unclear_bytes;
	to->absent_bytes += from->absent_bytes;
}

/*
 * How much of what malloc says it has was accounted for, in per cent; too much counts like too
 * little. What was swapped out is neither: figures are those of what is there.
 */
static double agreement(const struct glibc_reading *r)
{
	const struct glibc_totals *t = &r->totals;
	double clear = (double)t->live_bytes + (double)t->free_bytes + (double)t->metadata_bytes +
		       (double)t->tcache_bytes;
	double claimed = (double)r->claimed_bytes, met = clear + (double)t->absent_bytes;
	if (claimed <= 0 || clear <= 0)
		return 0;
	double share = met < claimed ? met / claimed : claimed / met;
	double unclear = (double)t->unclear_bytes / (clear + (double)t->unclear_bytes);
	double both = share < 1 - unclear ? share : 1 - unclear;
	return both * 100;
}

/*
 * Free chunks that touch are one, as malloc_trim() makes them: only then it shows which of their
 * pages are free as a whole.
 */
static void settle_free(struct walk *w)
{
	struct units *found = &w->lists->found;
	struct glibc_totals *t = &w->reading->totals;
	uint64_t page = w->memory->page_bytes;
	memory_think(w->memory);
	units_sort(found);
	for (size_t i = 0; i < found->piece_count; i++) {
		const struct piece *p = &found->pieces[i];
		if (p->kind != PIECE_FREE && p->kind != PIECE_TOP)
			continue;
		uint64_t end = p->start + p->bytes;
		uint64_t first = (p->start + CHUNK_FREE_HEAD + page - 1) & ~(page - 1),
			 last = end & ~(page - 1);
		if (first >=
		    last) { /* on one or two pages with live neighbours or its own header */
			t->hole_bytes += p->bytes;
			continue;
		}
		t->free_page_bytes += memory_resident(&w->pages, first, last);
		/*
		 * the page that holds the header was written; the one behind belongs to the next
		 * chunk's header too
		 */
		t->hole_bytes += p->bytes - (last - first);
	}
}

static void walk_twice(struct walk *w, const struct glibc_span *span)
{
	struct glibc_lists *l = w->lists;
	struct glibc_totals t = { 0 };
	size_t tables = l->table_count, links = l->link_count, pieces = l->found.piece_count;
	uint64_t before[2][UNITS_CLASSES];
	memcpy(before[0], l->class_count, sizeof(before[0]));
	memcpy(before[1], l->class_bytes, sizeof(before[1]));
	walk_span(w, span, &t);
	if (t.unclear_bytes > (span->end - span->start) / 100 && !w->nomem) {
		/* a running program moved under the reader: once more */
		struct glibc_totals again = { 0 };
		struct glibc_arena *arena = &w->reading->arenas[span->arena];
		uint64_t top;
		if (memory_read(w->memory, arena->bins - 16, &top, 8) == 0)
			arena->top = top;
		l->table_count = tables;
		l->link_count = links;
		l->found.piece_count = pieces;
		memcpy(l->class_count, before[0], sizeof(before[0]));
		memcpy(l->class_bytes, before[1], sizeof(before[1]));
		w->reading->retried++;
		walk_span(w, span, &again);
		t = again;
	}
	add_totals(&w->reading->totals, &t);
}

/*
 * Units of what was walked: spans of chunks with their pieces, large blocks, and what is in use by
 * size.
 */
static int hand_over(struct walk *w, struct units *units)
{
	const struct glibc_reading *r = w->reading;
	struct glibc_lists *l = w->lists;
	int rc = 0;
	for (size_t i = 0; i < r->span_count && !rc; i++) {
		const struct glibc_span *s = &r->spans[i];
		struct unit unit = { .start = s->start,
				     .bytes = s->end - s->start,
				     .arena = (uint16_t)s->arena,
				     .kind = UNIT_CHUNKS,
				     .flags = s->kind == GLIBC_MAIN ? UNIT_MAIN : 0 };
		if (s->kind == GLIBC_MMAPPED) {
			unit.kind = UNIT_BLOCK;
			unit.flags = UNIT_OWN_BLOCK;
			unit.slot = unit.bytes - 16;
			unit.head = 16;
			unit.used = 1;
			unsigned class = units_class(unit.slot);
			units->class_count[class]++;
			units->class_bytes[class] += unit.slot;
		}
		rc = units_add(units, &unit);
	}
	for (size_t i = 0; i < l->found.piece_count && !rc; i++) {
		const struct piece *p = &l->found.pieces[i];
		rc = units_piece(units, p->start, p->bytes, (enum piece_kind)p->kind);
	}
	for (unsigned i = 0; i < UNITS_CLASSES; i++) {
		units->class_count[i] += l->class_count[i];
		units->class_bytes[i] += l->class_bytes[i];
	}
	units->has_settings = r->params != 0;
	units->trim_threshold = r->trim_threshold;
	units->mmap_threshold = r->mmap_threshold;
	units->thresholds_set = r->no_dyn_threshold;
	units->top_pad = r->top_pad;
	units->arena_max = r->arena_max;
	units->mmapped_bytes = r->totals.mmapped_bytes;
	units->arenas = (uint32_t)r->arena_count;
	return rc;
}

static int walk_all(struct walk *w, struct units *units)
{
	struct glibc_reading *r = w->reading;
	glibc_lists_begin(w->memory, r, w->lists);
	for (size_t i = 0; i < r->span_count && !w->nomem; i++)
		if (r->spans[i].kind != GLIBC_MMAPPED)
			walk_twice(w, &r->spans[i]);
	if (w->nomem)
		return -ENOMEM;
	r->unknown |= table_is_unknown(w);
	r->totals.live_bytes += r->totals.mmapped_bytes;
	r->totals.live_count += r->totals.mmapped_count;
	int rc = glibc_caches(w->memory, r, w->lists);
	if (rc < 0)
		return rc;
	settle_free(w);
	r->consistency = agreement(r);
	r->copied_bytes = w->window.copied_bytes;
	memory_think(w->memory);
	return units ? hand_over(w, units) : 0;
}

int glibc_walk(const struct memory *memory, struct glibc_reading *reading, struct units *units,
	       struct err *err)
{
	struct walk *w = calloc(1, sizeof(*w));
	struct glibc_lists *lists = calloc(1, sizeof(*lists));
	int rc = w && lists ? memory_window_init(&w->window, memory) : -ENOMEM;
	if (rc == 0) {
		w->memory = w->pages.memory = memory;
		w->reading = reading;
		w->lists = lists;
		rc = walk_all(w, units);
		memory_window_fini(&w->window);
	}
	if (lists) {
		units_fini(&lists->found);
		free(lists->links);
	}
	free(lists);
	free(w);
	return rc < 0 && err ? err_set(err, rc, "cannot read the heap of glibc's malloc") : rc;
}
