/* SPDX-License-Identifier: Apache-2.0 */
/* allocators_glibc.c - glibc's malloc in a breakdown: its figures, and the names of the mappings that it owns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/allocator.h"
#include "proc/breakdown.h"
#include "proc/glibc.h"

#define ARENAS_NAMED \
	16 /* more arenas than that share one label: it must not grow with the machine */

/*
 * What most of a mapping belongs to gives it its name: neighbouring mappings are merged by the kernel, so one may hold
 * several heaps, or a large block beside something else.
 */
static int name_mapping(struct breakdown *b, size_t index, const struct glibc_reading *r,
			size_t *next, struct memory_pages *pages, uint64_t *resident)
{
	const struct region *region = &b->regions[index];
	uint64_t heap = 0, large = 0, inside = 0, bytes = region->end - region->start;
	while (*next < r->span_count && r->spans[*next].end <= region->start)
		++*next;
	for (size_t i = *next; i < r->span_count && r->spans[i].start < region->end; i++) {
		const struct glibc_span *span = &r->spans[i];
		uint64_t start = span->start > region->start ? span->start : region->start;
		uint64_t end = span->end < region->end ? span->end : region->end;
		*(span->kind == GLIBC_MMAPPED ? &large : &heap) += end - start;
		if (end - start < bytes)
			inside += memory_resident(pages, start, end);
	}
	*resident += heap + large == bytes ? region->rss_bytes : inside;
	if (region->class != REGION_ANONYMOUS || heap + large < bytes / 2)
		return 0;
	if (large >= heap)
		return breakdown_relabel(b, index, REGION_ALLOCATOR, "malloc large", "glibc malloc",
					 HOW_CHUNK_HEADER);
	return breakdown_relabel(b, index, REGION_ALLOCATOR, "malloc arenas", "glibc malloc",
				 HOW_ALLOCATOR);
}

int allocators_glibc(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct glibc_reading r;
	int rc = glibc_find(memory, b->regions, b->region_count, &r, err);
	if (rc != 1)
		return rc;
	struct allocator_reading *a = allocators_add(b);
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	rc = a && pages ? glibc_walk(memory, &r, NULL, NULL, err) : -ENOMEM;
	size_t next = 0;
	for (size_t i = 0; i < b->region_count && !rc; i++) {
		pages->memory = memory;
		rc = name_mapping(b, i, &r, &next, pages, &a->resident_bytes);
	}
	free(pages);
	if (rc < 0) {
		glibc_fini(&r);
		return err_set(err, rc, "cannot read the heap of process %d", (int)b->pid);
	}
	const struct glibc_totals *t = &r.totals;
	snprintf(a->allocator, sizeof(a->allocator), "glibc malloc");
	snprintf(a->how, sizeof(a->how),
		 "every chunk of %zu arena%s, found by the shape of its bins%s", r.arena_count,
		 r.arena_count == 1 ? "" : "s", r.retried ? "; some read twice" : "");
	a->live_bytes = t->live_bytes;
	a->live_count = t->live_count;
	a->free_page_bytes = t->free_page_bytes;
	a->hole_bytes = t->hole_bytes;
	a->cache_bytes = t->tcache_bytes + t->fastbin_bytes;
	a->metadata_bytes = t->metadata_bytes;
	for (size_t i = 0; i < r.span_count; i++)
		a->reserved_bytes += r.spans[i].end - r.spans[i].start;
	a->consistency = r.consistency;
	a->exact = 1;
	glibc_fini(&r);
	return 0;
}
