/* SPDX-License-Identifier: Apache-2.0 */
#include "base/zflow.h"

#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

/* The structs are names only: zstd's own contexts are what is allocated. */

#define WINDOW_LOG 21
/*
 * What a block of zstd's has before its content, a frame before its first block, and some to spare.
 */
#define PIECE_ROOM 64

struct zflow_enc *zflow_enc_new(void)
{
	ZSTD_CCtx *cctx = ZSTD_createCCtx();

	if (cctx) {
		ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, 1);
		ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, WINDOW_LOG);
	}
	return (struct zflow_enc *)cctx;
}

void zflow_enc_free(struct zflow_enc *flow)
{
	ZSTD_freeCCtx((ZSTD_CCtx *)flow);
}

void zflow_restart(struct zflow_enc *flow)
{
	ZSTD_CCtx_reset((ZSTD_CCtx *)flow, ZSTD_reset_session_only);
}

size_t zflow_bound(size_t len)
{
	return ZSTD_compressBound(len) + PIECE_ROOM;
}

size_t zflow_put(struct zflow_enc *flow, void *to, size_t cap, const void *from, size_t len)
{
	ZSTD_outBuffer out = { to, cap, 0 };
	ZSTD_inBuffer in = { from, len, 0 };
	size_t left = ZSTD_compressStream2((ZSTD_CCtx *)flow, &out, &in, ZSTD_e_flush);

	/* there is room for all of it: one call takes and gives everything */
	return ZSTD_isError(left) || left || in.pos < len ? 0 : out.pos;
}

struct zflow_dec *zflow_dec_new(void)
{
	ZSTD_DCtx *dctx = ZSTD_createDCtx();

	if (dctx)
		ZSTD_DCtx_setParameter(dctx, ZSTD_d_windowLogMax, WINDOW_LOG);
	return (struct zflow_dec *)dctx;
}

void zflow_dec_free(struct zflow_dec *flow)
{
	ZSTD_freeDCtx((ZSTD_DCtx *)flow);
}

void zflow_dec_restart(struct zflow_dec *flow)
{
	ZSTD_DCtx_reset((ZSTD_DCtx *)flow, ZSTD_reset_session_only);
}

int zflow_take(struct zflow_dec *flow, void *to, size_t len, const void *from, size_t from_len)
{
	ZSTD_outBuffer out = { to, len, 0 };
	ZSTD_inBuffer in = { from, from_len, 0 };

	for (;;) {
		size_t in_before = in.pos, out_before = out.pos;
		size_t rc = ZSTD_decompressStream((ZSTD_DCtx *)flow, &out, &in);

		/*
		 * its window is allocated when the first piece comes: no memory for it is no damage
		 */
		if (ZSTD_isError(rc))
			return ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation ? -ENOMEM
										     : -EBADMSG;
		if (in.pos == in_before && out.pos == out_before)
			break;
	}
	return in.pos == from_len && out.pos == len ? 0 : -EBADMSG;
}
