/* SPDX-License-Identifier: Apache-2.0 */
#include "heaps/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

#define BLOCK_WORDS \
	8192u /* one call instead of many; pages of a bss that were never touched cost only zeros */
#define AHEAD_WORDS 512u
#define TOTAL_MAX (256ull << 20)
#define KEYS_MAX 64u   /* distinct entries of a root that heap addresses lead to */
#define KEYS_OF_ONE 4u /* of them for one mapping: one of terabytes leaves room for others */
#define SAMPLES 4u     /* mappings that stand for such an entry: the largest */
#define TRIES_MAX (1u << 14)
#define ENTRIES_BESIDE 16u
#define ENTRIES_BEFORE 32u
#define COPY_MAX (4ull << 20)    /* of one mapping */
#define COPIES_MAX (16ull << 20) /* of all */
#define LARGE_PAGE (2ull << 20)
#define COPY_RECENT_NS 20000000u
#define PIECES 64u
#define PIECE_BYTES 4096u
#define PROOF_ENTRIES 4096u /* of one mapping that are looked at for a proof */
#define ENTRY_COST 16u      /* of memory_spend(), for each entry of a tree that is looked at */

int scan_is_data(const struct region *r)
{
	return (r->perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
		       (REGION_READ | REGION_WRITE) &&
	       (r->class == REGION_PROGRAM_DATA || r->class == REGION_PROGRAM_BSS ||
		r->class == REGION_LIBRARY_DATA || r->class == REGION_LIBRARY_BSS);
}

int scan_is_heap(const struct region *r)
{
	return (r->perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
		       (REGION_READ | REGION_WRITE) &&
	       !r->inode && r->start < r->end && !scan_is_data(r) && r->class != REGION_BYTELEDGER;
}

const struct region *scan_heap_at(const struct breakdown *b, uint64_t addr, uint64_t align)
{
	if (!addr || addr & (align - 1))
		return NULL;
	size_t i = breakdown_find(b, addr);
	return i < b->region_count && scan_is_heap(&b->regions[i]) ? &b->regions[i] : NULL;
}

int scan_maps(const struct breakdown *b, const char *prefix)
{
	for (size_t i = 0; i < b->region_count; i++) {
		const char *base = strrchr(b->regions[i].name, '/');
		if (base && strncmp(base + 1, prefix, strlen(prefix)) == 0)
			return 1;
	}
	return 0;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* The data mappings that touch mapping @i: a module's data and its bss. */
static struct memory_run together(const struct breakdown *b, size_t i)
{
	size_t first = i, last = i;
	while (first && scan_is_data(&b->regions[first - 1]) &&
	       b->regions[first - 1].end == b->regions[first].start)
		first--;
	while (last + 1 < b->region_count && scan_is_data(&b->regions[last + 1]) &&
	       b->regions[last].end == b->regions[last + 1].start)
		last++;
	return (struct memory_run){ b->regions[first].start, b->regions[last].end };
}

/*
 * memory_read_resident(), where the kernel need not be asked again what is there: blocks and leaves
 * lie close together.
 */
static int read_there(struct memory_pages *pages, uint64_t addr, void *to, size_t len)
{
	uint64_t there = memory_resident(pages, addr, addr + len);
	if (there == len)
		return memory_read(pages->memory, addr, to, len);
	if (there)
		return memory_read_resident(pages->memory, addr, to, len);
	memset(to, 0, len);
	return 0;
}

static int is_scanned(const struct region *r)
{
	return scan_is_data(r) && (r->rss_bytes || r->swap_bytes);
}

void scan_copies_fini(struct scan_copies *copies)
{
	if (copies->room)
		munmap(copies->room, copies->bytes);
	*copies = (struct scan_copies){ 0 };
}

static uint64_t copied_bytes(const struct region *r)
{
	uint64_t bytes = r->end - r->start;
	return is_scanned(r) && bytes <= COPY_MAX ? bytes + bytes / 2 : 0;
}

void scan_copies_init(struct scan_copies *copies, const struct breakdown *b)
{
	*copies = (struct scan_copies){ 0 };
	for (size_t i = 0; i < b->region_count; i++)
		copies->bytes += copied_bytes(&b->regions[i]);
	copies->bytes = (copies->bytes < COPIES_MAX ? copies->bytes : COPIES_MAX) + LARGE_PAGE - 1;
	copies->bytes -= copies->bytes % LARGE_PAGE;
	/* the kernel begins a mapping of so much at a large page; if not, small ones do as well */
	void *room = copies->bytes ? mmap(NULL, copies->bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				   : MAP_FAILED;
	copies->room = room == MAP_FAILED ? NULL : room;
	if (copies->room)
		madvise(copies->room, copies->bytes, MADV_HUGEPAGE);
}

/* From the first private writable mapping that no file backs to the last. */
static struct memory_run span_of_memory(const struct breakdown *b)
{
	struct memory_run span = { UINT64_MAX, 0 };
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		if (r->inode || (r->perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) !=
					(REGION_READ | REGION_WRITE))
			continue;
		span.start = span.start < r->start ? span.start : r->start;
		span.end = r->end;
	}
	return span;
}

/*
 * A word in ten or so leads there, at random: asking each would cost more than going through all.
 */
static size_t find_leads(const uint64_t *words, size_t count, const struct memory_run *span,
			 uint32_t *leads)
{
	uint64_t start = span->start, bytes = span->end > start ? span->end - start : 0;
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		leads[found] = (uint32_t)i;
		found += words[i] - start < bytes;
	}
	return found;
}

/* @r's words and leads; NULL where it is to be read in pieces. */
static const struct scan_copy *copy_of(const struct memory *memory, const struct region *r,
				       const struct memory_run *span)
{
	struct scan_copies *copies = memory->copies;
	uint64_t bytes = r->end - r->start, now = clock_ns(CLOCK_MONOTONIC);
	struct scan_copy *copy = NULL;
	if (!copies || bytes > COPY_MAX)
		return NULL;
	for (size_t i = 0; i < copies->count && !copy; i++)
		if (copies->of[i].start == r->start && copies->of[i].end == r->end)
			copy = &copies->of[i];
	if (!copy) {
		uint64_t wanted = copied_bytes(r);
		if (copies->count == SCAN_COPIES || !copies->room ||
		    copies->bytes - copies->used < wanted)
			return NULL;
		copy = &copies->of[copies->count++];
		*copy = (struct scan_copy){
			.start = r->start,
			.end = r->end,
			.words = (uint64_t *)(copies->room + copies->used),
			.leads = (uint32_t *)(copies->room + copies->used + bytes),
		};
		copies->used += wanted;
	}
	if (!copy->read_ns || now - copy->read_ns > COPY_RECENT_NS) {
		copy->read_ns = now;
		copy->rc = memory_read_resident(memory, r->start, copy->words, bytes);
		if (copy->rc == 0)
			copy->lead_count = find_leads(copy->words, bytes / 8, span, copy->leads);
	}
	return copy->rc == 0 ? copy : NULL;
}

/** struct scan - one look through data. */
struct scan {
	const struct memory *memory;
	struct memory_pages pages;
	uint64_t total;
	scan_fn fn;
	void *ctx;
	struct memory_run span;
	/* of what is too large for a copy */
	uint64_t *words;
	uint32_t *leads;
};

static int scan_range(struct scan *scan, const struct region *r, uint64_t start, uint64_t end)
{
	int rc = 0;
	const struct scan_copy *copy = copy_of(scan->memory, r, &scan->span);
	if (copy) {
		const struct scan_block whole = { .region = r,
						  .addr = r->start,
						  .words = copy->words,
						  .count = (size_t)(r->end - r->start) / 8,
						  .ahead = (size_t)(r->end - r->start) / 8,
						  .leads = copy->leads,
						  .lead_count = copy->lead_count };
		return scan->fn(scan->ctx, &whole);
	}
	for (uint64_t at = start; at < end && r->end - at >= 8 && rc == 0 &&
				  scan->total < TOTAL_MAX && !memory_is_spent(scan->memory);) {
		uint64_t left = (r->end - at) / 8, wanted = (end - at) / 8;
		size_t ahead =
			left < BLOCK_WORDS + AHEAD_WORDS ? (size_t)left : BLOCK_WORDS + AHEAD_WORDS;
		size_t count = ahead < BLOCK_WORDS ? ahead : BLOCK_WORDS;
		count = wanted < count ? (size_t)wanted : count;
		ahead = ahead < count + AHEAD_WORDS ? ahead : count + AHEAD_WORDS;
		if (!count)
			break;
		if (!scan->words)
			scan->words = malloc((BLOCK_WORDS + AHEAD_WORDS) * 8);
		if (!scan->leads)
			scan->leads = malloc((BLOCK_WORDS + AHEAD_WORDS) * 4);
		if (!scan->words || !scan->leads)
			return -ENOMEM;
		struct scan_block block = { .region = r,
					    .addr = at,
					    .words = scan->words,
					    .count = count,
					    .ahead = ahead,
					    .leads = scan->leads };
		/* most of a large bss was never touched */
		if (memory_resident(&scan->pages, at, at + count * 8) &&
		    read_there(&scan->pages, at, scan->words, ahead * 8) == 0) {
			block.lead_count = find_leads(scan->words, ahead, &scan->span, scan->leads);
			rc = scan->fn(scan->ctx, &block);
		}
		at += count * 8;
		scan->total += count * 8;
	}
	return rc;
}

static struct scan *scan_new(const struct breakdown *b, const struct memory *memory, scan_fn fn,
			     void *ctx)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	if (scan) {
		scan->memory = scan->pages.memory = memory;
		scan->fn = fn;
		scan->ctx = ctx;
		scan->span = span_of_memory(b);
	}
	return scan;
}

static void scan_free(struct scan *scan)
{
	if (scan) {
		free(scan->words);
		free(scan->leads);
	}
	free(scan);
}

int scan_data(const struct breakdown *b, const struct memory *memory, uint64_t bytes_min,
	      scan_fn fn, void *ctx)
{
	struct scan *scan = scan_new(b, memory, fn, ctx);
	int rc = scan ? 0 : -ENOMEM;
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		const struct region *r = &b->regions[i];
		if (!is_scanned(r))
			continue;
		struct memory_run module = together(b, i);
		if (module.end - module.start >= bytes_min)
			rc = scan_range(scan, r, r->start, r->end);
	}
	scan_free(scan);
	return rc;
}

/* ---- radix trees ----------------------------------------------------------------------------- */

enum { ROOT, LEAF };

static uint64_t index_of(const struct radix *tree, unsigned level, uint64_t addr)
{
	return addr >> tree->shape.shift[level] & ((1ull << tree->shape.bits[level]) - 1);
}

/* How much an entry stands for: of the root what a leaf does, of a leaf a page. */
static uint64_t reach(const struct radix *tree, unsigned level)
{
	return 1ull << tree->shape.shift[level];
}

/* How much a leaf stands for. */
static uint64_t reach_of_leaf(const struct radix *tree)
{
	return tree->shape.middle_bits ? 1ull << tree->shape.middle_shift : reach(tree, ROOT);
}

static void set_node(struct radix *tree, uint64_t addr, uint64_t node)
{
	tree->node_known = 1;
	tree->node_first = addr & ~(reach(tree, ROOT) - 1);
	tree->node = node;
	tree->leaf_known = 0;
}

/*
 * Words that might be a root's lead close together, and each asks for the same few entries of a
 * node. Only while a root is looked for: a program that runs writes its nodes.
 */
struct radix_pieces {
	struct radix_piece {
		/* 0: none */
		uint64_t start;
		int rc;
		uint64_t words[PIECE_BYTES / 8];
	} of[PIECES];
};

/* The word at @from, a multiple of 8: 0 where there is no memory. */
static int read_word(const struct radix *tree, uint64_t from, uint64_t *word)
{
	if (!tree->pieces)
		return memory_read_resident(tree->memory, from, word, 8);
	uint64_t start = from & ~(PIECE_BYTES - 1ull);
	struct radix_piece *piece = &tree->pieces->of[start / PIECE_BYTES % PIECES];
	if (piece->start != start) {
		piece->start = start;
		piece->rc = memory_read(tree->memory, start, piece->words, PIECE_BYTES);
		if (piece->rc == -EFAULT) {
			memset(piece->words, 0, PIECE_BYTES);
			piece->rc = 0;
		}
	}
	*word = piece->words[(from - start) / 8];
	return piece->rc;
}

/* What the word at @from leads to; 0: to no heap memory. */
static uint64_t child_at(const struct radix *tree, uint64_t from)
{
	uint64_t child;
	if (read_word(tree, from, &child) < 0 || !scan_heap_at(tree->b, child, tree->shape.align))
		return 0;
	return child;
}

static uint64_t find_node(struct radix *tree, uint64_t addr)
{
	if (!tree->node_known || tree->node_first != (addr & ~(reach(tree, ROOT) - 1)))
		set_node(tree, addr, child_at(tree, tree->root + index_of(tree, ROOT, addr) * 8));
	return tree->node;
}

static uint64_t find_leaf(struct radix *tree, uint64_t addr)
{
	const struct radix_shape *shape = &tree->shape;
	uint64_t node = find_node(tree, addr), first = addr & ~(reach_of_leaf(tree) - 1);
	if (tree->leaf_known && tree->leaf_first == first)
		return tree->leaf;
	tree->leaf = node;
	if (node && shape->middle_bits) {
		uint64_t index = addr >> shape->middle_shift & ((1ull << shape->middle_bits) - 1);
		tree->leaf = child_at(tree, node + index * 8);
	}
	tree->leaf_known = 1;
	tree->leaf_first = first;
	tree->copied = 0;
	return tree->leaf;
}

/* Copies the entries of the leaf from @addr's on; what cannot be read has none. */
static void copy_entries(struct radix *tree, uint64_t addr)
{
	uint64_t at = index_of(tree, LEAF, addr), each = tree->shape.join ? 16 : 8;
	uint64_t left = (1ull << tree->shape.bits[LEAF]) - at, words[RADIX_AHEAD];
	uint64_t most = RADIX_AHEAD * 8 / each;
	tree->copied = (unsigned)(left < most ? left : most);
	tree->first = addr;
	if (read_there(&tree->pages, tree->leaf + at * each, words, tree->copied * each) < 0)
		memset(words, 0, sizeof(words));
	for (unsigned i = 0; i < tree->copied; i++)
		tree->entries[i] = tree->shape.join
					   ? tree->shape.join(words[2 * i], words[2 * i + 1])
					   : words[i];
}

uint64_t radix_entry(struct radix *tree, uint64_t addr)
{
	uint64_t page = reach(tree, LEAF), leaf = find_leaf(tree, addr);
	addr &= ~(page - 1);
	if (!leaf || memory_spend(tree->memory, ENTRY_COST) < 0)
		return 0;
	if (!tree->copied || addr < tree->first || (addr - tree->first) / page >= tree->copied)
		copy_entries(tree, addr);
	return tree->entries[(addr - tree->first) / page];
}

uint64_t radix_next(struct radix *tree, uint64_t addr, uint64_t end)
{
	uint64_t step = find_leaf(tree, addr) ? reach(tree, LEAF)
			: tree->node          ? reach_of_leaf(tree)
					      : reach(tree, ROOT);
	uint64_t next = (addr & ~(step - 1)) + step;
	return next < addr || next > end || memory_is_spent(tree->memory) ? end : next;
}

struct search {
	struct radix *tree;
	radix_proof proof;
	void *ctx;
	uint64_t keys[KEYS_MAX];
	/* NULL behind the last */
	const struct region *samples[KEYS_MAX][SAMPLES];
	unsigned key_count, tries;
	/* where one may begin, the last place included */
	struct memory_run roots;
	/* heap memory lies in */
	struct memory_run heaps;
	/* where a word led that was none */
	const struct region *no_heap;
};

/* The largest mappings below each entry are kept. */
static void add_key(struct search *s, const struct region *r, uint64_t key)
{
	unsigned k = 0, n = 0;
	while (k < s->key_count && s->keys[k] != key)
		k++;
	if (k == KEYS_MAX)
		return;
	if (k == s->key_count)
		s->keys[s->key_count++] = key;
	for (const struct region *moved = r; n < SAMPLES && moved; n++) {
		const struct region *held = s->samples[k][n];
		if (held && held->rss_bytes >= moved->rss_bytes)
			continue;
		s->samples[k][n] = moved;
		moved = held;
	}
}

/*
 * The entries of a root that addresses of heap memory lead to: few, since mappings lie close
 * together. A mapping may begin below one entry with what no page map knows, and have its spans
 * below the next.
 */
static void collect_keys(struct search *s)
{
	const struct breakdown *b = s->tree->b;
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		if (!scan_is_heap(r))
			continue;
		s->heaps.start = s->heaps.end ? s->heaps.start : r->start;
		s->heaps.end = r->end;
		if (!r->rss_bytes)
			continue;
		uint64_t first = r->start / reach(s->tree, ROOT);
		uint64_t last = (r->end - 1) / reach(s->tree, ROOT);
		for (uint64_t n = first; n <= last && n - first < KEYS_OF_ONE; n++)
			add_key(s, r, index_of(s->tree, ROOT, n * reach(s->tree, ROOT)));
	}
}

/* The first address of @r that entry @key of the root stands for. */
static uint64_t first_below(const struct search *s, const struct region *r, uint64_t key)
{
	const struct radix *tree = s->tree;
	uint64_t mask = (1ull << tree->shape.bits[ROOT]) - 1;
	uint64_t behind = (key - index_of(tree, ROOT, r->start)) & mask;
	uint64_t begin = r->start & ~(reach(tree, ROOT) - 1);
	return behind ? begin + behind * reach(tree, ROOT) : r->start;
}

/* @node is what the root's entry @key would be; only addresses below that entry can prove it. */
static int proves(struct search *s, unsigned key, uint64_t node)
{
	struct radix *tree = s->tree;
	for (unsigned n = 0; n < SAMPLES && s->samples[key][n]; n++) {
		const struct region *r = s->samples[key][n];
		unsigned looked = 0;
		uint64_t first = first_below(s, r, s->keys[key]);
		set_node(tree, first, node);
		uint64_t end = tree->node_first + reach(tree, ROOT);
		end = end < r->end ? end : r->end;
		for (uint64_t at = first; at < end && looked < PROOF_ENTRIES; looked++) {
			uint64_t entry = radix_entry(tree, at);
			if (entry) {
				if (s->proof(s->ctx, at, entry))
					return 1;
				break;
			}
			at = radix_next(tree, at, end);
		}
	}
	return 0;
}

/*
 * Most words are small numbers, or lead where the word before led, into a library say: that is seen
 * without a search.
 */
static int is_no_leaf(const struct search *s, uint64_t word)
{
	const struct region *no = s->no_heap;
	return word - s->heaps.start >= s->heaps.end - s->heaps.start ||
	       word & (s->tree->shape.align - 1) || word - no->start < no->end - no->start;
}

static int may_be_leaf(struct search *s, uint64_t word)
{
	const struct breakdown *b = s->tree->b;
	if (is_no_leaf(s, word))
		return 0;
	size_t i = breakdown_find(b, word);
	if (i == b->region_count)
		return 0;
	if (scan_is_heap(&b->regions[i])) {
		/*
		 * a leaf is large: what an object's pointer leads to seldom has as much memory
		 * behind it
		 */
		const struct radix_shape *shape = &s->tree->shape;
		uint64_t bytes =
			shape->middle_bits ? 8ull << shape->middle_bits : 8ull << shape->bits[LEAF];
		return b->regions[i].end - word >= bytes || scan_heap_at(b, word + bytes - 8, 8);
	}
	s->no_heap = &b->regions[i];
	return 0;
}

/*
 * Beside an entry of a root stand others: nothing, or nodes. A process has the lower half of what a
 * root covers, so that an entry of its heap is none of the last.
 */
static int has_entries_beside(struct search *s, const struct scan_block *block, size_t i)
{
	for (size_t n = i + 1; n <= i + ENTRIES_BESIDE && n < block->ahead; n++)
		if (block->words[n] && !may_be_leaf(s, block->words[n]))
			return 0;
	return 1;
}

/* What stands before entry @key is of the root, too. */
static int has_entries_before(struct search *s, const struct scan_block *block, size_t i,
			      uint64_t key)
{
	uint64_t most = key < ENTRIES_BEFORE ? key : ENTRIES_BEFORE;
	for (size_t n = 1; n <= most && n <= i; n++)
		if (block->words[i - n] && !may_be_leaf(s, block->words[i - n]))
			return 0;
	return 1;
}

static int try_block(void *ctx, const struct scan_block *block)
{
	struct search *s = ctx;
	struct radix *tree = s->tree;
	for (size_t n = 0; n < block->lead_count && block->leads[n] < block->count; n++) {
		size_t i = block->leads[n];
		uint64_t at = block->addr + i * 8;
		if (!may_be_leaf(s, block->words[i]) || !has_entries_beside(s, block, i))
			continue;
		for (unsigned k = 0; k < s->key_count; k++) {
			uint64_t root = at - s->keys[k] * 8;
			if (root < s->roots.start || root > s->roots.end || root > at ||
			    !has_entries_before(s, block, i, s->keys[k]))
				continue;
			if (s->tries++ == TRIES_MAX)
				return -ENOENT;
			tree->root = root;
			tree->node_known = 0;
			if (proves(s, k, block->words[i]))
				return 1;
		}
	}
	return 0;
}

/*
 * Where a root may begin is known, because all of it lies in one module's data; so is where the
 * entries that are looked for lie then. Only that is read: of most modules nothing, of a large one
 * a part.
 */
static int try_module(struct search *s, struct scan *scan, size_t i)
{
	const struct region *r = &s->tree->b->regions[i];
	uint64_t root_bytes = 8ull << s->tree->shape.bits[ROOT], low = UINT64_MAX, high = 0;
	struct memory_run module = together(s->tree->b, i);
	if (module.end - module.start < root_bytes)
		return 0;
	s->roots = (struct memory_run){ module.start, module.end - root_bytes };
	for (unsigned k = 0; k < s->key_count; k++) {
		low = s->keys[k] < low ? s->keys[k] : low;
		high = s->keys[k] > high ? s->keys[k] : high;
	}
	uint64_t first = s->roots.start + low * 8, end = s->roots.end + high * 8 + 8;
	return scan_range(scan, r, first > r->start ? first : r->start,
			  end < r->end ? end : r->end);
}

int radix_find(struct radix *tree, radix_proof proof, void *ctx)
{
	static const struct region nowhere;
	struct search s = { .tree = tree, .proof = proof, .ctx = ctx };
	struct scan *scan = scan_new(tree->b, tree->memory, try_block, &s);
	int rc = scan ? 0 : -ENOMEM;
	tree->node_known = 0;
	tree->pages.memory = tree->memory;
	tree->pieces = tree->shape.middle_bits ? calloc(1, sizeof(*tree->pieces)) : NULL;
	s.no_heap = &nowhere;
	collect_keys(&s);
	for (size_t i = 0; i < tree->b->region_count && s.key_count && rc == 0; i++)
		if (is_scanned(&tree->b->regions[i]))
			rc = try_module(&s, scan, i);
	free(tree->pieces);
	tree->pieces = NULL;
	scan_free(scan);
	return rc == -ENOENT ? 0 : rc;
}
