/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proofs.c - runtimes whose memory is named, and not counted: V8's pages, PHP's chunks, Ruby's
 * pages, OCaml's pools, musl's groups. Each lies at multiples of its size and begins with a header
 * that leads back to itself; all of one heap agree on one word. Where that holds for as many as it
 * takes they are called so, and nothing else is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"

#define HEAD_WORDS 5u
#define AT_ONCE 64u
#define TRIED_MAX (1u << 20)
#define HITS_MAX (1u << 18)

struct hit {
	uint64_t at, bytes, key;
};

struct proof {
	const char *label, *code_label, *owner;
	uint64_t align;
	/* so many must agree */
	unsigned least;
	/**
	 * Whether the words at @at are such a header: how many bytes it begins, and the word that
	 * all of one heap share.
	 */
	int (*check)(const struct breakdown *b, const struct memory *memory, uint64_t at,
		     const uint64_t *words, uint64_t *bytes, uint64_t *key);
	/** Whether it is worth looking at all. */
	int (*wants)(const struct breakdown *b, const struct memory *memory);
};

#define V8_CODE (3u << 20) /* the smallest build, without its compilers, has more */

/*
 * V8 is linked into what runs it: whatever that is has so much code. Where no code is seen at all,
 * nothing is ruled out.
 */
static int may_run_v8(const struct breakdown *b, const struct memory *memory)
{
	uint64_t largest = 0;
	(void)memory;
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		uint64_t bytes = r->perms & REGION_EXEC ? r->end - r->start : 0;
		largest = bytes > largest ? bytes : largest;
	}
	return !largest || largest >= V8_CODE;
}

/* V8 6 to 11 (Node 8 to 20): size, flags, heap, where objects begin and end. */
static int is_v8(const struct breakdown *b, const struct memory *memory, uint64_t at,
		 const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	(void)memory;
	*bytes = (w[0] + 4095) & ~4095ull;
	*key = w[2];
	return w[0] >= 65536 && w[0] < 1ull << 40 && w[1] >> 40 == 0 && w[3] > at &&
	       w[3] - at <= 65536 && w[4] > w[3] && w[4] - at <= w[0] && w[4] - at > w[0] / 2 &&
	       scan_heap_at(b, w[2], 8) && breakdown_find(b, at + *bytes - 1) < b->region_count;
}

/*
 * V8 12 (Node 22): flags, where the page's description is (itself), size, heap, where objects
 * begin. Later ones keep it elsewhere.
 */
static int is_v8_12(const struct breakdown *b, const struct memory *memory, uint64_t at,
		    const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	(void)memory;
	*bytes = (w[2] + 4095) & ~4095ull;
	*key = w[3];
	return w[1] == at && w[0] >> 40 == 0 && w[2] >= 65536 && w[2] < 1ull << 40 && w[4] > at &&
	       w[4] - at <= 65536 && scan_heap_at(b, w[3], 8) &&
	       breakdown_find(b, at + *bytes - 1) < b->region_count;
}

/*
 * V8 13 (Node 24): flags, and where the page's description is. That holds where the page begins,
 * its size, and further on its heap and where objects begin.
 */
static int is_v8_13(const struct breakdown *b, const struct memory *memory, uint64_t at,
		    const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t about[12];
	if (w[0] >> 40 || w[1] == at || w[1] & 7 || !scan_heap_at(b, w[1], 8) ||
	    memory_read(memory, w[1], about, sizeof(about)) < 0 || about[1] != at)
		return 0;
	*bytes = (about[2] + 4095) & ~4095ull;
	*key = about[8];
	return about[2] >= 65536 && about[2] < 1ull << 40 && scan_heap_at(b, about[8], 8) &&
	       about[9] > at && about[9] - at <= 65536 &&
	       breakdown_find(b, at + *bytes - 1) < b->region_count;
}

/*
 * Blink's and V8's garbage collector of C++ objects, and V8 in its sandbox, come with chromium's
 * own allocator.
 */
static int has_partitions(const struct breakdown *b, const struct memory *memory)
{
	(void)memory;
	for (size_t i = 0; i < b->allocator_count; i++)
		if (strcmp(b->allocators[i].allocator, "PartitionAlloc") == 0)
			return 1;
	return 0;
}

#define V8_PAGE (256u << 10)

/*
 * V8 in its sandbox: flags, and which entry of a table outside of it describes the page. That
 * number is the page's place in a cage of 4 GiB: as each page has its own, several that have the
 * right one are proof.
 */
static int is_v8_sandboxed(const struct breakdown *b, const struct memory *memory, uint64_t at,
			   const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	(void)memory;
	*bytes = V8_PAGE;
	*key = at >> 32;
	return !(w[0] >> 40) && w[1] && w[1] == (at & 0xffffffff) / V8_PAGE && w[2] &&
	       breakdown_find(b, at + V8_PAGE - 1) < b->region_count;
}

#define OILPAN_PAGE (128u << 10)

/*
 * A page of Oilpan: its heap, its space, and whether one object has it whole, whose size is further
 * on then. The space holds a list of its pages, whose first one says the same of itself.
 */
static int is_oilpan(const struct breakdown *b, const struct memory *memory, uint64_t at,
		     const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t space[5], first, back[2], size;
	if (w[2] & 0xfffffffe || !scan_heap_at(b, w[0], 8) || !scan_heap_at(b, w[1], 8) ||
	    memory_read(memory, w[1], space, sizeof(space)) < 0 || space[2] >= space[3] ||
	    space[3] > space[4] || (space[2] | space[3] | space[4]) & 7 ||
	    !scan_heap_at(b, space[2], 8) || memory_read(memory, space[2], &first, 8) < 0 ||
	    first & (OILPAN_PAGE - 1) || !scan_heap_at(b, first, OILPAN_PAGE) ||
	    memory_read(memory, first, back, sizeof(back)) < 0 || back[0] != w[0] ||
	    back[1] != w[1])
		return 0;
	*bytes = OILPAN_PAGE;
	*key = w[0];
	if (!(w[2] & 1))
		return 1;
	if (memory_read(memory, at + 56, &size, 8) < 0 || !size || size >> 40)
		return 0;
	*bytes = (size + 256 + 4095) & ~4095ull;
	return breakdown_find(b, at + *bytes - 1) < b->region_count;
}

/*
 * Private writable memory that no file backs: what follows a library's bss may be anybody's, too.
 */
static int is_memory(const struct breakdown *b, uint64_t addr)
{
	size_t i = breakdown_find(b, addr);
	return i < b->region_count && !b->regions[i].inode &&
	       (b->regions[i].perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
		       (REGION_READ | REGION_WRITE);
}

/*
 * zend_mm_chunk: its heap, which lies in the first chunk, the next and the one before, numbers of
 * free pages. The first is proven by the ring that it is in, the others by the first. A ring's
 * neighbour may be unreadable for a moment; both ways then is enough.
 */
static int is_php(const struct breakdown *b, const struct memory *memory, uint64_t at,
		  const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t back[3], mask = (2ull << 20) - 1, first = w[0] & ~mask;
	*bytes = 2ull << 20;
	*key = w[0];
	if ((w[0] & mask) != 64 || !w[1] || w[1] & mask || !w[2] || w[2] & mask ||
	    (w[3] & 0xffffffff) > 512 || w[3] >> 32 > 512)
		return 0;
	if (at != first)
		return is_memory(b, first) && memory_read(memory, first, back, sizeof(back)) == 0 &&
		       back[0] == w[0];
	for (unsigned way = 1; way <= 2; way++)
		if (is_memory(b, w[way]) && memory_read(memory, w[way], back, sizeof(back)) == 0 &&
		    back[0] == w[0] && back[3 - way] == at)
			return 1;
	return 0;
}

/* A page's header is a pointer to what describes it, and that holds where its objects begin. */
static int is_ruby(const struct breakdown *b, const struct memory *memory, uint64_t at,
		   const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t page[16];
	*bytes = 65536;
	*key = 0;
	if (!scan_heap_at(b, w[0], 8) || memory_read(memory, w[0], page, sizeof(page)) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(page) / sizeof(page[0]); i++)
		if (page[i] > at && page[i] - at <= 256)
			return 1;
	return 0;
}

static int runs_ruby(const struct breakdown *b, const struct memory *memory)
{
	(void)memory;
	return scan_maps(b, "libruby");
}

/*
 * A group begins with a pointer to its meta: { prev, next, mem, masks, bits }, whose area begins
 * with a secret.
 */
static int is_musl(const struct breakdown *b, const struct memory *memory, uint64_t at,
		   const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t meta[5];
	if (!scan_heap_at(b, w[0], 8) || memory_read(memory, w[0], meta, sizeof(meta)) < 0 ||
	    meta[2] != at || memory_read(memory, w[0] & ~4095ull, key, 8) < 0 || !*key)
		return 0;
	*bytes = (meta[4] >> 12) * 4096;
	return *bytes && *bytes < 1ull << 40 && (!meta[0] || scan_heap_at(b, meta[0], 8)) &&
	       (!meta[1] || scan_heap_at(b, meta[1], 8));
}

static int has_no_glibc(const struct breakdown *b, const struct memory *memory)
{
	(void)memory;
	return !scan_maps(b, "libc.so.6") && !scan_maps(b, "libc-2.");
}

/* of a heap: what it has of chunks, behind its free lists; the list is a few words further */
#define PHP_SIZES 272u
#define PHP_WORDS 16u
#define PHP_HUGE_MAX 4096u

/*
 * What is too large for a chunk has a mapping of its own and no header; the heap lists them:
 * {block, bytes, next}.
 */
static int name_php_blocks(struct breakdown *b, const struct memory *memory, uint64_t heap)
{
	uint64_t at = 0, entry[3], words[PHP_WORDS], mask = (2ull << 20) - 1;
	int rc = 0;
	if (memory_read(memory, heap + PHP_SIZES, words, sizeof(words)) < 0)
		return 0;
	/* it stands before the first chunk */
	for (unsigned i = 1; i < PHP_WORDS && !at; i++)
		at = words[i] == (heap & ~mask) ? words[i - 1] : 0;
	for (unsigned i = 0; at && i < PHP_HUGE_MAX && rc == 0; i++, at = entry[2]) {
		if (memory_read(memory, at, entry, sizeof(entry)) < 0 || !entry[0] ||
		    entry[0] & mask || !entry[1] || entry[1] & 4095 || entry[1] >> 46 ||
		    !is_memory(b, entry[0]) || !is_memory(b, entry[0] + entry[1] - 1))
			break;
		rc = heaps_own(b, entry[0], entry[0] + entry[1], REGION_RUNTIME, "PHP heap", "PHP",
			       OWNED_PART, HOW_ALLOCATOR);
	}
	return rc;
}

/*
 * A carrier of Erlang's allocators (erl_alloc_util.h): its size with three flags, the next one and
 * the one before, and whose it is. Those beside it lead back.
 */
static int is_beam(const struct breakdown *b, const struct memory *memory, uint64_t at,
		   const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	uint64_t back[3];
	size_t i = breakdown_find(b, w[3]);
	*bytes = w[0] & ~7ull;
	*key = w[3];
	if (!(w[0] & 1) || *bytes < 32768 || *bytes & 4095 || *bytes >> 46 || w[3] & 7 ||
	    i == b->region_count ||
	    !(scan_is_data(&b->regions[i]) || scan_is_heap(&b->regions[i])) ||
	    !is_memory(b, at + *bytes - 1))
		return 0;
	for (unsigned way = 1; way <= 2; way++)
		if (w[way] &&
		    (!is_memory(b, w[way]) || memory_read(memory, w[way], back, sizeof(back)) < 0 ||
		     back[3 - way] != at))
			return 0;
	return 1;
}

static int runs_beam(const struct breakdown *b, const struct memory *memory)
{
	(void)memory;
	return scan_maps(b, "beam.");
}

#define OCAML_POOL_BYTES 32768u
#define OCAML_CLASSES 40u /* of sizes: 32 in 5.0 to 5.3 */
#define OCAML_MINORS_MIN \
	(1ull << 20) /* 128 domains of 256 KiB and more; one can be told to have few */
#define OCAML_MINORS_MAX (1ull << 44)
#define OCAML_STATE_WORDS 5u

/*
 * A domain of OCaml 5 (domain_state.tbl): where its minor heap is used up, the next free place in
 * it, its start, its end, and where the next slice of work is due. Fills in [@minor) of it.
 */
static int is_ocaml_domain(const struct breakdown *b, const struct memory *memory, uint64_t at,
			   struct memory_run *minor)
{
	uint64_t w[OCAML_STATE_WORDS];
	if (!at || at & 7 || !is_memory(b, at) || memory_read(memory, at, w, sizeof(w)) < 0)
		return 0;
	*minor = (struct memory_run){ w[2], w[3] };
	/* interrupted, the limit is the highest address of all: that one was */
	return w[2] && w[2] < w[3] && !((w[2] | w[3]) & 4095) && w[1] >= w[2] && w[1] <= w[3] &&
	       w[4] >= w[2] && w[4] <= w[3] &&
	       (w[0] == UINT64_MAX || (w[0] >= w[2] && w[0] <= w[3])) && is_memory(b, w[2]) &&
	       breakdown_find(b, w[2]) == breakdown_find(b, w[3] - 1);
}

/*
 * A pool: the next one, the first free object in it, the domain that owns it, its class of sizes.
 */
static int is_ocaml(const struct breakdown *b, const struct memory *memory, uint64_t at,
		    const uint64_t *w, uint64_t *bytes, uint64_t *key)
{
	struct memory_run minor;
	*bytes = OCAML_POOL_BYTES;
	*key = w[2];
	return !(w[0] & 4095) && (!w[0] || is_memory(b, w[0])) &&
	       (!w[1] || (!(w[1] & 7) && w[1] >= at + 32 && w[1] < at + OCAML_POOL_BYTES)) &&
	       w[3] < OCAML_CLASSES && is_memory(b, at + OCAML_POOL_BYTES - 1) &&
	       is_ocaml_domain(b, memory, w[2], &minor);
}

/*
 * All minor heaps lie in one reservation, whose bounds stand side by side in the runtime's data:
 * where there are fewer domains than there may be, a part of it is closed; else it is a mapping by
 * itself. Two addresses within a large heap bound nothing.
 */
static int are_bounds(const struct breakdown *b, uint64_t low, uint64_t high)
{
	if ((low | high) & 4095 || low >= high || high - low < OCAML_MINORS_MIN ||
	    high - low > OCAML_MINORS_MAX || !is_memory(b, low))
		return 0;
	uint64_t at = low;
	size_t first = breakdown_find(b, low), i = first;
	int closed = 0;
	for (; at < high; at = b->regions[i++].end) {
		if (i == b->region_count || b->regions[i].start > at || b->regions[i].inode)
			return 0;
		closed |= !(b->regions[i].perms & (REGION_READ | REGION_WRITE));
	}
	return closed || (b->regions[first].start == low && at == high);
}

static int look_for_minors(void *ctx, const struct scan_block *block)
{
	const uint64_t *w = block->words;
	for (size_t n = 0; n < block->lead_count; n++) {
		size_t i = block->leads[n];
		if (w[i] & 4095)
			continue;
		if ((i && are_bounds(ctx, w[i], w[i - 1])) ||
		    (i + 1 < block->ahead && are_bounds(ctx, w[i], w[i + 1])))
			return 1;
	}
	return 0;
}

static int runs_ocaml(const struct breakdown *b, const struct memory *memory)
{
	return scan_data(b, memory, 0, look_for_minors, (void *)(uintptr_t)b) == 1;
}

static int name_ocaml_minor(struct breakdown *b, const struct memory *memory, uint64_t domain)
{
	struct memory_run minor;
	return is_ocaml_domain(b, memory, domain, &minor)
		       ? heaps_own(b, minor.start, minor.end, REGION_RUNTIME, "OCaml minor heap",
				   "OCaml", OWNED_PART, HOW_ALLOCATOR)
		       : 0;
}

static const struct proof proofs[] = {
	{ "V8 heap", "V8 code", "V8", 256u << 10, 2, is_v8, may_run_v8 },
	{ "V8 heap", "V8 code", "V8", 256u << 10, 2, is_v8_12, may_run_v8 },
	{ "V8 heap", "V8 code", "V8", 256u << 10, 2, is_v8_13, may_run_v8 },
	{ "V8 heap", NULL, "V8", V8_PAGE, 4, is_v8_sandboxed, has_partitions },
	{ "Oilpan heap", NULL, "Oilpan", OILPAN_PAGE, 2, is_oilpan, has_partitions },
	{ "PHP heap", NULL, "PHP", 2u << 20, 1, is_php, NULL },
	{ "Ruby heap", NULL, "Ruby", 64u << 10, 4, is_ruby, runs_ruby },
	{ "BEAM carriers", NULL, "BEAM", 4096, 1, is_beam, runs_beam },
	{ "OCaml heap", NULL, "OCaml", 4096, 2, is_ocaml, runs_ocaml },
	{ "musl malloc", NULL, "musl", 4096, 2, is_musl, has_no_glibc },
};

struct search {
	const struct proof *proof;
	struct breakdown *b;
	const struct memory *memory;
	struct memory_pages pages;
	struct hit *hits;
	size_t count, room;
	unsigned tried;
};

/*
 * What a reader has proven to be another's is; what only looks like it by its first words may be
 * anybody's.
 */
static int may_hold(const struct region *r)
{
	return !r->inode && !r->name[0] && r->perms & REGION_READ && !(r->perms & REGION_SHARED) &&
	       r->how != HOW_ALLOCATOR &&
	       (r->class == REGION_ANONYMOUS || r->class == REGION_ALLOCATOR ||
		r->class == REGION_JIT || r->class == REGION_STACK ||
		r->class == REGION_STACK_CACHE || r->class == REGION_LIBRARY_BSS ||
		r->class == REGION_PROGRAM_BSS);
}

static int keep(struct search *s, const struct hit *hit)
{
	if (s->count == HITS_MAX)
		return 0;
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct hit *grown = realloc(s->hits, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->hits = grown;
		s->room = room;
	}
	s->hits[s->count++] = *hit;
	return 0;
}

static int look_at(struct search *s, const struct region *r)
{
	uint64_t align = s->proof->align, at = (r->start + align - 1) & ~(align - 1);
	int rc = 0;
	while (at >= r->start && at < r->end && rc == 0 && s->tried < TRIED_MAX) {
		struct target_piece pieces[AT_ONCE];
		uint64_t words[AT_ONCE][HEAD_WORDS];
		unsigned count = 0;
		while (count < AT_ONCE && at < r->end && r->end - at >= sizeof(words[0]) &&
		       s->tried++ < TRIED_MAX) {
			uint64_t there = memory_resident_from(&s->pages, at, r->end);
			if (there > at) {
				at = (there + align - 1) & ~(align - 1);
				if (there + align - 1 < there)
					return 0;
				continue;
			}
			pieces[count] = (struct target_piece){ at, words[count], sizeof(words[0]) };
			count++;
			at += align;
		}
		if (!count)
			break;
		ssize_t got = memory_read_pieces(s->memory, pieces, count);
		unsigned whole = got < 0 ? 0 : (unsigned)((size_t)got / sizeof(words[0]));
		for (unsigned i = 0; i < whole && rc == 0; i++) {
			struct hit hit = { .at = pieces[i].addr };
			if ((words[i][0] | words[i][2]) &&
			    s->proof->check(s->b, s->memory, hit.at, words[i], &hit.bytes,
					    &hit.key))
				rc = keep(s, &hit);
		}
	}
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* A page of code begins with a header that is data; what lies behind it may be run. */
static int holds_code(const struct breakdown *b, uint64_t at, uint64_t bytes)
{
	for (size_t i = breakdown_find(b, at);
	     i < b->region_count && b->regions[i].start < at + bytes; i++)
		if (b->regions[i].perms & REGION_EXEC)
			return 1;
	return 0;
}

static int name_hits(struct search *s)
{
	const struct proof *p = s->proof;
	int rc = 0;
	if (s->count)
		qsort(s->hits, s->count, sizeof(*s->hits), by_key);
	for (size_t i = 0, end; i < s->count && rc == 0; i = end) {
		for (end = i; end < s->count && s->hits[end].key == s->hits[i].key;)
			end++;
		if (p->check == is_php)
			rc = name_php_blocks(s->b, s->memory, s->hits[i].key);
		if (p->check == is_ocaml && end - i >= p->least)
			rc = name_ocaml_minor(s->b, s->memory, s->hits[i].key);
		uint64_t done =
			0; /* what lies in the last one is its contents, whatever it looks like */
		for (size_t k = i; end - i >= p->least && k < end && rc == 0; k++) {
			const struct hit *h = &s->hits[k];
			if (h->at < done)
				continue;
			done = h->at + h->bytes;
			const char *label = p->code_label && holds_code(s->b, h->at, h->bytes)
						    ? p->code_label
						    : p->label;
			unsigned class = p->check == is_musl ? REGION_ALLOCATOR : REGION_RUNTIME;
			size_t at = breakdown_find(s->b, h->at);
			rc = heaps_own(s->b, h->at, h->at + h->bytes, class, label, p->owner,
				       OWNED_PART, HOW_ALLOCATOR);
			/* what is named so already is no other reader's */
			if (rc == 0 && at < s->b->region_count &&
			    s->b->regions[at].end - s->b->regions[at].start <= h->bytes)
				rc = breakdown_relabel(s->b, at, class, label, p->owner,
						       HOW_ALLOCATOR);
		}
	}
	return rc;
}

int heaps_proofs(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct search *s = calloc(1, sizeof(*s));
	int rc = s ? 0 : -ENOMEM;
	for (size_t p = 0; p < sizeof(proofs) / sizeof(proofs[0]) && rc == 0; p++) {
		if (proofs[p].wants && !proofs[p].wants(b, memory))
			continue;
		s->proof = &proofs[p];
		s->b = b;
		s->memory = memory;
		memset(&s->pages, 0, sizeof(s->pages));
		s->pages.memory = memory;
		s->count = 0;
		s->tried = 0;
		for (size_t i = 0; i < b->region_count && rc == 0; i++)
			if (may_hold(&b->regions[i]))
				rc = look_at(s, &b->regions[i]);
		if (rc == 0)
			rc = name_hits(s);
	}
	if (s)
		free(s->hits);
	free(s);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
