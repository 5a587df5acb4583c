/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
	buf->failed = 0;
}

int buf_failed(const struct buf *buf)
{
	return buf->failed;
}

char *buf_reserve(struct buf *buf, size_t extra)
{
	size_t need;
	if (buf->failed || __builtin_add_overflow(buf->len, extra, &need) || need > SIZE_MAX / 2) {
		buf->failed = 1;
		return NULL;
	}
	if (need > buf->cap || !buf->data) {
		size_t cap = buf->cap ? buf->cap : 64;
		while (cap < need)
			cap *= 2;
		char *data = realloc(buf->data, cap);
		if (!data) {
			buf->failed = 1;
			return NULL;
		}
		buf->data = data;
		buf->cap = cap;
	}
	return buf->data + buf->len;
}

void buf_put(struct buf *buf, const void *bytes, size_t len)
{
	char *to = buf_room(buf, len); /* mostly there is room */
	if (!to || !len)
		return;
	memcpy(to, bytes, len);
	buf->len += len;
}

void buf_putc(struct buf *buf, char byte)
{
	char *to = buf_room(buf, 1);
	if (!to)
		return;
	*to = byte;
	buf->len++;
}

void buf_puts(struct buf *buf, const char *text)
{
	buf_put(buf, text, strlen(text));
}

void buf_vprintf(struct buf *buf, const char *fmt, va_list args)
{
	/* mostly it fits into what is there, and is then formatted once */
	va_list again;
	va_copy(again, args);
	char *to = buf_reserve(buf, 1);
	size_t room = to ? buf->cap - buf->len : 0;
	int len = to ? vsnprintf(to, room, fmt, again) : 0;
	va_end(again);
	if (len < 0)
		buf->failed = 1;
	if (!to || len < 0)
		return;
	if ((size_t)len >= room) {
		to = buf_reserve(buf, (size_t)len + 1);
		if (!to)
			return;
		vsnprintf(to, (size_t)len + 1, fmt, args);
	}
	buf->len += (size_t)len;
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	buf_vprintf(buf, fmt, args);
	va_end(args);
}

const char *buf_cstr(struct buf *buf)
{
	char *end = buf_reserve(buf, 1);
	if (!end)
		return "";
	*end = '\0';
	return buf->data;
}

char *buf_take(struct buf *buf)
{
	buf_cstr(buf);
	if (buf->failed) {
		buf_fini(buf);
		return NULL;
	}
	char *data = buf->data;
	*buf = (struct buf){ 0 };
	return data;
}
