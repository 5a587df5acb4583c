/* SPDX-License-Identifier: Apache-2.0 */
#include "net/decode_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"

void in_fail(struct in *in, const char *fmt, ...)
{
	if (in->failed)
		return;
	in->failed = 1;
	in->p = in->end;
	va_list args;
	va_start(args, fmt);
	vsnprintf(in->error->text, sizeof(in->error->text), fmt, args);
	va_end(args);
}

size_t in_left(const struct in *in)
{
	return (size_t)(in->end - in->p);
}

const uint8_t *in_take(struct in *in, size_t len, const char *what)
{
	if (in_left(in) < len) {
		in_fail(in, "%s needs %zu bytes, %zu are left", what, len, in_left(in));
		return NULL;
	}
	const uint8_t *p = in->p;
	in->p += len;
	return p;
}

static uint64_t be(struct in *in, size_t len, const char *what)
{
	const uint8_t *p = in_take(in, len, what);
	uint64_t v = 0;
	for (size_t i = 0; p && i < len; i++)
		v = v << 8 | p[i];
	return v;
}

uint8_t in_u8(struct in *in, const char *what)
{
	return (uint8_t)be(in, 1, what);
}

uint16_t in_u16(struct in *in, const char *what)
{
	return (uint16_t)be(in, 2, what);
}

uint32_t in_u32(struct in *in, const char *what)
{
	return (uint32_t)be(in, 4, what);
}

uint64_t in_u64(struct in *in, const char *what)
{
	return be(in, 8, what);
}

struct in in_block(struct in *in, const char *what)
{
	uint32_t len = in_u32(in, what);
	const uint8_t *p = in_take(in, in->failed ? 0 : len, what);
	struct in block = { p, p ? p + len : p, in->error, in->failed };
	if (!p || in->failed)
		block.p = block.end = in->end;
	return block;
}

void in_merge(struct in *in, const struct in *block)
{
	if (block->failed) {
		in->failed = 1;
		in->p = in->end;
	}
}

void in_end(struct in *in, const char *what)
{
	if (!in->failed && in->p != in->end)
		in_fail(in, "%zu bytes too many behind %s", in_left(in), what);
}

void put_hash(struct buf *json, struct in *in, enum net_hash kind)
{
	char text[NET_HASH_TEXT_MAX];
	const uint8_t *p = in_take(in, net_hash_bytes(kind), "a hash");
	if (!p)
		return;
	net_hash_text(kind, p, text);
	buf_putc(json, '"');
	buf_puts(json, text);
	buf_putc(json, '"');
}

void put_hashes(struct buf *json, struct in *in, enum net_hash kind)
{
	buf_putc(json, '[');
	for (int first = 1; in_left(in); first = 0) {
		if (!first)
			buf_putc(json, ',');
		put_hash(json, in, kind);
	}
	buf_putc(json, ']');
}

void put_hex(struct buf *json, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	buf_putc(json, '"');
	char *to = buf_reserve(json, len * 2);
	if (to) {
		for (size_t i = 0; i < len; i++) {
			to[2 * i] = digits[bytes[i] >> 4];
			to[2 * i + 1] = digits[bytes[i] & 15];
		}
		json->len += len * 2;
	}
	buf_putc(json, '"');
}

void put_numbers(struct buf *json, const uint8_t *bytes, size_t len)
{
	buf_putc(json, '[');
	for (size_t i = 0; i < len; i++)
		buf_printf(json, i ? ",%u" : "%u", bytes[i]);
	buf_putc(json, ']');
}

void put_text(struct buf *json, struct in *in, uint32_t max, const char *what)
{
	uint32_t len = in_u32(in, what);
	if (!in->failed && len > max)
		in_fail(in, "%s claims %u bytes, at most %u are allowed", what, len, max);
	const uint8_t *p = in->failed ? NULL : in_take(in, len, what);
	if (!p)
		return;
	buf_putc(json, '"');
	for (size_t i = 0; i < len;) {
		size_t step = utf8_len((const char *)p + i, len - i);
		if (!step) {
			in_fail(in, "%s is not UTF-8", what);
			return;
		}
		switch (p[i]) {
		case '"':
			buf_puts(json, "\\\"");
			break;
		case '\\':
			buf_puts(json, "\\\\");
			break;
		case '\n':
			buf_puts(json, "\\n");
			break;
		case '\r':
			buf_puts(json, "\\r");
			break;
		case '\t':
			buf_puts(json, "\\t");
			break;
		case '\b':
			buf_puts(json, "\\b");
			break;
		case '\f':
			buf_puts(json, "\\f");
			break;
		default:
			/* the last byte of a C1 control is its code */
			if (utf8_control((const char *)p + i))
				buf_printf(json, "\\u%04x", p[i + step - 1]);
			else
				buf_put(json, p + i, step);
		}
		i += step;
	}
	buf_putc(json, '"');
}

void put_time(struct buf *json, int64_t seconds)
{
	struct tm tm;
	time_t t = (time_t)seconds;
	/* years of more than four digits have no RFC 3339 form: the number itself is honest */
	if (seconds < -62135596800 || seconds > 253402300799 || !gmtime_r(&t, &tm)) {
		buf_printf(json, "%lld", (long long)seconds);
		return;
	}
	buf_printf(json, "\"%04d-%02d-%02dT%02d:%02d:%02dZ\"", tm.tm_year + 1900, tm.tm_mon + 1,
		   tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void put_bool(struct buf *json, struct in *in, const char *what)
{
	uint8_t v = in_u8(in, what);
	if (v != 0 && v != 0xff)
		in_fail(in, "%s is 0x%02x, neither true (0xff) nor false (0x00)", what, v);
	buf_puts(json, v ? "true" : "false");
}
