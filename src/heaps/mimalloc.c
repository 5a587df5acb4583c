/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mimalloc.c - mimalloc 2.0 to 2.2 read from outside. Its segments begin at multiples of 32 MiB
 * with a description of every page in them, and prove themselves: the pages add up to the segment,
 * and the same secret is mixed into each segment's address. Which version it is, the first segment
 * tells: read by another's layout none adds up. Version 3 has no segments (mimalloc3.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "heaps/readers.h"
#include "heaps/scan.h"

#define SEGMENT (32ull << 20)
#define SLICE 65536ull
#define SLICES 512u
#define SEGMENT_SLICES_MAX (1u << 24) /* of a huge one: 1 TiB */
#define SEGMENTS_TRIED_MAX 65536u
#define STEPS_MAX (1u << 20) /* of lists of blocks that other threads freed */
#define HEAPS_MAX 1024u

/** struct layout - where the words of a segment and of its pages stand. */
struct layout {
	const char *version;
	/* in a segment */
	uint16_t used, cookie, slices, info, kind, entries, thread, all;
	/* of a page */
	uint16_t stride;
	/* in a heap: the list of blocks in full pages, and then its thread */
	uint16_t delayed;
	/* pages of 2.1 and behind it */
	uint8_t wide;
	/* bytes of the keys of a hardened build */
	uint8_t keys;
};

static const struct layout layouts[] = {
	{ "2.0", 208, 216, 224, 232, 240, 248, 256, 264, 80, 2840, 0, 0 },
	{ "2.1", 208, 216, 224, 232, 240, 248, 256, 264, 96, 8, 1, 0 },
	{ "2.2", 216, 224, 248, 256, 264, 272, 280, 288, 96, 8, 1, 0 },
	{ "2.1, hardened", 208, 216, 224, 232, 240, 248, 256, 264, 112, 8, 1, 16 },
	{ "2.2, hardened", 216, 224, 248, 256, 264, 272, 280, 288, 112, 8, 1, 16 },
};
#define HEAD_MAX 288u
#define STRIDE_MAX 112u

struct slice {
	/* slices of this page; bytes back to its first */
	uint32_t count, offset;
	uint16_t capacity, reserved;
	uint32_t used;
	/* 0: nobody's */
	uint64_t block_bytes;
	uint64_t thread_free, heap;
};

struct segment {
	uint64_t used, cookie, slices, info_slices, entries, thread;
	/* 0 normal, 1 one huge page */
	uint32_t kind;
	struct slice all[SLICES + 1];
};

struct mi {
	struct breakdown *b;
	const struct memory *memory;
	struct memory_pages pages;
	struct allocator_reading sum;
	/* NULL: no segment was met */
	const struct layout *layout;
	struct segment segment;
	unsigned char raw[HEAD_MAX + (SLICES + 1) * STRIDE_MAX];
	uint64_t secret;
	unsigned segments, steps;
	/* pages that do not contradict themselves, and that do */
	uint64_t good, bad;
	struct {
		uint64_t addr, thread;
	} heaps[HEAPS_MAX];
	unsigned heap_count;
};

static uint64_t word_at(const unsigned char *raw, size_t at)
{
	uint64_t word;
	memcpy(&word, raw + at, sizeof(word));
	return word;
}

static void decode_slice(const struct layout *l, const unsigned char *raw, struct slice *slice)
{
	uint64_t first = word_at(raw, 0), counts = word_at(raw, 8), used = word_at(raw, 24);
	*slice = (struct slice){ .count = (uint32_t)first,
				 .offset = (uint32_t)(first >> 32),
				 .capacity = (uint16_t)(counts >> 16),
				 .reserved = (uint16_t)(counts >> 32) };
	if (l->wide) {
		slice->used = (uint16_t)word_at(raw, 32);
		slice->block_bytes = word_at(raw, 40);
		slice->thread_free = word_at(raw, 56u + l->keys);
		slice->heap = word_at(raw, 64u + l->keys);
		return;
	}
	slice->used = (uint32_t)used;
	slice->block_bytes = used >> 32;
	slice->thread_free = word_at(raw, 40);
	slice->heap = word_at(raw, 48);
}

static void decode_segment(const struct layout *l, const unsigned char *raw, struct segment *s)
{
	s->used = word_at(raw, l->used);
	s->cookie = word_at(raw, l->cookie);
	s->slices = word_at(raw, l->slices);
	s->info_slices = word_at(raw, l->info);
	s->kind = (uint32_t)word_at(raw, l->kind);
	s->entries = word_at(raw, l->entries);
	s->thread = word_at(raw, l->thread);
	for (unsigned i = 0; i <= SLICES; i++)
		decode_slice(l, raw + l->all + (size_t)i * l->stride, &s->all[i]);
}

static size_t segment_bytes(const struct layout *l)
{
	return l->all + (SLICES + 1) * (size_t)l->stride;
}

static int segment_looks(const struct mi *mi, const struct segment *s, uint64_t at)
{
	uint64_t want = s->slices < SLICES ? s->slices : SLICES;
	if (s->kind > 1 || !s->info_slices || s->info_slices > 16 || s->entries != want ||
	    s->slices > SEGMENT_SLICES_MAX || s->slices <= s->info_slices ||
	    (!s->kind && s->slices != SLICES) || s->used > SLICES || !s->cookie ||
	    s->all[0].count != s->info_slices || s->all[0].offset)
		return 0;
	if (mi->segments && (s->cookie ^ at) != mi->secret)
		return 0;
	uint64_t sum = 0, used = 0;
	while (sum < s->entries) {
		const struct slice *slice = &s->all[sum];
		if (!slice->count || slice->count > s->slices - sum || slice->offset)
			return 0;
		used += sum && slice->block_bytes;
		sum += slice->count;
	}
	return sum == s->entries || (s->kind && sum == s->slices) ? 1 + (used == s->used) : 0;
}

/* Blocks of one page that other threads freed: their owner takes them back when it next looks. */
static uint32_t count_freed(struct mi *mi, const struct slice *page, uint64_t start, uint64_t end)
{
	uint64_t at = page->thread_free & ~3ull;
	uint32_t count = 0;
	while (at && count < page->used && mi->steps < STEPS_MAX) {
		mi->steps++;
		if (at & 7 || at < start || at >= end ||
		    memory_read(mi->memory, at, &at, sizeof(at)) < 0)
			break;
		count++;
	}
	return count;
}

static void note_heap(struct mi *mi, uint64_t addr, uint64_t thread)
{
	for (unsigned i = 0; i < mi->heap_count; i++)
		if (mi->heaps[i].addr == addr)
			return;
	if (addr && !(addr & 7) && mi->heap_count < HEAPS_MAX) {
		mi->heaps[mi->heap_count].addr = addr;
		mi->heaps[mi->heap_count++].thread = thread;
	}
}

static void count_page(struct mi *mi, const struct segment *s, uint64_t start, uint64_t limit,
		       uint64_t index)
{
	const struct slice *page = &s->all[index];
	uint64_t bytes = page->count * SLICE, block = page->block_bytes;
	if (s->kind && (block >= 2ull << 30 || block > bytes))
		block = bytes; /* too large for its field */
	uint64_t end = limit - start < bytes ? limit : start + bytes;
	uint64_t resident = memory_resident(&mi->pages, start, end);
	mi->sum.resident_bytes += resident;
	struct unit unit = {
		.start = start, .bytes = end - start, .kind = UNIT_FREE, .flags = UNIT_DECAYS
	};
	if (!page->block_bytes) {
		mi->sum.free_page_bytes += resident;
		units_add(mi->b->units, &unit);
		return;
	}
	if (page->used > page->capacity || page->capacity > page->reserved || block & 7 ||
	    block > bytes || page->reserved * block > bytes) {
		mi->bad++;
		return;
	}
	mi->good++;
	uint64_t freed = count_freed(mi, page, start, end);
	unit.kind = page->reserved == 1 ? UNIT_BLOCK : UNIT_SLAB;
	unit.flags = 0;
	unit.slot = block;
	unit.used = page->used;
	unit.cached = (uint32_t)freed;
	units_add(mi->b->units, &unit);
	uint64_t taken = page->used * block;
	mi->sum.live_bytes += taken - freed * block;
	mi->sum.live_count += page->used - freed;
	mi->sum.cache_bytes += freed * block;
	mi->sum.hole_bytes += resident > taken ? resident - taken : 0;
	note_heap(mi, page->heap, s->thread);
}

/*
 * Whether a segment stands at @at, by the layout that is known, or by the first that makes sense of
 * it.
 */
static int read_segment(struct mi *mi, uint64_t at, uint64_t limit)
{
	const struct layout *first = mi->layout ? mi->layout : layouts;
	const struct layout *end = mi->layout ? first + 1 : layouts + ARRAY_LEN(layouts);
	size_t have = 0, most = segment_bytes(&layouts[ARRAY_LEN(layouts) - 1]);
	if (mi->layout)
		most = segment_bytes(mi->layout);
	/* what a segment's head takes is mapped as a whole */
	while (most > have && limit - at < most)
		most -= sizeof(uint64_t);
	if (memory_read_resident(mi->memory, at, mi->raw, most) == 0)
		have = most;
	for (const struct layout *l = first; l < end; l++) {
		if (segment_bytes(l) > have)
			continue;
		decode_segment(l, mi->raw, &mi->segment);
		int looks = segment_looks(mi, &mi->segment, at);
		/* a layout is settled by a segment that agrees with itself in all */
		if (looks && (mi->layout || looks > 1)) {
			mi->layout = l;
			return looks;
		}
	}
	return 0;
}

/*
 * Of one segment: bytes that are its own, 0 where there is none at @at. It ends at @limit at the
 * latest.
 */
static uint64_t walk_segment(struct mi *mi, uint64_t at, uint64_t limit)
{
	struct segment *s = &mi->segment;
	int looks = read_segment(mi, at, limit);
	if (!looks)
		return 0;
	uint64_t bytes = s->slices * SLICE, info = s->info_slices * SLICE;
	if (bytes > limit - at)
		return 0;
	mi->secret = s->cookie ^ at;
	mi->segments++;
	*(looks > 1 ? &mi->good : &mi->bad) += 1;
	mi->sum.reserved_bytes += bytes;
	uint64_t own = memory_resident(&mi->pages, at, at + info);
	mi->sum.metadata_bytes += own;
	const struct unit tables = { .start = at, .bytes = info, .kind = UNIT_TABLES };
	units_add(mi->b->units, &tables);
	mi->sum.resident_bytes += own;
	for (uint64_t i = s->info_slices; i < s->entries; i += s->all[i].count)
		count_page(mi, s, at + i * SLICE, at + bytes, i);
	return bytes;
}

/* ---- blocks of full pages that other threads freed ------------------------------------------- */

static int read_slice(const struct mi *mi, uint64_t at, struct slice *slice)
{
	unsigned char raw[STRIDE_MAX];
	if (memory_read(mi->memory, at, raw, mi->layout->stride) < 0)
		return -EFAULT;
	decode_slice(mi->layout, raw, slice);
	return 0;
}

static uint64_t block_bytes_at(const struct mi *mi, uint64_t addr)
{
	uint64_t segment = addr & ~(SEGMENT - 1), index = (addr - segment) / SLICE, secret;
	uint64_t slices = segment + mi->layout->all, stride = mi->layout->stride;
	struct slice slice;
	if (!scan_heap_at(mi->b, addr, 8) ||
	    memory_read(mi->memory, segment + mi->layout->cookie, &secret, 8) < 0 ||
	    (secret ^ segment) != mi->secret || read_slice(mi, slices + index * stride, &slice) < 0)
		return 0;
	if (slice.offset && (slice.offset % stride || slice.offset / stride > index ||
			     read_slice(mi, slices + index * stride - slice.offset, &slice) < 0))
		return 0;
	return slice.used ? slice.block_bytes : 0;
}

static void take_delayed(struct mi *mi, uint64_t heap, uint64_t thread)
{
	uint64_t list[2], bytes;
	if (memory_read(mi->memory, heap + mi->layout->delayed, list, sizeof(list)) < 0 ||
	    list[1] != thread)
		return; /* another layout, or a thread that ended */
	while (list[0] && mi->steps < STEPS_MAX) {
		mi->steps++;
		bytes = block_bytes_at(mi, list[0]);
		if (bytes && bytes <= mi->sum.live_bytes)
			units_piece(mi->b->units, list[0], bytes, PIECE_CACHED);
		if (!bytes || bytes > mi->sum.live_bytes || !mi->sum.live_count ||
		    memory_read(mi->memory, list[0], list, 8) < 0)
			return;
		mi->sum.live_bytes -= bytes;
		mi->sum.live_count--;
		mi->sum.cache_bytes += bytes;
	}
}

/*
 * -------------------------------------------------------------------------------------------------
 */

/*
 * Where the mappings end that touch mapping @i and one another: what is not in use yet of a segment
 * has no access.
 */
static uint64_t run_end(const struct breakdown *b, size_t i)
{
	while (i + 1 < b->region_count && b->regions[i + 1].start == b->regions[i].end &&
	       !b->regions[i + 1].inode && !(b->regions[i + 1].perms & REGION_SHARED))
		i++;
	return b->regions[i].end;
}

/* Everything, and which mappings deserve the label. */
static void walk_all(struct mi *mi, uint8_t *claims)
{
	uint64_t done = 0,
		 /* ends of the last segment, and of the mappings that touch the last one */
		limit = 0;
	unsigned tried = 0;
	for (size_t i = 0; i < mi->b->region_count; i++) {
		const struct region *r = &mi->b->regions[i];
		uint64_t owned = done > r->start ? (done < r->end ? done : r->end) - r->start : 0;
		uint64_t at = ((done > r->start ? done : r->start) + SEGMENT - 1) & ~(SEGMENT - 1);
		if (!scan_is_heap(r) || !r->rss_bytes)
			continue;
		if (r->start >= limit)
			limit = run_end(mi->b, i);
		while (at >= r->start && at < r->end && tried++ < SEGMENTS_TRIED_MAX) {
			/* a segment has written its header, so that page is there */
			uint64_t first = memory_resident_from(&mi->pages, at, r->end), bytes = 0;
			if (first - at < mi->memory->page_bytes) {
				bytes = walk_segment(mi, at, limit);
				first = at + (bytes ? bytes : 1);
			}
			if (bytes) {
				done = first;
				owned += (done < r->end ? done : r->end) - at;
			}
			at = (first + SEGMENT - 1) & ~(SEGMENT - 1);
		}
		claims[i] = owned && r->class == REGION_ANONYMOUS &&
			    (owned >= (r->end - r->start) / 2 || owned >= r->rss_bytes);
	}
	for (unsigned i = 0; i < mi->heap_count; i++)
		take_delayed(mi, mi->heaps[i].addr, mi->heaps[i].thread);
}

int heaps_mimalloc(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct mi *mi = calloc(1, sizeof(*mi));
	uint8_t *claims = calloc(b->region_count + 1, 1);
	int rc = mi && claims ? 0 : -ENOMEM, mapped = scan_maps(b, "libmimalloc.");
	double consistency = 0;
	if (rc == 0) {
		mi->b = b;
		mi->memory = mi->pages.memory = memory;
		walk_all(mi, claims);
		consistency = 100 * heaps_present(b, claims) * (double)mi->good /
			      (double)(mi->good + mi->bad);
	}
	if (rc == 0 && (mi->segments || (memory_is_spent(memory) && mapped))) {
		static const char *const label[] = { "mimalloc" };
		rc = heaps_judge(b, memory, "mimalloc", consistency);
		if (rc != 1)
			goto out;
		rc = heaps_claim(b, claims, REGION_ALLOCATOR, label, "mimalloc");
		struct allocator_reading *a = rc == 0 ? heaps_add(b) : NULL;
		rc = rc == 0 && !a ? -ENOMEM : rc;
		if (a) {
			*a = mi->sum;
			snprintf(a->allocator, sizeof(a->allocator), "mimalloc");
			snprintf(a->how, sizeof(a->how),
				 "%s: every page of %u segment%s, found by the secret that they "
				 "share",
				 mi->layout->version, mi->segments, mi->segments == 1 ? "" : "s");
			a->consistency = consistency;
			a->exact = 1;
		}
	} else if (rc == 0) {
		rc = mimalloc3_read(b, memory);
		if (rc == 0 && mapped)
			rc = heaps_unread(b, "mimalloc",
					  "identified only, because neither segments of version 2 "
					  "nor the page map of version 3 was found");
	}
out:
	free(claims);
	free(mi);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
