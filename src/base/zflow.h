/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zflow.h - pieces of bytes, one after another, each compressed with what came before it in mind: a
 * zstd frame that is never ended, flushed behind each piece. A piece is read only behind all others
 * since the flow began. One thread each.
 *
 * Memory: the last 2 MiB of a flow, on either side, as far as they are used, and 64 KiB.
 */
#ifndef BASE_ZFLOW_H
#define BASE_ZFLOW_H

#include <stddef.h>

struct zflow_enc;
struct zflow_dec;

/** zflow_enc_new() - NULL: no memory. */
struct zflow_enc *zflow_enc_new(void);
void zflow_enc_free(struct zflow_enc *flow);
/** zflow_restart() - the next piece is the first one. */
void zflow_restart(struct zflow_enc *flow);
/** zflow_bound() - room that a piece of @len bytes needs at most. */
size_t zflow_bound(size_t len);
/**
 * zflow_put() - the next piece to @to; returns its length, or 0 where it failed: nothing can follow
 * then but a restart.
 */
size_t zflow_put(struct zflow_enc *flow, void *to, size_t cap, const void *from, size_t len);

/** zflow_dec_new() - NULL: no memory. */
struct zflow_dec *zflow_dec_new(void);
void zflow_dec_free(struct zflow_dec *flow);
/** zflow_dec_restart() - the next piece is the first one. */
void zflow_dec_restart(struct zflow_dec *flow);
/**
 * zflow_take() - the next piece, exactly @len bytes out of all of @from, which may be hostile.
 * Return: 0, -EBADMSG, or -ENOMEM: nothing can follow then but a restart.
 */
int zflow_take(struct zflow_dec *flow, void *to, size_t len, const void *from, size_t from_len);

#endif
