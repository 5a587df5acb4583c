/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h - where allocators without symbols are looked for: the writable data of programs and
 * libraries, word by word, and the radix trees by which most of them know whose page an address
 * lies on.
 */
#ifndef HEAPS_SCAN_H
#define HEAPS_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "proc/breakdown.h"
#include "proc/memory.h"

/**
 * scan_is_heap() - private writable memory that no file backs and no module holds: what an
 * allocator may have taken.
 */
int scan_is_heap(const struct region *region);
/** scan_is_data() - writable data or bss of a program or a library. */
int scan_is_data(const struct region *region);
/**
 * scan_heap_at() - the mapping that is scan_is_heap() and holds @addr, a multiple of @align; NULL
 * if none does. O(log n).
 */
const struct region *scan_heap_at(const struct breakdown *b, uint64_t addr, uint64_t align);
/** scan_maps() - 1 if a file whose base name begins with @prefix is mapped. O(n). */
int scan_maps(const struct breakdown *b, const char *prefix);

/**
 * struct scan_block - some words of a module's data, in order; the next block begins behind its
 * last.
 */
struct scan_block {
	const struct region *region;
	uint64_t addr;
	const uint64_t *words;
	/* of words to look at */
	size_t count;
	/* of words there are, for a look beyond the last: at most 512 more */
	size_t ahead;
	/*
	 * places of those words that lead into memory that no file backs, or between such: what a
	 * table's pointer is one of
	 */
	const uint32_t *leads;
	size_t lead_count;
};
/** Nonzero ends the scan. */
typedef int (*scan_fn)(void *ctx, const struct scan_block *block);
/**
 * scan_data() - resident words of writable data, mapping by mapping; @bytes_min: neighbouring data
 * mappings (a module's data and bss) of less are passed over together. At most 256 MiB. Return:
 * what @fn returned, or -ENOMEM.
 */
int scan_data(const struct breakdown *b, const struct memory *memory, uint64_t bytes_min,
	      scan_fn fn, void *ctx);

/**
 * struct scan_copies - data of modules, copied once for all who look through it one after the
 * other. A copy is as old as a few readers take, and made again after that.
 */
#define SCAN_COPIES 64u
struct scan_copies {
	size_t count;
	/*
	 * one mapping for all, of large pages where there are some: small ones would cost as much
	 * as the reading
	 */
	char *room;
	uint64_t bytes, used;
	struct scan_copy {
		uint64_t start, end, read_ns;
		int rc;
		uint64_t *words;
		/* as many places behind it as there are words */
		uint32_t *leads;
		size_t lead_count;
	} of[SCAN_COPIES];
};
/**
 * scan_copies_init() - @copies of what scan_data() would read of @b; without memory there are none.
 */
void scan_copies_init(struct scan_copies *copies, const struct breakdown *b);
void scan_copies_fini(struct scan_copies *copies);

/**
 * struct radix_shape - which bits of an address choose the entry of the root, and of the leaf: that
 * one is a page's.
 */
struct radix_shape {
	uint8_t shift[2], bits[2];
	/* of a level between them: 0 bits where there is none */
	uint8_t middle_shift, middle_bits;
	/* of leaves */
	uint64_t align;
	/* makes one word of a leaf's entry that has two; NULL: it has one */
	uint64_t (*join)(uint64_t first, uint64_t second);
};

#define RADIX_AHEAD 512
/**
 * struct radix - a tree in a foreign address space. All of it is hostile: leaves may be one and the
 * same, or lead anywhere.
 */
struct radix {
	const struct breakdown *b;
	const struct memory *memory;
	struct radix_shape shape;
	uint64_t root;

	/* private: the leaf of the last address, what leads to it, and some of its entries */

	/* what the root leads to: the leaf itself where there is no level between */
	uint64_t node_first, node;
	int node_known;
	/* first address that it stands for */
	uint64_t leaf_first, leaf;
	int leaf_known;
	/* address of the first entry that is copied */
	uint64_t first;
	unsigned copied;
	uint64_t entries[RADIX_AHEAD];
	/* of leaves */
	struct memory_pages pages;
	/* private: what was read of nodes between root and leaf, while a root is looked for */
	struct radix_pieces *pieces;
};

/** Whether the @entry of the page at @addr is what only this allocator would write there. */
typedef int (*radix_proof)(void *ctx, uint64_t addr, uint64_t entry);
/**
 * radix_find() - look for a root in writable data: a word that leads from some heap address down to
 * an entry that @proof accepts. Its own module's data holds all of it. @tree: b, memory and shape
 * are given. Return: 1 found (@tree is ready), 0 not, -ENOMEM.
 */
int radix_find(struct radix *tree, radix_proof proof, void *ctx);
/**
 * radix_entry() - of the page at @addr; 0 where there is none. In rising order O(1) and one read
 * for 512 pages.
 */
uint64_t radix_entry(struct radix *tree, uint64_t addr);
/**
 * radix_next() - the first address behind @addr, at most @end, whose page may have an entry: skips
 * what has no leaf.
 */
uint64_t radix_next(struct radix *tree, uint64_t addr, uint64_t end);

#endif
