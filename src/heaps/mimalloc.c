/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mimalloc.c - mimalloc 2.0 read from outside. Its segments begin at multiples of 32 MiB with a description of
 * every page in them, and prove themselves: the pages add up to the segment, and the same secret is mixed into each
 * segment's address.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"

#define SEGMENT (32ull << 20)
#define SLICE 65536ull
#define SLICES 512u
#define SEGMENT_SLICES_MAX (1u << 24) /* of a huge one: 1 TiB */
#define SEGMENTS_TRIED_MAX 65536u
#define STEPS_MAX (1u << 20) /* of lists of blocks that other threads freed */
#define HEAPS_MAX 1024u
#define HEAP_DELAYED \
	2840u /* of struct mi_heap_s: the list of blocks in full pages, and its thread */

struct slice {
	uint32_t count, offset; /* slices of this page; bytes back to its first */
	uint16_t flags, capacity, reserved;
	uint8_t in_full, retire;
	uint64_t free_list;
	uint32_t used, block_bytes; /* 0: nobody's */
	uint64_t local_free, thread_free, heap, next, prev, pad;
};

struct segment {
	uint64_t memory_id[6], masks[16], abandoned_next;
	uint64_t next, abandoned, visits, used, cookie, slices, info_slices;
	uint32_t kind, pad; /* 0 normal, 1 one huge page */
	uint64_t entries, thread;
	struct slice all[SLICES + 1];
};

struct mi {
	struct breakdown *b;
	const struct memory *memory;
	struct memory_pages pages;
	struct allocator_reading sum;
	struct segment segment;
	uint64_t secret;
	unsigned segments, steps;
	uint64_t good, bad; /* pages that do not contradict themselves, and that do */
	struct {
		uint64_t addr, thread;
	} heaps[HEAPS_MAX];
	unsigned heap_count;
};

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
	if (s->kind && block >= 2ull << 30)
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
	    page->reserved * block > bytes) {
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

/* Of one segment: bytes that are its own, 0 where there is none at @at. It ends at @limit at the latest. */
static uint64_t walk_segment(struct mi *mi, uint64_t at, uint64_t limit)
{
	struct segment *s = &mi->segment;
	if (limit - at < sizeof(*s) || memory_read_resident(mi->memory, at, s, sizeof(*s)) < 0)
		return 0;
	int looks = segment_looks(mi, s, at);
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

/* ---- blocks of full pages that other threads freed ------------------------------------------------------------------ */

static uint64_t block_bytes_at(const struct mi *mi, uint64_t addr)
{
	uint64_t segment = addr & ~(SEGMENT - 1), index = (addr - segment) / SLICE;
	uint64_t slices = segment + offsetof(struct segment, all), secret;
	struct slice slice;
	if (!scan_heap_at(mi->b, addr, 8) ||
	    memory_read(mi->memory, segment + offsetof(struct segment, cookie), &secret, 8) < 0 ||
	    (secret ^ segment) != mi->secret ||
	    memory_read(mi->memory, slices + index * sizeof(slice), &slice, sizeof(slice)) < 0)
		return 0;
	if (slice.offset && (slice.offset % sizeof(slice) || slice.offset / sizeof(slice) > index ||
			     memory_read(mi->memory, slices + index * sizeof(slice) - slice.offset,
					 &slice, sizeof(slice)) < 0))
		return 0;
	return slice.used ? slice.block_bytes : 0;
}

static void take_delayed(struct mi *mi, uint64_t heap, uint64_t thread)
{
	uint64_t list[2], bytes;
	if (memory_read(mi->memory, heap + HEAP_DELAYED, list, sizeof(list)) < 0 ||
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

/* ------------------------------------------------------------------------------------------------------------------- */

/* Where the mappings end that touch mapping @i and one another: what is not in use yet of a segment has no access. */
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
	uint64_t
		done = 0,
		limit = 0; /* ends of the last segment, and of the mappings that touch the last one */
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
		claims[i] =
			owned && r->class == REGION_ANONYMOUS && owned >= (r->end - r->start) / 2;
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
				 "every page of %u segment%s, found by the secret that they share",
				 mi->segments, mi->segments == 1 ? "" : "s");
			a->consistency = consistency;
			a->exact = 1;
		}
	} else if (rc == 0 && mapped) {
		rc = heaps_unread(b, "mimalloc",
				  "identified only, because no segment of version 2.0 was found");
	}
out:
	free(claims);
	free(mi);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
