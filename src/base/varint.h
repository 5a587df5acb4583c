/* SPDX-License-Identifier: Apache-2.0 */
/*
 * varint.h - LEB128 and zigzag, bounds-checked on the reading side. Inline: the replay loop lives
 * on it.
 */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX 10 /* bytes of the longest u64 */

static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/** varint_put() - write @v at @to (VARINT_MAX bytes of room); returns the place behind it. */
static inline uint8_t *varint_put(uint8_t *to, uint64_t v)
{
	while (v >= 0x80) {
		*to++ = (uint8_t)v | 0x80;
		v >>= 7;
	}
	*to++ = (uint8_t)v;
	return to;
}

/**
 * varint_get() - read a value from [@from, @end).
 * Return: the place behind it, or NULL where the bytes end early or encode more than 64 bits.
 */
static inline const uint8_t *varint_get(const uint8_t *from, const uint8_t *end, uint64_t *v)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64 && from < end; shift += 7) {
		uint8_t byte = *from++;
		if (shift == 63 && byte > 1)
			return NULL;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*v = value;
			return from;
		}
	}
	return NULL;
}

#endif
