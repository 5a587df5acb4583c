/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proc/label.h"

#define TRIES 8

static int by_start(const void *a, const void *b)
{
	const struct names_entry *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/**
 * validate() - keep what makes sense: pages, no wrap around, a name; of two that overlap the lower
 * one.
 */
static void validate(struct names *names, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct names_entry e = names->entries[i];
		uint64_t end;
		if (e.bytes == 0)
			continue;
		e.name[NAMES_NAME_BYTES - 1] = '\0';
		if (e.start & 4095 || e.bytes & 4095 || e.name[0] == '\0' ||
		    __builtin_add_overflow(e.start, e.bytes, &end)) {
			names->dropped++;
			continue;
		}
		names->entries[kept++] = e;
	}
	if (kept)
		qsort(names->entries, kept, sizeof(*names->entries), by_start);
	uint64_t end = 0;
	for (size_t i = 0; i < kept; i++) {
		if (names->entries[i].start < end) {
			names->dropped++;
			continue;
		}
		end = names->entries[i].start + names->entries[i].bytes;
		names->entries[names->count++] = names->entries[i];
	}
}

#define MOVING_TRIES 20
#define MOVING_NS 500000

/*
 * Only what is resident, where @pages tell: a foreign table must not come into memory because we
 * look. Pages that the kernel moves (compaction) are swapped out by pagemap meanwhile, for
 * microseconds: what looks swapped out is asked again.
 */
static ssize_t read_there(const struct target *target, struct pages *pages, uint64_t addr, void *to,
			  size_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), there, swapped;
	uint64_t start = addr & ~(page - 1), end = (addr + len + page - 1) & ~(page - 1);
	int rc = pages ? pages_count(pages, start, end, &there, &swapped, NULL) : 0;
	for (int i = 0; pages && rc == 0 && there != end - start &&
			there + swapped == end - start && i < MOVING_TRIES;
	     i++) {
		nanosleep(&(const struct timespec){ .tv_nsec = MOVING_NS }, NULL);
		rc = pages_count(pages, start, end, &there, &swapped, NULL);
	}
	if (rc == 0 && pages && there != end - start)
		return -EFAULT;
	return rc < 0 ? rc : target_read(target, addr, to, len);
}

int names_read(const struct target *target, struct pages *pages, uint64_t addr, uint64_t bytes,
	       struct names *names)
{
	*names = (struct names){ 0 };
	for (int try = 0; try < TRIES; try++) {
		struct names_header before, after;
		if (bytes < sizeof(before))
			return -EBADMSG;
		ssize_t got = read_there(target, pages, addr, &before, sizeof(before));
		if (got < 0)
			return (int)got;
		if (got != sizeof(before) || before.magic != NAMES_MAGIC)
			return -EBADMSG;
		size_t room = (bytes - sizeof(before)) / sizeof(struct names_entry);
		size_t count = before.count;
		if (count > NAMES_MAX || count > room)
			return -EBADMSG;
		if (count == 0)
			return 0;
		if (before.sequence & 1)
			continue;
		names->entries = malloc(count * sizeof(*names->entries));
		if (!names->entries)
			return -ENOMEM;
		size_t want = count * sizeof(*names->entries);
		got = read_there(target, pages, addr + sizeof(before), names->entries, want);
		ssize_t again = read_there(target, pages, addr, &after, sizeof(after));
		if (got == (ssize_t)want && again == sizeof(after) &&
		    after.sequence == before.sequence) {
			validate(names, count);
			return 0;
		}
		names_fini(names);
		if (got < 0)
			return (int)got;
	}
	return -EAGAIN;
}

void names_fini(struct names *names)
{
	free(names->entries);
	*names = (struct names){ 0 };
}

/** first_above() - the first name that ends above @addr. */
static size_t first_above(const struct names *names, uint64_t addr)
{
	size_t low = 0, high = names->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (names->entries[middle].start + names->entries[middle].bytes <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void describe(const struct names *names, size_t index, int part, struct region *piece,
		     char label[LABEL_MAX])
{
	if (names->describe) {
		names->describe(names, index, part, piece, label);
		return;
	}
	const char *name = names->entries[index].name;
	label_name(label, name);
	piece->class = REGION_NAMED;
	piece->how = part ? HOW_REGISTRY_PART : HOW_REGISTRY;
	piece->label = label;
	if (part || !piece->name[0])
		piece->name = name;
}

struct cut {
	const struct names *names;
	const struct region *whole;
	/* what has not been given to a piece yet */
	struct region left;
	struct pages *pages;
	region_fn put;
	void *ctx;
};

/* The figures that are divided in the ratio of resident bytes. */
static const size_t divided[] = {
	offsetof(struct region, pss_bytes),
	offsetof(struct region, pss_dirty_bytes),
	offsetof(struct region, shared_clean_bytes),
	offsetof(struct region, shared_dirty_bytes),
	offsetof(struct region, private_clean_bytes),
	offsetof(struct region, private_dirty_bytes),
	offsetof(struct region, referenced_bytes),
	offsetof(struct region, anonymous_bytes),
	offsetof(struct region, ksm_bytes),
	offsetof(struct region, lazy_free_bytes),
	offsetof(struct region, anon_huge_bytes),
	offsetof(struct region, shmem_huge_bytes),
	offsetof(struct region, file_huge_bytes),
	offsetof(struct region, shared_hugetlb_bytes),
	offsetof(struct region, private_hugetlb_bytes),
	offsetof(struct region, swap_pss_bytes),
	offsetof(struct region, locked_bytes),
};

static uint64_t *figure(struct region *r, size_t offset)
{
	return (uint64_t *)(void *)((char *)r + offset);
}

static uint64_t at_least(uint64_t bytes, uint64_t left, uint64_t room)
{
	return left > room && bytes < left - room ? left - room : bytes;
}

#define UNNAMED SIZE_MAX
/**
 * put_piece() - [@start, @end) of the mapping, by entry @index or as it was; the last piece gets
 * all that is left.
 */
static int put_piece(struct cut *cut, uint64_t start, uint64_t end, size_t index, int last)
{
	struct region piece = *cut->whole, *left = &cut->left;
	piece.start = start;
	piece.end = end;
	piece.offset += start - cut->whole->start;
	uint64_t rss = left->rss_bytes, swap = left->swap_bytes;
	if (!last && (rss || swap) &&
	    (cut->pages->fd < 0 || pages_count(cut->pages, start, end, &rss, &swap, NULL) < 0)) {
		/* not countable: by size */
		double share =
			(double)(end - start) / (double)(cut->whole->end - cut->whole->start);
		rss = (uint64_t)((double)cut->whole->rss_bytes * share) & ~4095ull;
		swap = (uint64_t)((double)cut->whole->swap_bytes * share) & ~4095ull;
	}
	/*
	 * a page that the kernel is just moving is swapped out by pagemap and resident by smaps,
	 * whose word counts here
	 */
	if (!cut->whole->swap_bytes) {
		rss += swap;
		swap = 0;
	}
	/*
	 * pages may have come and gone since the mapping was told: what is left for the rest has to
	 * fit there
	 */
	rss = at_least(rss, left->rss_bytes, cut->whole->end - end);
	swap = at_least(swap, left->swap_bytes, cut->whole->end - end);
	piece.rss_bytes = rss < left->rss_bytes ? rss : left->rss_bytes;
	piece.swap_bytes = swap < left->swap_bytes ? swap : left->swap_bytes;
	for (size_t i = 0; i < sizeof(divided) / sizeof(divided[0]); i++) {
		uint64_t whole = *figure(left, divided[i]);
		uint64_t part = last || piece.rss_bytes == left->rss_bytes
					? whole
					: (uint64_t)((double)whole * (double)piece.rss_bytes /
						     (double)left->rss_bytes);
		*figure(&piece, divided[i]) = part < whole ? part : whole;
		*figure(left, divided[i]) -= *figure(&piece, divided[i]);
	}
	left->rss_bytes -= piece.rss_bytes;
	left->swap_bytes -= piece.swap_bytes;
	piece.guessed_rss = 1;
	char label[LABEL_MAX];
	if (index != UNNAMED)
		describe(cut->names, index, 1, &piece, label);
	return cut->put(cut->ctx, &piece);
}

int names_put(const struct names *names, const struct region *region, struct pages *pages,
	      region_fn put, void *ctx)
{
	size_t at = first_above(names, region->start);
	struct region copy = *region;
	if (at == names->count || names->entries[at].start >= region->end ||
	    region->class == REGION_BYTELEDGER || region->class == REGION_KERNEL_HELPER)
		return put(ctx, &copy);
	const struct names_entry *e = &names->entries[at];
	if (e->start <= region->start && e->start + e->bytes >= region->end) {
		char label[LABEL_MAX];
		describe(names, at, 0, &copy, label);
		return put(ctx, &copy);
	}
	struct cut cut = { names, region, *region, pages, put, ctx };
	uint64_t from = region->start;
	int rc = 0;
	for (; rc == 0 && at < names->count && names->entries[at].start < region->end; at++) {
		e = &names->entries[at];
		uint64_t start = e->start > from ? e->start : from;
		uint64_t end = e->start + e->bytes;
		end = end < region->end ? end : region->end;
		if (start > from)
			rc = put_piece(&cut, from, start, UNNAMED, 0);
		if (rc == 0)
			rc = put_piece(&cut, start, end, at, end == region->end);
		from = end;
	}
	return rc == 0 && from < region->end ? put_piece(&cut, from, region->end, UNNAMED, 1) : rc;
}
