/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h - the container: file header, block headers, and columns inside a block. Private to
 * trace/. docs/format.md is normative; numbers here follow it.
 */
#ifndef TRACE_BLOCK_H
#define TRACE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/zblock.h"
#include "base/zflow.h"

#define BLT_MAGIC \
	"\x89"    \
	"BLT\r\n\x1a\n"
#define BLT_MAGIC_BYTES 8
#define BLT_VERSION 3
#define BLT_FILE_HEADER 64

/*
 * Begins every block; unlikely in compressed data, and a header's own checksum must agree as well.
 */
#define BLT_MARKER 0x6b636f6c42544c8fULL /* 8f "LTBlock", little-endian */
#define BLT_BLOCK_HEADER 48
#define BLT_COL_MAX 32
#define BLT_RAW_MAX (64u << 20)    /* bytes of all columns of a block, uncompressed */
#define BLT_STORED_MAX (65u << 20) /* bytes of a block behind its header */
#define BLT_ROWS_MAX (1u << 20)
#define BLT_NO_FLOW UINT64_MAX /* struct blt_flows.next: nothing goes on */

enum blt_type {
	BLT_DEFS = 1,
	BLT_EVENTS = 2,
	BLT_SUMMARY = 3,
	BLT_INDEX = 4,
	BLT_END = 5,      /* header only, last in the file; first = where the index block begins */
	BLT_PENDING = 6,  /* pending.h */
	BLT_FILE = 7,     /* attach.h */
	BLT_SNAPSHOT = 8, /* shot.h */
	BLT_PAGES = 9,    /* paged.h */
};

enum blt_flag {
	BLT_F_KEY = 1, /* EVENTS: decodable without what earlier blocks taught the predictors */
};

enum { BLT_H_LATE = 1 }; /* events come late: FILE.pending holds what is undecided until the end */

struct blt_file_header {
	uint32_t version;
	/* ELF e_machine */
	uint16_t machine;
	/* BLT_H_* */
	uint8_t flags;
	uint8_t boot_id[16];
	/* one moment on both clocks: when the file was created */
	uint64_t realtime_ns, monotonic_ns;
};

struct blt_head {
	uint8_t type, flags;
	uint32_t rows, raw, stored;
	/*
	 * DEFS: definitions before this block; EVENTS: events before; END: place of the index;
	 * SNAPSHOT: of the one it resembles
	 */
	uint64_t first;
	/* of the first event, else of the last one before */
	uint64_t time_ns;
	/* of the stored bytes */
	uint32_t crc;
};

static inline void put_le32(uint8_t *to, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(v >> (8 * i));
}

static inline void put_le64(uint8_t *to, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t get_le32(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t get_le64(const uint8_t *from)
{
	return get_le32(from) | (uint64_t)get_le32(from + 4) << 32;
}

/** blt_file_header_put() - encode into BLT_FILE_HEADER bytes at @to. */
void blt_file_header_put(uint8_t *to, const struct blt_file_header *header);
/**
 * blt_file_header_get() - 1 good, 0 the checksum differs (fields are still filled), -EBADMSG where
 * the magic is another.
 */
int blt_file_header_get(const uint8_t *from, struct blt_file_header *header);

void blt_head_put(uint8_t *to, const struct blt_head *head);
/** blt_head_get() - 1 if a valid block header of BLT_BLOCK_HEADER bytes stands at @from, else 0. */
int blt_head_get(const uint8_t *from, struct blt_head *head);

/**
 * struct blt_cols - the columns of a block under construction; columns that stay empty are not
 * stored.
 */
struct blt_cols {
	struct buf col[BLT_COL_MAX];
	/* bit i: to look for repetitions in column i takes more time than they are worth */
	uint32_t plain;
	/* small columns are worth some work */
	int tight;
	/*
	 * of columns that go on from block to block; NULL: the column stands alone. The owner
	 * restarts them at key blocks
	 */
	struct zflow_enc *flow[BLT_COL_MAX];
	/* of an earlier block, which has to be there to read this one; NULL: it stands alone */
	const struct blt_cols *like;
};
void blt_cols_fini(struct blt_cols *cols);
void blt_cols_clear(struct blt_cols *cols);
/**
 * blt_pack() - append header, directory and columns to @out. @head: type, flags, rows, first and
 * time_ns are the caller's, the rest is filled here. Return: 0, -ENOMEM, or -E2BIG for more than
 * BLT_RAW_MAX.
 */
int blt_pack(struct blt_cols *cols, struct blt_head *head, struct zblock_enc *zenc, struct buf *out,
	     struct err *err);

/** struct blt_view - the columns of a block that was read; an absent column is empty. */
struct blt_view {
	struct {
		const uint8_t *at, *end;
	} col[BLT_COL_MAX];
	uint32_t raw[BLT_COL_MAX], stored[BLT_COL_MAX];
};
/**
 * blt_unpack() - decompress all columns of @payload (head->stored bytes, checksum already compared)
 * into @scratch. Return: 0, -EBADMSG where the bytes break a rule, -ENOMEM.
 */
int blt_unpack(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
	       struct buf *scratch, struct blt_view *view);
/** struct blt_flows - where a reader stands in columns that go on from block to block. */
struct blt_flows {
	struct zflow_dec *flow[BLT_COL_MAX];
	/* bit i: column i's flow, since the last key block */
	uint32_t begun;
	/*
	 * EVENTS: how many events are before the block that goes on; another one cannot be read on
	 */
	uint64_t next;
};
void blt_flows_fini(struct blt_flows *flows);
/**
 * blt_unpack_flow() - the same of an EVENTS block. Where it does not follow the one that was
 * unpacked last, and is no key block, columns that go on are empty: what has to be read without the
 * blocks before stands in others.
 */
int blt_unpack_flow(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
		    struct buf *scratch, struct blt_flows *flows, struct blt_view *view);
/**
 * blt_unpack_like() - the same of a block whose columns may resemble those of @like, another one;
 * NULL: of none.
 */
int blt_unpack_like(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
		    struct buf *scratch, const struct blt_view *like, struct blt_view *view);

#endif
