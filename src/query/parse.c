/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - moments, durations and sizes as people write them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "query/query.h"

#define SECOND 1000000000ull

/**
 * parse_number() - digits with an optional fraction, times @unit once the unit is known: kept as
 * whole and nanoths so that no precision is lost. Return: the place behind it, NULL where there is
 * no number or it is too large.
 */
static const char *parse_number(const char *at, uint64_t *whole, uint64_t *nanoths)
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
	for (uint64_t scale = SECOND / 10; isdigit((unsigned char)*at); at++, scale /= 10)
		*nanoths += (uint64_t)(*at - '0') * scale;
	return at;
}

static int scale(uint64_t whole, uint64_t nanoths, uint64_t unit, uint64_t *value)
{
	uint64_t part = (uint64_t)((__uint128_t)nanoths * unit / SECOND);
	return __builtin_mul_overflow(whole, unit, value) ||
	       __builtin_add_overflow(*value, part, value);
}

/** parse_duration() - one or more number-unit pairs, largest unit first; 0 or -1. */
static int parse_duration(const char *at, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ms", 1000000 },       { "us", 1000 },         { "ns", 1 },
		{ "d", 86400 * SECOND }, { "h", 3600 * SECOND }, { "m", 60 * SECOND },
		{ "s", SECOND },
	};
	uint64_t last = UINT64_MAX, value, whole, nanoths;
	*ns = 0;
	do {
		at = parse_number(at, &whole, &nanoths);
		if (!at)
			return -1;
		uint64_t unit = 0;
		for (size_t i = 0; i < ARRAY_LEN(units) && !unit; i++) {
			if (strncmp(at, units[i].name, strlen(units[i].name)) == 0) {
				unit = units[i].ns;
				at += strlen(units[i].name);
			}
		}
		if (!unit && *at == '\0' && last == UINT64_MAX)
			unit = SECOND; /* a bare number */
		if (!unit || unit >= last || scale(whole, nanoths, unit, &value) ||
		    __builtin_add_overflow(*ns, value, ns))
			return -1;
		last = unit;
	} while (*at);
	return 0;
}

int query_duration_parse(const char *text, uint64_t *ns, struct err *err)
{
	if (parse_duration(text, ns) == 0)
		return 0;
	err_set(err, -EINVAL, "bad duration '%s'", text);
	return err_hint(err, "for example 10s, 1h30m, 250ms, 5us; a bare number is seconds");
}

int query_size_parse(const char *text, uint64_t *bytes, struct err *err)
{
	uint64_t whole, nanoths, unit = 1;
	const char *at = parse_number(text, &whole, &nanoths);
	if (at && *at) {
		static const char letters[] = "KMGTPE";
		const char *letter = strchr(letters, toupper((unsigned char)*at));
		if (letter) {
			unit = 1ull << (10 * (letter - letters + 1));
			at++;
			if (*at == 'i')
				at++;
		}
		if (*at == 'B' || *at == 'b')
			at++;
	}
	if (at && *at == '\0' && !(unit == 1 && nanoths) && !scale(whole, nanoths, unit, bytes))
		return 0;
	err_set(err, -EINVAL, "bad size '%s'", text);
	return err_hint(err, "for example 100, 64K, 1.5M, 2G (powers of 1024)");
}

/**
 * parse_wall() - RFC 3339: 2026-01-31T12:00:00[.5](Z|+01:00); a space may stand for the T. 0 or -1.
 */
static int parse_wall(const char *text, uint64_t *ns)
{
	struct tm tm = { 0 };
	int n = 0, hours, minutes;
	char sep;
	if (sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &sep,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 7 ||
	    n != 19 || !strchr("Tt ", sep) || tm.tm_year < 1970 || tm.tm_mon < 1 ||
	    tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 ||
	    tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
		return -1;
	int day = tm.tm_mday, leap = tm.tm_sec == 60;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	const char *at = text + n;
	uint64_t whole, nanoths = 0;
	if (*at == '.') {
		/* The digits stand behind a whole number that parse_number() can read. */
		char fraction[32];
		snprintf(fraction, sizeof(fraction), "0%.30s", at);
		const char *end = parse_number(fraction, &whole, &nanoths);
		if (!end)
			return -1;
		at += end - fraction - 1;
	}
	int64_t offset = 0;
	if ((*at == 'Z' || *at == 'z') && at[1] == '\0') {
		offset = 0;
	} else if ((*at == '+' || *at == '-') &&
		   sscanf(at + 1, "%2d:%2d%n", &hours, &minutes, &n) == 2 && n == 5 &&
		   at[6] == '\0' && hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60) {
		offset = (hours * 3600 + minutes * 60) * (*at == '-' ? -1 : 1);
	} else {
		return -1;
	}
	time_t seconds = timegm(&tm);
	if (tm.tm_mday != day && !leap) /* no such day in that month */
		return -1;
	if (seconds < 0 || seconds - offset < 0)
		return -1;
	*ns = (uint64_t)(seconds - offset) * SECOND + nanoths;
	return 0;
}

/**
 * parse_seconds() - ":SS[.5]" at @at, or nothing; adds to @ns. *@span: to what it is exact. 0 or
 * -1.
 */
static int parse_seconds(const char *at, uint64_t *ns, uint64_t *span)
{
	uint64_t whole, nanoths = 0;
	*span = 60 * SECOND;
	if (*at == '\0')
		return 0;
	if (at[0] != ':' || !isdigit((unsigned char)at[1]) || !isdigit((unsigned char)at[2]))
		return -1;
	*span = at[3] == '.' ? 1 : SECOND;
	at = parse_number(at + 1, &whole, &nanoths);
	if (!at || *at || whole > 60)
		return -1;
	*ns += whole * SECOND + nanoths;
	return 0;
}

/** parse_clock() - "14:03", "14:03:10.5": ns since midnight. 0 or -1. */
static int parse_clock(const char *text, uint64_t *ns, uint64_t *span)
{
	unsigned hours, minutes;
	int n = 0;
	if (!isdigit((unsigned char)*text) ||
	    sscanf(text, "%2u:%2u%n", &hours, &minutes, &n) != 2 || hours > 23 || minutes > 59 ||
	    text[n - 3] != ':' || !isdigit((unsigned char)text[n - 2]))
		return -1;
	*ns = (hours * 3600ull + minutes * 60) * SECOND;
	return parse_seconds(text + n, ns, span);
}

/**
 * parse_day() - "2026-11-24 14:03[:10[.5]]", where we are: what the head of a report says. 0 or -1.
 */
static int parse_day(const char *text, uint64_t *ns, uint64_t *span)
{
	struct tm tm = { .tm_isdst = -1 };
	int n = 0;
	char sep;
	if (sscanf(text, "%4d-%2d-%2d%c%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &sep, &n) != 4 ||
	    n != 11 || !strchr("Tt ", sep) || tm.tm_year < 1970 ||
	    parse_clock(text + n, ns, span) < 0)
		return -1;
	int day = tm.tm_mday, month = tm.tm_mon;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	tm.tm_hour = (int)(*ns / (3600 * SECOND));
	tm.tm_min = (int)(*ns / (60 * SECOND) % 60);
	tm.tm_sec = (int)(*ns / SECOND % 60);
	uint64_t nanoths = *ns % SECOND;
	time_t seconds = mktime(&tm);
	if (seconds < 0 || tm.tm_mday != day || tm.tm_mon + 1 != month) /* no such day */
		return -1;
	*ns = (uint64_t)seconds * SECOND + nanoths;
	return 0;
}

/** parse_percent() - "50%", "12.5%", up to 100%. 0 or -1. */
static int parse_percent(const char *text, uint64_t *permillion)
{
	uint64_t whole, nanoths;
	const char *at = parse_number(text, &whole, &nanoths);
	if (!at || strcmp(at, "%") != 0 || whole > 100 || (whole == 100 && nanoths))
		return -1;
	*permillion = whole * 10000 + nanoths * 10000 / SECOND;
	return 0;
}

int query_time_parse(const char *text, struct query_time *time, struct err *err)
{
	*time = (struct query_time){ 0 };
	snprintf(time->text, sizeof(time->text), "%s", text);
	if (strcmp(text, "peak") == 0) {
		time->kind = QUERY_TIME_PEAK;
	} else if (strcmp(text, "end") == 0) {
		time->kind = QUERY_TIME_END;
	} else if (parse_percent(text, &time->value) == 0) {
		time->kind = QUERY_TIME_PERMILLION;
	} else if (*text == '-' && parse_duration(text + 1, &time->value) == 0) {
		time->kind = QUERY_TIME_END_NS;
	} else if (parse_duration(text, &time->value) == 0) {
		time->kind = QUERY_TIME_START_NS;
	} else if (parse_wall(text, &time->value) == 0) {
		time->kind = QUERY_TIME_WALL_NS;
	} else if (parse_day(text, &time->value, &time->span_ns) == 0) {
		time->kind = QUERY_TIME_WALL_NS;
	} else if (parse_clock(text, &time->value, &time->span_ns) == 0) {
		time->kind = QUERY_TIME_CLOCK_NS;
	} else {
		err_set(err, -EINVAL, "bad time '%s'", text);
		return err_hint(err, "10s or 1h30m from the start, -5m from the end, 50%%, peak, "
				     "end, 14:03, '2026-01-31 14:03:10' or 2026-01-31T12:00:00Z");
	}
	return 0;
}

int query_path_split(const char *word, char **path, struct query_time *at, struct err *err)
{
	const char *sign = strrchr(word, '@');
	if (!sign || sign == word || access(word, F_OK) == 0) {
		*path = strdup(word);
	} else {
		int rc = query_time_parse(sign + 1, at, err);
		if (rc < 0)
			return rc;
		*path = strndup(word, (size_t)(sign - word));
	}
	return *path ? 0 : err_set(err, -ENOMEM, "cannot read '%s'", word);
}

int query_limit_parse(const char *text, size_t *limit, struct err *err)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9' || n == 0) {
		err_set(err, -EINVAL, "bad limit '%s'", text);
		return err_hint(err, "a number from 1");
	}
	*limit = n;
	return 0;
}

int query_take(struct query *query, const char *word, const char *value, struct err *err)
{
	if (strcmp(word, "at") == 0)
		return query_time_parse(value, &query->at, err);
	if (strcmp(word, "from") == 0)
		return query_time_parse(value, &query->from, err);
	if (strcmp(word, "to") == 0)
		return query_time_parse(value, &query->to, err);
	if (strcmp(word, "function-regex") == 0) {
		query->function_regex = value;
		return query_regex_check(value, err);
	}
	if (strcmp(word, "min-size") == 0)
		return query_size_parse(value, &query->min_size, err);
	if (strcmp(word, "max-size") == 0) {
		query->has_max_size = 1;
		return query_size_parse(value, &query->max_size, err);
	}
	if (strcmp(word, "lifetime-min") == 0) {
		query->has_lifetime_min = 1;
		return query_duration_parse(value, &query->lifetime_min_ns, err);
	}
	if (strcmp(word, "lifetime-max") == 0) {
		query->has_lifetime_max = 1;
		return query_duration_parse(value, &query->lifetime_max_ns, err);
	}
	if (strcmp(word, "leaked") == 0) {
		query->leaked = 1;
		return 0;
	}
	return err_set(err, -EINVAL, "'%s' is no word of a selection", word);
}
