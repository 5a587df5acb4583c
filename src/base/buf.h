/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h - a growable byte buffer; the only place where output text and encoded columns are built.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/**
 * struct buf - bytes [data, data+len); zero-initialised is empty and valid. An allocation failure
 * makes the buffer sticky-failed (further appends do nothing); ask buf_failed() once at the end.
 */
struct buf {
	char *data;
	size_t len, cap;
	int failed;
};

/**
 * buf_fini() - release the memory; the buffer is empty and usable afterwards. CLEANUP(buf_fini)
 * works.
 */
void buf_fini(struct buf *buf);
/** buf_clear() - forget the content, keep the memory. */
void buf_clear(struct buf *buf);
/** buf_failed() - nonzero if an append ran out of memory. */
int buf_failed(const struct buf *buf);
/**
 * buf_reserve() - room for @extra more bytes; returns the place where they go, NULL on failure.
 * O(1) amortised.
 */
char *buf_reserve(struct buf *buf, size_t extra);
/**
 * buf_room() - the same; for the loops that put a few bytes at a time, without a call where there
 * is room.
 */
static inline char *buf_room(struct buf *buf, size_t extra)
{
	return buf->data && !buf->failed && extra <= buf->cap - buf->len ? buf->data + buf->len
									 : buf_reserve(buf, extra);
}
void buf_put(struct buf *buf, const void *bytes, size_t len);
void buf_putc(struct buf *buf, char byte);
void buf_puts(struct buf *buf, const char *text);
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF(2, 3);
void buf_vprintf(struct buf *buf, const char *fmt, va_list args) PRINTF(2, 0);
/** buf_cstr() - the content as a NUL-terminated string owned by @buf; "" after a failure. */
const char *buf_cstr(struct buf *buf);
/**
 * buf_take() - the content as a malloc'd NUL-terminated string, leaving @buf empty; NULL after a
 * failure.
 */
char *buf_take(struct buf *buf);

#endif
