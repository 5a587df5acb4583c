/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks_impl.h - what blocks.c (the rows, as they are written) and blocks_select.c (their columns)
 * share.
 */
#ifndef QUERY_BLOCKS_IMPL_H
#define QUERY_BLOCKS_IMPL_H

#include <pthread.h>

#include "query/blocks.h"

/** enum block_column - 16 bits a row each: codes, or the thread. */
enum block_column {
	BLOCK_COLUMN_SIZE,
	BLOCK_COLUMN_TIME,
	BLOCK_COLUMN_FREED,
	BLOCK_COLUMN_LIFETIME,
	BLOCK_COLUMN_THREAD,
	BLOCK_COLUMNS
};
#define BLOCK_CODE_NEVER 65535u /* of an end: never */
#define BLOCK_THREAD_OTHER 0u   /* the row says which */
#define BLOCK_IDS_AT (BLOCK_COLUMNS * BLOCK_PAGE * 2)
#define BLOCK_STACKS_AT (BLOCK_IDS_AT + BLOCK_PAGE * 4)
#define BLOCK_PAGE_BYTES (BLOCK_STACKS_AT + BLOCK_PAGE * 4)

/** struct block_zone - what the rows of one page lie between. */
struct block_zone {
	uint64_t least_id, most_id;
	/* lifetimes: of the ended */
	uint64_t least[BLOCK_COLUMN_THREAD], most[BLOCK_COLUMN_THREAD];
	uint32_t unended;
};

struct blocks {
	int rows_fd, chains_fd, columns_fd;
	uint32_t chains;
	/* mapped, chains + 1 of them, once all are known */
	struct block_chain *chain;
	/* what follows grows while others look */
	pthread_mutex_t lock;
	uint64_t rows;
	/* by page */
	struct block_zone *zones;
	size_t zone_cap;
	/* by the code of a thread; none has 0 */
	uint32_t *tids;
	uint32_t tid_count;
};

/**
 * block_code() - the larger of two values never has the smaller code; those below 2048 have one
 * each, others share to a thousandth.
 */
static inline uint16_t block_code(uint64_t value)
{
	if (value < 2048)
		return (uint16_t)value;
	unsigned e = 63 - (unsigned)__builtin_clzll(value);
	return (uint16_t)(2048 + (e - 11) * 1024 + ((value >> (e - 10)) & 1023));
}

/** block_code_least() - the least value of that code of block_code(). */
static inline uint64_t block_code_least(uint32_t code)
{
	if (code < 2048)
		return code;
	unsigned e = 11 + (code - 2048) / 1024;
	return e > 63 ? UINT64_MAX : (uint64_t)(1024 + (code - 2048) % 1024) << (e - 10);
}

/**
 * blocks_put_page() - the columns of @count rows that were appended as page @page, and they are
 * there for others. 0 or negative errno.
 */
int blocks_put_page(struct blocks *blocks, const struct block_row *rows, size_t count,
		    const uint16_t *threads, struct err *err);
/** blocks_write() - all of @len bytes to a file of ours. */
int blocks_write(int fd, const void *bytes, size_t len, uint64_t at, struct err *err);
/** blocks_read_at() - all of them from it. */
int blocks_read_at(int fd, void *to, size_t len, uint64_t at, struct err *err);

#endif
