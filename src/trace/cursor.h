/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cursor.h - numbers of one column: written, and read; what does not fit marks the cursor bad once
 * and reads as 0.
 */
#ifndef TRACE_CURSOR_H
#define TRACE_CURSOR_H

#include <stdint.h>

#include "base/buf.h"
#include "base/varint.h"
#include "trace/block.h"

/*
 * A single check of @bad after the last field is enough: nothing is read past @end, and nothing
 * after the first mistake.
 */
struct cursor {
	const uint8_t *at, *end;
	int bad;
};

/** cursor_column() - the bytes of column @id of a block that is open. */
static inline struct cursor cursor_column(const struct blt_view *view, unsigned id)
{
	return (struct cursor){ view->col[id].at, view->col[id].end, 0 };
}

static inline void put_num(struct buf *buf, uint64_t v)
{
	uint8_t *to = (uint8_t *)buf_room(buf, VARINT_MAX);
	if (to)
		buf->len += (size_t)(varint_put(to, v) - to);
}

static inline uint64_t get_num(struct cursor *c)
{
	uint64_t v = 0;
	const uint8_t *at = c->bad ? (const uint8_t *)0 : varint_get(c->at, c->end, &v);
	if (!at) {
		c->bad = 1;
		return 0;
	}
	c->at = at;
	return v;
}

static inline uint32_t get_u32(struct cursor *c)
{
	uint64_t v = get_num(c);
	if (v > UINT32_MAX)
		c->bad = 1;
	return (uint32_t)v;
}

#endif
