/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_cursor.h - how the columns of event blocks are read: the reader's innermost loop. 0, or
 * -EBADMSG at the end.
 */
#ifndef TRACE_EVENTS_CURSOR_H
#define TRACE_EVENTS_CURSOR_H

#include <errno.h>
#include <stdint.h>

#include "base/varint.h"

struct cursor {
	const uint8_t *at, *end;
};

static inline int get(struct cursor *c, uint64_t *v)
{
	/* nearly all are short */
	if (c->at < c->end && *c->at < 0x80) {
		*v = *c->at++;
		return 0;
	}
	const uint8_t *at = varint_get(c->at, c->end, v);
	if (!at)
		return -EBADMSG;
	c->at = at;
	return 0;
}

static inline int get_u32(struct cursor *c, uint32_t *v)
{
	uint64_t wide;
	if (get(c, &wide) < 0 || wide > UINT32_MAX)
		return -EBADMSG;
	*v = (uint32_t)wide;
	return 0;
}

static inline int get_byte(struct cursor *c, uint8_t *v)
{
	if (c->at == c->end)
		return -EBADMSG;
	*v = *c->at++;
	return 0;
}

#endif
