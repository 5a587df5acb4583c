/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_memory.h - an address space made by hand for the readers of allocators: a few mappings, zero where nothing was put,
 * resident where something was. What is put behind fake_keep() is taken back by fake_reset().
 */
#ifndef TESTS_FAKE_MEMORY_H
#define TESTS_FAKE_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "proc/breakdown.h"
#include "proc/memory.h"

#define FAKE_PARTS 16
#define FAKE_PAGE 4096u
#define FAKE_LOG 65536u

struct fake_part {
	/* used: reads end there, as if the rest had been unmapped */
	uint64_t addr, bytes, used;
	char *data;
	/* a byte per page: resident */
	uint8_t *there, *kept;
};

struct fake {
	struct fake_part parts[FAKE_PARTS];
	/* one may be cut */
	struct region regions[FAKE_PARTS + 1], kept_regions[FAKE_PARTS + 1];
	unsigned count;
	struct memory memory;
	struct memory_there there;
	struct breakdown b;
	struct {
		uint64_t addr, old;
	} log[FAKE_LOG];
	unsigned logged;
	/* pages that a read would have mapped in */
	uint64_t reads_of_absent;
	/* how often what is resident */
	unsigned asked;
};

static inline struct fake_part *fake_part(struct fake *f, uint64_t addr)
{
	for (unsigned i = 0; i < f->count; i++)
		if (addr >= f->parts[i].addr && addr - f->parts[i].addr < f->parts[i].used)
			return &f->parts[i];
	return NULL;
}

static inline ssize_t fake_read(void *ctx, const struct target_piece *pieces, unsigned count)
{
	struct fake *f = ctx;
	ssize_t done = 0;
	for (unsigned i = 0; i < count; i++) {
		struct fake_part *part = fake_part(f, pieces[i].addr);
		if (!part)
			return done ? done : -1;
		uint64_t off = pieces[i].addr - part->addr, len = part->used - off;
		len = len < pieces[i].len ? len : pieces[i].len;
		for (uint64_t p = off / FAKE_PAGE; len && p <= (off + len - 1) / FAKE_PAGE; p++)
			f->reads_of_absent += !part->there[p];
		memcpy(pieces[i].to, part->data + off, len);
		done += (ssize_t)len;
		if (len < pieces[i].len)
			break;
	}
	return done;
}

static inline ssize_t fake_resident(void *ctx, uint64_t start, uint64_t end,
				    struct memory_run *runs, size_t max)
{
	struct fake *f = ctx;
	size_t count = 0;
	f->asked++;
	for (unsigned i = 0; i < f->count; i++) {
		struct fake_part *part = &f->parts[i];
		uint64_t from = start > part->addr ? start : part->addr;
		uint64_t stop = end < part->addr + part->used ? end : part->addr + part->used;
		for (uint64_t at = from & ~(uint64_t)(FAKE_PAGE - 1); at < stop; at += FAKE_PAGE) {
			if (!part->there[(at - part->addr) / FAKE_PAGE])
				continue;
			if (count && runs[count - 1].end == at)
				runs[count - 1].end += FAKE_PAGE;
			else if (count == max)
				return (ssize_t)count;
			else
				runs[count++] = (struct memory_run){ at, at + FAKE_PAGE };
		}
	}
	return (ssize_t)count;
}

/** fake_map() - one more mapping, behind the last one; @bytes a multiple of a page. */
static inline void fake_map(struct fake *f, uint64_t addr, uint64_t bytes, unsigned class,
			    const char *name)
{
	struct fake_part *part = &f->parts[f->count];
	*part = (struct fake_part){ .addr = addr,
				    .bytes = bytes,
				    .used = bytes,
				    .data = calloc(bytes, 1),
				    .there = calloc(bytes / FAKE_PAGE, 1),
				    .kept = calloc(bytes / FAKE_PAGE, 1) };
	f->regions[f->count++] = (struct region){ .start = addr,
						  .end = addr + bytes,
						  .perms = REGION_READ | REGION_WRITE,
						  .class = (uint8_t) class,
						  .inode = name[0] == '/',
						  .rss_bytes = bytes,
						  .name = name,
						  .label = "" };
	f->memory = (struct memory){ .ctx = f,
				     .page_bytes = FAKE_PAGE,
				     .read = fake_read,
				     .resident = fake_resident,
				     .there = &f->there };
	f->b.regions = f->regions;
	f->b.region_count = f->count;
}

/** fake_put() - a word; nothing where no mapping holds all of it. */
static inline void fake_put(struct fake *f, uint64_t addr, uint64_t value)
{
	struct fake_part *part = fake_part(f, addr);
	uint64_t off = part ? addr - part->addr : 0;
	if (!part || part->bytes - off < 8 || f->logged == FAKE_LOG)
		return;
	f->log[f->logged].addr = addr;
	memcpy(&f->log[f->logged++].old, part->data + off, 8);
	memcpy(part->data + off, &value, 8);
	part->there[off / FAKE_PAGE] = part->there[(off + 7) / FAKE_PAGE] = 1;
}

static inline void fake_put_bytes(struct fake *f, uint64_t addr, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;
		memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
		fake_put(f, addr + i, word);
	}
}

/** fake_touch() - [@start, @start + @bytes) is resident. */
static inline void fake_touch(struct fake *f, uint64_t start, uint64_t bytes)
{
	struct fake_part *part = fake_part(f, start);
	if (part)
		memset(part->there + (start - part->addr) / FAKE_PAGE, 1, bytes / FAKE_PAGE);
}

static inline void fake_keep(struct fake *f)
{
	f->logged = 0;
	for (unsigned i = 0; i < f->count; i++) {
		memcpy(f->parts[i].kept, f->parts[i].there, f->parts[i].bytes / FAKE_PAGE);
		f->regions[i].rss_bytes = 0;
		for (uint64_t p = 0; p < f->parts[i].bytes / FAKE_PAGE; p++)
			f->regions[i].rss_bytes += f->parts[i].there[p] * FAKE_PAGE;
	}
	memcpy(f->kept_regions, f->regions, sizeof(f->regions));
}

/** fake_cut() - behind fake_keep(): one mapping becomes two at @addr. */
static inline void fake_cut(struct fake *f, uint64_t addr)
{
	unsigned i = 0;
	while (f->regions[i].end <= addr)
		i++;
	struct fake_part *part = fake_part(f, addr);
	memmove(&f->regions[i + 1], &f->regions[i], (f->count - i) * sizeof(f->regions[0]));
	f->regions[i].end = f->regions[i + 1].start = addr;
	f->regions[i].rss_bytes = 0;
	for (uint64_t at = f->regions[i].start; at < addr; at += FAKE_PAGE)
		f->regions[i].rss_bytes += part->there[(at - part->addr) / FAKE_PAGE] * FAKE_PAGE;
	f->regions[i + 1].rss_bytes -= f->regions[i].rss_bytes;
	f->b.region_count = f->count + 1;
}

static inline void fake_reset(struct fake *f)
{
	while (f->logged) {
		f->logged--;
		for (unsigned i = 0; i < f->count; i++) {
			struct fake_part *part = &f->parts[i];
			uint64_t off = f->log[f->logged].addr - part->addr;
			if (f->log[f->logged].addr >= part->addr && off < part->bytes)
				memcpy(part->data + off, &f->log[f->logged].old, 8);
		}
	}
	for (unsigned i = 0; i < f->count; i++) {
		memcpy(f->parts[i].there, f->parts[i].kept, f->parts[i].bytes / FAKE_PAGE);
		f->parts[i].used = f->parts[i].bytes;
	}
	memcpy(f->regions, f->kept_regions, sizeof(f->regions));
	f->b.region_count = f->count;
	free(f->b.allocators);
	f->b.allocators = NULL;
	f->b.allocator_count = 0;
	f->reads_of_absent = 0;
	memset(f->there.stretch, 0, sizeof(f->there.stretch));
}

/** fake_leave() - the page at @addr is not resident any more: swapped out, or a file's. */
static inline void fake_leave(struct fake *f, uint64_t addr)
{
	struct fake_part *part = fake_part(f, addr);
	if (part)
		part->there[(addr - part->addr) / FAKE_PAGE] = 0;
	memset(f->there.stretch, 0, sizeof(f->there.stretch));
}

static inline void fake_fini(struct fake *f)
{
	for (unsigned i = 0; i < f->count; i++) {
		free(f->parts[i].data);
		free(f->parts[i].there);
		free(f->parts[i].kept);
	}
	free(f->b.allocators);
	intern_fini(&f->b.names);
	memset(f, 0, sizeof(*f));
}

#endif
