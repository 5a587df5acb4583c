/* SPDX-License-Identifier: Apache-2.0 */
#include "query/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "query/query.h"

static const char *const words[] = {
	[LIMIT_PEAK] = "peak",
	[LIMIT_LEAKED] = "leaked",
	[LIMIT_ALLOCATIONS] = "allocations",
	[LIMIT_TEMPORARY] = "temporary",
	[LIMIT_RSS] = "rss",
};

static int is_number(enum limit_what what)
{
	return what == LIMIT_ALLOCATIONS || what == LIMIT_TEMPORARY;
}

/** parse_count() - "1000", "100k", "1.5M" (thousands), or "30%" of all. 0 or -1. */
static int parse_count(const char *text, struct limit *limit)
{
	char *end;
	if (*text < '0' || *text > '9')
		return -1;
	double value = strtod(text, &end), scale = 1;
	if (strcmp(end, "%") == 0) {
		limit->percent = 1;
		scale = 10000;
	} else if (*end) {
		scale = strcasecmp(end, "k") == 0   ? 1e3
			: strcasecmp(end, "m") == 0 ? 1e6
			: strcasecmp(end, "g") == 0 ? 1e9
						    : 0;
	}
	if (scale == 0 || value * scale > 1e18 || (limit->percent && value > 100))
		return -1;
	limit->most = (uint64_t)(value * scale);
	return 0;
}

static int bad(const char *text, struct err *err)
{
	err_set(err, -EINVAL, "cannot understand the rule '%s'", text);
	return err_hint(
		err, "peak, leaked or rss with a size: 'peak>200M'; allocations or temporary with "
		     "a number: 'allocations>1M', 'temporary>30%%'");
}

int limits_add(struct limits *limits, const char *text, struct err *err)
{
	struct limit limit = { .text = text };
	size_t len = strcspn(text, ">");
	const char *value = text + len;
	if (limits->count == LIMITS_MAX)
		return err_set(err, -E2BIG, "too many rules");
	while (len && text[len - 1] == ' ')
		len--;
	size_t i = 0;
	while (i < ARRAY_LEN(words) &&
	       (strlen(words[i]) != len || memcmp(words[i], text, len) != 0))
		i++;
	if (i == ARRAY_LEN(words) || *value != '>')
		return bad(text, err);
	limit.what = (enum limit_what)i;
	value++;
	limit.or_equal = *value == '=';
	value += limit.or_equal;
	value += strspn(value, " ");
	if (is_number(limit.what) ? parse_count(value, &limit) < 0
				  : query_size_parse(value, &limit.most, NULL) < 0)
		return bad(text, err);
	if (limit.percent && limit.what != LIMIT_TEMPORARY)
		return bad(text, err);
	limits->items[limits->count++] = limit;
	return 0;
}

static uint64_t value_of(enum limit_what what, const struct prof_totals *t)
{
	switch (what) {
	case LIMIT_PEAK:
		return t->cost.peak_bytes;
	case LIMIT_LEAKED:
		return t->cost.leaked_bytes;
	case LIMIT_ALLOCATIONS:
		return t->cost.allocations;
	case LIMIT_TEMPORARY:
		return t->cost.temporary;
	case LIMIT_RSS:
		return t->peak_rss_bytes;
	}
	return 0;
}

PRINTF(2, 3) static void say(limits_say to, const char *format, ...)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	to(buf_cstr(&text));
}

size_t limits_check(const struct limits *limits, const struct prof_totals *totals, limits_say to)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	size_t met = 0;
	for (size_t i = 0; i < limits->count; i++) {
		const struct limit *l = &limits->items[i];
		uint64_t value = totals ? value_of(l->what, totals) : 0, compared = value;
		if (!totals || (l->what == LIMIT_RSS && !value)) {
			say(to, "failed: %s cannot be judged: %s", l->text,
			    totals ? "no RSS was recorded" : "nothing was recorded");
			met++;
			continue;
		}
		if (l->percent)
			compared = totals->cost.allocations
					   ? (uint64_t)((__uint128_t)value * 1000000 /
							totals->cost.allocations)
					   : 0;
		if (l->or_equal ? compared < l->most : compared <= l->most)
			continue;
		met++;
		if (l->percent)
			say(to, "failed: %s: %s of %s allocations are temporary (%s)", l->text,
			    text_grouped(x, value), text_count(y, totals->cost.allocations),
			    text_percent((char[TEXT_NUMBER_MAX]){ 0 }, value,
					 totals->cost.allocations));
		else if (is_number(l->what))
			say(to, "failed: %s: it is %s", l->text, text_grouped(x, value));
		else
			say(to, "failed: %s: it is %s (%s bytes)", l->text, text_bytes(x, value),
			    text_grouped(y, value));
	}
	if (totals && totals->lost_events && limits->count && !met)
		say(to, "%s events were lost: figures that were to be judged are too low",
		    text_grouped(x, totals->lost_events));
	return met;
}

int growth_limits_add(struct growth_limits *limits, const char *text, struct err *err)
{
	struct growth_limit *limit = &limits->items[limits->count];
	const char *value = text + strlen("growth>");
	char *end;
	if (limits->count == GROWTH_LIMITS_MAX)
		return err_set(err, -EINVAL, "more than %d rules", GROWTH_LIMITS_MAX);
	*limit = (struct growth_limit){ .text = text };
	if (strncmp(text, "growth>", strlen("growth>")) != 0 || !*value) {
		err_set(err, -EINVAL, "bad rule '%s'", text);
		return err_hint(err, "growth>5%% or growth>10M");
	}
	limits->count++;
	limit->share = strtod(value, &end);
	if (end != value && strcmp(end, "%") == 0 && limit->share >= 0) {
		limit->percent = 1;
		return 0;
	}
	return query_size_parse(value, &limit->amount, err);
}

size_t growth_limits_check(const struct growth_limits *limits, const char *what, uint64_t before,
			   uint64_t after, limits_say to)
{
	uint64_t grown = after > before ? after - before : 0;
	size_t met = 0;
	for (size_t i = 0; i < limits->count; i++) {
		const struct growth_limit *l = &limits->items[i];
		double most = l->percent ? (double)before * l->share / 100 : (double)l->amount;
		char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
		if ((double)grown <= most)
			continue;
		say(to, "%s: %s grew from %s to %s", l->text, what, text_bytes(x, before),
		    text_bytes(y, after));
		met++;
	}
	return met;
}
