/* SPDX-License-Identifier: Apache-2.0 */
/* defs.h - definitions as columns of a DEFS block. Private to trace/. Each block stands alone. */
#ifndef TRACE_DEFS_H
#define TRACE_DEFS_H

#include "model/event.h"
#include "trace/block.h"

#define DEFS_STRING_MAX (8u << 20)
#define DEFS_SYMBOLS_MAX 1024 /* functions inlined at one place */

/** struct defs_enc - a block of definitions under construction. */
struct defs_enc {
	struct blt_cols cols;
	uint32_t rows;
	/* rough size, to cut blocks */
	size_t bytes;
	uint32_t next_id[8];
	uint64_t last_offset;
	uint32_t last_frame;
};

void defs_enc_fini(struct defs_enc *enc);
/** defs_enc_clear() - begin the next block. */
void defs_enc_clear(struct defs_enc *enc);
/** defs_enc_add() - 0, or -EINVAL for a kind, a string or a list that the format cannot hold. */
int defs_enc_add(struct defs_enc *enc, const struct def *def, struct err *err);

/**
 * defs_dec() - hand every definition of a block to @take, in order. Strings are lent for the call.
 * Return: 0, -EBADMSG where the columns break a rule, -ENOMEM, or what @take returned when
 * negative.
 */
int defs_dec(const struct blt_view *view, uint32_t rows,
	     int (*take)(void *ctx, const struct def *def, struct err *err), void *ctx,
	     struct err *err);

#endif
