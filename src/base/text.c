/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/** digits_after() - of the point, so that three digits show in all. */
static int digits_after(double v)
{
	return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

/**
 * put_fixed() - what "%.*f %s" prints for values up to 10^15, ties to even, without the long
 * arithmetic that it needs: pages of numbers are made inside other people's programs, where a
 * microsecond each is too much.
 */
static const char *put_fixed(char *to, double v, int digits, const char *unit)
{
	static const unsigned power[] = { 1, 10, 100 };
	double scaled = v * power[digits];
	uint64_t whole = (uint64_t)scaled;
	double rest = scaled - (double)whole;
	whole += rest > 0.5 || (rest == 0.5 && whole & 1);
	char text[24];
	size_t at = sizeof(text);
	for (int n = 0; n <= digits || whole; n++) {
		if (n && n == digits)
			text[--at] = '.';
		text[--at] = (char)('0' + whole % 10);
		whole /= 10;
	}
	char *end = to;
	while (at < sizeof(text))
		*end++ = text[at++];
	*end++ = ' ';
	while ((*end++ = *unit++) != '\0')
		;
	return to;
}

const char *text_bytes(char to[TEXT_NUMBER_MAX], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	if (!bytes) /* in tables the most frequent of all */
		return memcpy(to, "0 B", sizeof("0 B"));
	if (bytes < 1024)
		return put_fixed(to, (double)bytes, 0, "B");
	/* divided by a power of two at once, which is exact */
	size_t unit = (63 - (size_t)__builtin_clzll(bytes)) / 10;
	double v = (double)bytes / (double)(1ull << unit * 10);
	if (unit + 1 < ARRAY_LEN(units) && v >= 1023.5) { /* 1023.6 KiB would print as 1024 KiB */
		v /= 1024;
		unit++;
	}
	return put_fixed(to, v, digits_after(v), units[unit]);
}

const char *text_count(char to[TEXT_NUMBER_MAX], uint64_t count)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
	if (count < 10000) {
		put_fixed(to, (double)count, 0, "");
		to[strlen(to) - 1] = '\0'; /* the blank before a unit */
		return to;
	}
	double v = (double)count;
	size_t unit = 0;
	for (; unit + 1 < ARRAY_LEN(units) && v >= (unit ? 999.5 : 1000); unit++)
		v /= 1000;
	return put_fixed(to, v, digits_after(v), units[unit]);
}

const char *text_grouped(char to[TEXT_NUMBER_MAX], uint64_t count)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), n = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			to[n++] = ',';
		to[n++] = digits[i];
	}
	to[n] = '\0';
	return to;
}

const char *text_duration(char to[TEXT_NUMBER_MAX], uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} small[] = { { NS_PER_S, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
	uint64_t seconds = ns / NS_PER_S;
	if (seconds >= 3600) {
		snprintf(to, TEXT_NUMBER_MAX, "%llu h %02u min",
			 (unsigned long long)(seconds / 3600), (unsigned)(seconds / 60 % 60));
		return to;
	}
	if (seconds >= 100) {
		snprintf(to, TEXT_NUMBER_MAX, "%u min %02u s", (unsigned)(seconds / 60),
			 (unsigned)(seconds % 60));
		return to;
	}
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(small) && ns < small[i].ns)
		i++;
	double v = (double)ns / (double)small[i].ns;
	return put_fixed(to, v, small[i].ns == 1 ? 0 : digits_after(v), small[i].name);
}

const char *text_percent(char to[TEXT_NUMBER_MAX], uint64_t part, uint64_t whole)
{
	double p = whole ? 100.0 * (double)part / (double)whole : 0;
	if (whole == 0)
		strcpy(to, "-");
	else if (part == 0)
		strcpy(to, "0 %");
	else if (p < 0.1)
		strcpy(to, "<0.1 %");
	else if (part == whole)
		strcpy(to, "100 %");
	else
		put_fixed(to, p, 1, "%");
	return to;
}

/** decode() - one UTF-8 character; returns its length, 0 where the bytes are not valid UTF-8. */
static unsigned decode(const unsigned char *s, uint32_t *code)
{
	if (s[0] < 0x80) {
		*code = s[0];
		return 1;
	}
	unsigned len = s[0] >= 0xf0 && s[0] < 0xf5   ? 4
		       : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		       : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
						     : 0;
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = len ? s[0] & (0x7fu >> len) : 0;
	for (unsigned i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (len == 0 || c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return len;
}

/** is_harmful() - controls, and characters that reorder or hide what stands around them. */
static int is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe0fff);
}

void text_escape(struct buf *to, const char *text, int ascii)
{
	const unsigned char *s = (const unsigned char *)text;
	while (*s) {
		uint32_t code = 0;
		unsigned len = decode(s, &code);
		if (len && !is_harmful(code) && !(ascii && len > 1)) {
			buf_put(to, s, len);
			s += len;
			continue;
		}
		for (unsigned n = len ? len : 1; n > 0; n--)
			buf_printf(to, "\\x%02x", *s++);
	}
}

/**
 * columns_of() - enough of East Asian Width for names in a table: the wide blocks, the combining
 * ones.
 */
static size_t columns_of(uint32_t c)
{
	if ((c >= 0x300 && c < 0x370) || (c >= 0x1ab0 && c < 0x1b00) ||
	    (c >= 0x1dc0 && c < 0x1e00) || (c >= 0x20d0 && c < 0x2100) ||
	    (c >= 0xfe00 && c < 0xfe10) || (c >= 0xfe20 && c < 0xfe30))
		return 0;
	if ((c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0x303f) ||
	    (c >= 0x3041 && c < 0xa4d0) || (c >= 0xac00 && c < 0xd7a4) ||
	    (c >= 0xf900 && c < 0xfb00) || (c >= 0xfe30 && c < 0xfe70) ||
	    (c >= 0xff00 && c < 0xff61) || (c >= 0xffe0 && c < 0xffe7) ||
	    (c >= 0x1f300 && c < 0x1f650) || (c >= 0x1f900 && c < 0x1fa00) ||
	    (c >= 0x20000 && c < 0x3fffe))
		return 2;
	return 1;
}

static size_t walk(const char *text, size_t limit, size_t *columns)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0, wide = 0;
	while (s[at]) {
		uint32_t code = 0;
		unsigned len = decode(s + at, &code);
		size_t w = len ? columns_of(code) : 1;
		if (wide + w > limit)
			break;
		wide += w;
		at += len ? len : 1;
	}
	*columns = wide;
	return at;
}

size_t text_columns(const char *text)
{
	size_t columns;
	walk(text, SIZE_MAX / 2, &columns);
	return columns;
}

size_t text_fit(const char *text, size_t columns)
{
	size_t used;
	return walk(text, columns, &used);
}
