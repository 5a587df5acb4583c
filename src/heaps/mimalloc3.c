/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mimalloc3.c - mimalloc 3 read from outside. A word in its data leads to the page map, whose first
 * entry leads to the part of it that stands right behind its root: that proves it. Below it each
 * slice of 64 KiB has its page's head; a page knows the arena that it is from and its place there,
 * and has to come to the address where the map has it. What of an arena no page has is free by the
 * arena's bitmap, or its own.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "heaps/readers.h"
#include "heaps/scan.h"

#define SLICE_SHIFT 16u
#define SLICE (1ull << SLICE_SHIFT)
#define PART 8192u /* entries of one part of the map */
#define ROOT_ENTRIES (1u << 18)
#define PAGES_MAX (1u << 22)
#define ARENAS_MAX 1024u
#define ARENA_SLICES_MAX (1ull << 24)
#define CHUNK 512u /* slices of one chunk of a bitmap */
#define STEPS_MAX (1u << 20)
#define ADDRESS_MAX (1ull << 56)
#define HEAD_WORDS 20u

enum memory_kind { FROM_OS, FROM_ARENA };

/** struct layout - where the words of a page's head stand. */
struct layout {
	const char *version;
	/* words; @origin: of three that say where it is from */
	uint8_t block, thread_free, start, origin;
	/* bytes: used, and as many as have been in use, as there is room for */
	uint8_t counts;
	/* bytes: the latter two */
	uint8_t capacity;
	/* @start counts from the head */
	uint8_t relative;
	/* what says that it is an arena's; below it the kernel's three */
	uint8_t arena;
	/* words of an arena; 255: it starts where its head is */
	uint8_t arena_start, arena_slices, arena_bitmap;
	/* word: the thread's part of a heap that has the page; 255: none */
	uint8_t thread;
};

static const struct layout layouts[] = {
	{ "3.0", 5, 4, 6, 12, 16, 18, 0, 7, 255, 4, 8, 255 },
	{ "3.0, hardened", 5, 4, 6, 14, 16, 18, 0, 7, 255, 4, 8, 255 },
	{ "3.6", 4, 8, 6, 13, 40, 56, 1, 6, 5, 6, 14, 9 },
};

struct page {
	/* all that it has */
	uint64_t from, bytes;
	/* of its first block */
	uint64_t start;
	uint64_t block, thread_free, arena, thread;
	uint32_t used, capacity, reserved;
};

/** struct part - what the pages of one thread's part of a heap hold. */
struct part {
	uint64_t at;
	uint64_t live_bytes, live_count, cache_bytes, hole_bytes;
	/* its blocks are parts for others: mimalloc's own */
	int internal;
};
#define PARTS_MAX 4096u
#define PART_SLOTS 8192u

struct mi3 {
	struct breakdown *b;
	const struct memory *memory;
	struct memory_pages pages, freed;
	struct allocator_reading sum;
	const struct layout *layout;
	/* the page map: where it is, its first entry, and its end */
	uint64_t map, entries, behind;
	uint8_t *claims;
	unsigned page_count, steps;
	uint64_t good, bad;
	struct {
		/* @bitmap: its chunks; 0: not known */
		uint64_t at, start, slices, info, bitmap;
	} arenas[ARENAS_MAX];
	unsigned arena_count, arena_last;
	/* a piece of a bitmap, and where it was read; 0: none */
	uint64_t bits_at, bits[CHUNK / 64];
	/* the first is nobody's */
	struct part parts[PARTS_MAX + 1];
	/* numbers of parts by their address; 0: none */
	uint16_t part_slots[PART_SLOTS];
	unsigned part_count;
	/* end of what was accounted for: pages come in rising order */
	uint64_t done;
	uint64_t part[PART];
};

static uint64_t resident_in(struct mi3 *mi, uint64_t start, uint64_t end)
{
	return end > start ? memory_resident(&mi->pages, start, end) : 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static unsigned short_at(const uint64_t *words, unsigned byte)
{
	return (uint16_t)(words[byte / 8] >> (byte % 8 * 8));
}

/* The head at @at by @l. 1: it makes sense. */
static int decode(const struct mi3 *mi, const struct layout *l, uint64_t at, const uint64_t *words,
		  struct page *page)
{
	uint64_t kind = words[l->origin + 2] & 0xffffffff, first = words[l->origin + 1];
	*page = (struct page){ .start = words[l->start] + (l->relative ? at : 0),
			       .block = words[l->block],
			       .thread_free = words[l->thread_free] & ~7ull,
			       .used = short_at(words, l->counts),
			       .capacity = short_at(words, l->capacity),
			       .reserved = short_at(words, l->capacity + 2u) };
	if (kind == l->arena) {
		uint64_t arena = words[l->origin], base = arena;
		unsigned known = 0;
		while (known < mi->arena_count && mi->arenas[known].at != arena)
			known++;
		if (known < mi->arena_count)
			base = mi->arenas[known].start;
		if (!scan_heap_at(mi->b, arena, 8) ||
		    (known == mi->arena_count && l->arena_start != 255 &&
		     memory_read(mi->memory, arena + l->arena_start * 8u, &base, 8) < 0))
			return 0;
		page->arena = arena;
		page->from = base + ((first & 0xffffffff) << SLICE_SHIFT);
		page->bytes = first >> 32 << SLICE_SHIFT;
	} else if (kind + 4 > l->arena && kind < l->arena) {
		page->from = words[l->origin];
		page->bytes = first;
	} else {
		return 0;
	}
	uint64_t end;
	if (__builtin_add_overflow(page->from, page->bytes, &end) || end > ADDRESS_MAX ||
	    !page->bytes || page->start < page->from || page->start >= end || page->block < 8 ||
	    page->block & 7 || page->block > end - page->start || page->used > page->capacity ||
	    !page->capacity)
		return 0;
	if (page->capacity == 1)
		return 1; /* what would be its room says something else in later versions */
	return page->capacity <= page->reserved &&
	       page->reserved <= (end - page->start) / page->block;
}

enum { NO_PAGE, PAGE_HERE, PAGE_ELSEWHERE };

/*
 * What the map has for @slice. Which layout it is the first page tells that makes sense and has the
 * slice.
 */
static int read_page(struct mi3 *mi, uint64_t at, uint64_t slice, struct page *page)
{
	uint64_t words[HEAD_WORDS];
	if (!scan_heap_at(mi->b, at, 8) ||
	    memory_read_resident(mi->memory, at, words, sizeof(words)) < 0)
		return NO_PAGE;
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
		if ((mi->layout && mi->layout != &layouts[i]) ||
		    !decode(mi, &layouts[i], at, words, page))
			continue;
		if (slice + SLICE > page->from && slice - page->from < page->bytes) {
			mi->layout = &layouts[i];
			page->thread = layouts[i].thread == 255 ? 0 : words[layouts[i].thread];
			return PAGE_HERE;
		}
		if (mi->layout)
			return PAGE_ELSEWHERE;
	}
	return NO_PAGE;
}

/* Blocks that other threads freed: the page's owner takes them back when it next looks. */
static uint32_t count_freed(struct mi3 *mi, const struct page *page)
{
	uint64_t at = page->thread_free;
	uint32_t count = 0;
	while (at && count < page->used && mi->steps < STEPS_MAX) {
		mi->steps++;
		if (at & 7 || at < page->start || at >= page->from + page->bytes)
			break;
		units_piece(mi->b->units, at, page->block, PIECE_CACHED);
		count++;
		if (memory_read(mi->memory, at, &at, sizeof(at)) < 0)
			break;
	}
	return count;
}

/* The number of the arena whose head is at @at; the first behind the last where it is none. */
static unsigned find_arena(struct mi3 *mi, uint64_t at)
{
	const struct layout *l = mi->layout;
	uint64_t words[32], end;
	for (unsigned i = 0; i < mi->arena_count; i++)
		if (mi->arenas[i].at == at)
			return i;
	if (!at || mi->arena_count == ARENAS_MAX ||
	    memory_read(mi->memory, at, words, sizeof(words)) < 0)
		return mi->arena_count;
	uint64_t start = l->arena_start == 255 ? at : words[l->arena_start];
	uint64_t slices = words[l->arena_slices], info = words[l->arena_slices + 1] & 0xffffffff;
	/* the first bitmap says what is free; later versions have words of hooks before it */
	unsigned n = l->arena_bitmap;
	while (n < l->arena_bitmap + 3u && (words[n] <= at || words[n] - at > SLICE))
		n++;
	uint64_t bitmap = words[n + 1] - slices / CHUNK * (CHUNK / 8);
	if (!slices || slices % CHUNK || slices > ARENA_SLICES_MAX || info >= slices ||
	    __builtin_add_overflow(start, slices << SLICE_SHIFT, &end))
		return mi->arena_count;
	int known = words[n] > at && words[n + 1] > words[n] && bitmap > words[n] &&
		    words[n + 1] < start + (info << SLICE_SHIFT);
	mi->arenas[mi->arena_count].at = at;
	mi->arenas[mi->arena_count].start = start;
	mi->arenas[mi->arena_count].slices = slices;
	mi->arenas[mi->arena_count].info = info;
	mi->arenas[mi->arena_count++].bitmap = known ? bitmap : 0;
	mi->sum.reserved_bytes += slices << SLICE_SHIFT;
	return mi->arena_count - 1;
}

/*
 * Version 3.0 keeps the head of a page that is given back, and what leads to it. What is free by
 * its arena's bitmap is passed over before its head is read: of a heap that has shrunk there are
 * more of those than of others.
 */
static int is_given_back(struct mi3 *mi, uint64_t at)
{
	unsigned i = mi->arena_last;
	if (i >= mi->arena_count || at < mi->arenas[i].start ||
	    at - mi->arenas[i].start >= mi->arenas[i].slices << SLICE_SHIFT)
		for (i = 0; i < mi->arena_count &&
			    (at < mi->arenas[i].start ||
			     at - mi->arenas[i].start >= mi->arenas[i].slices << SLICE_SHIFT);)
			i++;
	if (i == mi->arena_count)
		return 0;
	mi->arena_last = i;
	if (!mi->arenas[i].bitmap)
		return 0;
	uint64_t slice = (at - mi->arenas[i].start) >> SLICE_SHIFT;
	uint64_t line = mi->arenas[i].bitmap + slice / CHUNK * (CHUNK / 8);
	if (mi->bits_at != line) {
		mi->bits_at = 0;
		if (memory_read(mi->memory, line, mi->bits, sizeof(mi->bits)) < 0)
			return 0;
		mi->bits_at = line;
	}
	return mi->bits[slice % CHUNK / 64] >> slice % 64 & 1;
}

/* The number of the part that has a page; 0: none is known. */
static unsigned part_of(struct mi3 *mi, uint64_t at)
{
	unsigned slot = (unsigned)((at * 0x9e3779b97f4a7c15ull) >> 51) % PART_SLOTS;
	while (mi->part_slots[slot] && mi->parts[mi->part_slots[slot]].at != at)
		slot = (slot + 1) % PART_SLOTS;
	if (!mi->part_slots[slot] && at && mi->part_count < PARTS_MAX) {
		mi->parts[++mi->part_count].at = at;
		mi->part_slots[slot] = (uint16_t)mi->part_count;
	}
	return at ? mi->part_slots[slot] : 0;
}

static void count_page(struct mi3 *mi, const struct page *page)
{
	unsigned number = part_of(mi, page->thread);
	struct part *part = &mi->parts[number];
	uint64_t end = page->from + page->bytes;
	uint64_t resident = resident_in(mi, page->from, end);
	uint64_t head = page->start - page->from, freed = count_freed(mi, page);
	uint64_t own = resident_in(mi, page->from, page->start), taken = page->used * page->block;
	struct unit unit = { .start = page->from,
			     .bytes = page->bytes,
			     .kind = page->capacity == 1 ? UNIT_BLOCK : UNIT_SLAB,
			     .slot = page->block,
			     .head = head,
			     .used = page->used,
			     .cached = (uint32_t)freed,
			     .arena = (uint16_t)number };
	units_add(mi->b->units, &unit);
	if (!page->arena || find_arena(mi, page->arena) == mi->arena_count)
		mi->sum.reserved_bytes += page->bytes;
	mi->good++;
	mi->sum.resident_bytes += resident;
	/* what is beside blocks on the first pages is the head, and what keeps blocks apart */
	own = own < head ? own : head;
	mi->sum.metadata_bytes += own;
	part->live_bytes += taken - freed * page->block;
	part->live_count += page->used - freed;
	part->cache_bytes += freed * page->block;
	part->hole_bytes += resident - own > taken ? resident - own - taken : 0;
}

/* Where the pages are in the units that were added from @first on: the one that holds @addr. */
static struct unit *unit_at(struct units *units, size_t first, uint64_t addr)
{
	size_t at =
		first + search_beyond(units->units + first, units->count - first,
				      sizeof(*units->units), offsetof(struct unit, start), addr);
	return at > first && addr - units->units[at - 1].start < units->units[at - 1].bytes
		       ? &units->units[at - 1]
		       : NULL;
}

/*
 * Threads' parts of heaps are blocks themselves, of a part that mimalloc has for itself (since
 * 3.3): what that one has nobody asked for. Pages come in rising order, so units do.
 */
static void sum_parts(struct mi3 *mi, size_t first)
{
	struct units *units = mi->b->units;
	for (unsigned i = 1; i <= mi->part_count; i++) {
		const struct unit *in = unit_at(units, first, mi->parts[i].at);
		if (in)
			mi->parts[in->arena].internal = in->arena != 0;
	}
	for (unsigned i = 0; i <= mi->part_count; i++) {
		const struct part *part = &mi->parts[i];
		if (part->internal) {
			mi->sum.metadata_bytes +=
				part->live_bytes + part->cache_bytes + part->hole_bytes;
			continue;
		}
		mi->sum.live_bytes += part->live_bytes;
		mi->sum.live_count += part->live_count;
		mi->sum.cache_bytes += part->cache_bytes;
		mi->sum.hole_bytes += part->hole_bytes;
	}
	for (size_t i = first; i < units->count; i++) {
		struct unit *unit = &units->units[i];
		if (mi->parts[unit->arena].internal) {
			unit->kind = UNIT_TABLES;
			unit->slot = unit->head = unit->used = unit->cached = 0;
		}
		unit->arena = 0;
	}
}

/* ---- the map --------------------------------------------------------------------------------- */

static void walk_part(struct mi3 *mi, uint64_t index, uint64_t part)
{
	uint64_t last = 0;
	if (!scan_heap_at(mi->b, part, 8) ||
	    memory_read_resident(mi->memory, part, mi->part, sizeof(mi->part)) < 0)
		return;
	for (unsigned i = 0; i < PART; i++) {
		uint64_t slice = (index * PART + i) << SLICE_SHIFT;
		struct page page = { 0 };
		if (!mi->part[i] || mi->part[i] == last)
			continue;
		last = mi->part[i];
		if (slice < mi->done) /* the part before has it, too */
			continue;
		if (mi->page_count++ == PAGES_MAX || memory_is_spent(mi->memory))
			return;
		if (is_given_back(mi, slice))
			continue;
		/*
		 * slices that were a longer page's, and are nobody's now, may keep what they led to
		 */
		int found = read_page(mi, last, slice, &page);
		mi->bad += found == NO_PAGE || (found == PAGE_HERE && page.from < mi->done);
		if (found != PAGE_HERE || page.from < mi->done)
			continue;
		/* the first of its arena was read before that was known */
		if (!page.used && page.arena && find_arena(mi, page.arena) < mi->arena_count &&
		    is_given_back(mi, slice))
			continue;
		mi->done = page.from + page.bytes;
		count_page(mi, &page);
	}
}

static void walk_map(struct mi3 *mi)
{
	static const unsigned step = 512;
	uint64_t entries[512];
	struct memory_pages *known =
		&mi->freed; /* its own place: the map is read in rising order, too */
	for (unsigned at = 0; at < ROOT_ENTRIES && !memory_is_spent(mi->memory); at += step) {
		uint64_t from = mi->entries + at * 8ull;
		if (from + sizeof(entries) > mi->behind)
			break;
		if (!memory_resident(known, from, from + sizeof(entries)) ||
		    memory_read_resident(mi->memory, from, entries, sizeof(entries)) < 0)
			continue;
		/* the first entry is for no address at all */
		for (unsigned i = at ? 0 : 1; i < step; i++)
			if (entries[i])
				walk_part(mi, at + i, entries[i]);
	}
}

/*
 * A word that leads to a page map: its first entry leads right behind it, to the part for no
 * address.
 */
static int look_for_map(void *ctx, const struct scan_block *block)
{
	struct mi3 *mi = ctx;
	for (size_t n = 0; n < block->lead_count && block->leads[n] < block->count; n++) {
		uint64_t at = block->words[block->leads[n]], words[11];
		/* a map is as large as its root at least */
		if (at & 4095 || !scan_heap_at(mi->b, at, 4096) ||
		    !scan_heap_at(mi->b, at + 8 * PART, 8) ||
		    memory_read(mi->memory, at, words, sizeof(words)) < 0)
			continue;
		uint64_t bytes = words[0] - at;
		uint64_t entries = at;
		if (words[2] == at) { /* with a head of its own: its size, and where it is */
			bytes = words[10] - at;
			entries = at + 80;
			if (bytes != words[1])
				continue;
		}
		if (bytes < 8 * PART || bytes > 8 * ROOT_ENTRIES + 65536 || bytes & 4095 ||
		    !scan_heap_at(mi->b, at + bytes, 8))
			continue;
		mi->map = at;
		mi->entries = entries;
		mi->behind = at + bytes;
		walk_map(mi);
		if (mi->good)
			return 1;
		mi->map = 0;
		mi->bad = 0;
	}
	return 0;
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/** struct taken - what pages have, in order. */
struct taken {
	struct unit *units;
	size_t count, at;
};

static void give_slices(struct mi3 *mi, uint64_t start, uint64_t end, int is_free)
{
	uint64_t resident = resident_in(mi, start, end);
	struct unit unit = { .start = start,
			     .bytes = end - start,
			     .kind = is_free ? UNIT_FREE : UNIT_TABLES,
			     .flags = is_free ? UNIT_DECAYS : 0 };
	if (!resident)
		return;
	units_add(mi->b->units, &unit);
	mi->sum.resident_bytes += resident;
	*(is_free ? &mi->sum.free_page_bytes : &mi->sum.metadata_bytes) += resident;
}

/* What no page has: the arena's own at its start, and then what its bitmap has as free, or not. */
static void walk_arena(struct mi3 *mi, unsigned index, struct taken *taken)
{
	uint64_t start = mi->arenas[index].start, from = start, chunk[CHUNK / 64] = { 0 };
	int was_free = 0;
	for (uint64_t slice = 0; slice < mi->arenas[index].slices; slice++) {
		uint64_t at = start + (slice << SLICE_SHIFT);
		if (slice % CHUNK == 0) {
			uint64_t bits = mi->arenas[index].bitmap + slice / 8;
			if (memory_spend(mi->memory, CHUNK) < 0)
				return;
			if (!mi->arenas[index].bitmap ||
			    memory_read_resident(mi->memory, bits, chunk, sizeof(chunk)) < 0)
				memset(chunk, 0, sizeof(chunk));
		}
		while (taken->at < taken->count &&
		       taken->units[taken->at].start + taken->units[taken->at].bytes <= at)
			taken->at++;
		int has = taken->at < taken->count && taken->units[taken->at].start <= at;
		int is_free = chunk[slice % CHUNK / 64] >> (slice % 64) & 1;
		if (has || is_free != was_free) {
			if (at > from)
				give_slices(mi, from, at, was_free);
			from = has ? at + SLICE : at;
			was_free = is_free;
		}
	}
	uint64_t end = start + (mi->arenas[index].slices << SLICE_SHIFT);
	if (end > from)
		give_slices(mi, from, end, was_free);
}

static int by_at(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b; /* the second word is where the arena starts */
	return x[1] < y[1] ? -1 : x[1] > y[1];
}

static void walk_arenas(struct mi3 *mi, size_t first_unit)
{
	const struct units *units = mi->b->units;
	struct taken taken = { 0 };
	/* in order, and none in another */
	qsort(mi->arenas, mi->arena_count, sizeof(mi->arenas[0]), by_at);
	if (units && units->count > first_unit) {
		taken.count = units->count - first_unit;
		taken.units = malloc(taken.count * sizeof(*taken.units));
		if (!taken.units)
			return;
		memcpy(taken.units, units->units + first_unit, taken.count * sizeof(*taken.units));
		qsort(taken.units, taken.count, sizeof(*taken.units), by_start);
	}
	uint64_t done = 0;
	for (unsigned i = 0; i < mi->arena_count; i++) {
		if (mi->arenas[i].start < done)
			continue;
		walk_arena(mi, i, &taken);
		done = mi->arenas[i].start + (mi->arenas[i].slices << SLICE_SHIFT);
	}
	free(taken.units);
}

/* Mappings that arenas, pages or the map fill, at least half of what is resident there. */
static void claim(struct mi3 *mi, const struct units *units)
{
	for (size_t i = 0; i < mi->b->region_count; i++) {
		const struct region *r = &mi->b->regions[i];
		uint64_t owned = 0;
		if (!scan_is_heap(r) || r->class != REGION_ANONYMOUS || !r->rss_bytes)
			continue;
		for (size_t k = 0; k < units->count; k++) {
			const struct unit *u = &units->units[k];
			uint64_t from = u->start > r->start ? u->start : r->start;
			uint64_t end = u->start + u->bytes < r->end ? u->start + u->bytes : r->end;
			owned += end > from ? end - from : 0;
		}
		if (mi->map >= r->start && mi->map < r->end && !owned) {
			uint64_t tables = memory_resident(&mi->freed, r->start, r->end);
			mi->sum.metadata_bytes += tables;
			mi->sum.resident_bytes += tables;
			mi->claims[i] = 1;
			continue;
		}
		mi->claims[i] = owned >= (r->end - r->start) / 2 || owned >= r->rss_bytes;
	}
}

int mimalloc3_read(struct breakdown *b, const struct memory *memory)
{
	static const char *const label[] = { "mimalloc" };
	struct mi3 *mi = calloc(1, sizeof(*mi));
	struct units *asked = b->units, own = { 0 };
	int rc = mi ? 0 : -ENOMEM;
	if (mi && !(mi->claims = calloc(b->region_count + 1, 1)))
		rc = -ENOMEM;
	if (rc < 0)
		goto out;
	mi->b = b;
	mi->memory = mi->pages.memory = mi->freed.memory = memory;
	/*
	 * arenas are told by what their pages leave, so pages are kept, whether somebody asked or
	 * not
	 */
	b->units = asked ? asked : &own;
	size_t first = b->units->count;
	rc = scan_data(b, memory, 0, look_for_map, mi);
	if (rc == 1) {
		mi->pages.start = mi->pages.end = 0;
		sum_parts(mi, first);
		walk_arenas(mi, first);
		struct units mine = { .units = b->units->units + first,
				      .count = b->units->count - first };
		claim(mi, &mine);
		double consistency = 100 * heaps_present(b, mi->claims) * (double)mi->good /
				     (double)(mi->good + mi->bad);
		rc = b->units->incomplete ? -ENOMEM
					  : heaps_judge(b, memory, "mimalloc", consistency);
		struct allocator_reading *a = NULL;
		if (rc == 1 && heaps_claim(b, mi->claims, REGION_ALLOCATOR, label, "mimalloc") == 0)
			a = heaps_add(b);
		if (rc == 1 && !a)
			rc = -ENOMEM;
		if (a) {
			*a = mi->sum;
			snprintf(a->allocator, sizeof(a->allocator), "mimalloc");
			snprintf(a->how, sizeof(a->how),
				 "%s: every page of %u arena%s, by its page map",
				 mi->layout->version, mi->arena_count,
				 mi->arena_count == 1 ? "" : "s");
			a->consistency = consistency;
			a->exact = 1;
		}
		rc = rc < 0 ? rc : 1;
	}
out:
	b->units = asked;
	units_fini(&own);
	free(mi ? mi->claims : NULL);
	free(mi);
	return rc;
}
