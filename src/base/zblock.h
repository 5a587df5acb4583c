/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zblock.h - one-shot zstd: a block of bytes in, one frame out, and back. No dictionary, no stream
 * state: every frame stands alone. A context is reused between calls (setting one up costs more
 * than a small block) and belongs to one thread.
 */
#ifndef BASE_ZBLOCK_H
#define BASE_ZBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct zblock_enc;
struct zblock_dec;

/** zblock_enc_new() - at ZBLOCK_USUAL; NULL with @err -ENOMEM. */
struct zblock_enc *zblock_enc_new(struct err *err);
void zblock_enc_free(struct zblock_enc *enc);

/* How much work is done on a frame; whoever reads it need not know. */
enum zblock_effort {
	ZBLOCK_USUAL,
	ZBLOCK_LITTLE, /* bytes get short codes, but few repetitions are looked for */
	ZBLOCK_MUCH,   /* for few bytes: some 50 us a KiB */
};
struct zblock_dec *zblock_dec_new(struct err *err);
void zblock_dec_free(struct zblock_dec *dec);

/** zblock_bound() - room that any @len bytes need at most when compressed. */
size_t zblock_bound(size_t len);
/**
 * zblock_compress() - one frame of @len bytes to @to; returns its length, or 0 where @cap does not
 * suffice.
 */
size_t zblock_compress(struct zblock_enc *enc, enum zblock_effort effort, void *to, size_t cap,
		       const void *from, size_t len);
/**
 * zblock_compress_like() - the same, much shorter where @len bytes resemble @like, which has to be
 * there to read them.
 */
size_t zblock_compress_like(struct zblock_enc *enc, enum zblock_effort effort, void *to, size_t cap,
			    const void *from, size_t len, const void *like, size_t like_len);
/**
 * zblock_decompress() - exactly @len bytes out of one or more frames. @from may be hostile: nothing
 * beyond @to + @len is written, no more than zstd's context is allocated. Return: 0, -EBADMSG where
 * the bytes are no such frame, -ENOMEM.
 */
int zblock_decompress(struct zblock_dec *dec, void *to, size_t len, const void *from,
		      size_t from_len);
/** zblock_decompress_like() - of zblock_compress_like(). */
int zblock_decompress_like(struct zblock_dec *dec, void *to, size_t len, const void *from,
			   size_t from_len, const void *like, size_t like_len);

#endif
