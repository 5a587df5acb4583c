/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.c - PartitionAlloc, the allocator of Chromium and of what is built from it. Its super
 * pages of 2 MiB lie in reserved pools; of each one page says what is in it, 32 bytes for every 16
 * KiB, and begins with the address of its partition. That page stands in the super page itself or,
 * in newer ones, in a region of its own, at a distance that the partition holds. Nothing but a
 * partition has a row of sizes with the reciprocal of each beside it: that is the proof.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"

#define SUPER (2ull << 20)
#define PART 16384ull /* what one entry stands for */
#define SYSTEM_PAGE 4096ull
#define ENTRY_WORDS 4u
#define ENTRIES 127u /* the last one is a guard */
#define PAGE_WORDS 512u
#define ROOTS_MAX 64u
#define ROOT_WORDS 2048u
#define ROOT_BEFORE_MAX 128u /* words before the first bucket */
#define BUCKETS_LEAST 6u
#define BUCKETS_MAX 256u
#define BUCKET_WORDS_MIN 5u
#define BUCKET_WORDS_MAX 8u
#define RECIPROCAL_BITS 42
#define METADATA_MAX 16384u /* of a mapping of them: one page, and perhaps counts of references */
#define POOL_MIN (1ull << 24)
#define POOL_MAX (1ull << 41)
#define LEAD_PAGES \
	4u /* in front of what a super page hands out: guards, and in older ones its own page */

/*
 * A partition: where its buckets are, the pool it takes from, and how far from a super page its
 * page is.
 */
struct root {
	uint64_t at, base, bytes, buckets;
	/* stride 0: it is none */
	unsigned stride, bucket_count;
	uint64_t before[ROOT_BEFORE_MAX];
	unsigned before_count;
	struct {
		uint32_t slot, span;
	} of[BUCKETS_MAX];
};

/* A super page, and the page that describes it. */
struct super {
	uint64_t start, about;
	const struct root *root;
};

struct partition {
	struct breakdown *b;
	const struct memory *memory;
	struct memory_pages pages;
	struct root *roots;
	struct super *found;
	size_t found_count, found_room;
	unsigned root_count, supers, partitions;
	uint64_t good, bad;
	struct allocator_reading sum;
};

static int is_writable(const struct breakdown *b, uint64_t addr)
{
	size_t i = breakdown_find(b, addr);
	return i < b->region_count &&
	       (b->regions[i].perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
		       (REGION_READ | REGION_WRITE);
}

/*
 * Lists, a size, how many pages a span has, and one division that is done once; size and pages
 * share a word in older ones.
 */
static int is_bucket(const uint64_t *w, uint64_t *slot, uint64_t *pages)
{
	unsigned apart = w[3] >> 32 == 0;
	*slot = w[3] & 0xffffffff;
	*pages = (apart ? w[4] : w[3] >> 32) & 255;
	return *slot && w[4 + apart] == ((1ull << RECIPROCAL_BITS) - 1) / *slot + 1;
}

/* Sizes rise, from 16 bytes on. Return: how many there are. */
static unsigned count_buckets(const uint64_t *w, unsigned count, unsigned stride)
{
	unsigned n = 0;
	uint64_t last = 0, slot, pages;
	for (; n < BUCKETS_MAX && n * stride + BUCKET_WORDS_MAX <= count; n++) {
		if (!is_bucket(w + n * stride, &slot, &pages) ||
		    (n ? slot < last && slot != 1 : slot != 16))
			break;
		last = slot == 1 ? last : slot; /* 1: no such size here */
	}
	return n;
}

static void find_buckets(struct root *root, const uint64_t *w, unsigned count)
{
	uint64_t slot, pages;
	for (unsigned i = 1; i < ROOT_BEFORE_MAX && i + BUCKET_WORDS_MAX < count; i++) {
		if (!is_bucket(w + i, &slot, &pages) || slot != 16)
			continue;
		for (unsigned stride = BUCKET_WORDS_MIN; stride <= BUCKET_WORDS_MAX; stride++) {
			unsigned n = count_buckets(w + i, count - i, stride);
			if (n < BUCKETS_LEAST)
				continue;
			root->stride = stride;
			root->bucket_count = n;
			root->buckets = root->at + i * 8ull;
			root->before_count = i;
			memcpy(root->before, w, i * 8ull);
			for (unsigned k = 0; k < n; k++) {
				is_bucket(w + i + k * stride, &slot, &pages);
				root->of[k].slot = (uint32_t)slot;
				root->of[k].span = (uint32_t)(pages * SYSTEM_PAGE);
			}
			return;
		}
	}
}

/* A pool stands there as its start and the mask of its size. */
static void find_pool(struct root *root)
{
	for (unsigned i = 0; i + 1 < root->before_count; i++) {
		uint64_t base = root->before[i], bytes = -root->before[i + 1];
		if (base && bytes >= POOL_MIN && bytes <= POOL_MAX && !(bytes & (bytes - 1)) &&
		    !(base & (bytes - 1))) {
			root->base = base;
			root->bytes = bytes;
			return;
		}
	}
}

/* The partition at @at, looked at once; NULL: it is none, or there are too many. */
static const struct root *root_at(struct partition *p, uint64_t at)
{
	uint64_t words[ROOT_WORDS];
	for (unsigned i = 0; i < p->root_count; i++)
		if (p->roots[i].at == at)
			return p->roots[i].stride ? &p->roots[i] : NULL;
	if (p->root_count == ROOTS_MAX || !at || at & 7 || !is_writable(p->b, at))
		return NULL;
	size_t i = breakdown_find(p->b, at);
	uint64_t room = (p->b->regions[i].end - at) & ~7ull;
	/* its buckets may go on in the next mapping: what is private of a file, then its bss */
	for (; i + 1 < p->b->region_count && room < sizeof(words) &&
	       p->b->regions[i + 1].start == p->b->regions[i].end &&
	       is_writable(p->b, p->b->regions[i + 1].start);
	     i++)
		room += p->b->regions[i + 1].end - p->b->regions[i + 1].start;
	if (room > sizeof(words))
		room = sizeof(words);
	struct root *root = &p->roots[p->root_count++];
	memset(root, 0, sizeof(*root));
	root->at = at;
	if (memory_read_resident(p->memory, at, words, room) < 0)
		return NULL;
	find_buckets(root, words, (unsigned)(room / 8));
	if (!root->stride)
		return NULL;
	find_pool(root);
	p->partitions++;
	return root;
}

static int is_super(const struct partition *p, const struct root *root, uint64_t super)
{
	return !(super & (SUPER - 1)) && (!root->bytes || super - root->base < root->bytes) &&
	       breakdown_find(p->b, super) < p->b->region_count;
}

/* Which super page the page at @at describes; 0: none that could be. */
static uint64_t super_of(const struct partition *p, const struct root *root, uint64_t at)
{
	for (unsigned i = 0; i < root->before_count && root->bytes; i++) {
		uint64_t super = at - root->before[i];
		if (root->before[i] && is_super(p, root, super))
			return super;
	}
	/* its own second page, behind a guard */
	return is_super(p, root, at - SYSTEM_PAGE) ? at - SYSTEM_PAGE : 0;
}

/* ---- what is in it --------------------------------------------------------------------------- */

struct span {
	/* unused: slots that nobody had yet */
	uint64_t start, bytes, slot, used, unused;
};

/* 0: as it cannot be. */
static int read_span(const struct root *root, const uint64_t *page, uint64_t at, uint64_t super,
		     unsigned k, struct span *span)
{
	const uint64_t *e = page + (size_t)k * ENTRY_WORDS;
	uint64_t step = root->stride * 8ull, state = e[3] & 0xffffffff;
	span->start = super + k * PART;
	/* what is larger than a super page holds has a bucket of its own, in this page */
	if (e[2] >= at && e[2] - at <= (PAGE_WORDS - BUCKET_WORDS_MAX) * 8 && !(e[2] & 7)) {
		span->slot = span->bytes = page[(e[2] - at) / 8 + 3] & 0xffffffff;
		span->used = 1;
		span->unused = 0;
		return span->slot >= SYSTEM_PAGE && k == 1 && (state & 0x7fff) == 1;
	}
	if (e[2] < root->buckets || (e[2] - root->buckets) % step)
		return 0;
	uint64_t number = (e[2] - root->buckets) / step;
	if (number >= root->bucket_count)
		return 0;
	span->slot = root->of[number].slot;
	span->bytes = root->of[number].span;
	span->used = state & 0x7fff;
	span->unused = state >> 15 & 0x7fff;
	return span->bytes && span->slot <= span->bytes &&
	       span->start + span->bytes <= super + SUPER &&
	       span->used + span->unused <= span->bytes / span->slot &&
	       (!e[0] || (e[0] >= span->start && e[0] < span->start + span->bytes));
}

static void add_span(struct partition *p, const struct span *s)
{
	uint64_t there = memory_resident(&p->pages, s->start, s->start + s->bytes);
	uint64_t live = s->used * s->slot;
	uint64_t free = (s->bytes / s->slot - s->used) * s->slot + s->bytes % s->slot;
	struct unit unit = { .start = s->start,
			     .bytes = s->bytes,
			     .kind = s->used ? UNIT_SLAB : UNIT_FREE };
	if (s->used) {
		unit.slot = s->slot;
		unit.used = (uint32_t)s->used;
		if (s->slot == s->bytes)
			unit.kind = UNIT_BLOCK;
		uint64_t rest = there > live ? there - live : 0;
		p->sum.hole_bytes += rest < free ? rest : free;
	} else {
		p->sum.free_page_bytes += there;
	}
	p->sum.live_bytes += live;
	p->sum.live_count += s->used;
	units_add(p->b->units, &unit);
}

/* Names what can be written of [@start, @end); the rest is guards, and not taken yet. */
static int claim(struct partition *p, uint64_t start, uint64_t end, const char *label)
{
	struct breakdown *b = p->b;
	int rc = 0;
	for (size_t i = breakdown_find(b, start);
	     i < b->region_count && b->regions[i].start < end && rc == 0; i++) {
		const struct region *r = &b->regions[i];
		uint64_t from = r->start > start ? r->start : start;
		uint64_t to = r->end < end ? r->end : end;
		if (!scan_is_heap(r))
			continue;
		p->sum.resident_bytes += memory_resident(&p->pages, from, to);
		rc = heaps_own(b, from, to, REGION_ALLOCATOR, label, "PartitionAlloc", OWNED_PART,
			       HOW_ALLOCATOR);
		if (rc == 0 && from == r->start && to == r->end)
			rc = breakdown_relabel(b, i, REGION_ALLOCATOR, label, "PartitionAlloc",
					       HOW_ALLOCATOR);
	}
	return rc;
}

/* @end: what it goes on to, where one block takes more than a super page holds. */
static int read_page(struct partition *p, const struct super *found, uint64_t *end)
{
	const struct root *root = found->root;
	uint64_t page[PAGE_WORDS], super = found->start, at = found->about;
	*end = super;
	if (memory_read(p->memory, at, page, sizeof(page)) < 0)
		return 0;
	*end = super + SUPER;
	uint64_t before = p->sum.resident_bytes;
	for (unsigned k = 1; k < ENTRIES; k++) {
		const uint64_t *e = page + (size_t)k * ENTRY_WORDS;
		struct span span;
		/* the first of a span's, and not one that was taken for none yet */
		if ((e[3] >> 48 & 0xff) != 0x40 || !e[2])
			continue;
		if (!read_span(root, page, at, super, k, &span)) {
			p->bad++;
			continue;
		}
		p->good++;
		add_span(p, &span);
		if (span.start + span.bytes > *end)
			*end = (span.start + span.bytes + SUPER - 1) & ~(SUPER - 1);
		k += (unsigned)((span.bytes - 1) / PART); /* those stand for the same span */
	}
	p->supers++;
	int rc = claim(p, super, super + LEAD_PAGES * SYSTEM_PAGE, "PartitionAlloc metadata");
	if (rc == 0 && (at < super || at >= super + LEAD_PAGES * SYSTEM_PAGE))
		rc = claim(p, at, at + SYSTEM_PAGE, "PartitionAlloc metadata");
	p->sum.metadata_bytes += p->sum.resident_bytes - before;
	if (rc == 0)
		rc = claim(p, super + LEAD_PAGES * SYSTEM_PAGE, *end, "PartitionAlloc");
	p->sum.reserved_bytes += *end - super;
	return rc;
}

/* Mappings of a page or a few between two without access: guards. */
static int may_be_metadata(const struct breakdown *b, size_t i)
{
	const struct region *r = &b->regions[i];
	const unsigned access = REGION_READ | REGION_WRITE | REGION_EXEC;
	return i && i + 1 < b->region_count && scan_is_heap(r) && !r->name[0] && r->rss_bytes &&
	       r->end - r->start <= METADATA_MAX && b->regions[i - 1].end == r->start &&
	       b->regions[i + 1].start == r->end && !(b->regions[i - 1].perms & access) &&
	       !(b->regions[i + 1].perms & access);
}

static int keep(struct partition *p, const struct root *root, uint64_t at)
{
	struct super super = { .start = super_of(p, root, at), .about = at, .root = root };
	if (!super.start)
		return 0;
	if (p->found_count == p->found_room) {
		size_t room = p->found_room ? p->found_room * 2 : 64;
		struct super *grown = realloc(p->found, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->found = grown;
		p->found_room = room;
	}
	p->found[p->found_count++] = super;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct super *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* In order; what lies in one that was read already was described twice, and is counted once. */
static int read_all(struct partition *p)
{
	uint64_t done = 0, end;
	int rc = 0;
	if (p->found_count)
		qsort(p->found, p->found_count, sizeof(*p->found), by_start);
	for (size_t i = 0; i < p->found_count && rc == 0; i++) {
		if (p->found[i].start < done) {
			p->bad++;
			continue;
		}
		rc = read_page(p, &p->found[i], &end);
		done = end > done ? end : done;
	}
	return rc;
}

static int tell(struct partition *p)
{
	double consistency = 100.0 * (double)p->good / (double)(p->good + p->bad);
	int rc = heaps_judge(p->b, p->memory, "PartitionAlloc", consistency);
	struct allocator_reading *a = rc == 1 ? heaps_add(p->b) : NULL;
	if (rc == 1 && !a)
		return -ENOMEM;
	if (!a)
		return rc;
	*a = p->sum;
	snprintf(a->allocator, sizeof(a->allocator), "PartitionAlloc");
	snprintf(a->how, sizeof(a->how),
		 "every span of %u super page%s in %u partition%s, by their own tables", p->supers,
		 p->supers == 1 ? "" : "s", p->partitions, p->partitions == 1 ? "" : "s");
	a->consistency = consistency;
	a->exact = 1;
	return 0;
}

int heaps_partition(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct partition *p = NULL;
	uint64_t page[ENTRY_WORDS];
	int rc = 0;
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		uint64_t at = b->regions[i].start;
		if (!may_be_metadata(b, i) || memory_read(memory, at, page, sizeof(page)) < 0 ||
		    !page[0] || page[0] & 7 || page[3] || !is_writable(b, page[0]))
			continue;
		if (!p) {
			p = calloc(1, sizeof(*p));
			if (p)
				p->roots = calloc(ROOTS_MAX, sizeof(*p->roots));
			if (!p || !p->roots) {
				rc = -ENOMEM;
				break;
			}
			p->b = b;
			p->memory = p->pages.memory = memory;
		}
		const struct root *root = root_at(p, page[0]);
		if (root)
			rc = keep(p, root, at);
	}
	if (rc == 0 && p)
		rc = read_all(p);
	if (rc == 0 && p && p->supers)
		rc = tell(p);
	if (p) {
		free(p->roots);
		free(p->found);
	}
	free(p);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
