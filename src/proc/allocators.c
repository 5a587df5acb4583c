/* SPDX-License-Identifier: Apache-2.0 */
/* allocators.c - every allocator that a process uses, one reader after the other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/allocator.h"
#include "proc/breakdown.h"
#include "proc/memory.h"

struct allocator_reading *allocators_add(struct breakdown *b)
{
	struct allocator_reading *grown =
		realloc(b->allocators, (b->allocator_count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	b->allocators = grown;
	struct allocator_reading *a = &grown[b->allocator_count++];
	memset(a, 0, sizeof(*a));
	return a;
}

int allocators_unread(struct breakdown *b, const char *allocator, const char *why)
{
	struct allocator_reading *a = allocators_add(b);
	if (!a)
		return -ENOMEM;
	snprintf(a->allocator, sizeof(a->allocator), "%s", allocator);
	snprintf(a->how, sizeof(a->how), "identified only, because %s", why);
	a->live_bytes = a->free_page_bytes = a->hole_bytes = a->cache_bytes = a->metadata_bytes =
		a->reserved_bytes = a->resident_bytes = a->live_count = UINT64_MAX;
	return 0;
}

int allocators_read(struct breakdown *b, const struct target *target,
		    const struct proc_symbols *symbols, struct err *err)
{
	struct pages pages = { .fd = -1 };
	struct err ignored = { 0 };
	(void)symbols;
	free(b->allocators);
	b->allocators = NULL;
	b->allocator_count = 0;
	int known = pages_open(&pages, target, &ignored) == 0;
	struct memory_process process = { .target = target, .pages = known ? &pages : NULL };
	struct memory memory;
	memory_of_process(&memory, &process);
	int rc = allocators_glibc(b, &memory, err);
	if (rc == 0)
		rc = allocators_cpython(b, &memory, err);
	if (rc == 0)
		rc = allocators_hotspot(b, &memory, err);
	if (rc == 0)
		rc = allocators_jemalloc(b, &memory, err);
	if (rc == 0)
		rc = allocators_mimalloc(b, &memory, err);
	if (rc == 0)
		rc = allocators_tcmalloc(b, &memory, err);
	if (rc == 0)
		rc = allocators_go(b, &memory, err);
	if (known)
		pages_close(&pages);
	if (rc < 0)
		return rc;
	return b->allocator_count ? breakdown_sum(b, err) : 0;
}
