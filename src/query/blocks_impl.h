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
#define BLOCK_PAGE_BYTES (BLOCK_COLUMNS * BLOCK_PAGE * 2)

/** enum block_field - members of a row that are read alone; the others come after these. */
enum block_field { BLOCK_FIELD_ID, BLOCK_FIELD_STACK, BLOCK_FIELD_FREED };
#define BLOCK_FIELDS 12
#define BLOCK_PACKED_MAX (BLOCK_PAGE * sizeof(struct block_row) + 8)

/** struct block_packing - where the rows of one page lie in the file, and how. */
struct block_packing {
	uint64_t at, base[BLOCK_FIELDS];
	/* bytes a value; 0: all have @base */
	uint8_t width[BLOCK_FIELDS];
	/* some have no end */
	uint8_t never;
};

/** struct block_zone - what the rows of one page lie between. */
struct block_zone {
	uint64_t least_id, most_id;
	/* lifetimes: of the ended */
	uint64_t least[BLOCK_COLUMN_THREAD], most[BLOCK_COLUMN_THREAD];
	uint32_t unended;
	struct block_packing packing;
};

struct blocks {
	int rows_fd, chains_fd, columns_fd;
	uint32_t chains;
	/* mapped, chains + 1 of them, once all are known */
	struct block_chain *chain;
	/* what follows grows while others look */
	pthread_mutex_t lock;
	uint64_t rows;
	/* of the file of rows */
	uint64_t end;
	/* there was no room for more than these */
	int is_full;
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

/** blocks_page() - the rows of page number @page, how many and how they lie. */
size_t blocks_page(const struct blocks *blocks, uint64_t page, struct block_zone *zone);
/**
 * block_pack() - @count rows into @to of BLOCK_PACKED_MAX bytes; @how but for its place. Returns
 * the bytes. block_unpack() - all rows of a page, block_unpack_one() - row @i, block_unpack_u32() -
 * one member of all, where UINT32_MAX stands for that and more. @scratch: BLOCK_PACKED_MAX bytes. 0
 * or negative errno with @err.
 */
size_t block_pack(const struct block_row *rows, size_t count, struct block_packing *how,
		  unsigned char *to);
int block_unpack(int fd, const struct block_packing *how, size_t count, struct block_row *rows,
		 unsigned char *scratch, struct err *err);
int block_unpack_one(int fd, const struct block_packing *how, size_t count, size_t i,
		     struct block_row *row, struct err *err);
int block_unpack_u32(int fd, const struct block_packing *how, size_t count, unsigned f,
		     uint32_t *to, unsigned char *scratch, struct err *err);
/**
 * blocks_put_page() - @count rows are appended, with their columns, and are there for others. 0 or
 * negative errno; -ENOSPC where they find no room.
 */
int blocks_put_page(struct blocks *blocks, const struct block_row *rows, size_t count,
		    const uint16_t *threads, struct err *err);
/** blocks_write() - all of @len bytes to a file of ours. */
int blocks_write(int fd, const void *bytes, size_t len, uint64_t at, struct err *err);
/** blocks_read_at() - all of them from it. */
int blocks_read_at(int fd, void *to, size_t len, uint64_t at, struct err *err);

#endif
