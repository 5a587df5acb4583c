/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - two lanes of 32 bits, so that a page can compute them with its own whole numbers. */
#include "view/key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct lanes {
	uint32_t a, c;
	size_t len;
};

static uint32_t fmix(uint32_t h)
{
	h ^= h >> 16;
	h *= 0x85ebca6bu;
	h ^= h >> 13;
	h *= 0xc2b2ae35u;
	return h ^ h >> 16;
}

static void take(struct lanes *l, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i < len; i++) {
		l->a = (l->a ^ at[i]) * 0x01000193u;
		l->c = ((l->c << 5 | l->c >> 27) ^ at[i]) * 0x85ebca6bu;
	}
	l->len += len;
}

static uint64_t end(const struct lanes *l)
{
	uint32_t hi = fmix(l->a ^ (uint32_t)l->len), lo = fmix(l->c ^ hi);
	return (uint64_t)hi << 32 | lo;
}

static const struct lanes begin = { 0x811c9dc5u, 0x9e3779b9u, 0 };

uint64_t view_key_bytes(const void *bytes, size_t len)
{
	struct lanes l = begin;
	take(&l, bytes, len);
	return end(&l);
}

uint64_t view_key_function(const char *module, const char *function, uint64_t offset)
{
	struct lanes l = begin;
	char text[24];
	if (module)
		take(&l, module, strlen(module));
	take(&l, "", 1);
	if (!function) {
		snprintf(text, sizeof(text), "+0x%llx", (unsigned long long)offset);
		function = text;
	}
	take(&l, function, strlen(function));
	return end(&l);
}

uint64_t view_key_mix(uint64_t parent, uint64_t frame)
{
	uint32_t phi = (uint32_t)(parent >> 32), plo = (uint32_t)parent;
	uint32_t fhi = (uint32_t)(frame >> 32), flo = (uint32_t)frame;
	uint32_t hi = fmix((phi ^ flo) * 0x85ebca6bu + plo);
	uint32_t lo = fmix((plo ^ fhi) * 0xc2b2ae35u + phi);
	return (uint64_t)hi << 32 | lo;
}

const char *view_key_text(uint64_t key, char to[VIEW_KEY_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	for (unsigned i = 0; i < 16; i++)
		to[i] = digits[key >> (60 - 4 * i) & 15];
	to[16] = '\0';
	return to;
}

int view_key_parse(const char *text, uint64_t *key, struct err *err)
{
	uint64_t value = 0;
	size_t i = 0;
	for (; text[i] && i < 17; i++) {
		char c = text[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;
		if (digit < 0)
			break;
		value = value << 4 | (unsigned)digit;
	}
	if (i != 16 || text[16])
		return err_set(err, -EINVAL, "'%.40s' is no key: 16 hex digits in lower case",
			       text);
	*key = value;
	return 0;
}
