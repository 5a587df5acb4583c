/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc.c - glibc's malloc in a breakdown: its figures, and the names of the mappings that it owns.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/glibc.h"
#include "heaps/readers.h"
#include "proc/owned.h"
#include "proc/settings.h"

enum { NOTHING, ARENAS, LARGE };

/*
 * What most of a mapping belongs to gives it its name: neighbouring mappings are merged by the
 * kernel, so one may hold several heaps, or a large block beside something else.
 */
static uint8_t claim(const struct breakdown *b, size_t index, const struct glibc_reading *r,
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
		return NOTHING;
	return large >= heap ? LARGE : ARENAS;
}

static void tell(const struct glibc_reading *r, struct allocator_reading *a)
{
	const struct glibc_totals *t = &r->totals;
	snprintf(a->allocator, sizeof(a->allocator), "glibc malloc");
	snprintf(a->how, sizeof(a->how),
		 "every chunk of %zu arena%s, found by the shape of its bins%s", r->arena_count,
		 r->arena_count == 1 ? "" : "s",
		 r->limited   ? "; a list is longer than was followed"
		 : r->retried ? "; moved while it was read, some read twice"
			      : "");
	a->live_bytes = t->live_bytes;
	a->live_count = t->live_count;
	a->free_page_bytes = t->free_page_bytes;
	a->hole_bytes = t->hole_bytes;
	a->cache_bytes = t->tcache_bytes;
	a->metadata_bytes = t->metadata_bytes;
	for (size_t i = 0; i < r->span_count; i++)
		a->reserved_bytes += r->spans[i].end - r->spans[i].start;
	a->consistency = r->consistency;
	a->exact = 1;
}

static void tell_setting(struct settings *to, const char *name, uint64_t value, const char *from)
{
	char text[32];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	settings_add(to, name, text, from);
}

/*
 * mp_: what the thresholds are now. They rise by themselves to what was mapped and freed, unless
 * somebody has set one.
 */
static void tell_settings(const struct glibc_reading *r, struct settings *to)
{
	const char *how = r->no_dyn_threshold               ? "glibc, set"
			  : r->mmap_threshold != 128u << 10 ? "glibc, risen by itself"
							    : "glibc, as it comes";
	if (!r->params)
		return;
	tell_setting(to, "mmap_threshold", r->mmap_threshold, how);
	tell_setting(to, "trim_threshold", r->trim_threshold, how);
	tell_setting(to, "top_pad", r->top_pad, "glibc");
	if (r->arena_max)
		tell_setting(to, "arena_max", r->arena_max, "glibc, set");
	tell_setting(to, "arenas", r->arena_count, "glibc, in use");
}

/*
 * Nothing was found: perhaps since malloc's own data, or the start of an arena, is not there to be
 * read.
 */
static int tell_unread(struct breakdown *b)
{
	for (size_t i = 0; i < b->region_count && b->swap_bytes; i++)
		if (glibc_is_library(&b->regions[i]))
			return heaps_unread(
				b, "glibc malloc",
				"not told: its books were not found, some memory is swapped out");
	return 0;
}

int heaps_glibc(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct glibc_reading r;
	int rc = glibc_find(memory, b->regions, b->region_count, &r, err);
	if (rc != 1)
		return rc < 0 ? rc : tell_unread(b);
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	uint8_t *claims = calloc(b->region_count + 1, 1);
	uint64_t resident = 0;
	size_t next = 0;
	rc = pages && claims ? glibc_walk(memory, &r, b->units, err) : -ENOMEM;
	for (size_t i = 0; i < b->region_count && !rc; i++) {
		pages->memory = memory;
		claims[i] = claim(b, i, &r, &next, pages, &resident);
	}
	if (!rc && r.unknown)
		rc = heaps_unread(b, "glibc malloc",
				  "unknown: not as any version from 2.26 to 2.44 lays it out");
	else if (!rc)
		rc = heaps_judge(b, memory, "glibc malloc", r.consistency);
	struct allocator_reading *a = rc == 1 ? heaps_add(b) : NULL;
	if (a) {
		a->resident_bytes = resident;
		tell(&r, a);
		if (b->settings)
			tell_settings(&r, b->settings);
	} else if (rc == 1) {
		rc = -ENOMEM;
	}
	for (size_t i = 0; i < b->region_count && rc == 1; i++)
		if (claims[i] &&
		    breakdown_relabel(b, i, REGION_ALLOCATOR,
				      claims[i] == LARGE ? "malloc large" : "malloc arenas",
				      "glibc malloc",
				      claims[i] == LARGE ? HOW_CHUNK_HEADER : HOW_ALLOCATOR) < 0)
			rc = -ENOMEM;
	/* what it does not own of these mappings is somebody else's */
	for (size_t i = 0; i < r.span_count && rc == 1; i++) {
		int large = r.spans[i].kind == GLIBC_MMAPPED;
		if (heaps_own(b, r.spans[i].start, r.spans[i].end, REGION_ALLOCATOR,
			      large ? "malloc large" : "malloc arenas", "glibc malloc", OWNED_PART,
			      large ? HOW_CHUNK_HEADER : HOW_ALLOCATOR) < 0)
			rc = -ENOMEM;
	}
	free(claims);
	free(pages);
	glibc_fini(&r);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
