/* SPDX-License-Identifier: Apache-2.0 */
/* heaptrack_lines.h - lines and fields of the heaptrack format. Private to the reader. */
#ifndef SOURCE_HEAPTRACK_LINES_H
#define SOURCE_HEAPTRACK_LINES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/zstream.h"

/** struct ht_lines - zero-initialised but for @in, which is lent. */
struct ht_lines {
	struct zstream *in;
	/* unread: text[pos, len) */
	char *text;
	size_t pos, len, cap;
	/* how often more was read */
	uint64_t reads;
	int input_ended;
	/* at the end: the last line has no newline, and was not handed out */
	int torn;
};
void ht_lines_fini(struct ht_lines *lines);
/**
 * ht_lines_next() - the next line without its newline, lent until the next call.
 * Return: 1, 0 at the end, -EMSGSIZE for a line beyond 8 MiB, other negative errno with @err.
 */
int ht_lines_next(struct ht_lines *lines, const char **line, const char **end, struct err *err);

/**
 * ht_take_text() - a string field: "<hex length> <bytes>" if @sized, else up to the next space or
 * (@whole) the end.
 */
int ht_take_text(const char **at, const char *end, int sized, int whole, const char **text,
		 size_t *len);

/**
 * ht_take_hex() - a field of one to sixteen lower-case hexadecimal digits, after any one space.
 * Return: 1 and @at moved behind it; 0 and @at where it was if there is none. Inline: half the
 * reader's time is here.
 */
static inline int ht_take_hex(const char **at, const char *end, uint64_t *value)
{
	const char *p = *at;
	if (p < end && *p == ' ')
		p++;
	const char *first = p;
	uint64_t v = 0;
	for (; p < end; p++) {
		unsigned digit;
		if (*p >= '0' && *p <= '9')
			digit = (unsigned)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned)(*p - 'a') + 10;
		else
			break;
		if (v >> 60)
			return 0;
		v = v << 4 | digit;
	}
	if (p == first || (p < end && *p != ' '))
		return 0;
	*at = p;
	*value = v;
	return 1;
}

#define HT_SHORT_HEX_BYTES 8 /* what ht_short_hex() looks at */

/**
 * ht_short_hex() - a field of one to seven digits at @p, where at least HT_SHORT_HEX_BYTES can be
 * read: all of them at once, as neither the digits nor their number can be guessed by a processor.
 * Return: the number of digits, behind which any other byte stands; 0 or 8 for other fields, with
 * nothing in @value.
 */
static inline unsigned ht_short_hex(const char *p, uint64_t *value)
{
	const uint64_t each = 0x0101010101010101u, top = 0x80 * each;
	uint64_t x;
	memcpy(&x, p, sizeof(x));
	x = le64toh(x);
	/*
	 * the top bit of each byte: is it one of 0 to 9, of a to f? A carry only reaches bytes
	 * behind one that is neither.
	 */
	uint64_t decimal = (x + 0x50 * each) & ~(x + 0x46 * each);
	uint64_t letter = (x + 0x1f * each) & ~(x + 0x19 * each);
	uint64_t other = ~(decimal | letter) & top;
	unsigned digits = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
	if (digits == 0 || digits == 8)
		return digits;
	x <<= 64 - 8 * digits; /* the last digit is in the highest byte, zeros before the first */
	x = (x & 0x0f * each) + 9 * (x >> 6 & each);
	x = __builtin_bswap64(x);
	x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
	x = (x | x >> 8) & 0x0000ffff0000ffffu;
	*value = (x | x >> 16) & 0xffffffffu;
	return digits;
}

#endif
