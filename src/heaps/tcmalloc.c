/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcmalloc.c - gperftools' tcmalloc read from outside, as 2.10 lays it out. Its page map leads from
 * a page to the span that holds it, which names the page again; the table of size classes is told
 * by its shape. Spans of small blocks count what left them, the central lists count what lies free
 * in them: both must come to the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"

#define PAGE_SHIFT 13u
#define PAGE_BYTES (1ull << PAGE_SHIFT)
#define DATA_MIN (1u << 20) /* the page map's root alone */
#define CLASSES 128u
#define CLASSES_PROOF 16u
#define SPAN_PAGES_MAX (1ull << 35)
#define SPANS_MAX (1u << 24)
#define CACHES_MAX 65536u
#define FOLLOWED_MAX (1u << 20) /* cached blocks that are named */
#define CENTRAL_WORDS 152u      /* struct CentralFreeListPadded: 1216 bytes */

enum { IN_USE, ON_NORMAL, ON_RETURNED };

struct span {
	/* in pages */
	uint64_t start, length;
	uint64_t next, prev, objects;
	/* 16 blocks that left it, 8 size class, 2 location */
	uint32_t bits, pad;
};

struct central {
	uint64_t lock, class;
	struct span empty, nonempty;
	/* blocks that lie free in spans */
	uint64_t spans, free;
	uint64_t slots[128];
	uint32_t used_slots, cache_slots, max_slots;
};

struct free_list {
	uint64_t head;
	uint32_t length, low_water, max_length, overages;
	int32_t block_bytes, pad;
};

struct tc {
	struct breakdown *b;
	const struct memory *memory;
	/* without copies: lists are read as they are now */
	struct memory fresh;
	struct radix tree;
	struct memory_pages pages;
	/* the one that was met last: it may go on in the next mapping */
	struct span last;
	uint64_t last_resident;
	struct allocator_reading sum;
	int32_t class_bytes[CLASSES], class_moves[CLASSES];
	/* 0: the table was not found */
	unsigned classes;
	/* blocks free in spans, by what the spans say */
	uint64_t class_free[CLASSES];
	/* address of the first central list; 0: not found */
	uint64_t central;
	/* in a thread cache */
	uint64_t next_offset;
	uint64_t first_cache, cache_count;
	unsigned steps, followed;
	/* pages */
	uint64_t good, bad;
	/* how far the central lists agree */
	double lists;
};

static int read_span(const struct tc *tc, uint64_t entry, struct span *s)
{
	return scan_heap_at(tc->b, entry, 8) && memory_read(tc->memory, entry, s, sizeof(*s)) == 0;
}

static unsigned location_of(const struct span *s)
{
	return s->bits >> 24 & 3;
}

static unsigned class_of(const struct span *s)
{
	return s->bits >> 16 & 255;
}

static int agrees(const struct span *s, uint64_t addr)
{
	uint64_t page = addr >> PAGE_SHIFT;
	return s->length && s->length < SPAN_PAGES_MAX && page >= s->start &&
	       page - s->start < s->length && location_of(s) <= ON_RETURNED &&
	       class_of(s) < CLASSES && s->bits >> 28 == 0;
}

/*
 * In a program at a low address any small number and any pointer behind it may pass for a span that
 * is long enough. The page map knows a span's first page and its last.
 */
static int proof(void *ctx, uint64_t addr, uint64_t entry)
{
	struct tc *tc = ctx;
	struct span s;
	return read_span(tc, entry, &s) && agrees(&s, addr) &&
	       radix_entry(&tc->tree, s.start << PAGE_SHIFT) == entry &&
	       radix_entry(&tc->tree, (s.start + s.length - 1) << PAGE_SHIFT) == entry;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/*
 * Rising sizes, multiples of 8, the last at 256 KiB; before them how many blocks move at once, in
 * an array of one length.
 */
static unsigned classes_at(const int32_t *sizes, size_t room)
{
	unsigned i = 1;
	if (room < CLASSES_PROOF || sizes[0] || (sizes[1] != 8 && sizes[1] != 16))
		return 0;
	while (i < CLASSES && i < room && sizes[i] > sizes[i - 1] && sizes[i] % 8 == 0 &&
	       sizes[i] <= 256 << 10)
		i++;
	return sizes[i - 1] >= 32 << 10 ? i : 0;
}

static int look_for_classes(void *ctx, const struct scan_block *block)
{
	struct tc *tc = ctx;
	const int32_t *words = (const int32_t *)block->words;
	for (size_t i = 0; i < block->count * 2; i++) {
		if (words[i] || i + 2 > block->ahead * 2 ||
		    (words[i + 1] != 8 && words[i + 1] != 16))
			continue;
		unsigned classes = classes_at(words + i, block->ahead * 2 - i);
		uint64_t at = block->addr + i * 4;
		if (classes < CLASSES_PROOF ||
		    memory_read_resident(tc->memory, at - sizeof(tc->class_moves), tc->class_moves,
					 sizeof(tc->class_moves)) < 0)
			continue;
		unsigned k = 1; /* two blocks at least, and rarely more than some hundreds */
		while (k < classes && tc->class_moves[k] >= 2 && tc->class_moves[k] <= 65536)
			k++;
		if (k < classes || tc->class_moves[0])
			continue;
		memcpy(tc->class_bytes, words + i, classes * 4);
		tc->classes = classes;
		return 1;
	}
	return 0;
}

/* Central lists stand in a row, and each knows its number. */
static int look_for_central(void *ctx, const struct scan_block *block)
{
	struct tc *tc = ctx;
	for (size_t i = 0; i < block->count && i + 2 * CENTRAL_WORDS < block->ahead; i++) {
		const uint64_t *word = block->words + i;
		uint64_t at = block->addr + i * 8, number = 0;
		if (word[0] || word[CENTRAL_WORDS] != 1 || word[2 * CENTRAL_WORDS] != 2)
			continue;
		unsigned k = 3;
		while (k < CLASSES_PROOF &&
		       memory_read_resident(tc->memory, at + k * CENTRAL_WORDS * 8, &number, 8) ==
			       0 &&
		       number == k)
			k++;
		if (k == CLASSES_PROOF) {
			tc->central = at - 8;
			return 1;
		}
	}
	return 0;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* The last span has been met from end to end. */
static void count_last(struct tc *tc)
{
	const struct span *s = &tc->last;
	uint64_t resident = tc->last_resident, bytes = s->length << PAGE_SHIFT;
	uint64_t live = bytes, count = 1, out = s->bits & 65535;
	tc->last_resident = 0;
	tc->sum.resident_bytes += resident;
	tc->sum.reserved_bytes += bytes;
	if (!bytes)
		return;
	struct unit unit = { .start = s->start << PAGE_SHIFT, .bytes = bytes, .kind = UNIT_FREE };
	if (location_of(s) != IN_USE) {
		tc->sum.free_page_bytes += resident;
		unit.flags = location_of(s) == ON_RETURNED ? UNIT_GIVEN : 0;
		units_add(tc->b->units, &unit);
		return;
	}
	unsigned class = class_of(s);
	if (class) {
		uint64_t size = class < tc->classes ? (uint64_t)tc->class_bytes[class] : bytes;
		uint64_t room = bytes / size;
		if (class >= tc->classes || out > room) {
			tc->bad += s->length;
			return;
		}
		tc->class_free[class] += room - out;
		live = out * size;
		count = out;
	}
	unit.kind = class ? UNIT_SLAB : UNIT_BLOCK;
	unit.slot = class ? (uint64_t)tc->class_bytes[class] : bytes;
	unit.used = (uint32_t)count;
	units_add(tc->b->units, &unit);
	tc->good += s->length;
	tc->sum.live_bytes += live;
	tc->sum.live_count += count;
	tc->sum.hole_bytes += resident > live ? resident - live : 0;
}

static uint64_t end_of(const struct span *s)
{
	return (s->start + s->length) << PAGE_SHIFT;
}

/*
 * What of the last span lies in @r: bytes of it that are resident. Spans do not end where the
 * kernel cuts mappings.
 */
static uint64_t take_part(struct tc *tc, const struct region *r, uint64_t *at)
{
	uint64_t end = end_of(&tc->last), from = *at > r->start ? *at : r->start;
	uint64_t stop = end < r->end ? end : r->end;
	if (stop <= from)
		return 0;
	uint64_t resident = memory_resident(&tc->pages, from, stop);
	tc->last_resident += resident;
	*at = end;
	return resident;
}

/* Resident bytes of the spans in one mapping, behind those of the mappings before it. */
static uint64_t walk_region(struct tc *tc, const struct region *r)
{
	uint64_t at = r->start & ~(PAGE_BYTES - 1), resident = take_part(tc, r, &at);
	while (at < r->end) {
		uint64_t entry = radix_entry(&tc->tree, at);
		struct span s;
		if (!entry || tc->steps++ > SPANS_MAX || !read_span(tc, entry, &s) ||
		    !agrees(&s, at) || s.start << PAGE_SHIFT < end_of(&tc->last)) {
			/* a page in the middle of a span keeps the last owner's entry */
			at = radix_next(&tc->tree, at, r->end);
			continue;
		}
		count_last(tc);
		tc->last = s;
		resident += take_part(tc, r, &at);
	}
	return resident;
}

/* ---- caches ---------------------------------------------------------------------------------- */

static void move_to_cache(struct tc *tc, uint64_t count, uint64_t size)
{
	uint64_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > tc->sum.live_bytes ||
	    count > tc->sum.live_count)
		return;
	tc->sum.live_bytes -= bytes;
	tc->sum.live_count -= count;
	tc->sum.cache_bytes += bytes;
}

/* A list of free blocks, each of which holds the next one's address. */
static void give_list(struct tc *tc, uint64_t head, uint64_t count, uint64_t size)
{
	for (; head && count && tc->b->units && tc->followed < FOLLOWED_MAX; count--) {
		if (!scan_heap_at(tc->b, head, 8))
			return;
		units_piece(tc->b->units, head, size, PIECE_CACHED);
		tc->followed++;
		if (memory_read(tc->memory, head, &head, 8) < 0)
			return;
	}
}

static void read_central(struct tc *tc)
{
	uint64_t same = 0, all = 0;
	for (unsigned i = 1; i < tc->classes && tc->central; i++) {
		struct central c;
		if (memory_read_resident(tc->memory, tc->central + i * CENTRAL_WORDS * 8, &c,
					 sizeof(c)) < 0 ||
		    c.class != i || c.used_slots > 64)
			continue;
		move_to_cache(tc, (uint64_t)c.used_slots * (uint64_t)tc->class_moves[i],
			      (uint64_t)tc->class_bytes[i]);
		for (unsigned k = 0; k < c.used_slots; k++)
			give_list(tc, c.slots[2 * k], (uint64_t)tc->class_moves[i],
				  (uint64_t)tc->class_bytes[i]);
		uint64_t told = c.free, found = tc->class_free[i];
		same += told < found ? told : found;
		all += told > found ? told : found;
	}
	tc->lists = all ? (double)same / (double)all : 1;
}

/* A thread's cache: a free list for each size class, which knows the size of its blocks. */
static int read_cache(struct tc *tc, uint64_t at, int add)
{
	struct free_list lists[CLASSES];
	if (memory_read_resident(tc->memory, at, lists, sizeof(lists)) < 0)
		return 0;
	for (unsigned i = 1; i < tc->classes; i++)
		if (lists[i].block_bytes != tc->class_bytes[i] ||
		    (lists[i].head && (lists[i].head & 7 || !lists[i].length)))
			return 0;
	for (unsigned i = 1; i < tc->classes && add; i++) {
		move_to_cache(tc, lists[i].length, (uint64_t)lists[i].block_bytes);
		give_list(tc, lists[i].head, lists[i].length, (uint64_t)lists[i].block_bytes);
	}
	return 1;
}

/*
 * A word in writable data that points to a cache; caches are linked in both ways behind their
 * lists.
 */
static int look_for_caches(void *ctx, const struct scan_block *block)
{
	struct tc *tc = ctx;
	for (size_t i = 0; i < block->count; i++) {
		uint64_t at = block->words[i], tail[32];
		uint64_t tail_at = at + sizeof(struct free_list) * CLASSES;
		if (!at || !scan_heap_at(tc->b, at, 64) || !read_cache(tc, at, 0) ||
		    memory_read_resident(tc->memory, tail_at, tail, sizeof(tail)) < 0)
			continue;
		for (unsigned k = 1; k + 1 < 32; k++) {
			uint64_t back;
			if (tail[k] && scan_heap_at(tc->b, tail[k], 64) && !tail[k + 1] &&
			    memory_read(tc->memory, tail[k] + (tail_at - at) + (k + 1) * 8, &back,
					8) == 0 &&
			    back == at) {
				tc->next_offset = tail_at - at + k * 8;
				tc->first_cache = at;
				return 1;
			}
		}
		tc->first_cache = at; /* perhaps the only one: no link to tell its place by */
	}
	return 0;
}

static void read_caches(struct tc *tc)
{
	uint64_t at = tc->first_cache;
	while (at && tc->cache_count < CACHES_MAX && scan_heap_at(tc->b, at, 64) &&
	       read_cache(tc, at, 1)) {
		tc->cache_count++;
		if (!tc->next_offset ||
		    memory_read(tc->memory, at + tc->next_offset, &at, sizeof(at)) < 0)
			break;
	}
}

/*
 * -------------------------------------------------------------------------------------------------
 */

/* Everything, and which mappings deserve the label. */
static int walk_all(struct tc *tc, uint8_t *claims)
{
	struct breakdown *b = tc->b;
	int rc = scan_data(b, tc->memory, DATA_MIN, look_for_classes, tc);
	if (rc == 1)
		rc = scan_data(b, tc->memory, DATA_MIN, look_for_central, tc);
	if (rc >= 0)
		rc = scan_data(b, tc->memory, DATA_MIN, look_for_caches, tc);
	for (size_t i = 0; i < b->region_count && rc >= 0; i++) {
		const struct region *r = &b->regions[i];
		if (!scan_is_heap(r))
			continue;
		uint64_t spans = walk_region(tc, r);
		int holds_cache = tc->first_cache >= r->start && tc->first_cache < r->end;
		if (!r->rss_bytes || (spans < r->rss_bytes / 2 && !holds_cache))
			continue;
		/* it has its mappings to itself: what lies beside spans is its own tables */
		uint64_t tables = r->rss_bytes > spans ? r->rss_bytes - spans : 0;
		tc->sum.metadata_bytes += tables;
		tc->sum.resident_bytes += tables;
		claims[i] = r->class == REGION_ANONYMOUS || strcmp(r->name, "[heap]") == 0;
	}
	count_last(tc);
	if (rc >= 0) {
		read_central(tc);
		read_caches(tc);
	}
	return rc < 0 ? rc : 0;
}

static double agreement(const struct tc *tc)
{
	return 100 * (double)tc->good / (double)(tc->good + tc->bad) * tc->lists;
}

int heaps_tcmalloc(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct tc *tc = calloc(1, sizeof(*tc));
	uint8_t *claims = calloc(b->region_count + 1, 1);
	struct allocator_reading *a = NULL;
	int rc = -ENOMEM, found, mapped = scan_maps(b, "libtcmalloc");
	if (!tc || !claims)
		goto out;
	tc->b = b;
	tc->memory = tc->pages.memory = memory;
	/* 48-bit addresses, pages of 8 KiB, two levels of 17 and 18 bits */
	tc->tree = (struct radix){
		.b = b,
		.memory = memory,
		.shape = { .shift = { 31, PAGE_SHIFT }, .bits = { 17, 18 }, .align = 8 }
	};
	rc = found = radix_find(&tc->tree, proof, tc);
	tc->fresh = *memory;
	tc->fresh.copies = NULL;
	tc->memory = &tc->fresh;
	if (rc == 1)
		rc = walk_all(tc, claims);
	/* that nothing was found in the end says something only where it is known to be there */
	if (rc == 0 &&
	    ((tc->classes && tc->good) || (memory_is_spent(memory) && (found || mapped)))) {
		static const char *const label[] = { "tcmalloc" };
		rc = heaps_judge(b, memory, "tcmalloc", agreement(tc));
		if (rc != 1)
			goto out;
		rc = heaps_claim(b, claims, REGION_ALLOCATOR, label, "tcmalloc");
		a = rc == 0 ? heaps_add(b) : NULL;
		rc = rc == 0 && !a ? -ENOMEM : rc;
	} else if (rc == 0 && mapped) {
		rc = heaps_unread(b, "tcmalloc",
				  "identified only, because no page map of gperftools was found");
	}
	if (a) {
		*a = tc->sum;
		snprintf(a->allocator, sizeof(a->allocator), "tcmalloc");
		snprintf(a->how, sizeof(a->how),
			 "every span, by its page map; %llu thread cache%s%s",
			 (unsigned long long)tc->cache_count, tc->cache_count == 1 ? "" : "s",
			 tc->central ? "" : "; central caches count as live");
		a->exact = 1;
		a->consistency = agreement(tc);
	}
out:
	free(claims);
	free(tc);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
