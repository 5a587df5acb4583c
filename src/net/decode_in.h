/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_in.h - bounded big-endian reading and JSON pieces, shared by the decoders. Errors stick:
 * the first one counts.
 */
#ifndef NET_DECODE_IN_H
#define NET_DECODE_IN_H

/*
 * A circle of files: what is inside of a message is decoded here, and may be a message again,
 * which net/decode.h decodes.
 */

#include "base/buf.h"
#include "net/b58.h"
#include "net/decode.h"

/** struct in - what is left of a block; once failed every read yields zeros. */
struct in {
	const uint8_t *p, *end;
	struct net_decode_error *error;
	int failed;
};

void in_fail(struct in *in, const char *fmt, ...) PRINTF(2, 3);
size_t in_left(const struct in *in);
/** in_take() - @len bytes, or a failure and NULL. */
const uint8_t *in_take(struct in *in, size_t len, const char *what);
uint8_t in_u8(struct in *in, const char *what);
uint16_t in_u16(struct in *in, const char *what);
uint32_t in_u32(struct in *in, const char *what);
uint64_t in_u64(struct in *in, const char *what);
/** in_block() - dyn(): a length and the block it spans, taken off @in. */
struct in in_block(struct in *in, const char *what);
/** in_merge() - a block's failure is its parent's. */
void in_merge(struct in *in, const struct in *block);
/** in_end() - everything must have been used. */
void in_end(struct in *in, const char *what);

/* JSON of single values */
void put_hash(struct buf *json, struct in *in, enum net_hash kind);
void put_hashes(struct buf *json, struct in *in, enum net_hash kind); /* list to the end of @in */
void put_hex(struct buf *json, const uint8_t *bytes, size_t len);     /* quoted */
void put_numbers(struct buf *json, const uint8_t *bytes, size_t len); /* [1,2,..] */
void put_text(struct buf *json, struct in *in, uint32_t max, const char *what); /* str */
void put_time(struct buf *json, int64_t seconds); /* RFC 3339 UTC, quoted */
void put_bool(struct buf *json, struct in *in, const char *what);

#endif
