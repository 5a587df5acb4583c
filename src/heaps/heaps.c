/* SPDX-License-Identifier: Apache-2.0 */
/* heaps.c - every allocator that a process uses, one reader after the other. */
#include "heaps/heaps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"
#include "wire/heap.h"

struct allocator_reading *heaps_add(struct breakdown *b)
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

#define STACK_MAX (64ull << 20)
#define CONSISTENCY_MIN 50.0 /* per cent: below it is chance, or malice */
/*
 * What reading one process may cost (struct memory_work): sound heaps of 16 to 256 MiB took a tenth
 * of it.
 */
#define WORK_LEAST (64ull << 20)
#define WORK_RESIDENT 8u           /* times what private memory is resident or swapped out */
#define WORK_MAPPING (16ull << 10) /* each */

int heaps_unread(struct breakdown *b, const char *allocator, const char *why)
{
	struct allocator_reading *a = heaps_add(b);
	if (!a)
		return -ENOMEM;
	snprintf(a->allocator, sizeof(a->allocator), "%s", allocator);
	snprintf(a->how, sizeof(a->how), "%s", why);
	a->live_bytes = a->free_page_bytes = a->hole_bytes = a->cache_bytes = a->metadata_bytes =
		a->reserved_bytes = a->resident_bytes = a->live_count = UINT64_MAX;
	return 0;
}

int heaps_judge(struct breakdown *b, const struct memory *memory, const char *allocator,
		double consistency)
{
	char why[96];
	if (memory_is_spent(memory))
		snprintf(why, sizeof(why),
			 "given up: what looks like its tables asks for more work than its memory "
			 "warrants");
	else if (!(consistency >= CONSISTENCY_MIN))
		snprintf(why, sizeof(why),
			 "not told: only %.0f %% of what was read agrees with itself%s",
			 consistency, b->swap_bytes ? ", some was swapped out" : "");
	else
		return 1;
	return heaps_unread(b, allocator, why);
}

int heaps_own(struct breakdown *b, uint64_t start, uint64_t end, unsigned class, const char *label,
	      const char *owner, unsigned weak, unsigned how)
{
	if (!b->owned)
		return 0;
	size_t at = breakdown_find(b, end - 1);
	struct owned_span span = { .start = start,
				   .end = end,
				   .label = label,
				   .owner = owner,
				   .class = (uint8_t) class,
				   .how = (uint8_t)how,
				   .weak = (uint8_t)weak,
				   .grows = at < b->region_count && b->regions[at].end == end };
	return owned_add(b->owned, &span);
}

int heaps_claim(struct breakdown *b, const uint8_t *claims, unsigned class,
		const char *const *labels, const char *owner)
{
	int rc = 0;
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		if (!claims[i])
			continue;
		rc = heaps_own(b, b->regions[i].start, b->regions[i].end, class,
			       labels[claims[i] - 1], owner, OWNED_MAPPING, HOW_ALLOCATOR);
		if (rc == 0)
			rc = breakdown_relabel(b, i, class, labels[claims[i] - 1], owner,
					       HOW_ALLOCATOR);
	}
	return rc;
}

static int may_be_stack(const struct region *r, uint64_t pointer, struct memory_pages *pages)
{
	uint64_t from = pointer & ~(pages->memory->page_bytes - 1);
	return r->class == REGION_ANONYMOUS && scan_is_heap(r) && r->end - r->start <= STACK_MAX &&
	       memory_resident(pages, from, r->end) == r->end - from;
}

/*
 * Threads that no C library made: no descriptor, perhaps no guard. A mapping that no allocator has,
 * that one thread's pointer alone lies in, and whose pages are all there from the pointer to its
 * end, is what that thread runs on.
 */
static int place_threads(struct breakdown *b, const struct memory *memory)
{
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	uint8_t *pointers = calloc(b->region_count + 1, 1); /* into each mapping: 0, 1, 2 or more */
	int rc = pages && pointers ? 0 : -ENOMEM;
	if (pages)
		pages->memory = memory;
	for (size_t i = 0; i < b->thread_count && rc == 0; i++) {
		uint8_t *count = &pointers[breakdown_find(b, b->threads[i].stack_pointer)];
		*count += *count < 2;
	}
	for (size_t i = 0; i < b->thread_count && rc == 0; i++) {
		struct thread_stack *t = &b->threads[i];
		size_t at = breakdown_find(b, t->stack_pointer);
		char owner[64];
		if (t->stack_end || at == b->region_count || pointers[at] != 1 ||
		    !may_be_stack(&b->regions[at], t->stack_pointer, pages))
			continue;
		snprintf(owner, sizeof(owner), "thread %d (%s)", (int)t->tid, t->name);
		rc = breakdown_relabel(b, at, REGION_STACK, "thread stacks", owner,
				       HOW_STACK_POINTER);
		t->stack_start = b->regions[at].start;
		t->stack_end = b->regions[at].end;
		t->rss_bytes = b->regions[at].rss_bytes;
		t->how = HOW_STACK_POINTER;
	}
	free(pointers);
	free(pages);
	return rc;
}

/*
 * A stack that lies in a larger mapping, by its thread's descriptor: the mapping is not the
 * thread's.
 */
static int own_stacks(struct breakdown *b, const struct memory *memory)
{
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	int rc = pages ? 0 : -ENOMEM;
	if (pages)
		pages->memory = memory;
	for (size_t i = 0; i < b->thread_count && rc == 0; i++) {
		struct thread_stack *t = &b->threads[i];
		size_t at = t->stack_end ? breakdown_find(b, t->stack_start) : b->region_count;
		char owner[64];
		if (at == b->region_count || t->how != HOW_THREAD_DESCRIPTOR ||
		    b->regions[at].name[0] ||
		    (t->stack_start == b->regions[at].start && t->stack_end == b->regions[at].end))
			continue;
		snprintf(owner, sizeof(owner), "thread %d (%s)", (int)t->tid, t->name);
		t->rss_bytes = memory_resident(pages, t->stack_start & ~(memory->page_bytes - 1),
					       t->stack_end);
		struct owned_span span = { .start = t->stack_start,
					   .end = t->stack_end,
					   .label = "thread stacks",
					   .owner = owner,
					   .class = REGION_STACK,
					   .how = HOW_THREAD_DESCRIPTOR,
					   .weak = OWNED_STACK };
		rc = owned_add(b->owned, &span);
	}
	for (size_t i = 0; i < b->idle_stacks.count && rc == 0; i++) {
		struct owned_span span = { .start = b->idle_stacks.blocks[i].start,
					   .end = b->idle_stacks.blocks[i].end,
					   .label = "stack cache",
					   .class = REGION_STACK_CACHE,
					   .how = HOW_THREAD_DESCRIPTOR,
					   .weak = OWNED_STACK };
		rc = owned_add(b->owned, &span);
	}
	free(pages);
	return rc;
}

struct recording {
	const struct target *target;
	uint16_t *port;
	int found;
};

/* The memory that it shares with its recorder, which beats there while it lives. */
static int look_at_recording(void *ctx, struct region *r)
{
	struct recording *found = ctx;
	struct wire_heap_header h;
	if (strncmp(r->name, "/memfd:byteledger", 17) != 0 || r->offset ||
	    r->end - r->start < sizeof(h) ||
	    target_read(found->target, r->start, &h, sizeof(h)) != sizeof(h) ||
	    h.magic != WIRE_HEAP_MAGIC)
		return 0;
	if (h.detach || !h.recorder_pid)
		return 0;
	found->found = 1;
	*found->port = h.served_port <= UINT16_MAX ? (uint16_t)h.served_port : 0;
	return 1;
}

int heaps_recording(const struct target *target, uint16_t *port)
{
	struct recording found = { .target = target, .port = port };
	struct reading reading;
	struct err err = { 0 };
	*port = 0;
	int rc = maps_each(target, look_at_recording, &found, &reading, &err);
	return found.found ? 1 : rc < 0 ? rc : 0;
}

/*
 * What the preload library mapped in the target, by its word in the memory that it shares with its
 * recorder: the kernel joins it to others'.
 */
static int own_library(struct breakdown *b, const struct memory *memory)
{
	struct wire_heap_header *header = malloc(sizeof(*header));
	int rc = header ? 0 : -ENOMEM;
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		const struct region *r = &b->regions[i];
		if (strncmp(r->name, "/memfd:byteledger", 17) != 0 || r->offset ||
		    r->end - r->start < sizeof(*header) ||
		    memory_read_resident(memory, r->start, header, sizeof(*header)) < 0 ||
		    header->magic != WIRE_HEAP_MAGIC)
			continue;
		for (size_t k = 0; k < ARRAY_LEN(header->own_ranges) && rc == 0; k++)
			if (header->own_ranges[k][1] < UINT64_MAX / 2)
				rc = heaps_own(b, header->own_ranges[k][0],
					       header->own_ranges[k][1], REGION_BYTELEDGER,
					       "byteledger's own memory", "byteledger", OWNED_PART,
					       HOW_ALLOCATOR);
	}
	free(header);
	return rc;
}

static uint64_t work_of(const struct breakdown *b)
{
	uint64_t work = WORK_LEAST + b->region_count * WORK_MAPPING;
	for (size_t i = 0; i < b->region_count; i++)
		if (!(b->regions[i].perms & REGION_SHARED))
			work += (b->regions[i].rss_bytes + b->regions[i].swap_bytes) *
				WORK_RESIDENT;
	return work;
}

/* Figures of what could be read, as if it were all: each line says so itself. */
static void tell_swapped(struct breakdown *b)
{
	static const char note[] = "; some is swapped out";
	for (size_t i = 0; i < b->allocator_count && b->swap_bytes; i++) {
		struct allocator_reading *a = &b->allocators[i];
		size_t len = strlen(a->how);
		if (a->live_bytes != UINT64_MAX && len + sizeof(note) <= sizeof(a->how))
			memcpy(a->how + len, note, sizeof(note));
	}
}

double heaps_present(const struct breakdown *b, const uint8_t *claims)
{
	uint64_t there = 0, all = 0;
	for (size_t i = 0; i < b->region_count; i++) {
		there += claims[i] ? b->regions[i].rss_bytes : 0;
		all += claims[i] ? b->regions[i].rss_bytes + b->regions[i].swap_bytes : 0;
	}
	return all ? (double)there / (double)all : 1;
}

/*
 * A JVM's parts are known exactly, and malloc's large blocks by two words each: what is the JVM's
 * must be known before.
 */
static int (*const readers[])(struct breakdown *, const struct memory *, struct err *) = {
	heaps_hotspot,  heaps_partition, heaps_glibc, heaps_cpython, heaps_jemalloc, heaps_mimalloc,
	heaps_tcmalloc, heaps_go,        heaps_sbcl,  heaps_dotnet,  heaps_proofs
};

/*
 * What a reader put into the units is of the allocator that it told first; of one that was refused
 * it goes.
 */
static void own_units(struct breakdown *b, size_t rows, size_t units, size_t pieces)
{
	while (rows < b->allocator_count && b->allocators[rows].live_bytes == UINT64_MAX)
		rows++;
	if (rows == b->allocator_count) {
		units_rewind(b->units, units, pieces);
		return;
	}
	for (; b->units && units < b->units->count; units++)
		b->units->units[units].allocator = (uint8_t)rows;
}

int heaps_read(struct breakdown *b, const struct target *target, struct err *err)
{
	struct pages pages = { .fd = -1 };
	struct err ignored = { 0 };
	b->files_of = target;
	free(b->allocators);
	b->allocators = NULL;
	b->allocator_count = 0;
	if (b->owned)
		owned_fini(b->owned);
	else
		b->owned = calloc(1, sizeof(*b->owned));
	if (!b->owned)
		return err_set(err, -ENOMEM, "cannot read the heap of process %d", (int)b->pid);
	/* where nobody tells what is resident nothing is read: it might change what is looked at */
	b->heaps_refused = pages_open(&pages, target, &ignored);
	if (b->heaps_refused < 0)
		return breakdown_sum(b, err);
	b->heaps_refused = 0;
	pages_turns(&pages, b->turns);
	struct memory_process process = { .target = target, .pages = &pages };
	struct memory memory;
	struct scan_copies copies = { 0 };
	memory_of_process(&memory, &process);
	/* not where the copies would be a part of what is told */
	if (target->pid != getpid()) {
		scan_copies_init(&copies, b);
		memory.copies = &copies;
	}
	uint64_t left = work_of(b);
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(readers) && rc == 0; i++) {
		/*
		 * half of what is left at most: one that leads in circles must not hide the others
		 */
		struct memory_work work = { .left = left / 2 };
		size_t rows = b->allocator_count, units = b->units ? b->units->count : 0;
		size_t pieces = b->units ? b->units->piece_count : 0;
		memory.work = &work;
		rc = readers[i](b, &memory, err);
		memory_think(&memory);
		own_units(b, rows, units, pieces);
		left = left - left / 2 + work.left;
		/*
		 * the kernel joins what one mapped to what others did: the next readers see it
		 * apart
		 */
		if (rc == 0 && (readers[i] == heaps_hotspot || readers[i] == heaps_glibc) &&
		    b->owned->count && (rc = owned_sort(b->owned)) == 0)
			rc = owned_apply(b->owned, b, target, err);
	}
	memory.work = NULL;
	if (rc == 0 && b->settings && b->files)
		rc = heaps_served(b, &memory, err);
	if (b->units && b->units->incomplete && rc == 0)
		rc = err_set(err, -ENOMEM, "cannot keep the heap of process %d", (int)b->pid);
	memory_think(&memory);
	if (b->units)
		units_sort(b->units);
	tell_swapped(b);
	scan_copies_fini(&copies);
	memory.copies = NULL;
	if (rc == 0 && place_threads(b, &memory) < 0)
		rc = err_set(err, -ENOMEM, "cannot place the threads of process %d", (int)b->pid);
	if (rc == 0 &&
	    (own_library(b, &memory) < 0 || own_stacks(b, &memory) < 0 || owned_sort(b->owned) < 0))
		rc = err_set(err, -ENOMEM, "cannot name the mappings of process %d", (int)b->pid);
	b->named_ns = b->owned->read_ns = clock_ns(CLOCK_MONOTONIC);
	if (process.stall_ns > b->reading.stall_ns)
		b->reading.stall_ns = process.stall_ns;
	pages_close(&pages);
	b->files_of = NULL;
	return rc < 0 ? rc : owned_apply(b->owned, b, target, err);
}
