/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc_cache.c - free blocks that look like live ones: each thread's cache, and the arenas'
 * fastbins.
 */
#include "heaps/glibc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

#define CACHE_STEPS_MAX (1u << 20) /* blocks followed in all thread caches together */
#define FAST_STEPS_MAX (1u << 26)  /* in fastbins, mostly without a look at the target */
#define STEP_COST 16u              /* of memory_spend() */
#define FASTBINS 10
#define FASTBINS_BYTES (FASTBINS * 8u)
#define BIN_MAX 65536u /* blocks in one bin of a cache: a tunable's bound */
#define SMALL_BINS 64u
#define NEAR_LINES 64
#define NEAR_BYTES 4096u

/*
 * Lists lead through memory block by block. Blocks freed one after the other are often neighbours,
 * so a page is copied at a time and kept for the next step.
 */
struct near {
	const struct memory *memory;
	/* 0 = empty */
	uint64_t addr[NEAR_LINES];
	char bytes[NEAR_LINES][NEAR_BYTES];
};

static int near_read(struct near *near, uint64_t addr, void *to, size_t len)
{
	uint64_t base = addr & ~(uint64_t)(NEAR_BYTES - 1);
	size_t line = (base / NEAR_BYTES) % NEAR_LINES;
	if (addr - base + len > NEAR_BYTES)
		return memory_read(near->memory, addr, to, len);
	if (near->addr[line] != base) {
		near->addr[line] = 0;
		if (memory_read(near->memory, base, near->bytes[line], NEAR_BYTES) < 0)
			return memory_read(near->memory, addr, to, len);
		near->addr[line] = base;
	}
	memcpy(to, near->bytes[line] + (addr - base), len);
	return 0;
}

static int in_heap(const struct glibc_reading *r, uint64_t addr)
{
	const struct glibc_span *span = glibc_span_at(r, addr);
	return span && span->end - addr >= 32;
}

const struct glibc_tcache_shape glibc_tcache_shapes[3] = {
	{ 0x250, 64, 1, 0, 0 }, /* 2.26 to 2.29 */
	{ 0x290, 64, 2, 0, 1 }, /* 2.30 to 2.41 */
	{ 0x300, 76, 2, 1, 1 }, /* since 2.42 */
};

const struct glibc_tcache_shape *glibc_tcache_shape(uint64_t chunk_bytes)
{
	for (unsigned i = 0; i < 3; i++)
		if (glibc_tcache_shapes[i].chunk == chunk_bytes)
			return &glibc_tcache_shapes[i];
	return NULL;
}

static unsigned number_at(const struct glibc_tcache_shape *shape, const char *body, unsigned bin)
{
	uint16_t wide;
	if (shape->count_bytes == 1)
		return (unsigned char)body[bin];
	memcpy(&wide, body + bin * 2, 2);
	return wide;
}

static uint64_t head_at(const struct glibc_tcache_shape *shape, const char *body, unsigned bin)
{
	uint64_t head;
	memcpy(&head, body + shape->bins * shape->count_bytes + bin * 8, 8);
	return head;
}

int glibc_tcache_looks(const struct glibc_reading *r, const struct glibc_tcache_shape *shape,
		       const void *body)
{
	unsigned used = 0, empty_number = UINT32_MAX;
	for (unsigned i = 0; i < shape->bins; i++) {
		unsigned number = number_at(shape, body, i);
		uint64_t head = head_at(shape, body, i);
		if (head & 15 || (!shape->slots_left && !number != !head))
			return 0;
		/*
		 * slots: an empty bin has all of them left, bins of large blocks may have none at
		 * all
		 */
		if (shape->slots_left && !head && i < SMALL_BINS) {
			if (empty_number != UINT32_MAX && number != empty_number)
				return 0;
			empty_number = number;
		}
		used += head != 0;
	}
	for (unsigned i = 0; i < shape->bins; i++) {
		uint64_t head = head_at(shape, body, i);
		if (head && (!in_heap(r, head - 16) ||
			     (shape->slots_left && i < SMALL_BINS && empty_number != UINT32_MAX &&
			      number_at(shape, body, i) >= empty_number)))
			return 0;
	}
	return used != 0;
}

/* The walk counted it as in use. */
static void uncount(struct glibc_lists *all, uint64_t chunk_bytes, uint64_t count)
{
	unsigned class = units_class(chunk_bytes - 8);
	if (all->class_count[class] < count || all->class_bytes[class] < count * (chunk_bytes - 8))
		return;
	all->class_count[class] -= count;
	all->class_bytes[class] -= count * (chunk_bytes - 8);
}

struct lists {
	struct near *near;
	struct glibc_reading *reading;
	struct glibc_lists *all;
	/* what all cached blocks carry since 2.34; 0 = not seen yet */
	uint64_t key;
	/* left */
	unsigned steps;
};

/* The whole entry, header first: prev_size, size, next, key. */
static int read_entry(struct lists *l, uint64_t at, uint64_t entry[4])
{
	return !(at & 15) && in_heap(l->reading, at - 16) &&
	       near_read(l->near, at - 16, entry, 32) == 0;
}

/* Whether a chunk of @size belongs in @bin of a cache. */
static int fits_bin(uint64_t size, unsigned bin)
{
	if (bin < SMALL_BINS)
		return size == (uint64_t)(bin + 2) * 16;
	return size >= 1024ull << (bin - SMALL_BINS) && size < 2048ull << (bin - SMALL_BINS);
}

static uint64_t step(struct lists *l, uint64_t at, uint64_t stored)
{
	uint64_t mixed = glibc_link_of(at, stored, 1);
	if (l->all->mixed < 0) /* the last link is zero: stored as such, or as the address */
		l->all->mixed = stored && (!mixed || in_heap(l->reading, mixed - 16));
	return l->all->mixed ? mixed : stored;
}

/* One bin of a thread cache. Returns blocks found, -1 for no cache. */
static int follow_tcache(struct lists *l, const struct glibc_table *table, uint64_t head,
			 unsigned bin, unsigned number)
{
	uint64_t at = head, entry[4];
	unsigned found = 0, most = table->shape->slots_left ? BIN_MAX : number;
	for (; at && found < most && l->steps; l->steps--) {
		if (!read_entry(l, at, entry) || !fits_bin(entry[1] & ~7ull, bin))
			return found ? (int)found : -1;
		/* the table's address was the key before 2.34 */
		if (table->shape->keyed && entry[3] != table->addr &&
		    (!entry[3] || (l->key && entry[3] != l->key)))
			return found ? (int)found : -1;
		if (table->shape->keyed && entry[3] != table->addr)
			l->key = entry[3];
		if (units_piece(&l->all->found, at - 16, entry[1] & ~7ull, PIECE_CACHED) < 0)
			return -ENOMEM;
		found++;
		at = step(l, at, entry[2]);
	}
	l->reading->limited |= !l->steps;
	return (int)found;
}

static int add_table(struct lists *l, const struct glibc_table *table)
{
	char body[GLIBC_TABLE_MOST];
	struct glibc_totals *t = &l->reading->totals;
	struct units *found = &l->all->found;
	size_t first = found->piece_count;
	uint64_t bytes = 0, blocks = 0, key = l->key;
	if (memory_read(l->near->memory, table->addr, body, glibc_table_bytes(table->shape)) < 0)
		return 0;
	for (unsigned i = 0; i < table->shape->bins; i++) {
		uint64_t head = head_at(table->shape, body, i);
		int n = head ? follow_tcache(l, table, head, i, number_at(table->shape, body, i))
			     : 0;
		if (n == -ENOMEM)
			return n;
		if (n < 0) { /* a block of the program's own that happened to look like one */
			l->key = key;
			found->piece_count = first;
			return 0;
		}
		blocks += (uint64_t)n;
	}
	for (size_t i = first; i < found->piece_count; i++)
		bytes += found->pieces[i].bytes;
	uint64_t live = bytes + table->shape->chunk;
	if (live > t->live_bytes || blocks + 1 > t->live_count) {
		found->piece_count = first;
		return 0;
	}
	for (size_t i = first; i < found->piece_count; i++)
		uncount(l->all, found->pieces[i].bytes, 1);
	uncount(l->all, table->shape->chunk, 1);
	t->live_bytes -= live;
	t->live_count -= blocks + 1;
	t->tcache_bytes += bytes;
	t->cached_count += blocks;
	t->metadata_bytes += table->shape->chunk;
	t->thread_caches++;
	return units_piece(found, table->addr - 16, table->shape->chunk, PIECE_TABLES);
}

/*
 * Fastbins: i holds chunks of (i + 2) * 16 bytes; they stand right before `top`, and are gone since
 * 2.43.
 */

static int read_fastbins(const struct memory *memory, const struct glibc_arena *arena,
			 uint64_t heads[FASTBINS])
{
	return arena->bins - arena->addr >= 16 + FASTBINS_BYTES &&
	       memory_read(memory, arena->bins - 16 - FASTBINS_BYTES, heads, FASTBINS_BYTES) == 0;
}

void glibc_lists_begin(const struct memory *memory, struct glibc_reading *reading,
		       struct glibc_lists *lists)
{
	uint64_t heads[FASTBINS], next;
	lists->mixed = -1;
	for (size_t k = 0; k < reading->arena_count; k++) {
		if (!read_fastbins(memory, &reading->arenas[k], heads))
			continue;
		for (unsigned i = 0; i < FASTBINS; i++) {
			if (!heads[i] || heads[i] & 15 || !in_heap(reading, heads[i]))
				continue;
			lists->fast = 1;
			if (lists->mixed < 0 && memory_read(memory, heads[i] + 16, &next, 8) == 0) {
				uint64_t mixed = glibc_link_of(heads[i] + 16, next, 1);
				lists->mixed = next && (!mixed || in_heap(reading, mixed));
			}
		}
	}
}

/* The word that leads on from the chunk at @at: as the walk met it, else as it is now. */
static int next_of(struct lists *l, uint64_t at, uint64_t want, uint64_t *next)
{
	const struct glibc_lists *all = l->all;
	uint64_t entry[4];
	size_t i = search_beyond(all->links, all->link_count, sizeof(*all->links),
				 offsetof(struct glibc_link, chunk), at - 1);
	if (i < all->link_count && all->links[i].chunk == at) {
		*next = all->links[i].next;
		return 1;
	}
	if (!read_entry(l, at + 16, entry) || (entry[1] & ~7ull) != want)
		return 0;
	*next = entry[2];
	return 1;
}

static int add_fastbins(struct lists *l, const struct glibc_arena *arena)
{
	struct glibc_totals *t = &l->reading->totals;
	uint64_t heads[FASTBINS], next;
	if (!read_fastbins(l->near->memory, arena, heads))
		return 0;
	for (unsigned i = 0; i < FASTBINS; i++) {
		uint64_t want = (uint64_t)(i + 2) * 16, at = heads[i];
		for (; at && l->steps; l->steps--) {
			if (at & 15 || !in_heap(l->reading, at) || t->live_bytes < want ||
			    !t->live_count || memory_spend(l->near->memory, STEP_COST) < 0 ||
			    !next_of(l, at, want, &next))
				break;
			uncount(l->all, want, 1);
			t->live_bytes -= want;
			t->live_count--;
			t->fastbin_bytes += want;
			t->free_bytes += want;
			t->free_count++;
			if (units_piece(&l->all->found, at, want, PIECE_FREE) < 0)
				return -ENOMEM;
			at = step(l, at + 16, next);
		}
		l->reading->limited |= !l->steps;
	}
	return 0;
}

int glibc_caches(const struct memory *memory, struct glibc_reading *reading,
		 struct glibc_lists *all)
{
	struct near *near = calloc(1, sizeof(*near));
	if (!near)
		return -ENOMEM;
	near->memory = memory;
	struct lists lists = {
		.near = near, .reading = reading, .all = all, .steps = CACHE_STEPS_MAX
	};
	int rc = 0;
	for (size_t i = 0; i < all->table_count && !rc; i++)
		rc = add_table(&lists, &all->tables[i]);
	lists.steps = FAST_STEPS_MAX;
	for (size_t i = 0; i < reading->arena_count && !rc; i++)
		rc = add_fastbins(&lists, &reading->arenas[i]);
	free(near);
	return rc;
}
