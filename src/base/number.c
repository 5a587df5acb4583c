/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "base/clock.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

const char *number_take(const char *at, uint64_t *whole, uint64_t *nanoths)
{
	*whole = *nanoths = 0;
	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
		    __builtin_add_overflow(*whole, (uint64_t)(*at - '0'), whole))
			return NULL;
	if (*at != '.')
		return at;
	at++;
	if (!isdigit((unsigned char)*at))
		return NULL;
	for (uint64_t scale = NS_PER_S / 10; isdigit((unsigned char)*at); at++, scale /= 10)
		*nanoths += (uint64_t)(*at - '0') * scale;
	return at;
}

int number_scale(uint64_t whole, uint64_t nanoths, uint64_t unit, uint64_t *value)
{
	uint64_t part = (uint64_t)((__uint128_t)nanoths * unit / NS_PER_S);
	return __builtin_mul_overflow(whole, unit, value) ||
	       __builtin_add_overflow(*value, part, value);
}

static const char *take_unit(const char *at, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ms", 1000000 },         { "us", 1000 },           { "ns", 1 },
		{ "d", 86400 * NS_PER_S }, { "h", 3600 * NS_PER_S }, { "m", 60 * NS_PER_S },
		{ "s", NS_PER_S },
	};
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);
		if (strncmp(at, units[i].name, len) == 0) {
			*ns = units[i].ns;
			return at + len;
		}
	}
	return NULL;
}

const char *duration_take(const char *at, uint64_t *ns)
{
	uint64_t last = UINT64_MAX, value, whole, nanoths, unit = 0;
	const char *behind = NULL;
	*ns = 0;
	while (isdigit((unsigned char)*at)) {
		at = number_take(at, &whole, &nanoths);
		at = at ? take_unit(at, &unit) : NULL;
		if (!at || number_scale(whole, nanoths, unit, &value))
			return NULL;
		if (unit >= last)
			break;
		if (__builtin_add_overflow(*ns, value, ns))
			return NULL;
		last = unit;
		behind = at;
	}
	return behind;
}
