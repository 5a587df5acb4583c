/* SPDX-License-Identifier: Apache-2.0 */
#include "net/syslog.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"

/* What is left of the datagram. */
struct rest {
	const char *p, *end;
};

static enum log_level of_severity(unsigned severity)
{
	static const enum log_level levels[8] = { LOG_LEVEL_FATAL,   LOG_LEVEL_FATAL,
						  LOG_LEVEL_FATAL,   LOG_LEVEL_ERROR,
						  LOG_LEVEL_WARNING, LOG_LEVEL_NOTICE,
						  LOG_LEVEL_INFO,    LOG_LEVEL_DEBUG };
	return levels[severity & 7];
}

static size_t left(const struct rest *r)
{
	return (size_t)(r->end - r->p);
}

/* @count digits at @at as a number, or -1. */
static int digits(const struct rest *r, size_t at, size_t count)
{
	int v = 0;
	if (left(r) < at + count)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (!isdigit((unsigned char)r->p[at + i]))
			return -1;
		v = v * 10 + (r->p[at + i] - '0');
	}
	return v;
}

static int is_char(const struct rest *r, size_t at, char c)
{
	return left(r) > at && r->p[at] == c;
}

/* "<27>" -> priority, or -1 and nothing taken. */
static int take_priority(struct rest *r)
{
	if (!is_char(r, 0, '<'))
		return -1;
	int v = 0;
	for (size_t i = 1; i < 5 && i < left(r); i++) {
		if (r->p[i] == '>' && i > 1) {
			r->p += i + 1;
			return v <= 191 ? v : -1;
		}
		if (!isdigit((unsigned char)r->p[i]))
			return -1;
		v = v * 10 + (r->p[i] - '0');
	}
	return -1;
}

/*
 * RFC 3339 time at the front: nanoseconds since 1970 and its length; 0 = none. A time that 63 bits
 * of nanoseconds cannot hold (from the year 2262 on) is passed over like none: the line's time is
 * that of its arrival.
 */
static size_t time_3339(const struct rest *r, uint64_t *ns)
{
	int year = digits(r, 0, 4), month = digits(r, 5, 2), day = digits(r, 8, 2);
	int hour = digits(r, 11, 2), minute = digits(r, 14, 2), second = digits(r, 17, 2);
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 ||
	    hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 ||
	    !is_char(r, 4, '-') || !is_char(r, 7, '-') ||
	    !(is_char(r, 10, 'T') || is_char(r, 10, 't')) || !is_char(r, 13, ':') ||
	    !is_char(r, 16, ':'))
		return 0;
	size_t at = 19;
	uint64_t fraction = 0;
	if (is_char(r, at, '.')) {
		uint64_t unit = 100000000;
		for (at++; at < left(r) && isdigit((unsigned char)r->p[at]); at++) {
			fraction += unit * (uint64_t)(r->p[at] - '0');
			unit /= 10;
		}
	}
	int64_t offset = 0;
	if (is_char(r, at, 'Z') || is_char(r, at, 'z')) {
		at++;
	} else if (is_char(r, at, '+') || is_char(r, at, '-')) {
		int h = digits(r, at + 1, 2), m = digits(r, at + 4, 2);
		if (h < 0 || m < 0 || !is_char(r, at + 3, ':'))
			return 0;
		offset = (h * 3600 + m * 60) * (r->p[at] == '-' ? -1 : 1);
		at += 6;
	} else {
		return 0;
	}
	struct tm tm = { .tm_year = year - 1900,
			 .tm_mon = month - 1,
			 .tm_mday = day,
			 .tm_hour = hour,
			 .tm_min = minute,
			 .tm_sec = second };
	int64_t t = timegm(&tm) - offset;
	if (t < 0)
		return 0;
	*ns = t < INT64_MAX / 1000000000 ? (uint64_t)t * NS_PER_S + fraction : 0;
	return at;
}

static int month_of(const struct rest *r)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	for (int i = 0; i < 12 && left(r) >= 3; i++) {
		if (memcmp(names + i * 3, r->p, 3) == 0)
			return i;
	}
	return -1;
}

/* "Jul 14 12:00:00" at the front: 15 characters, no year and no zone; 0 = none. */
static size_t time_3164(const struct rest *r, uint64_t now_ns, uint64_t *ns)
{
	int month = month_of(r);
	int day = is_char(r, 4, ' ') ? digits(r, 5, 1) : digits(r, 4, 2);
	int hour = digits(r, 7, 2), minute = digits(r, 10, 2), second = digits(r, 13, 2);
	if (month < 0 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
	    minute > 59 || second < 0 || second > 60 || !is_char(r, 3, ' ') ||
	    !is_char(r, 6, ' ') || !is_char(r, 9, ':') || !is_char(r, 12, ':'))
		return 0;
	time_t now = (time_t)(now_ns / NS_PER_S);
	struct tm tm;
	if (!gmtime_r(&now, &tm))
		return 0;
	int year = tm.tm_year;
	/*
	 * the latest such day that is not in the future, but for a sender's clock up to a day ahead
	 */
	for (int back = -1; back <= 1; back++) {
		struct tm then = { .tm_year = year - back,
				   .tm_mon = month,
				   .tm_mday = day,
				   .tm_hour = hour,
				   .tm_min = minute,
				   .tm_sec = second };
		time_t t = timegm(&then);
		if (t > now + 86400 || t < 0)
			continue;
		*ns = (uint64_t)t * NS_PER_S;
		return 15;
	}
	return 0;
}

static int skip_word(struct rest *r)
{
	const char *space = memchr(r->p, ' ', left(r));
	if (!space || space == r->p)
		return -1;
	r->p = space + 1;
	return 0;
}

/* Structured data of RFC 5424: "-" or "[...]" groups with quoted values. */
static int skip_structured(struct rest *r)
{
	if (is_char(r, 0, '-')) {
		r->p++;
	} else {
		while (is_char(r, 0, '[')) {
			int quoted = 0;
			const char *p = r->p + 1;
			for (; p < r->end && (quoted || *p != ']'); p++) {
				if (*p == '\\' && quoted && p + 1 < r->end)
					p++;
				else if (*p == '"')
					quoted = !quoted;
			}
			if (p >= r->end)
				return -1;
			r->p = p + 1;
		}
	}
	if (is_char(r, 0, ' '))
		r->p++;
	if (left(r) >= 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
		r->p += 3;
	return 0;
}

static int header_5424(struct rest *r, uint64_t *time_ns)
{
	struct rest at = *r;
	if (!is_char(&at, 0, '1') || !is_char(&at, 1, ' '))
		return -1;
	at.p += 2;
	size_t len = time_3339(&at, time_ns);
	if (len)
		at.p += len;
	else if (is_char(&at, 0, '-'))
		at.p++;
	else
		return -1;
	if (!is_char(&at, 0, ' '))
		return -1;
	at.p++;
	/* host, application, process, message id */
	for (int i = 0; i < 4; i++) {
		if (skip_word(&at) < 0)
			return -1;
	}
	if (skip_structured(&at) < 0)
		return -1;
	*r = at;
	return 0;
}

static int header_3164(struct rest *r, uint64_t now_ns, uint64_t *time_ns)
{
	struct rest at = *r;
	size_t len = time_3164(&at, now_ns, time_ns);
	if (!len)
		len = time_3339(&at, time_ns);
	if (!len || !is_char(&at, len, ' '))
		return -1;
	at.p += len + 1;
	/* host, then "tag[pid]:"; a text that has no tag keeps its words */
	if (skip_word(&at) < 0)
		return -1;
	const char *colon = memchr(at.p, ':', left(&at)), *space = memchr(at.p, ' ', left(&at));
	if (colon && (!space || colon < space)) {
		at.p = colon + 1;
		if (is_char(&at, 0, ' '))
			at.p++;
	}
	*r = at;
	return 0;
}

static void trim(const char **p, const char **end)
{
	while (*p < *end && isspace((unsigned char)**p))
		(*p)++;
	while (*end > *p && isspace((unsigned char)(*end)[-1]))
		(*end)--;
}

/* A level word at @at that ends in a blank; 0 = none. */
static enum log_level level_at(const struct rest *r, size_t at, size_t *word_len)
{
	if (left(r) <= at)
		return 0;
	const char *space = memchr(r->p + at, ' ', left(r) - at);
	size_t len = space ? (size_t)(space - (r->p + at)) : left(r) - at;
	*word_len = len;
	return log_level_parse(r->p + at, len);
}

static void set_message(struct log_line *line, const char *p, const char *end)
{
	trim(&p, &end);
	line->message = p;
	line->message_len = (size_t)(end - p);
}

/* Newer Octez lines have a bar between level and message. */
static void after_level(struct log_line *line, const char *p, const char *end)
{
	trim(&p, &end);
	if (p < end && *p == '|')
		p++;
	set_message(line, p, end);
}

static void text_forms(const struct rest *r, uint64_t now_ns, struct log_line *line)
{
	size_t word = 0;
	uint64_t ignored;
	enum log_level level;
	/* TezEdge: "Mon DD HH:MM:SS.mmm LEVEL message" */
	if (is_char(r, 15, '.') && time_3164(r, now_ns, &ignored) &&
	    (level = level_at(r, 20, &word))) {
		line->level = level;
		after_level(line, r->p + 20 + word, r->end);
		return;
	}
	/* newer Octez: "HH:MM:SS.mmm LEVEL | message" or "Mon DD HH:MM:SS.mmm LEVEL | message" */
	size_t at = time_3164(r, now_ns, &ignored) ? 7 : 0;
	if (digits(r, at, 2) >= 0 && is_char(r, at + 2, ':') && is_char(r, at + 5, ':') &&
	    is_char(r, at + 8, '.')) {
		at += 8;
		while (at < left(r) && r->p[at] != ' ')
			at++;
		if ((level = level_at(r, at + 1, &word))) {
			line->level = level;
			after_level(line, r->p + at + 1 + word, r->end);
			return;
		}
	}
	/* older Octez: "Mon DD HH:MM:SS - section: message" */
	if (time_3164(r, now_ns, &ignored) && left(r) > 18 && memcmp(r->p + 15, " - ", 3) == 0) {
		const char *p = r->p + 18;
		const char *colon = memchr(p, ':', (size_t)(r->end - p)),
			   *space = memchr(p, ' ', (size_t)(r->end - p));
		line->level = LOG_LEVEL_INFO;
		if (colon && (!space || colon < space)) {
			line->section = p;
			line->section_len = (size_t)(colon - p);
			p = colon + 1;
		}
		set_message(line, p, r->end);
		return;
	}
	set_message(line, r->p, r->end);
}

int net_syslog_parse(const char *datagram, size_t len, uint64_t now_ns, struct log_line *line)
{
	if (!utf8_valid(datagram, len))
		return -EILSEQ;
	struct rest r = { datagram, datagram + len };
	*line = (struct log_line){ .section = "", .level = LOG_LEVEL_INFO };
	int priority = take_priority(&r);
	if (priority >= 0)
		line->level = of_severity((unsigned)priority & 7);
	if (header_5424(&r, &line->time_ns) < 0 && priority >= 0)
		header_3164(&r, now_ns, &line->time_ns);
	if (!line->time_ns)
		line->time_ns = now_ns;
	text_forms(&r, now_ns, line);
	return 0;
}
