/* SPDX-License-Identifier: Apache-2.0 */
#include "base/zblock.h"

#include <errno.h>
#include <stdlib.h>

#define ZSTD_STATIC_LINKING_ONLY /* for the name of a parameter: literal compression */
#include <zstd.h>
#include <zstd_errors.h>

/* The structs are names only: zstd's own contexts are what is allocated. */

/*
 * A negative level steps over what does not repeat at once: of the fast ones it is the number of
 * bytes. Such levels would store bytes as they are, which is asked for otherwise.
 */
static const int levels[] = { [ZBLOCK_USUAL] = 1, [ZBLOCK_LITTLE] = -20, [ZBLOCK_MUCH] = 12 };

struct zblock_enc *zblock_enc_new(struct err *err)
{
	ZSTD_CCtx *cctx = ZSTD_createCCtx();
	if (!cctx) {
		err_set(err, -ENOMEM, "cannot set up compression");
		return NULL;
	}
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
	return (struct zblock_enc *)cctx;
}

void zblock_enc_free(struct zblock_enc *enc)
{
	ZSTD_freeCCtx((ZSTD_CCtx *)enc);
}

struct zblock_dec *zblock_dec_new(struct err *err)
{
	ZSTD_DCtx *dctx = ZSTD_createDCtx();
	if (!dctx)
		err_set(err, -ENOMEM, "cannot set up decompression");
	return (struct zblock_dec *)dctx;
}

void zblock_dec_free(struct zblock_dec *dec)
{
	ZSTD_freeDCtx((ZSTD_DCtx *)dec);
}

size_t zblock_bound(size_t len)
{
	return ZSTD_compressBound(len);
}

size_t zblock_compress(struct zblock_enc *enc, enum zblock_effort effort, void *to, size_t cap,
		       const void *from, size_t len)
{
	ZSTD_CCtx_setParameter((ZSTD_CCtx *)enc, ZSTD_c_compressionLevel, levels[effort]);
	size_t rc = ZSTD_compress2((ZSTD_CCtx *)enc, to, cap, from, len);
	return ZSTD_isError(rc) ? 0 : rc;
}

size_t zblock_compress_like(struct zblock_enc *enc, enum zblock_effort effort, void *to, size_t cap,
			    const void *from, size_t len, const void *like, size_t like_len)
{
	/* for the next frame alone */
	if (ZSTD_isError(ZSTD_CCtx_refPrefix((ZSTD_CCtx *)enc, like, like_len)))
		return 0;
	return zblock_compress(enc, effort, to, cap, from, len);
}

int zblock_decompress(struct zblock_dec *dec, void *to, size_t len, const void *from,
		      size_t from_len)
{
	size_t rc = ZSTD_decompressDCtx((ZSTD_DCtx *)dec, to, len, from, from_len);
	if (ZSTD_isError(rc) && ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	return ZSTD_isError(rc) || rc != len ? -EBADMSG : 0;
}

int zblock_decompress_like(struct zblock_dec *dec, void *to, size_t len, const void *from,
			   size_t from_len, const void *like, size_t like_len)
{
	if (ZSTD_isError(ZSTD_DCtx_refPrefix((ZSTD_DCtx *)dec, like, like_len)))
		return -EBADMSG;
	return zblock_decompress(dec, to, len, from, from_len);
}
