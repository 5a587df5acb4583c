/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.h - every block of a recording as one row, in a file without a name: for questions about
 * single blocks, whose number has no bound that memory has.
 *
 * A row is written when its block is freed, those never freed last; so rows come in order of their
 * end, are only ever appended, and memory holds the live blocks alone. Reading is one scan, some
 * tens of millions of rows a second; a filter reads columns of 16 bits beside the rows, some
 * hundreds of millions a second, and the rows that it needs.
 */
#ifndef QUERY_BLOCKS_H
#define QUERY_BLOCKS_H

#include "query/query.h"

#define BLOCK_PAGE 4096        /* rows of blocks_select() */
#define BLOCK_NEVER UINT64_MAX /* freed_ns of what was never freed */
enum block_flag {
	BLOCK_TEMPORARY = 1,
	BLOCK_BY_REALLOC = 2,   /* allocated as the second half of a realloc */
	BLOCK_ENDS_REALLOC = 4, /* freed as the first half of one */
	BLOCK_UNCERTAIN = 8,    /* a free may have been lost */
	BLOCK_INHERITED = 16    /* of the parent process */
};

struct block_row {
	/* number of its allocation, from 1 */
	uint64_t id;
	uint64_t time_ns, freed_ns;
	uint64_t addr, bytes;
	/* rows of the names; free_stack 0: not recorded */
	uint32_t stack, free_stack;
	uint32_t tid, free_tid;
	/* blocks_chain(); 0: it was never part of a realloc */
	uint32_t chain;
	/* enum block_flag */
	uint16_t flags;
	/* in its chain, from 0; 65535 stands for more, too */
	uint16_t position;
};
_Static_assert(sizeof(struct block_row) == 64, "struct block_row");

/** block_is_mmaped() - glibc gives large blocks a mapping of their own, 16 bytes into a page. */
static inline int block_is_mmaped(const struct block_row *row)
{
	return row->bytes >= (128u << 10) && row->addr % 4096 == 16;
}
/** block_in_main_arena() - the program break lies far below what is mapped. */
static inline int block_in_main_arena(const struct block_row *row)
{
	return row->addr < 0x700000000000ull && !block_is_mmaped(row);
}

/** struct block_group - all blocks of one stack. */
struct block_group {
	uint64_t count, leaked, bytes, min_bytes, max_bytes;
	uint64_t first_ns, last_ns;
	/* the most that lived at once, and when that was first so */
	uint64_t live_bytes, most_bytes, most_ns;
	/* all ends less all beginnings; of @leaked blocks the end of all is to be added */
	__int128 life_ns;
};

/** struct block_chain - blocks that reallocs made of each other. */
struct block_chain {
	/* BLOCK_NEVER: its last one was not */
	uint64_t first_id, first_time_ns, freed_ns;
	uint64_t first_bytes, last_bytes;
	uint64_t length;
};

struct blocks;
/**
 * blocks_new() - one replay of @source. @names: its whole reading, which knows the producer's
 * numbers. NULL with @err. Needs some 35 bytes a block where TMPDIR, else /var/tmp or /tmp, is.
 */
struct blocks *blocks_new(const struct query_source *source, const struct prof *names,
			  struct err *err);
/**
 * blocks_open() - without rows; NULL with @err. blocks_fill() - the replay: while it runs,
 * blocks_select() of other threads finds what was written so far, and their chains are not known.
 * Once. Where the rows find no room, 0 with those that did: blocks_is_full(), and chains stay
 * unknown; a twentieth of the file system, at most 1 GiB, is left to others.
 */
struct blocks *blocks_open(struct err *err);
int blocks_fill(struct blocks *blocks, const struct query_source *source, const struct prof *names,
		struct err *err);
void blocks_free(struct blocks *blocks);
uint64_t blocks_count(const struct blocks *blocks);
int blocks_is_full(const struct blocks *blocks);
/** blocks_disk() - bytes that the rows take where they lie. */
uint64_t blocks_disk(const struct blocks *blocks);
/** blocks_chain() - @chain not 0. Lent. NULL while the rows are still being written. */
const struct block_chain *blocks_chain(const struct blocks *blocks, uint32_t chain);
/**
 * blocks_scan() - all rows in order of their end, some thousands a call; a nonzero return of @each
 * ends the scan and is returned. Several threads may scan at once. Negative errno with @err where
 * the file cannot be read.
 */
int blocks_scan(const struct blocks *blocks,
		int (*each)(void *ctx, const struct block_row *rows, size_t count), void *ctx,
		struct err *err);

/**
 * blocks_read() - the row number @at in the order of the scan, below blocks_count(). Any thread. 0
 * or negative errno with @err.
 */
int blocks_read(const struct blocks *blocks, uint64_t at, struct block_row *row, struct err *err);
/** blocks_descriptors() - what a child must keep open to scan them, -1 where it needs none. */
void blocks_descriptors(const struct blocks *blocks, int descriptors[2]);

/** struct block_filter - selection words for rows. */
struct block_filter {
	/* at_ns UINT64_MAX: any */
	uint64_t from_ns, to_ns, at_ns;
	int has_at;
	uint64_t min_size, max_size, lifetime_min_ns, lifetime_max_ns, end_ns;
	uint64_t address_from, address_to;
	int leaked, has_thread;
	uint32_t tid;
	/* by row of the names; NULL: all. Owned */
	uint8_t *stacks;
};
/**
 * block_filter_init() - what @query means for rows. @names: the whole reading, with names resolved.
 * -EINVAL with @err for a moment that does not exist. Release with block_filter_fini().
 */
int block_filter_init(struct block_filter *filter, const struct query *query,
		      const struct prof *names, struct err *err);
void block_filter_fini(struct block_filter *filter);

static inline int block_matches(const struct block_filter *f, const struct block_row *r)
{
	uint64_t end = r->freed_ns == BLOCK_NEVER ? f->end_ns : r->freed_ns;
	uint64_t lifetime = end > r->time_ns ? end - r->time_ns : 0;
	return r->bytes >= f->min_size && r->bytes <= f->max_size && r->time_ns >= f->from_ns &&
	       r->time_ns < f->to_ns && lifetime >= f->lifetime_min_ns &&
	       lifetime <= f->lifetime_max_ns && (!f->leaked || r->freed_ns == BLOCK_NEVER) &&
	       (!f->has_at || (r->time_ns <= f->at_ns && r->freed_ns > f->at_ns)) &&
	       query_touches(f->address_from, f->address_to, r->addr, r->bytes) &&
	       (!f->has_thread || r->tid == f->tid) && (!f->stacks || f->stacks[r->stack]);
}

struct block_view;
/**
 * blocks_select() - the rows that @filter takes, page by page of at most BLOCK_PAGE in order of
 * their end, from the last page on if
 * @backwards; pages without any come, too. A nonzero return of @each ends it and is returned.
 * Several threads may, also while
 * blocks_fill() runs. Negative errno with @err.
 */
int blocks_select(const struct blocks *blocks, const struct block_filter *filter, int backwards,
		  int (*each)(void *ctx, struct block_view *view, struct err *err), void *ctx,
		  struct err *err);
/**
 * block_view_count() - rows of the page, block_view_matched() - that are taken: those with a 1 in
 * block_view_mask().
 */
uint32_t block_view_count(const struct block_view *view);
uint32_t block_view_matched(const struct block_view *view);
const uint8_t *block_view_mask(const struct block_view *view);
/** block_view_id_range() - of all rows of the page. */
void block_view_id_range(const struct block_view *view, uint64_t *least, uint64_t *most);
/** block_view_ids() - by row; UINT32_MAX stands for that and more, too. Lent; NULL with @err. */
const uint32_t *block_view_ids(struct block_view *view, struct err *err);
/** block_view_sizes(), block_view_lifetimes() - codes, see blocks_code(). Lent; NULL with @err. */
const uint16_t *block_view_sizes(struct block_view *view, struct err *err);
const uint16_t *block_view_lifetimes(struct block_view *view, struct err *err);
/** block_view_row() - row @i of the page. 0 or negative errno with @err. */
int block_view_row(struct block_view *view, uint32_t i, struct block_row *row, struct err *err);
#define BLOCK_CODES_EXACT 2048    /* values below have a code each */
#define BLOCK_CODE_UNENDED 65534u /* of a lifetime: that of a block without an end */
/**
 * blocks_code() - no larger value has a smaller code; values below BLOCK_CODES_EXACT are told
 * apart.
 */
uint16_t blocks_code(uint64_t value);
/** blocks_find() - the row of allocation @id: 1; 0: there is none; negative errno with @err. */
int blocks_find(const struct blocks *blocks, uint64_t id, struct block_row *row, struct err *err);

#endif
