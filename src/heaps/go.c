/* SPDX-License-Identifier: Apache-2.0 */
/*
 * go.c - the heap of Go programs (1.18 and later) read from outside: the list of all spans is found
 * in the program's data by its shape, and every span says what it holds. What lies between spans is
 * free.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"

#define PAGE_BYTES 8192u
#define ARENA_BYTES \
	(64ull << 20) /* of address space, which the runtime reserves for itself alone */
#define SPANS_MAX (1u << 24)
#define SPANS_CAP_MIN 8192u /* the list is never smaller */
#define SPAN_BYTES 128u     /* as much of a span as is looked at */
#define AT_ONCE 64u
#define PROOF_SPANS 16u
#define READINGS_MAX 3u
#define STACK_MIN 2048u
#define IDLE_MIN (64u << 10)

/*
 * runtime.gcControllerState of Go 1.19 to 1.26, words: growth in per cent, memory limit, least
 * heap, ..., goal, and so far behind the goal: in use, released, free
 */
#define PACE_LIMIT 1u
#define PACE_LEAST 2u
#define PACE_USED 25u
#define PACE_RELEASED 26u
#define PACE_FREE 27u
#define PACE_BEHIND 28u
#define PACE_HEAP_MIN (4ull << 20) /* with GOGC=100 */

enum { DEAD, IN_USE, MANUAL }; /* manual: stacks and work buffers */

/*
 * Where a span's fields stand; the first three (next, prev, list) and start, pages have never
 * moved.
 */
struct layout {
	const char *versions;
	/* and of the number of elements behind it */
	uint8_t freeindex_bytes;
	uint8_t alloc_count, class, state, element_bytes;
};
static const struct layout layouts[] = {
	{ "1.22 or later", 2, 96, 98, 99, 104 },
	{ "1.21", 8, 104, 106, 107, 112 },
	{ "1.18 to 1.20", 8, 96, 98, 99, 104 },
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* Where the goal stands: what the pacer remembers in front of it has changed. */
static const uint8_t pace_goals[] = {
	9,  /* 1.21 or later: four ratios of cycles that ended */
	6,  /* 1.20: one */
	13, /* 1.19: the state of a controller */
};

struct span {
	/* taken: bytes of objects; of MANUAL ones the size of each stack */
	uint64_t start, end, taken;
	/* of it, in mappings that the heap may lie in */
	uint64_t resident, mapped;
	uint32_t count;
	unsigned state;
};

struct go {
	struct breakdown *b;
	const struct memory *memory;
	/* without copies: a list that moves is looked for anew */
	struct memory fresh;
	const struct layout *layout;
	struct memory_pages pages;
	struct span *spans;
	/* spans that hold memory; all that the list names */
	size_t count, room, listed;
	/* the spans, and where that is noted */
	uint64_t list, list_at;
	char version[24];
	unsigned bad;
	/* per cent */
	double consistency;
	/* bytes of spans in use */
	uint64_t used;
	int paced, gc_percent;
	uint64_t goal_bytes, idle_bytes, released_bytes;
};

static uint64_t u64_at(const char *bytes)
{
	uint64_t v;
	memcpy(&v, bytes, 8);
	return v;
}

static uint16_t u16_at(const char *bytes)
{
	uint16_t v;
	memcpy(&v, bytes, 2);
	return v;
}

/*
 * 1: a span that holds memory, filled in; 0: one that holds none just now; -1: not a span of this
 * layout.
 */
static int parse(const struct layout *l, const char *bytes, struct span *span)
{
	uint64_t start = u64_at(bytes + 24), npages = u64_at(bytes + 32);
	uint64_t size = u64_at(bytes + l->element_bytes), count = u16_at(bytes + l->alloc_count);
	uint64_t elements = l->freeindex_bytes == 2 ? u16_at(bytes + 50) : u64_at(bytes + 56);
	unsigned class = (unsigned char)bytes[l->class] >> 1;
	*span = (struct span){ .state = (unsigned char)bytes[l->state] };
	if (span->state > MANUAL)
		return -1;
	if (span->state == DEAD)
		return 0;
	if (!start || start & (PAGE_BYTES - 1) || start >> 48 || !npages || npages >> 35)
		return -1;
	span->start = start;
	span->end = start + npages * PAGE_BYTES;
	if (span->state == MANUAL) {
		span->taken = size;
		return 1;
	}
	uint64_t bytes_all = npages * PAGE_BYTES, room;
	/* an element for each object; a large object has the span to itself */
	if (class >= 68 || !size || size > bytes_all || count > elements || !elements ||
	    __builtin_mul_overflow(elements, size, &room) || room > bytes_all ||
	    (class ? room < bytes_all / 2 || size > 32768 || size & 7 : elements != 1))
		return -1;
	span->count = (uint32_t)count;
	span->taken = count * size;
	return 1;
}

/*
 * Spans are listed before they are used, and those on pages that were never touched are zeroes: but
 * not what was swapped out.
 */
static int read_span(const struct go *go, uint64_t at, char bytes[SPAN_BYTES])
{
	const struct region *r = scan_heap_at(go->b, at, 8);
	if (!r)
		return -EFAULT;
	return r->swap_bytes ? memory_read(go->memory, at, bytes, SPAN_BYTES)
			     : memory_read_resident(go->memory, at, bytes, SPAN_BYTES);
}

/* ---- finding the list ------------------------------------------------------------------------ */

/*
 * Of the first spans of the list: how many are of layout @l, 0 if none of them holds objects. A
 * program at work changes a few while they are read.
 */
static unsigned list_holds(const struct go *go, const struct layout *l, uint64_t list)
{
	uint64_t at[PROOF_SPANS];
	unsigned good = 0, holding = 0;
	if (memory_read(go->memory, list, at, sizeof(at)) < 0)
		return 0;
	for (unsigned i = 0; i < PROOF_SPANS; i++) {
		char bytes[SPAN_BYTES];
		struct span span;
		if (read_span(go, at[i], bytes) < 0)
			continue;
		int rc = parse(l, bytes, &span);
		if (rc == 0 || (rc == 1 && scan_heap_at(go->b, span.start, PAGE_BYTES)))
			good++;
		holding += rc == 1 && span.state == IN_USE && span.count;
	}
	return holding ? good : 0;
}

/*
 * The list, its length and its room; behind them the pages in use, which all spans together must
 * come to.
 */
static int look_for_list(void *ctx, const struct scan_block *block)
{
	struct go *go = ctx;
	for (size_t i = 0; i < block->count && i + 4 <= block->ahead; i++) {
		uint64_t list = block->words[i], len = block->words[i + 1],
			 cap = block->words[i + 2];
		if (len > cap || cap < SPANS_CAP_MIN || cap > SPANS_MAX || len < PROOF_SPANS)
			continue;
		const struct region *r = scan_heap_at(go->b, list, go->memory->page_bytes);
		/* every entry was written: so many pages are there, or swapped out */
		if (!r || r->end - list < cap * 8 ||
		    memory_resident(&go->pages, list, list + len * 8) + r->swap_bytes < len * 8)
			continue;
		unsigned best = 0;
		for (size_t k = 0; k < LAYOUTS; k++) {
			unsigned good = list_holds(go, &layouts[k], list);
			if (good < PROOF_SPANS * 3 / 4 || good <= best)
				continue;
			best = good;
			go->layout = &layouts[k];
		}
		if (best) {
			go->list = list;
			go->listed = len;
			go->list_at = block->addr + i * 8;
			return 1;
		}
	}
	return 0;
}

/*
 * The note that the linker leaves at the start of the data: magic, then since 1.18 the version, its
 * length in front.
 */
static int look_for_version(void *ctx, const struct scan_block *block)
{
	struct go *go = ctx;
	static const char magic[] = "\xff Go buildinf:";
	const char *bytes = (const char *)block->words;
	uint64_t first = u64_at(magic);
	for (size_t at = 0; at + 64 <= block->ahead * 8 && at < block->count * 8; at += 16) {
		if (block->words[at / 8] != first || memcmp(bytes + at, magic, 14) != 0)
			continue;
		size_t len = (unsigned char)bytes[at + 32];
		if (bytes[at + 15] & 2 && len > 2 && len < sizeof(go->version) &&
		    memcmp(bytes + at + 33, "go", 2) == 0)
			memcpy(go->version, bytes + at + 33, len);
		else
			memcpy(go->version, "go", 3);
		return 1;
	}
	return 0;
}

/* ---- reading all of them --------------------------------------------------------------------- */

/*
 * The list may name many times what there is: memory for those that hold something, as they come.
 */
static int add_span(struct go *go, const struct span *span)
{
	if (go->count == go->room) {
		size_t room = go->room ? go->room * 2 : 1024;
		struct span *grown = realloc(go->spans, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		go->spans = grown;
		go->room = room;
	}
	go->spans[go->count++] = *span;
	return 0;
}

static int add_batch(struct go *go, const uint64_t *at, unsigned count)
{
	char bytes[AT_ONCE][SPAN_BYTES];
	struct target_piece pieces[AT_ONCE] = { 0 };
	for (unsigned i = 0; i < count; i++)
		pieces[i] = (struct target_piece){ at[i], bytes[i], SPAN_BYTES };
	ssize_t got = memory_read_pieces(go->memory, pieces, count);
	unsigned whole = got > 0 ? (unsigned)((size_t)got / SPAN_BYTES) : 0;
	/* if one cannot be read with the others those behind it may */
	unsigned done = whole < count ? whole + 1 : count;
	for (unsigned i = 0; i < done; i++) {
		struct span span;
		int rc = i < whole || read_span(go, at[i], bytes[i]) == 0
				 ? parse(go->layout, bytes[i], &span)
				 : -1;
		go->bad += rc < 0;
		if (rc == 1 && add_span(go, &span) < 0)
			return -ENOMEM;
	}
	return (int)done;
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * How far the spans come to what the heap itself says is in use; what contradicts itself or
 * overlaps counts against it.
 */
static double agreement(const struct go *go, uint64_t before, uint64_t after)
{
	uint64_t used = 0, bad = go->bad;
	for (size_t i = 0; i < go->count; i++) {
		if (go->spans[i].state == IN_USE)
			used += (go->spans[i].end - go->spans[i].start) / PAGE_BYTES;
		bad += i && go->spans[i].start < go->spans[i - 1].end;
	}
	/* it may have been any figure between the two */
	uint64_t low = before < after ? before : after, high = before < after ? after : before;
	uint64_t claimed = used < low ? low : used > high ? high : used;
	uint64_t less = used < claimed ? used : claimed, more = used < claimed ? claimed : used;
	double good = 1 - (double)(bad < go->listed ? bad : go->listed) / (double)go->listed;
	return more ? 100 * good * (double)less / (double)more : 0;
}

static int read_spans(struct go *go)
{
	uint64_t before = 0, after = 0;
	memory_read(go->memory, go->list_at + 24, &before, sizeof(before));
	for (size_t i = 0; i < go->listed && !memory_is_spent(go->memory);) {
		uint64_t at[AT_ONCE];
		unsigned count = go->listed - i < AT_ONCE ? (unsigned)(go->listed - i) : AT_ONCE;
		if (memory_read(go->memory, go->list + i * 8, at, count * 8) < 0) {
			go->bad += (unsigned)(go->listed - i);
			break;
		}
		int done = add_batch(go, at, count);
		if (done < 0)
			return done;
		i += (size_t)done;
	}
	memory_read(go->memory, go->list_at + 24, &after, sizeof(after));
	if (go->count)
		qsort(go->spans, go->count, sizeof(*go->spans), by_start);
	go->consistency = agreement(go, before, after);
	return 0;
}

/*
 * Its bytes in use are the spans', its least heap goes by its growth: nothing else looks like that.
 */
static int is_pace(const struct go *go, const uint64_t *w, const uint64_t *goal)
{
	int percent = (int)(uint32_t)w[0];
	uint64_t used = goal[PACE_USED];
	return !(w[0] >> 32) && percent >= -1 && w[PACE_LIMIT] && w[PACE_LIMIT] <= INT64_MAX &&
	       used % PAGE_BYTES == 0 && goal[PACE_RELEASED] % 4096 == 0 &&
	       goal[PACE_FREE] % 4096 == 0 && used >= go->used - go->used / 8 &&
	       used <= go->used + go->used / 8 && !(goal[PACE_RELEASED] >> 47) &&
	       !(goal[PACE_FREE] >> 47) &&
	       (percent >= 0 ? w[PACE_LEAST] == PACE_HEAP_MIN * (uint64_t)percent / 100
			     : *goal == UINT64_MAX);
}

static int look_for_pace(void *ctx, const struct scan_block *block)
{
	struct go *go = ctx;
	for (size_t i = 0; i < block->count; i++)
		for (size_t k = 0; k < sizeof(pace_goals); k++) {
			const uint64_t *w = block->words + i, *goal = w + pace_goals[k];
			if (i + pace_goals[k] + PACE_BEHIND > block->ahead || !is_pace(go, w, goal))
				continue;
			go->paced = 1;
			go->gc_percent = (int)(uint32_t)w[0];
			go->goal_bytes = *goal;
			go->idle_bytes = goal[PACE_FREE];
			go->released_bytes = goal[PACE_RELEASED];
			return 1;
		}
	return 0;
}

/*
 * A running program may move under the reader: a reading that disagrees with itself is made again,
 * the best one counts.
 */
static int read_best(struct go *go)
{
	struct go best = *go;
	for (unsigned i = 0; i < READINGS_MAX; i++) {
		struct go once = *go;
		int rc = scan_data(go->b, go->memory, 0, look_for_list, &once);
		rc = rc == 1 ? read_spans(&once) : rc;
		if (rc < 0) {
			free(once.spans);
			free(best.spans);
			return rc;
		}
		if (once.spans && (!best.spans || once.consistency > best.consistency)) {
			free(best.spans);
			best = once;
		} else {
			free(once.spans);
		}
		if (best.consistency > 99)
			break;
	}
	*go = best;
	return best.spans ? 1 : 0;
}

/*
 * Memory that spans may lie in: a part of it may have lost a permission, or been advised about;
 * then it is a mapping of its own.
 */
static int may_hold_spans(const struct region *r)
{
	return !r->inode && !(r->perms & REGION_SHARED) && r->perms & REGION_READ &&
	       !scan_is_data(r) && r->class != REGION_BYTELEDGER;
}

static void give_free(const struct go *go, uint64_t start, uint64_t end)
{
	const struct unit unit = { .start = start,
				   .bytes = end > start ? end - start : 0,
				   .kind = UNIT_RUNTIME_FREE };
	units_add(go->b->units, &unit);
}

/*
 * What of the spans from @next on lies in @r, and what lies there free between them; @next: the
 * first that ends behind @r. Return: whether any does.
 */
static int count_region(struct go *go, const struct region *r, size_t *next,
			struct allocator_reading *heap)
{
	uint64_t at = r->start, gaps = 0;
	int holds = 0;
	for (; *next < go->count && go->spans[*next].start < r->end; ++*next) {
		struct span *s = &go->spans[*next];
		uint64_t start = s->start > r->start ? s->start : r->start;
		uint64_t end = s->end < r->end ? s->end : r->end;
		if (start < at || start >= end)
			continue; /* overlaps its neighbour, or ended before */
		gaps += memory_resident(&go->pages, at, start);
		give_free(go, at, start);
		s->resident += memory_resident(&go->pages, start, end);
		s->mapped += end - start;
		holds = 1;
		at = end;
		if (s->end > r->end)
			break; /* goes on in the next mapping */
	}
	/* a mapping without spans is the heap's as well if its arena is: all of it is free */
	uint64_t arena = r->start / ARENA_BYTES;
	int inside = (r->end - 1) / ARENA_BYTES == arena;
	if (!holds && !(inside && *next && (go->spans[*next - 1].end - 1) / ARENA_BYTES == arena) &&
	    !(inside && *next < go->count && go->spans[*next].start / ARENA_BYTES == arena))
		return 0;
	gaps += memory_resident(&go->pages, at, r->end);
	give_free(go, at, r->end);
	heap->free_page_bytes += gaps;
	heap->resident_bytes += gaps;
	return 1;
}

/* All spans, once it is known what of them is there. */
static void add_spans(const struct go *go, struct allocator_reading *heap,
		      struct allocator_reading *stacks)
{
	for (size_t i = 0; i < go->count; i++) {
		const struct span *s = &go->spans[i];
		struct allocator_reading *to = s->state == MANUAL ? stacks : heap;
		if (!s->mapped)
			continue; /* lies nowhere */
		const struct unit unit = { .start = s->start,
					   .bytes = s->end - s->start,
					   .slot = s->count ? s->taken / s->count : 0,
					   .used = s->count,
					   .kind = s->state == MANUAL ? UNIT_STACKS
						   : s->count         ? UNIT_RUNTIME
								      : UNIT_RUNTIME_FREE };
		units_add(go->b->units, &unit);
		to->resident_bytes += s->resident;
		to->reserved_bytes += s->end - s->start;
		to->live_bytes += s->state == MANUAL ? s->end - s->start : s->taken;
		to->live_count += s->state == MANUAL ? 1 : s->count;
		if (s->state != MANUAL && s->resident > s->taken)
			to->hole_bytes += s->resident - s->taken;
	}
}

/*
 * The runtime's own tables lie in mappings of their own: those that hold spans' descriptions, or
 * the list of them.
 */
static int holds_tables(const struct go *go, const struct region *r, const uint64_t *first)
{
	if (go->list >= r->start && go->list < r->end)
		return 1;
	for (unsigned i = 0; i < PROOF_SPANS; i++)
		if (first[i] >= r->start && first[i] < r->end)
			return 1;
	return 0;
}

enum { NOTHING, HEAP, METADATA };
static const char *const labels[] = { "Go heap", "Go metadata" };

/* Figures, and the label that each mapping deserves. */
static void count_all(struct go *go, uint8_t *claims, struct allocator_reading *heap,
		      struct allocator_reading *stacks)
{
	const struct breakdown *b = go->b;
	uint64_t first[PROOF_SPANS] = { 0 };
	size_t next = 0;
	memory_read(go->memory, go->list, first, sizeof(first));
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		unsigned claim = NOTHING;
		while (next < go->count && go->spans[next].end <= r->start)
			next++; /* its end is not mapped */
		if (!may_hold_spans(r))
			continue;
		if (count_region(go, r, &next, heap)) {
			claim = HEAP;
		} else if (scan_is_heap(r) && holds_tables(go, r, first)) {
			claim = METADATA;
			const struct unit unit = { .start = r->start,
						   .bytes = r->end - r->start,
						   .kind = UNIT_TABLES };
			units_add(go->b->units, &unit);
			heap->metadata_bytes += r->rss_bytes;
			heap->resident_bytes += r->rss_bytes;
		}
		claims[i] = r->class == REGION_ANONYMOUS ? (uint8_t)claim : NOTHING;
	}
	add_spans(go, heap, stacks);
}

static int tell(struct go *go, struct allocator_reading *heap, struct allocator_reading *stacks)
{
	struct allocator_reading *a = heaps_add(go->b);
	if (!a)
		return -ENOMEM;
	heap->consistency = stacks->consistency = go->consistency;
	heap->exact = stacks->exact = 1;
	*a = *heap;
	if (go->paced) {
		a->paced = 1;
		a->gc_percent = go->gc_percent;
		a->goal_bytes = go->goal_bytes;
		a->idle_bytes = go->idle_bytes;
		a->released_bytes = go->released_bytes;
	}
	snprintf(a->allocator, sizeof(a->allocator), "Go heap");
	snprintf(a->how, sizeof(a->how), "every one of %zu spans, laid out as in Go %s (%s)",
		 go->count, go->layout->versions, go->version);
	if (!stacks->live_count)
		return 0;
	a = heaps_add(go->b);
	if (!a)
		return -ENOMEM;
	*a = *stacks;
	a->free_page_bytes = a->hole_bytes = a->cache_bytes = a->metadata_bytes = UINT64_MAX;
	snprintf(a->allocator, sizeof(a->allocator), "Go stacks");
	snprintf(a->how, sizeof(a->how), "spans of goroutine stacks and work buffers, whole");
	return 0;
}

/*
 * What of the heap's mappings is stacks, and what is idle between spans: runs of neighbours, each a
 * piece of its own. Pages that lie idle for a moment between two spans are not worth one.
 */
static int own_pieces(const struct go *go)
{
	static const char *const pieces[] = { "Go stacks", "Go idle" };
	struct breakdown *b = go->b;
	int rc = 0;
	for (size_t i = 0; i < go->count && rc == 0;) {
		const struct span *s = &go->spans[i];
		uint64_t start = s->start, end = s->end;
		for (i++; i < go->count && s->state == MANUAL && go->spans[i].state == MANUAL &&
			  go->spans[i].start == end;
		     i++)
			end = go->spans[i].end;
		if (s->state == MANUAL && s->mapped)
			rc = heaps_own(b, start, end, REGION_RUNTIME, pieces[0], "Go", OWNED_PART,
				       HOW_ALLOCATOR);
		/*
		 * up to the next span, or to the end of the arena: what lies there the runtime has
		 */
		uint64_t next = (end + ARENA_BYTES - 1) & ~(ARENA_BYTES - 1);
		if (i < go->count && go->spans[i].start < next)
			next = go->spans[i].start;
		if (rc == 0 && next > end && next - end >= IDLE_MIN)
			rc = heaps_own(b, end, next, REGION_RUNTIME, pieces[1], "Go", OWNED_PART,
				       HOW_ALLOCATOR);
	}
	return rc;
}

static const struct span *span_at(const struct go *go, uint64_t addr)
{
	size_t at = search_beyond(go->spans, go->count, sizeof(*go->spans),
				  offsetof(struct span, end), addr);
	return at < go->count && go->spans[at].start <= addr ? &go->spans[at] : NULL;
}

/*
 * Threads that the runtime started run on stacks of its own: a goroutine's, or the one that it
 * schedules on.
 */
static void place_threads(struct go *go)
{
	for (size_t i = 0; i < go->b->thread_count; i++) {
		struct thread_stack *t = &go->b->threads[i];
		const struct span *s = t->stack_end ? NULL : span_at(go, t->stack_pointer);
		if (!s || s->state != MANUAL || s->taken < STACK_MIN || s->taken & (s->taken - 1) ||
		    (s->end - s->start) % s->taken)
			continue;
		t->stack_start = s->start + (t->stack_pointer - s->start) / s->taken * s->taken;
		t->stack_end = t->stack_start + s->taken;
		t->rss_bytes = memory_resident(&go->pages, t->stack_start, t->stack_end);
		t->how = HOW_ALLOCATOR;
	}
}

static int judge_and_tell(struct go *go)
{
	struct allocator_reading heap = { 0 }, stacks = { 0 };
	uint8_t *claims = calloc(go->b->region_count + 1, 1);
	if (!claims)
		return -ENOMEM;
	count_all(go, claims, &heap, &stacks);
	for (size_t i = 0; i < go->count; i++)
		go->used +=
			go->spans[i].state == IN_USE ? go->spans[i].end - go->spans[i].start : 0;
	scan_data(go->b, go->memory, 0, look_for_pace, go);
	int rc = heaps_judge(go->b, go->memory, labels[0], go->consistency);
	if (rc == 1) {
		rc = heaps_claim(go->b, claims, REGION_RUNTIME, labels, "Go");
		rc = rc < 0 ? rc : own_pieces(go);
		rc = rc < 0 ? rc : tell(go, &heap, &stacks);
		place_threads(go);
	}
	free(claims);
	return rc;
}

int heaps_go(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct go *go = calloc(1, sizeof(*go));
	int rc = -ENOMEM;
	if (!go)
		goto out;
	go->b = b;
	go->memory = go->pages.memory = memory;
	rc = scan_data(b, memory, 0, look_for_version, go);
	if (rc != 1)
		goto out;
	go->fresh = *memory;
	go->fresh.copies = NULL;
	go->memory = &go->fresh;
	rc = read_best(go);
	if (rc == 1 || (rc == 0 && memory_is_spent(memory))) {
		rc = judge_and_tell(go);
	} else if (rc == 0) {
		char why[96];
		snprintf(why, sizeof(why),
			 "identified only, because no list of spans was found (%s)", go->version);
		rc = heaps_unread(b, labels[0], why);
	}
out:
	if (go)
		free(go->spans);
	free(go);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
