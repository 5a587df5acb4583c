/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dotnet.c - the garbage collector of .NET, named and not counted. Its card table begins with a
 * header that says for which range of addresses it keeps books, and the runtime's own data holds
 * the same two bounds side by side; both together are the proof. Since .NET 7 the range is one
 * reservation for all regions; before, each segment in it begins with a header of its own.
 */
#include <errno.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"

#define HEADER_WORDS 8u
#define USERS_MAX 64u /* of a table: threads that hold it while another takes its place */
#define RANGE_MIN (1ull << 20)
#define RANGE_MAX (1ull << 46)
#define SEGMENT_HEAD 4096u
#define RESERVED_MIN (1ull << 30)
#define TABLES_MAX 4096u /* mappings that are looked at for a header */

/*
 * Where the words of a header stand: the lowest address, the highest behind it, three tables, and
 * the bytes of all of it.
 */
static const struct {
	uint8_t lowest, tables, size;
} headers[] = {
	{ 3, 5, 1 }, /* since .NET 5 */
	{ 1, 3, 6 }, /* .NET Core 3.1 */
};

struct dotnet {
	struct memory_run heap, tables;
};

/* What makes it worth looking: the proof is the header and its bounds. */
static int may_run_dotnet(const struct breakdown *b)
{
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		/*
		 * one file that holds program and runtime has no library to tell it by, but maps
		 * its code twice
		 */
		if (strncmp(r->name, "/memfd:doublemapper", 19) == 0)
			return 1;
		/*
		 * compiled ahead of time it does not; all regions are one reservation, of twice the
		 * machine's memory or more
		 */
		if (!r->inode && !r->name[0] && !(r->perms & 7) &&
		    r->end - r->start >= RESERVED_MIN)
			return 1;
	}
	return scan_maps(b, "libcoreclr.so");
}

static int is_header(const uint64_t *w, uint64_t at, size_t shape, struct dotnet *found)
{
	uint64_t low = w[headers[shape].lowest], high = w[headers[shape].lowest + 1],
		 bytes = w[headers[shape].size];
	if (!w[0] || w[0] > USERS_MAX || !low || (low | high) & 4095 || low >= high ||
	    high - low < RANGE_MIN || high - low > RANGE_MAX || bytes > RANGE_MAX)
		return 0;
	for (unsigned i = 0; i < 3; i++)
		if (w[headers[shape].tables + i] <= at ||
		    w[headers[shape].tables + i] - at >= bytes)
			return 0;
	found->heap = (struct memory_run){ low, high };
	found->tables = (struct memory_run){ at, at + bytes };
	return 1;
}

static int look_for_bounds(void *ctx, const struct scan_block *block)
{
	const struct memory_run *heap = ctx;
	for (size_t i = 0; i < block->count && i + 1 < block->ahead; i++)
		if (block->words[i] == heap->start && block->words[i + 1] == heap->end)
			return 1;
	return 0;
}

/* 1 found, 0 not, -ENOMEM. */
static int find(const struct breakdown *b, const struct memory *memory, struct dotnet *found)
{
	uint64_t w[HEADER_WORDS];
	unsigned looked = 0;
	int rc = 0;
	for (size_t i = 0; i < b->region_count && rc == 0 && looked < TABLES_MAX; i++) {
		const struct region *r = &b->regions[i];
		if (r->class != REGION_ANONYMOUS || !scan_is_heap(r) || !r->rss_bytes)
			continue;
		looked++;
		if (memory_read_resident(memory, r->start, w, sizeof(w)) < 0)
			continue;
		for (size_t k = 0; k < sizeof(headers) / sizeof(headers[0]) && rc == 0; k++)
			if (is_header(w, r->start, k, found))
				rc = scan_data(b, memory, 0, look_for_bounds, &found->heap);
	}
	return rc;
}

/* One reservation: nothing of a file's or another's lies in it, and no address is free. */
static int is_whole(const struct breakdown *b, const struct memory_run *run)
{
	uint64_t at = run->start;
	for (size_t i = breakdown_find(b, at); at < run->end; at = b->regions[i++].end)
		if (i >= b->region_count || b->regions[i].start > at || b->regions[i].inode ||
		    b->regions[i].name[0] || b->regions[i].perms & REGION_SHARED)
			return 0;
	return 1;
}

/*
 * A segment: what is allocated of it, what may be written, where it ends, what was used, where its
 * objects begin.
 */
static int is_segment(const struct memory *memory, const struct region *r)
{
	uint64_t w[5];
	return memory_read_resident(memory, r->start, w, sizeof(w)) == 0 &&
	       w[4] == r->start + SEGMENT_HEAD && w[0] >= w[4] && w[0] <= w[1] && w[1] <= w[2] &&
	       w[1] > r->start && w[1] <= r->end && w[3] >= r->start && w[3] <= w[1];
}

static int own(struct breakdown *b, const struct region *r, const struct memory_run *run,
	       const char *label)
{
	uint64_t start = r->start > run->start ? r->start : run->start;
	uint64_t end = r->end < run->end ? r->end : run->end;
	if (start >= end || r->class != REGION_ANONYMOUS || !scan_is_heap(r))
		return 0;
	return heaps_own(b, start, end, REGION_RUNTIME, label, ".NET", OWNED_PART, HOW_ALLOCATOR);
}

int heaps_dotnet(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct dotnet found;
	int rc = may_run_dotnet(b) ? find(b, memory, &found) : 0, segments = 0;
	if (rc == 1) {
		rc = 0;
		for (size_t i = 0; i < b->region_count && rc == 0; i++) {
			const struct region *r = &b->regions[i];
			if (r->start < found.heap.start || r->start >= found.heap.end ||
			    !scan_is_heap(r) || !is_segment(memory, r))
				continue;
			segments = 1;
			rc = own(b, r, &found.heap, ".NET heap");
		}
		int whole = !segments && is_whole(b, &found.heap);
		for (size_t i = 0; i < b->region_count && rc == 0 && whole; i++)
			rc = own(b, &b->regions[i], &found.heap, ".NET heap");
		whole = (segments || whole) && is_whole(b, &found.tables);
		for (size_t i = 0; i < b->region_count && rc == 0 && whole; i++)
			rc = own(b, &b->regions[i], &found.tables, ".NET heap tables");
	}
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
