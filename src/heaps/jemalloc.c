/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc.c - jemalloc 5.3 read from outside. Its radix tree says of every page which extent it
 * belongs to, and proves itself: an entry names a descriptor that names the same page again, with
 * the same size class. Blocks that thread caches hold look handed out there; the caches hang on
 * their arenas.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"

#define BASE_BLOCK (2ull << 20) /* its own bookkeeping comes in blocks of whole multiples of this */
#define BASE_BLOCKS_MAX 4096u
#define SIZES_MAX 232u
#define QUANTA 2u /* smallest distance of size classes: 16 bytes, or 8 (--with-lg-quantum=3) */
#define ARENA_LOOK (32u << 10)
#define ARENAS_MAX 4096u
#define CACHES_MAX 65536u
#define BINS_MAX 80u
#define BINS_PROOF 12u
#define LOOKS_MAX (1u << 17)
#define EXTENTS_MAX (1u << 24)
#define NEAR_PAGES 64u /* of descriptors, copied whole: most lie beside one that was read before */

enum { ACTIVE, DIRTY, MUZZY, RETAINED, STATES };

struct extent {
	/* in whole pages once it has been read */
	uint64_t bits, addr, size;
};

struct near_page {
	/* its address; 0: none. The first page of an address space is nobody's */
	uint64_t page;
	char bytes[4096];
};

struct je {
	struct breakdown *b;
	struct near_page near[NEAR_PAGES];
	const struct memory *memory;
	/* without copies: arenas are looked for as they are now */
	struct memory fresh;
	struct radix tree;
	uint64_t root_bytes;
	struct memory_pages pages;
	/* the one that was met last: it may go on in the next mapping */
	struct extent last;
	uint64_t last_resident;
	uint64_t live[QUANTA], count[QUANTA], holes[QUANTA], fits[QUANTA], active;
	/* bytes whose descriptors agree with the tree, or do not */
	uint64_t good, bad;
	uint64_t free_pages, resident, reserved, metadata, cached, cached_count, caches;
	/* sorted */
	uint64_t base[BASE_BLOCKS_MAX];
	size_t base_count;
	/* of the list of caches in an arena; 0: not found yet */
	uint64_t list_offset;
	uint64_t arenas[ARENAS_MAX];
	size_t arena_count;
	unsigned looks, extents;
	unsigned quantum;
	/* of ours */
	size_t first_unit;
};

static unsigned szind_of(uint64_t bits)
{
	return bits >> 20 & 255;
}

/* Bytes of size class @index where classes are @lg_quantum apart. */
static uint64_t size_of(unsigned index, unsigned lg_quantum)
{
	unsigned tiny = lg_quantum > 3;
	if (index < tiny)
		return 8;
	index -= tiny;
	unsigned group = index / 4, shift = group ? group : 1;
	return (group ? (2ull << lg_quantum) << group : 0) +
	       ((index % 4 + 1ull) << (shift + lg_quantum - 1));
}

/*
 * The descriptor of an entry; 0: none. An entry without one may still hold the number behind the
 * last size class.
 */
static uint64_t extent_at(uint64_t entry)
{
	return (uint64_t)((int64_t)(entry << 16) >> 16) & ~127ull;
}

/*
 * A descriptor, by way of a copy of its page: a heap of a gigabyte has some 60,000, and to read one
 * takes as long as a page of them.
 */
static int read_descriptor(struct je *je, uint64_t at, struct extent *e)
{
	uint64_t page = at & ~4095ull;
	struct near_page *near = &je->near[page / 4096 % NEAR_PAGES];
	if (near->page != page) {
		near->page = page;
		if (memory_read(je->memory, page, near->bytes, sizeof(near->bytes)) < 0)
			near->page = 0;
	}
	if (!near->page || at - page > sizeof(near->bytes) - sizeof(*e))
		return memory_read(je->memory, at, e, sizeof(*e));
	memcpy(e, near->bytes + (at - page), sizeof(*e));
	return 0;
}

/* A large block may begin anywhere on its first page: spread over cache lines on purpose. */
static int read_extent(struct je *je, uint64_t entry, struct extent *e)
{
	uint64_t at = extent_at(entry);
	if (!scan_heap_at(je->b, at, 128) || read_descriptor(je, at, e) < 0)
		return 0;
	e->addr &= ~4095ull;
	e->size &= ~4095ull;
	return 1;
}

/* Whether tree and descriptor say the same of the page at @addr. */
static int agrees(const struct extent *e, uint64_t addr, uint64_t entry)
{
	unsigned state = e->bits >> 17 & 7, szind = szind_of(e->bits);
	if (!e->size || e->size >> 47 || addr < e->addr || addr - e->addr >= e->size ||
	    state >= STATES || state != (entry >> 2 & 7))
		return 0;
	/* what is not handed out keeps the class that it had last in one of both places */
	return state != ACTIVE || (szind < SIZES_MAX && szind == (entry >> 48 & 255) &&
				   (e->bits >> 12 & 1) == (entry & 1));
}

/*
 * Any three words of a program's heap may pass for a descriptor, and one of them for a size of
 * terabytes. jemalloc enters the first and the last page of every extent, so both lead to this
 * descriptor again.
 */
static int proof(void *ctx, uint64_t addr, uint64_t entry)
{
	struct je *je = ctx;
	struct extent e;
	if (!read_extent(je, entry, &e) || !agrees(&e, addr, entry))
		return 0;
	return extent_at(radix_entry(&je->tree, e.addr)) == extent_at(entry) &&
	       extent_at(radix_entry(&je->tree, e.addr + e.size - 4096)) == extent_at(entry);
}

/* ---- extents --------------------------------------------------------------------------------- */

static void note_base(struct je *je, uint64_t addr)
{
	uint64_t block = addr & ~(BASE_BLOCK - 1);
	size_t low = 0, high = je->base_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (je->base[mid] < block)
			low = mid + 1;
		else
			high = mid;
	}
	if ((low < je->base_count && je->base[low] == block) || je->base_count == BASE_BLOCKS_MAX)
		return;
	memmove(&je->base[low + 1], &je->base[low], (je->base_count - low) * sizeof(je->base[0]));
	je->base[low] = block;
	je->base_count++;
}

/*
 * Its slots depend on what the quantum turns out to be: till then the number of the size class
 * stands for it.
 */
static void give_unit(struct je *je, const struct extent *e)
{
	unsigned state = e->bits >> 17 & 7, slab = e->bits >> 12 & 1;
	struct unit unit = {
		.start = e->addr, .bytes = e->size, .slot = szind_of(e->bits), .kind = UNIT_FREE
	};
	if (state == ACTIVE) {
		unit.kind = slab ? UNIT_SLAB : UNIT_BLOCK;
		unit.used = slab ? (uint32_t)(e->bits >> 28 & 1023)
				 : 1; /* of a slab: free slots, till then */
	} else {
		unit.slot = 0;
		unit.flags = state == DIRTY   ? UNIT_DECAYS
			     : state == MUZZY ? UNIT_DECAYS | UNIT_GIVEN
					      : 0;
	}
	units_add(je->b->units, &unit);
}

static void settle_units(struct je *je)
{
	for (size_t i = je->first_unit; je->b->units && i < je->b->units->count; i++) {
		struct unit *u = &je->b->units->units[i];
		if (u->kind != UNIT_SLAB && u->kind != UNIT_BLOCK)
			continue;
		u->slot = size_of((unsigned)u->slot, je->quantum ? 3 : 4);
		uint64_t room = u->slot ? u->bytes / u->slot : 0;
		if (u->kind == UNIT_SLAB)
			u->used = u->used < room ? (uint32_t)(room - u->used) : 0;
		else
			u->slot = u->slot < u->bytes ? u->slot : u->bytes;
	}
}

/* The last extent has been met from end to end. */
static void count_last(struct je *je)
{
	const struct extent *e = &je->last;
	uint64_t resident = je->last_resident, bytes = e->size;
	je->last_resident = 0;
	je->resident += resident;
	je->reserved += bytes;
	give_unit(je, e);
	if (!bytes || (e->bits >> 17 & 7) != ACTIVE) {
		je->free_pages += resident;
		return;
	}
	je->active++;
	for (unsigned q = 0; q < QUANTA; q++) {
		uint64_t size = size_of(szind_of(e->bits), q ? 3 : 4), live = size, count = 1;
		if (e->bits >> 12 & 1) {
			uint64_t room = bytes / size, unused = e->bits >> 28 & 1023;
			je->fits[q] += bytes % size == 0 && unused <= room;
			count = unused < room ? room - unused : 0;
			live = count * size;
		} else {
			uint64_t pages = (size + 4095) & ~4095ull;
			je->fits[q] += bytes == pages || bytes == pages + 4096;
		}
		live = live < bytes ? live : bytes;
		je->live[q] += live;
		je->count[q] += count;
		je->holes[q] += resident > live ? resident - live : 0;
	}
}

/*
 * What of the last extent lies in @r: bytes of it that are resident. Extents do not end where the
 * kernel cuts mappings.
 */
static uint64_t take_part(struct je *je, const struct region *r, uint64_t *at)
{
	uint64_t end = je->last.addr + je->last.size;
	end = end < r->end ? end : r->end;
	if (end <= *at)
		return 0;
	uint64_t resident = memory_resident(&je->pages, *at, end);
	je->last_resident += resident;
	je->good += end - *at;
	*at = end;
	return resident;
}

/* All extents of one mapping, behind those of the mappings before it. Resident bytes in them. */
static uint64_t walk_region(struct je *je, const struct region *r)
{
	uint64_t at = (r->start + 4095) & ~4095ull, resident = take_part(je, r, &at);
	while (at >= r->start && at < r->end) {
		uint64_t entry = radix_entry(&je->tree, at);
		struct extent e;
		if (je->tree.leaf)
			note_base(je, je->tree.leaf);
		if (je->tree.node)
			note_base(je, je->tree.node);
		if (!extent_at(entry)) {
			at = radix_next(&je->tree, at, r->end);
			continue;
		}
		if (je->extents++ > EXTENTS_MAX || !read_extent(je, entry, &e) ||
		    !agrees(&e, at, entry) || e.addr < je->last.addr + je->last.size) {
			je->bad += 4096;
			at += 4096;
			continue;
		}
		note_base(je, extent_at(entry));
		count_last(je);
		je->last = e;
		resident += take_part(je, r, &at);
	}
	return resident;
}

/* Resident bytes of bookkeeping in one mapping: what the blocks of it hold beside extents. */
static uint64_t walk_base(struct je *je, const struct region *r)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < je->base_count && je->base[i] < r->end; i++) {
		if (je->base[i] + BASE_BLOCK <= r->start)
			continue;
		uint64_t start = je->base[i] > r->start ? je->base[i] : r->start;
		uint64_t end =
			je->base[i] + BASE_BLOCK < r->end ? je->base[i] + BASE_BLOCK : r->end;
		uint64_t tables = 0; /* pages in a row that are no extent's */
		for (; start < end; start += 4096) {
			int own = !extent_at(radix_entry(&je->tree, start));
			if (own)
				bytes += memory_resident(&je->pages, start, start + 4096);
			tables = own ? tables + 4096 : tables;
			if (tables && (!own || start + 4096 >= end)) {
				const struct unit unit = { .start = own ? start + 4096 - tables
									: start - tables,
							   .bytes = tables,
							   .kind = UNIT_TABLES };
				units_add(je->b->units, &unit);
				tables = 0;
			}
		}
	}
	je->metadata += bytes;
	je->resident += bytes;
	return bytes;
}

/* ---- thread caches --------------------------------------------------------------------------- */

struct cache_bin {
	uint64_t head, requests;
	uint16_t low_water, full, empty, pad;
};

/*
 * The stacks of a cache's bins lie one behind the other: that is how they are told from anything
 * else.
 */
static unsigned bins_that_fit(const struct cache_bin *bins, unsigned count)
{
	unsigned i = 0;
	for (; i < count; i++) {
		uint16_t room = (uint16_t)(bins[i].empty - bins[i].full),
			 used = (uint16_t)(bins[i].empty - (uint16_t)bins[i].head);
		if (!bins[i].head || bins[i].head & 7 || room & 7 || !room || used > room ||
		    (i && bins[i].full != bins[i - 1].empty))
			break;
	}
	return i;
}

/* The blocks of one bin: as many addresses from its head on. */
static void give_cached(struct je *je, uint64_t head, unsigned used, uint64_t size)
{
	uint64_t blocks[256];
	while (used && je->b->units) {
		unsigned count = used < 256 ? used : 256;
		if (memory_read(je->memory, head, blocks, count * 8) < 0)
			return;
		for (unsigned i = 0; i < count; i++)
			if (scan_heap_at(je->b, blocks[i], 8))
				units_piece(je->b->units, blocks[i], size, PIECE_CACHED);
		head += count * 8;
		used -= count;
	}
}

static int add_cache(struct je *je, uint64_t at)
{
	struct cache_bin bins[BINS_MAX];
	if (memory_read_resident(je->memory, at, bins, sizeof(bins)) < 0)
		return 0;
	unsigned count = bins_that_fit(bins, BINS_MAX);
	if (count < BINS_PROOF)
		return 0;
	je->caches++;
	for (unsigned i = 0; i < count; i++) {
		uint16_t used = (uint16_t)(bins[i].empty - (uint16_t)bins[i].head) / 8;
		je->cached += used * size_of(i, je->quantum ? 3 : 4);
		je->cached_count += used;
		give_cached(je, bins[i].head, used, size_of(i, je->quantum ? 3 : 4));
	}
	return 1;
}

/*
 * A cache is a thread's own: in its stack's mapping, or in a block of the allocator's. The first
 * thread's storage may have been mapped right behind a library's data and be one mapping with it.
 */
static int may_hold_cache(const struct breakdown *b, uint64_t at)
{
	size_t i = breakdown_find(b, at);
	return !(at & 7) && i < b->region_count &&
	       (scan_is_heap(&b->regions[i]) || scan_is_data(&b->regions[i]));
}

/* A ring of { next, previous, bins }, one for each thread: its caches are added. */
static int follow_caches(struct je *je, uint64_t first)
{
	uint64_t link[3], at = first, before = 0;
	for (unsigned i = 0; i < CACHES_MAX; i++) {
		if (je->looks++ > LOOKS_MAX || !may_hold_cache(je->b, at) ||
		    memory_read(je->memory, at, link, sizeof(link)) < 0 || link[2] & 7 ||
		    (before && link[1] != before))
			return i > 0;
		struct cache_bin few[BINS_PROOF];
		if (!i && (!link[1] || memory_read(je->memory, link[2], few, sizeof(few)) < 0 ||
			   bins_that_fit(few, BINS_PROOF) < BINS_PROOF))
			return 0;
		if (!add_cache(je, link[2]))
			return i > 0;
		before = at;
		at = link[0];
		if (at == first)
			break;
	}
	return 1;
}

static void look_at_arena(struct je *je, uint64_t addr)
{
	uint64_t words[ARENA_LOOK / 8];
	if (je->arena_count == ARENAS_MAX || je->looks > LOOKS_MAX)
		return;
	for (size_t i = 0; i < je->arena_count; i++)
		if (je->arenas[i] == addr)
			return;
	je->arenas[je->arena_count++] = addr;
	if (je->list_offset) {
		if (memory_read(je->memory, addr + je->list_offset, words, 8) == 0 && words[0])
			follow_caches(je, words[0]);
		return;
	}
	if (memory_read_resident(je->memory, addr, words, sizeof(words)) < 0)
		return;
	for (size_t i = 0; i < ARENA_LOOK / 8 && !je->list_offset; i++)
		if (words[i] && follow_caches(je, words[i]))
			je->list_offset = i * 8;
}

/* The arenas stand in the same data as the tree; each lies in jemalloc's own bookkeeping. */
static int look_for_arenas(void *ctx, const struct scan_block *block)
{
	struct je *je = ctx;
	for (size_t i = 0; i < block->count; i++) {
		uint64_t at = block->words[i], root = block->addr + i * 8 - je->tree.root;
		if (at && root >= je->root_bytes && scan_heap_at(je->b, at, 64) &&
		    !extent_at(radix_entry(&je->tree, at)))
			look_at_arena(je, at);
	}
	return 0;
}

/*
 * -------------------------------------------------------------------------------------------------
 */

static const char *const labels[] = { "jemalloc", "jemalloc metadata" };

/* Everything, and which label each mapping deserves. */
static int walk_all(struct je *je, uint8_t *claims)
{
	struct breakdown *b = je->b;
	uint64_t *owned = calloc(b->region_count + 1, sizeof(*owned));
	if (!owned)
		return -ENOMEM;
	for (size_t i = 0; i < b->region_count; i++)
		if (scan_is_heap(&b->regions[i]))
			owned[i] = walk_region(je, &b->regions[i]);
	count_last(je);
	je->quantum = je->fits[1] > je->fits[0];
	settle_units(je);
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		if (!scan_is_heap(r) || !r->rss_bytes)
			continue;
		uint64_t base = walk_base(je, r);
		if (r->class == REGION_ANONYMOUS && owned[i] + base >= r->rss_bytes / 2)
			claims[i] = owned[i] >= base ? 1 : 2;
	}
	free(owned);
	return je->good ? scan_data(b, je->memory, je->root_bytes, look_for_arenas, je) : 0;
}

/*
 * Whether it is jemalloc at all: any array of pointers in a program's data may pass for a tree, but
 * the sizes of what is handed out are those that it has classes for. One odd extent in sixteen may
 * be read while it changes.
 */
static int is_proven(const struct je *je)
{
	uint64_t fits = je->fits[je->quantum];
	return je->active >= 2 && fits + je->active / 16 >= je->active;
}

static double agreement(const struct je *je)
{
	return 100 * (double)je->good / (double)(je->good + je->bad);
}

static void tell(const struct je *je, struct allocator_reading *a)
{
	unsigned q = je->quantum;
	a->live_bytes = je->live[q] > je->cached ? je->live[q] - je->cached : 0;
	a->live_count = je->count[q] > je->cached_count ? je->count[q] - je->cached_count : 0;
	a->free_page_bytes = je->free_pages;
	a->hole_bytes = je->holes[q];
	a->cache_bytes = je->list_offset ? je->cached : UINT64_MAX;
	a->metadata_bytes = je->metadata;
	a->reserved_bytes = je->reserved;
	a->resident_bytes = je->resident;
	a->consistency = agreement(je);
	a->exact = 1;
	if (je->list_offset)
		snprintf(a->how, sizeof(a->how),
			 "every extent, by its radix tree; %llu thread cache%s",
			 (unsigned long long)je->caches, je->caches == 1 ? "" : "s");
	else
		snprintf(a->how, sizeof(a->how),
			 "every extent, by its radix tree; what threads cache counts as live");
}

/*
 * Of a leaf's entry that has two words: the class's number stands in the second from bit 5 on, the
 * flags below.
 */
static uint64_t join(uint64_t descriptor, uint64_t facts)
{
	return (facts >> 5 & 255) << 48 | (descriptor & 0xffffffffff80ull) | (facts & 31);
}

/*
 * Pages of 4 KiB: two levels of 18 bits for addresses of 48 bits; three of 15 bits where it was
 * built for addresses of 57 (on a machine that has them), whose class numbers found no room beside
 * the pointer.
 */
static int find_tree(struct je *je)
{
	static const struct radix_shape shapes[] = {
		{ .shift = { 30, 12 }, .bits = { 18, 18 }, .align = 64 },
		{ .shift = { 42, 12 },
		  .bits = { 15, 15 },
		  .middle_shift = 27,
		  .middle_bits = 15,
		  .align = 64,
		  .join = join },
	};
	int rc = 0;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]) && rc == 0; i++) {
		je->tree = (struct radix){ .b = je->b, .memory = je->memory, .shape = shapes[i] };
		je->root_bytes = 8ull << shapes[i].bits[0];
		rc = radix_find(&je->tree, proof, je);
	}
	return rc;
}

int heaps_jemalloc(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct je *je = calloc(1, sizeof(*je));
	uint8_t *claims = calloc(b->region_count + 1, 1);
	struct allocator_reading *a = NULL;
	int rc = -ENOMEM, found, mapped = scan_maps(b, "libjemalloc.");
	if (!je || !claims)
		goto out;
	je->b = b;
	je->memory = je->pages.memory = memory;
	je->first_unit = b->units ? b->units->count : 0;
	rc = found = find_tree(je);
	je->fresh = *memory;
	je->fresh.copies = NULL;
	je->memory = &je->fresh;
	if (rc == 1)
		rc = walk_all(je, claims);
	/* that nothing was found in the end says something only where it is known to be there */
	if (rc == 0 &&
	    ((je->good && is_proven(je)) || (memory_is_spent(memory) && (found || mapped)))) {
		rc = heaps_judge(b, memory, "jemalloc", agreement(je));
		if (rc != 1)
			goto out;
		rc = heaps_claim(b, claims, REGION_ALLOCATOR, labels, "jemalloc");
		a = rc == 0 ? heaps_add(b) : NULL;
		rc = rc == 0 && !a ? -ENOMEM : rc;
	} else if (rc == 0 && mapped) {
		rc = heaps_unread(
			b, "jemalloc",
			"identified only, because no radix tree of version 5.3 was found");
	}
	if (a) {
		snprintf(a->allocator, sizeof(a->allocator), "jemalloc");
		tell(je, a);
	}
out:
	free(claims);
	free(je);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
