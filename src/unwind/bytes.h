/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bytes.h - bounded reading of unaligned little-endian data; a cursor that went wrong once stays
 * wrong.
 */
#ifndef UNWIND_BYTES_H
#define UNWIND_BYTES_H

#include <stdint.h>

struct unwind_bytes {
	const uint8_t *at, *end;
	int bad;
};

static inline uint64_t unwind_u8(struct unwind_bytes *b)
{
	if (b->bad || b->at >= b->end) {
		b->bad = 1;
		return 0;
	}
	return *b->at++;
}

#define UNWIND_GET(name, bytes)                             \
	static inline uint64_t name(struct unwind_bytes *b) \
	{                                                   \
		uint64_t v = 0;                             \
		if (b->bad || b->end - b->at < (bytes)) {   \
			b->bad = 1;                         \
			return 0;                           \
		}                                           \
		__builtin_memcpy(&v, b->at, bytes);         \
		b->at += (bytes);                           \
		return v;                                   \
	}
UNWIND_GET(unwind_u16, 2)
UNWIND_GET(unwind_u32, 4)
UNWIND_GET(unwind_u64, 8)
#undef UNWIND_GET

static inline uint64_t unwind_uleb(struct unwind_bytes *b)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint64_t byte = unwind_u8(b);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		if (b->bad || !(byte & 0x80))
			return v;
	}
}

static inline int64_t unwind_sleb(struct unwind_bytes *b)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;
	do {
		byte = unwind_u8(b);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (!b->bad && (byte & 0x80));
	if (shift < 64 && (byte & 0x40))
		v |= ~0ULL << shift;
	return (int64_t)v;
}

/** The block whose uleb length stands at @at, bounded by @hi. */
static inline struct unwind_bytes unwind_block(const uint8_t *at, const uint8_t *hi)
{
	struct unwind_bytes b = { at, hi, 0 };
	uint64_t len = unwind_uleb(&b);
	if (b.bad || len > (uint64_t)(b.end - b.at)) {
		b.bad = 1;
		return b;
	}
	b.end = b.at + len;
	return b;
}

#endif
