/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h - well-formed UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/**
 * utf8_len() - bytes of the well-formed sequence at @text (@left > 0 bytes there), 0 where there is
 * none.
 */
static inline size_t utf8_len(const char *text, size_t left)
{
	const uint8_t *p = (const uint8_t *)text;
	if (p[0] < 0x80)
		return 1;
	size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || left < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

/**
 * utf8_control() - 1 if the well-formed sequence at @text is a control character: C0, DEL or C1, on
 * which terminals act.
 */
static inline int utf8_control(const char *text)
{
	const uint8_t *p = (const uint8_t *)text;
	return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

/** utf8_valid() - 1 if all of [@text, @text + @len) is well-formed. */
static inline int utf8_valid(const char *text, size_t len)
{
	for (size_t i = 0, step; i < len; i += step) {
		step = utf8_len(text + i, len - i);
		if (!step)
			return 0;
	}
	return 1;
}

/**
 * utf8_cut() - bytes at the end of a text that are the beginning of a sequence whose rest was cut
 * off, 0 to 3.
 */
static inline size_t utf8_cut(const char *text, size_t len)
{
	for (size_t n = 1; n <= 3 && n <= len; n++) {
		uint8_t byte = (uint8_t)text[len - n];
		if ((byte & 0xc0) == 0x80)
			continue;
		return byte >= (n == 1 ? 0xc2 : n == 2 ? 0xe0 : 0xf0) && byte <= 0xf4 ? n : 0;
	}
	return 0;
}

#endif
