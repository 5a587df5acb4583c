/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc_find.c - where glibc's malloc keeps its books: main arena by the shape of its bins, the
 * others by their ring.
 */
#include "heaps/glibc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

#define BINS 127                /* pairs of pointers */
#define BINS_BYTES (BINS * 16u) /* fd and bk of each */
#define AFTER_NEXT    \
	(BINS_BYTES + \
	 16) /* behind bins: binmap (16 bytes), next, next_free, attached_threads, system_mem */
#define AFTER_SYSTEM (BINS_BYTES + 40)
#define BEFORE_BINS_MAX \
	512 /* mutex, flags, fastbins, top, last_remainder: 112 bytes on 2.36, 24 since 2.43 */
#define TRIES_MAX 4096u /* of places that may be the bins, in one mapping */
#define SCAN_REGION_MAX (64ull << 20)
#define SCAN_TOTAL_MAX (256ull << 20)
#define SCAN_BLOCK 65536u
#define HEAP_MAX_BYTES (64ull << 20) /* heaps of further arenas begin at multiples of this */
#define HEADS_MAX 65536u             /* addresses tried for a heap's header */
#define PAGES_TRIED_MAX (1u << 16)   /* of anonymous mappings, for large blocks in the middle */

static uint64_t word(const void *at)
{
	uint64_t v;
	memcpy(&v, at, 8);
	return v;
}

/* ---- the list of spans ----------------------------------------------------------------------- */

static int add_span(struct glibc_reading *r, size_t *cap, const struct glibc_span *span)
{
	if (r->span_count == GLIBC_SPANS_MAX)
		return 0; /* what is left out lowers the consistency */
	if (r->span_count == *cap) {
		size_t grown = *cap ? *cap * 2 : 64;
		struct glibc_span *spans = realloc(r->spans, grown * sizeof(*spans));
		if (!spans)
			return -ENOMEM;
		r->spans = spans;
		*cap = grown;
	}
	r->spans[r->span_count++] = *span;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct glibc_span *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static const struct glibc_span *span_in(const struct glibc_span *spans, size_t count, uint64_t addr)
{
	size_t at =
		search_beyond(spans, count, sizeof(*spans), offsetof(struct glibc_span, end), addr);
	return at < count && spans[at].start <= addr ? &spans[at] : NULL;
}

const struct glibc_span *glibc_span_at(const struct glibc_reading *r, uint64_t addr)
{
	return span_in(r->spans, r->span_count, addr);
}

/*
 * By address; where two lay claim to the same bytes (lists that were read at different moments) the
 * later one has them.
 */
static void settle(struct glibc_reading *r)
{
	qsort(r->spans, r->span_count, sizeof(*r->spans), by_address);
	size_t kept = 0;
	for (size_t i = 0; i < r->span_count; i++) {
		if (i + 1 < r->span_count && r->spans[i].end > r->spans[i + 1].start)
			r->spans[i].end = r->spans[i + 1].start;
		if (r->spans[i].end > r->spans[i].start)
			r->spans[kept++] = r->spans[i];
	}
	r->span_count = kept;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static int writable_private(const struct region *region)
{
	return (region->perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
	       (REGION_READ | REGION_WRITE);
}

static int is_heap(const struct region *region)
{
	return strcmp(region->name, "[heap]") == 0;
}

/*
 * Nameless, or named by glibc itself (2.39 with a tunable) or by the program: a VMA name says
 * nothing about who maps it.
 */
static int is_anonymous(const struct region *region)
{
	return writable_private(region) && !region->inode && region->class != REGION_RUNTIME &&
	       (!region->name[0] || strncmp(region->name, "[anon:", 6) == 0);
}

static const struct region *region_at(const struct region *regions, size_t count, uint64_t addr)
{
	size_t at =
		search_beyond(regions, count, sizeof(*regions), offsetof(struct region, end), addr);
	return at < count && regions[at].start <= addr ? &regions[at] : NULL;
}

static int writable_at(const struct region *regions, size_t count, uint64_t addr)
{
	const struct region *region = region_at(regions, count, addr);
	return region && writable_private(region);
}

/* ---- the main arena -------------------------------------------------------------------------- */

struct search {
	const struct memory *memory;
	const struct region *regions;
	size_t count;
	struct glibc_reading *reading;
	/* of spans */
	size_t cap;
	/* bytes of struct malloc_state before its bins */
	uint64_t before;
	uint64_t scanned;
	unsigned tries;
	/* mappings that touch one another; of the one that was asked for last */
	size_t run_first, run_last;
};

/*
 * Where the private mappings without a file end that touch mapping @i: advice or protection cuts
 * what was mapped as one.
 */
static uint64_t joined_end(struct search *s, size_t i)
{
	const struct region *r = s->regions;
	if (i >= s->run_first && i <= s->run_last && s->run_last)
		return r[s->run_last].end;
	s->run_first = s->run_last = i;
	for (size_t k = i + 1; k < s->count && r[k].start == r[k - 1].end && !r[k].inode &&
			       !(r[k].perms & REGION_SHARED) && r[k].name[0] != '[';
	     k++)
		s->run_last = k;
	return r[s->run_last].end;
}

/*
 * An empty bin's links point 16 bytes before themselves; a used bin's chunks point back at the bin.
 */
static int bin_holds(const struct search *s, uint64_t at, const char *pair)
{
	uint64_t fd = word(pair), bk = word(pair + 8), back[2];
	if (fd == at - 16 && bk == at - 16)
		return 1;
	if ((fd | bk) & 15 || !writable_at(s->regions, s->count, fd) ||
	    !writable_at(s->regions, s->count, bk))
		return 0;
	/* a chunk that was swapped out says nothing against it */
	if (memory_read(s->memory, fd + 16, back, 16) < 0)
		return region_at(s->regions, s->count, fd)->swap_bytes != 0;
	return back[1] == at - 16;
}

/*
 * The bytes in front of the bins are told by the ring of arenas coming back to its start; @next:
 * what the first one says is next to it.
 */
static int ring_closes(const struct search *s, uint64_t bins, uint64_t before, uint64_t next)
{
	uint64_t first = bins - before;
	for (unsigned i = 1; next != first && i < GLIBC_ARENAS_MAX; i++) {
		if (next & 15 || !writable_at(s->regions, s->count, next) ||
		    memory_read(s->memory, next + before + AFTER_NEXT, &next, 8) < 0)
			return 0;
	}
	return next == first;
}

/* 1 if the main arena's bins begin at @bins. */
static int try_bins(struct search *s, uint64_t bins)
{
	char copy[16 + AFTER_SYSTEM];
	uint64_t top, next;
	if (memory_read(s->memory, bins - 16, copy, sizeof(copy)) < 0)
		return 0;
	top = word(copy);
	if (top != bins - 16 && (top & 15 || !writable_at(s->regions, s->count, top)))
		return 0;
	unsigned good = 0;
	/* the program may be moving a few just now */
	for (unsigned i = 0; i < BINS && i - good <= 4; i++)
		good += (unsigned)bin_holds(s, bins + i * 16, copy + 16 + i * 16);
	if (good < BINS - 4)
		return 0;
	next = word(copy + 16 + AFTER_NEXT);
	/* alone, an arena is its own successor: that tells what stands before the bins */
	if (next < bins && bins - next <= BEFORE_BINS_MAX &&
	    ring_closes(s, bins, bins - next, next)) {
		s->before = bins - next;
		return 1;
	}
	for (unsigned i = 0; i < 2; i++) {
		s->before = i ? 24 : 112;
		if (ring_closes(s, bins, s->before, next))
			return 1;
	}
	for (uint64_t before = 16; before <= BEFORE_BINS_MAX; before += 8) {
		if (ring_closes(s, bins, before, next)) {
			s->before = before;
			return 1;
		}
	}
	return 0;
}

/* A word that may be the top of an arena whose bins begin 16 bytes behind it. */
static int may_be_top(const struct search *s, uint64_t top)
{
	return top && !(top & 15) && writable_at(s->regions, s->count, top);
}

/*
 * Within what has been copied of a mapping: an empty bin points at itself. Where none is empty,
 * @every word of libc's own data is tried that a heap's address stands before. Returns the address
 * of the bins, or 0.
 */
static uint64_t bins_in(struct search *s, uint64_t addr, const char *bytes, size_t len, int every)
{
	for (size_t i = 16; i + 16 <= len && s->tries < TRIES_MAX; i += 8) {
		uint64_t at = addr + i;
		if (every) {
			if (!may_be_top(s, word(bytes + i - 16)))
				continue;
			s->tries++;
			if (try_bins(s, at))
				return at;
			continue;
		}
		if (word(bytes + i) != at - 16 || word(bytes + i + 8) != at - 16)
			continue;
		/* which bin is it? */
		s->tries++;
		for (unsigned k = 0; k < BINS; k++) {
			if (try_bins(s, at - k * 16))
				return at - k * 16;
		}
		/* not malloc's: neither is what follows it directly */
		while (i + 32 <= len && word(bytes + i + 16) == addr + i)
			i += 16;
	}
	return 0;
}

/* mp_ by its fields' places: n_mmaps_max, mmapped_mem, sbrk_base, the words of tcache. */
static const struct params_shape {
	uint32_t mmaps_max, mmapped, base, tcache;
} params_shapes[] = {
	{ 64, 80, 96, 104 },  /* 2.35 to 2.42 */
	{ 72, 88, 104, 112 }, /* since 2.43 */
	{ 44, 56, 72, 80 },   /* 2.26 to 2.34 */
};
#define PARAMS_BYTES 136u
#define THRESHOLD 131072u
#define THRESHOLD_MAX (32ull << 20)

static uint32_t half(const char *at)
{
	uint32_t v;
	memcpy(&v, at, 4);
	return v;
}

/* Six of its defaults, or thresholds that rose by themselves; or the settings of thread caches. */
static int params_look(const struct search *s, const char *at, const struct params_shape *shape)
{
	uint64_t trim = word(at), pad = word(at + 8), threshold = word(at + 16);
	uint64_t base = word(at + shape->base), mmapped = word(at + shape->mmapped);
	const struct region *region = region_at(s->regions, s->count, base);
	/* since 2.43 each mremap() of a large block leaves it 16 bytes too high */
	uint64_t odd = s->before == 24 ? 15 : s->memory->page_bytes - 1;
	if ((base && !(region && is_heap(region))) || mmapped & odd)
		return 0;
	int risen = threshold >= THRESHOLD && threshold <= THRESHOLD_MAX && trim == 2 * threshold;
	int defaults = (threshold == THRESHOLD && trim == THRESHOLD) || risen;
	uint64_t bins = word(at + shape->tcache), bytes = word(at + shape->tcache + 8);
	int tcache = (bins == 64 || bins == 76) &&
		     (bytes == 1032 || bytes == 1040 || bytes == 1041) &&
		     word(at + shape->tcache + 16) <= 65535;
	return (defaults && pad == THRESHOLD && half(at + shape->mmaps_max) == 65536) || tcache;
}

/* Where tunables changed all of that it is not recognised, and those cross-checks are left out. */
static void find_params(struct search *s, const struct region *region)
{
	uint64_t words[SCAN_BLOCK / 8], at = region->start;
	struct glibc_reading *r = s->reading;
	while (at < region->end && !r->params) {
		size_t len = region->end - at < sizeof(words) ? region->end - at : sizeof(words);
		if (memory_read_resident(s->memory, at, words, len) < 0)
			return;
		const char *bytes = (const char *)words;
		for (size_t i = 0; i + PARAMS_BYTES <= len && !r->params; i += 8) {
			for (unsigned k = s->before == 24 ? 1 : 0; k < 3 && !r->params; k++) {
				const struct params_shape *shape = &params_shapes[k];
				if ((s->before == 24) != (k == 1) ||
				    !params_look(s, bytes + i, shape))
					continue;
				r->params = at + i;
				r->params_mmapped_bytes = word(bytes + i + shape->mmapped) &
							  ~(s->memory->page_bytes - 1);
				r->params_sbrk_base = word(bytes + i + shape->base);
				r->trim_threshold = word(bytes + i);
				r->top_pad = word(bytes + i + 8);
				r->mmap_threshold = word(bytes + i + 16);
				r->arena_max = word(bytes + i + 32);
				r->no_dyn_threshold = half(bytes + i + shape->mmapped - 8) != 0;
			}
		}
		if (len < sizeof(words))
			return;
		at += len - PARAMS_BYTES;
	}
}

static uint64_t scan_region(struct search *s, const struct region *region, int every)
{
	uint64_t at = region->start, found = 0;
	s->tries = 0;
	char *bytes = malloc(SCAN_BLOCK);
	while (bytes && !found && at < region->end && s->scanned < SCAN_TOTAL_MAX) {
		size_t len = region->end - at < SCAN_BLOCK ? region->end - at : SCAN_BLOCK;
		if (memory_read_resident(s->memory, at, bytes, len) < 0)
			break;
		s->scanned += len;
		found = bins_in(s, at, bytes, len, every);
		if (len < SCAN_BLOCK)
			break;
		at += SCAN_BLOCK - BINS_BYTES - 16; /* the array may lie across the border */
	}
	free(bytes);
	return found;
}

int glibc_is_library(const struct region *region)
{
	const char *base = strrchr(region->name, '/');
	return base && (strncmp(base, "/libc.so.", 9) == 0 || strncmp(base, "/libc-2.", 8) == 0);
}

/*
 * libc's own data first, twice, for bins move while they are read; then every module's, for
 * programs that were linked statically.
 */
static uint64_t find_main_arena(struct search *s)
{
	enum { OWN, OWN_AGAIN, OWN_EVERY, OTHERS, PASSES };
	for (int pass = 0; pass < PASSES; pass++) {
		for (size_t i = 0; i < s->count; i++) {
			const struct region *region = &s->regions[i];
			if (!writable_private(region) || region->name[0] != '/' ||
			    region->end - region->start > SCAN_REGION_MAX ||
			    glibc_is_library(region) != (pass != OTHERS))
				continue;
			uint64_t bins = scan_region(s, region, pass == OWN_EVERY);
			if (!bins)
				continue;
			s->reading->before = s->before;
			s->reading->unknown =
				s->before != 24 && s->before != 104 && s->before != 112;
			find_params(s, region);
			return bins;
		}
	}
	return 0;
}

/* ---- arenas and their heaps ------------------------------------------------------------------ */

static int read_arena(const struct search *s, struct glibc_arena *arena)
{
	if (memory_read(s->memory, arena->bins - 16, &arena->top, 8) < 0 ||
	    memory_read(s->memory, arena->bins + AFTER_SYSTEM, &arena->system_bytes, 8) < 0)
		return -EFAULT;
	return 0;
}

static int list_arenas(struct search *s, uint64_t main_bins)
{
	struct glibc_reading *r = s->reading;
	size_t cap = 0;
	uint64_t first = main_bins - s->before, at = first;
	do {
		if (r->arena_count == cap) {
			cap = cap ? cap * 2 : 16;
			struct glibc_arena *arenas = realloc(r->arenas, cap * sizeof(*arenas));
			if (!arenas)
				return -ENOMEM;
			r->arenas = arenas;
		}
		struct glibc_arena arena = { .addr = at, .bins = at + s->before };
		if (read_arena(s, &arena) < 0)
			break;
		r->arenas[r->arena_count++] = arena;
		uint64_t sum;
		if (__builtin_add_overflow(r->claimed_bytes, arena.system_bytes, &sum))
			return -EBADMSG;
		r->claimed_bytes = sum;
		if (memory_read(s->memory, arena.bins + AFTER_NEXT, &at, 8) < 0)
			break;
	} while (at != first && !(at & 15) && writable_at(s->regions, s->count, at) &&
		 r->arena_count < GLIBC_ARENAS_MAX);
	return 0;
}

static size_t arena_of(const struct glibc_reading *r, uint64_t addr)
{
	size_t i = 0;
	while (i < r->arena_count && r->arenas[i].addr != addr)
		i++;
	return i;
}

/*
 * brk: one stretch of [heap] mappings; a hole in it (someone else's mprotect) starts another span.
 */
static int add_main(struct search *s)
{
	/* an arena that never had anything does not lie over another allocator's heap */
	for (size_t i = 0; i < s->count && s->reading->arenas[0].system_bytes; i++) {
		const struct region *region = &s->regions[i];
		if (!is_heap(region) || !writable_private(region))
			continue;
		struct glibc_span span = { .start = region->start,
					   .end = region->end,
					   .kind = GLIBC_MAIN };
		while (i + 1 < s->count && is_heap(&s->regions[i + 1]) &&
		       writable_private(&s->regions[i + 1]) && s->regions[i + 1].start == span.end)
			span.end = s->regions[++i].end;
		uint64_t base = s->reading->params_sbrk_base;
		span.chunks = base >= span.start && base < span.end ? (base + 15) & ~15ull : 0;
		int rc = add_span(s->reading, &s->cap, &span);
		if (rc < 0)
			return rc;
	}
	/* where brk was refused the main arena's top lies in a mapping of its own */
	uint64_t top = s->reading->arenas[0].system_bytes ? s->reading->arenas[0].top : 0;
	const struct region *region = region_at(s->regions, s->count, top);
	if (region && is_anonymous(region)) {
		struct glibc_span span = { .start = region->start,
					   .end = region->end,
					   .kind = GLIBC_MAIN };
		return add_span(s->reading, &s->cap, &span);
	}
	return 0;
}

/* struct heap_info: ar_ptr, prev, size, ... 48 bytes since 2.35, 32 before. */
static int try_heap(struct search *s, uint64_t limit, uint64_t at)
{
	uint64_t head[3];
	if (memory_read(s->memory, at, head, sizeof(head)) < 0)
		return 0;
	size_t arena = arena_of(s->reading, head[0]);
	if (!arena || arena == s->reading->arena_count)
		return 0;
	if (head[2] > HEAP_MAX_BYTES || head[2] & (s->memory->page_bytes - 1) ||
	    head[2] < s->memory->page_bytes || head[1] & (HEAP_MAX_BYTES - 1))
		return 0;
	uint64_t end = at + head[2];
	if (end > limit) /* the list of mappings is a little older */
		end = limit;
	struct glibc_span span = {
		.start = at, .end = end, .arena = (uint32_t)arena, .kind = GLIBC_HEAP
	};
	return add_span(s->reading, &s->cap, &span);
}

static int add_heaps(struct search *s)
{
	unsigned tried = 0;
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	int rc = pages ? 0 : -ENOMEM;
	if (pages)
		pages->memory = s->memory;
	for (size_t i = 0; i < s->count && !rc && s->reading->arena_count > 1; i++) {
		const struct region *region = &s->regions[i];
		if (!is_anonymous(region))
			continue;
		uint64_t at = (region->start + HEAP_MAX_BYTES - 1) & ~(HEAP_MAX_BYTES - 1);
		while (at >= region->start && at < region->end && tried++ < HEADS_MAX && !rc) {
			/*
			 * a header was written, so its page is there: nothing is mapped in by
			 * looking
			 */
			uint64_t first = memory_resident_from(pages, at, region->end);
			if (first - at < s->memory->page_bytes) {
				rc = try_heap(s, joined_end(s, i), at);
				first = at + 1;
			}
			at = (first + HEAP_MAX_BYTES - 1) & ~(HEAP_MAX_BYTES - 1);
		}
	}
	free(pages);
	return rc;
}

/* ---- large blocks ---------------------------------------------------------------------------- */

/*
 * A chunk header with IS_MMAPPED: a whole number of pages, inside its mapping, which ends at
 * @limit. prev_size is the shift that memalign() made, else 0; since 2.43 its lowest bit means huge
 * pages, and the size is 16 bytes less than the mapping.
 */
static uint64_t large_at(const struct search *s, uint64_t limit, uint64_t at,
			 const uint64_t head[2])
{
	uint64_t page = s->memory->page_bytes, size = head[1] & ~7ull, shift = head[0];
	if ((head[1] & 7) != 2 || !size || size > limit - at)
		return 0;
	if (s->before == 24) {
		shift &= ~1ull;
		size += 16;
	}
	return !(size & (page - 1)) && size <= limit - at && shift < page && !(shift & 15) ? size
											   : 0;
}

/*
 * Chunk headers at the starts of pages, read ahead: a system call for each would cost more than all
 * else.
 */
#define HEADS_AHEAD 64u
#define USUAL_THRESHOLD (128u << 10)
struct heads {
	const struct search *search;
	/* numbers of the mappings that are looked into, one after the other */
	const uint32_t *order;
	size_t order_count;
	int every_page;
	/* spans that were there before: in order, not looked for again */
	size_t known;
	unsigned tried;
	/* end of the block that was found last */
	uint64_t done;
	struct memory_pages here, ahead;
	unsigned count, next;
	uint64_t at[HEADS_AHEAD], words[HEADS_AHEAD][2];
};

static void add_head(struct heads *h, struct target_piece *pieces, uint64_t at)
{
	h->at[h->count] = at;
	pieces[h->count] = (struct target_piece){ at, h->words[h->count], sizeof(h->words[0]) };
	h->count++;
}

/*
 * From @at on, which lies in mapping @number of the order: what will be asked for next, if nothing
 * is found there.
 */
static void fill_heads(struct heads *h, size_t number, uint64_t at, uint64_t end)
{
	const struct memory *memory = h->search->memory;
	uint64_t page = memory->page_bytes;
	struct target_piece pieces[HEADS_AHEAD];
	h->count = h->next = 0;
	add_head(h, pieces, at);
	if (h->every_page) {
		for (at += page; at < end && h->count < HEADS_AHEAD; at += page)
			if (memory_resident(&h->ahead, at, at + page))
				add_head(h, pieces, at);
	} else {
		while (++number < h->order_count && h->count < HEADS_AHEAD) {
			at = h->search->regions[h->order[number]].start;
			if (memory_resident(&h->ahead, at, at + page))
				add_head(h, pieces, at);
		}
	}
	ssize_t got = memory_read_pieces(memory, pieces, h->count);
	h->count = got < 0 ? 0 : (unsigned)((size_t)got / sizeof(h->words[0]));
}

/* The two words at @at, lent until the next call; NULL where nothing is resident. */
static const uint64_t *head_at(struct heads *h, size_t number, uint64_t at, uint64_t end)
{
	if (!memory_resident(&h->here, at, at + h->search->memory->page_bytes))
		return NULL;
	if (h->next && h->at[h->next - 1] >= at)
		h->count = 0; /* the walk went back */
	while (h->next < h->count && h->at[h->next] < at)
		h->next++;
	if (h->next >= h->count || h->at[h->next] != at)
		fill_heads(h, number, at, end);
	return h->next < h->count ? h->words[h->next] : NULL;
}

struct sized {
	uint64_t bytes;
	uint32_t number;
};

static int by_size(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/*
 * Which mappings to look into: by address, or where every page is looked at the smallest first, for
 * a large block is more likely found in a mapping that is little larger than itself, and the search
 * ends once enough are found. Below malloc's usual threshold come last: there may be thousands of
 * them.
 */
static uint32_t *order_mappings(const struct search *s, int every_page, size_t *count)
{
	struct sized *sized = malloc((s->count + 1) * sizeof(*sized));
	uint32_t *order = malloc((s->count + 1) * sizeof(*order));
	size_t used = 0;
	for (size_t i = 0; i < s->count && sized && order; i++) {
		uint64_t bytes = s->regions[i].end - s->regions[i].start;
		/* of a single page the first is all there is, and was looked at before */
		if (!is_anonymous(&s->regions[i]) || (every_page && bytes <= s->memory->page_bytes))
			continue;
		uint64_t key = bytes < USUAL_THRESHOLD ? bytes + (1ull << 56) : bytes;
		sized[used++] = (struct sized){ every_page ? key : 0, (uint32_t)i };
	}
	if (!sized || !order) {
		free(sized);
		free(order);
		return NULL;
	}
	qsort(sized, used, sizeof(*sized), by_size);
	for (size_t i = 0; i < used; i++)
		order[i] = sized[i].number;
	free(sized);
	*count = used;
	return order;
}

/* Large blocks that begin in [@start, @end) of a mapping. 1: enough was found or tried. */
static int look_for_large(struct search *s, struct heads *h, size_t number, uint64_t start,
			  uint64_t end)
{
	struct glibc_reading *r = s->reading;
	uint64_t page = s->memory->page_bytes;
	uint64_t limit = joined_end(s, h->order[number]);
	if (!h->every_page && start < h->done) /* the last block goes on in here */
		start = h->done;
	for (uint64_t at = start; at < end;) {
		const struct glibc_span *span = span_in(r->spans, h->known, at);
		if (span) {
			at = span->end;
			continue;
		}
		if (h->tried++ == PAGES_TRIED_MAX)
			return 1;
		const uint64_t *head = head_at(h, number, at, end);
		uint64_t size = head ? large_at(s, limit, at, head) : 0;
		if (h->every_page && size > r->params_mmapped_bytes - r->totals.mmapped_bytes)
			size = 0; /* so much is not missing */
		if (size) {
			struct glibc_span large = {
				.start = at, .end = at + size, .chunks = at, .kind = GLIBC_MMAPPED
			};
			int rc = add_span(r, &s->cap, &large);
			if (rc < 0)
				return rc;
			r->totals.mmapped_bytes += size;
			r->totals.mmapped_count++;
			h->done = at + size;
		} else if (!h->every_page) {
			return 0;
		}
		at += size ? size : page;
		if (h->every_page && r->totals.mmapped_bytes >= r->params_mmapped_bytes)
			return 1;
	}
	return 0;
}

/*
 * The first page of every anonymous mapping, where it is resident, and what follows behind each
 * large block; or every page, from the top down: the kernel puts what is mapped later below, so
 * what is merged above a mapping's start is older.
 */
static int add_large(struct search *s, int every_page)
{
	struct heads *h = calloc(1, sizeof(*h));
	size_t count = 0;
	uint32_t *order = order_mappings(s, every_page, &count);
	int rc = h && order ? 0 : -ENOMEM;
	if (rc == 0) {
		*h = (struct heads){ .search = s,
				     .order = order,
				     .order_count = count,
				     .every_page = every_page,
				     .known = s->reading->span_count };
		h->here.memory = h->ahead.memory = s->memory;
	}
	for (size_t i = 0; i < count && !rc; i++) {
		const struct region *region = &s->regions[order[i]];
		if (!every_page) {
			rc = look_for_large(s, h, i, region->start, region->end);
			continue;
		}
		uint64_t step = HEADS_AHEAD * s->memory->page_bytes;
		for (uint64_t end = region->end; end > region->start && !rc;) {
			uint64_t start = end - region->start > step ? end - step : region->start;
			rc = look_for_large(s, h, i, start, end);
			end = start;
		}
	}
	free(h);
	free(order);
	settle(s->reading);
	return rc < 0 ? rc : 0;
}

int glibc_find(const struct memory *memory, const struct region *regions, size_t count,
	       struct glibc_reading *reading, struct err *err)
{
	memset(reading, 0, sizeof(*reading));
	struct search s = {
		.memory = memory, .regions = regions, .count = count, .reading = reading
	};
	uint64_t bins = find_main_arena(&s);
	if (!bins)
		return 0;
	int rc = list_arenas(&s, bins);
	if (!rc && !reading->arena_count)
		return 0;
	/*
	 * since 2.43 it is set up in programs that never ask it, as those that have another
	 * allocator
	 */
	if (!rc && reading->params && !reading->claimed_bytes && !reading->params_mmapped_bytes) {
		glibc_fini(reading);
		return 0;
	}
	if (!rc)
		rc = add_main(&s);
	if (!rc)
		rc = add_heaps(&s);
	if (!rc) {
		settle(reading);
		rc = add_large(&s, 0);
	}
	/*
	 * adjacent mappings are merged by the kernel: a large block may begin in the middle of one
	 */
	if (!rc && reading->params &&
	    reading->params_mmapped_bytes / 100 * 99 > reading->totals.mmapped_bytes)
		rc = add_large(&s, 1);
	uint64_t sum;
	if (!rc && reading->params &&
	    !__builtin_add_overflow(reading->claimed_bytes, reading->params_mmapped_bytes, &sum))
		reading->claimed_bytes = sum;
	else if (!rc)
		reading->claimed_bytes += reading->totals.mmapped_bytes;
	if (rc < 0) {
		glibc_fini(reading);
		return err_set(err, rc, "cannot read the heap of glibc's malloc");
	}
	return 1;
}

void glibc_fini(struct glibc_reading *reading)
{
	free(reading->arenas);
	free(reading->spans);
	memset(reading, 0, sizeof(*reading));
}
