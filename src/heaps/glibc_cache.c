/* SPDX-License-Identifier: Apache-2.0 */
/* glibc_cache.c - free blocks that look like live ones: each thread's cache, and the arenas' fastbins. */
#include "heaps/glibc.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_STEPS_MAX (1u << 20) /* blocks followed in all lists together */
#define FASTBINS 10
#define NEAR_LINES 64
#define NEAR_BYTES 4096u

/*
 * Lists lead through memory block by block. Blocks freed one after the other are often neighbours, so a page is copied at
 * a time and kept for the next step.
 */
struct near {
	const struct memory *memory;
	uint64_t addr[NEAR_LINES]; /* 0 = empty */
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

int glibc_tcache_looks(const struct glibc_reading *r, const void *body)
{
	struct glibc_tcache table;
	memcpy(table.counts, body, sizeof(table.counts));
	memcpy(table.heads, (const char *)body + sizeof(table.counts), sizeof(table.heads));
	unsigned used = 0;
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		if (!table.counts[i] != !table.heads[i] || table.heads[i] & 15)
			return 0;
		used += table.heads[i] != 0;
	}
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		if (table.heads[i] && !in_heap(r, table.heads[i] - 16))
			return 0;
	}
	return used != 0;
}

/* Since 2.32 links are stored mixed with their own address. */
static uint64_t link_of(uint64_t at, uint64_t stored, int mixed)
{
	return mixed ? (at >> 12) ^ stored : stored;
}

struct lists {
	struct near *near;
	struct glibc_reading *reading;
	uint64_t key;   /* what all cached blocks carry since 2.34; 0 = not seen yet */
	unsigned steps; /* left */
	int mixed;      /* links are mixed: -1 unknown */
};

/* The whole entry, header first: prev_size, size, next, key. */
static int read_entry(struct lists *l, uint64_t at, uint64_t entry[4])
{
	return !(at & 15) && in_heap(l->reading, at - 16) &&
	       near_read(l->near, at - 16, entry, 32) == 0;
}

/* One bin of a thread cache; @table: its address, which was the key before 2.34. Returns blocks found, -1 for no cache. */
static int follow_tcache(struct lists *l, uint64_t table, uint64_t head, unsigned bin,
			 unsigned count)
{
	uint64_t at = head, entry[4], want = (uint64_t)(bin + 2) * 16;
	unsigned found = 0;
	for (; at && found < count && l->steps; l->steps--) {
		if (!read_entry(l, at, entry) || (entry[1] & ~7ull) != want)
			return found ? (int)found : -1;
		if (entry[3] != table && (!entry[3] || (l->key && entry[3] != l->key)))
			return found ? (int)found : -1;
		if (entry[3] != table)
			l->key = entry[3];
		found++;
		uint64_t plain = entry[2], mixed = link_of(at, entry[2], 1);
		if (l->mixed < 0) /* the last link is zero: stored as such, or as the address */
			l->mixed = plain && (!mixed || in_heap(l->reading, mixed - 16));
		at = l->mixed ? mixed : plain;
	}
	return (int)found;
}

static void add_table(struct lists *l, uint64_t addr)
{
	char body[sizeof(((struct glibc_tcache *)0)->counts) +
		  sizeof(((struct glibc_tcache *)0)->heads)];
	struct glibc_tcache table;
	struct glibc_totals *t = &l->reading->totals;
	if (memory_read(l->near->memory, addr, body, sizeof(body)) < 0)
		return;
	memcpy(table.counts, body, sizeof(table.counts));
	memcpy(table.heads, body + sizeof(table.counts), sizeof(table.heads));
	uint64_t bytes = 0, blocks = 0, key = l->key;
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		if (!table.heads[i])
			continue;
		int found = follow_tcache(l, addr, table.heads[i], i, table.counts[i]);
		if (found < 0) { /* a block of the program's own that happened to look like one */
			l->key = key;
			return;
		}
		bytes += (uint64_t)found * (i + 2) * 16;
		blocks += (uint64_t)found;
	}
	uint64_t live = bytes + GLIBC_TCACHE_CHUNK;
	if (live > t->live_bytes || blocks + 1 > t->live_count)
		return;
	t->live_bytes -= live;
	t->live_count -= blocks + 1;
	t->tcache_bytes += bytes;
	t->cached_count += blocks;
	t->metadata_bytes += GLIBC_TCACHE_CHUNK;
	t->thread_caches++;
}

/* Fastbin i holds chunks of (i + 2) * 16 bytes; they stand right before `top`. */
static void add_fastbins(struct lists *l, const struct glibc_arena *arena)
{
	struct glibc_totals *t = &l->reading->totals;
	uint64_t heads[FASTBINS], entry[4];
	if (arena->bins - arena->addr < 16 + sizeof(heads) ||
	    memory_read(l->near->memory, arena->bins - 16 - sizeof(heads), heads, sizeof(heads)) <
		    0)
		return;
	for (unsigned i = 0; i < FASTBINS; i++) {
		uint64_t want = (uint64_t)(i + 2) * 16, at = heads[i];
		for (; at && l->steps; l->steps--) {
			if (!read_entry(l, at + 16, entry) || (entry[1] & ~7ull) != want ||
			    t->live_bytes < want || !t->live_count)
				break;
			t->live_bytes -= want;
			t->live_count--;
			t->fastbin_bytes += want;
			t->cached_count++;
			uint64_t plain = entry[2], mixed = link_of(at + 16, entry[2], 1);
			if (l->mixed < 0)
				l->mixed = plain && (!mixed || in_heap(l->reading, mixed));
			at = l->mixed ? mixed : plain;
		}
	}
}

void glibc_caches(const struct memory *memory, struct glibc_reading *reading,
		  const uint64_t *tables, size_t table_count)
{
	struct near *near = calloc(1, sizeof(*near));
	if (!near)
		return;
	near->memory = memory;
	struct lists lists = {
		.near = near, .reading = reading, .steps = CACHE_STEPS_MAX, .mixed = -1
	};
	for (size_t i = 0; i < table_count; i++)
		add_table(&lists, tables[i]);
	for (size_t i = 0; i < reading->arena_count; i++)
		add_fastbins(&lists, &reading->arenas[i]);
	free(near);
}
