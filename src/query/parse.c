/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - moments, durations and sizes as people write them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "query/query.h"

/** parse_duration() - as duration_take(), or a bare number of seconds; nothing behind; 0 or -1. */
static int parse_duration(const char *text, uint64_t *ns)
{
	uint64_t whole, nanoths;
	const char *at = number_take(text, &whole, &nanoths);
	if (at && *at == '\0')
		return number_scale(whole, nanoths, NS_PER_S, ns) ? -1 : 0;
	at = duration_take(text, ns);
	return at && *at == '\0' ? 0 : -1;
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
	const char *at = number_take(text, &whole, &nanoths);
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
	if (at && *at == '\0' && !(unit == 1 && nanoths) &&
	    !number_scale(whole, nanoths, unit, bytes))
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
		/* The digits stand behind a whole number that number_take() can read. */
		char fraction[32];
		snprintf(fraction, sizeof(fraction), "0%.30s", at);
		const char *end = number_take(fraction, &whole, &nanoths);
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
	*ns = (uint64_t)(seconds - offset) * NS_PER_S + nanoths;
	return 0;
}

/**
 * parse_seconds() - ":SS[.5]" at @at, or nothing; adds to @ns. *@span: to what it is exact. 0 or
 * -1.
 */
static int parse_seconds(const char *at, uint64_t *ns, uint64_t *span)
{
	uint64_t whole, nanoths = 0;
	*span = 60 * NS_PER_S;
	if (*at == '\0')
		return 0;
	if (at[0] != ':' || !isdigit((unsigned char)at[1]) || !isdigit((unsigned char)at[2]))
		return -1;
	*span = at[3] == '.' ? 1 : NS_PER_S;
	at = number_take(at + 1, &whole, &nanoths);
	if (!at || *at || whole > 60)
		return -1;
	*ns += whole * NS_PER_S + nanoths;
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
	*ns = (hours * 3600ull + minutes * 60) * NS_PER_S;
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
	tm.tm_hour = (int)(*ns / (3600 * NS_PER_S));
	tm.tm_min = (int)(*ns / (60 * NS_PER_S) % 60);
	tm.tm_sec = (int)(*ns / NS_PER_S % 60);
	uint64_t nanoths = *ns % NS_PER_S;
	time_t seconds = mktime(&tm);
	if (seconds < 0 || tm.tm_mday != day || tm.tm_mon + 1 != month) /* no such day */
		return -1;
	*ns = (uint64_t)seconds * NS_PER_S + nanoths;
	return 0;
}

/** parse_percent() - "50%", "12.5%", up to 100%. 0 or -1. */
static int parse_percent(const char *text, uint64_t *permillion)
{
	uint64_t whole, nanoths;
	const char *at = number_take(text, &whole, &nanoths);
	if (!at || strcmp(at, "%") != 0 || whole > 100 || (whole == 100 && nanoths))
		return -1;
	*permillion = whole * 10000 + nanoths * 10000 / NS_PER_S;
	return 0;
}

/** parse_mark() - a mark's number, nothing else. 0 or -1. */
static int parse_mark(const char *text, uint64_t *value)
{
	char *end;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && !errno ? 0 : -1;
}

int query_time_parse(const char *text, struct query_time *time, struct err *err)
{
	*time = (struct query_time){ 0 };
	snprintf(time->text, sizeof(time->text), "%s", text);
	if (strcmp(text, "peak") == 0) {
		time->kind = QUERY_TIME_PEAK;
	} else if (strcmp(text, "end") == 0) {
		time->kind = QUERY_TIME_END;
	} else if (strncmp(text, "mark:", 5) == 0 && parse_mark(text + 5, &time->value) == 0) {
		time->kind = QUERY_TIME_MARK;
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
		return err_hint(
			err, "10s or 1h30m from the start, -5m from the end, 50%%, peak, "
			     "end, mark:7, 14:03, '2026-01-31 14:03:10' or 2026-01-31T12:00:00Z");
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
