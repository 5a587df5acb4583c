/* SPDX-License-Identifier: Apache-2.0 */
/* rule.c - the words of a rule. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/number.h"

enum unit { BYTES, RATE, TIME, SHARE, RATIO, NUMBER };

static const struct {
	const char *word;
	enum alert_kind kind;
	char operator;
	enum unit unit;
	/* a class or label may be given */
	int selects;
	/* the value may be a share of a limit */
	int of_limit;
	const char *example;
} kinds[] = {
	{ "rss", ALERT_RSS, '>', BYTES, 1, 1, "rss>2G" },
	{ "rate", ALERT_RATE, '>', RATE, 1, 0, "rate>1M/min for 5m" },
	{ "eta", ALERT_ETA, '<', TIME, 0, 0, "eta<2h" },
	{ "new", ALERT_NEW, '>', BYTES, 0, 0, "new>64M" },
	{ "step", ALERT_STEP, '>', BYTES, 1, 0, "step>100M" },
	{ "unaccounted", ALERT_UNACCOUNTED, '>', SHARE, 0, 0, "unaccounted>5%" },
	{ "pss", ALERT_PSS, '>', BYTES, 0, 1, "pss>2G" },
	{ "swap", ALERT_SWAP, '>', BYTES, 1, 0, "swap>100M" },
	{ "free/live", ALERT_FREE_LIVE, '>', RATIO, 0, 0, "free/live>200%" },
	{ "free", ALERT_FREE, '>', BYTES, 0, 0, "free>500M" },
	{ "rss-sum", ALERT_RSS_SUM, '>', BYTES, 0, 1, "rss-sum>8G" },
	{ "pss-sum", ALERT_PSS_SUM, '>', BYTES, 0, 1, "pss-sum>8G" },
	{ "pagetables", ALERT_PAGE_TABLES, '>', BYTES, 0, 0, "pagetables>1G" },
	{ "mappings", ALERT_MAPPINGS, '>', NUMBER, 0, 1, "mappings>80%" },
	{ "cgroup", ALERT_CGROUP, '>', BYTES, 0, 1, "cgroup>80%" },
	{ "working-set", ALERT_WORKING_SET, '>', BYTES, 0, 1, "working-set>80%" },
	{ "slab", ALERT_SLAB, '>', BYTES, 0, 0, "slab>1G" },
	{ "sockets", ALERT_SOCKETS, '>', BYTES, 0, 0, "sockets>100M" },
	{ "page-cache", ALERT_PAGE_CACHE, '>', BYTES, 0, 1, "page-cache>4G" },
	{ "pressure", ALERT_PRESSURE, '>', SHARE, 0, 0, "pressure>10%" },
	{ "oom", ALERT_OOM, '>', BYTES, 0, 1, "oom>90%" },
	{ "unmapped", ALERT_UNMAPPED, '>', BYTES, 0, 0, "unmapped>100M" },
};

static const char *skip(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

/*
 * "2G", "1.5 MiB", "100": bytes, in powers of 1024. The place behind it, NULL where there is none.
 */
static const char *take_bytes(const char *at, double *bytes)
{
	char *end;
	at = skip(at);
	if (*at < '0' || *at > '9')
		return NULL;
	*bytes = strtod(at, &end);
	at = skip(end);
	static const char units[] = "KMGTP";
	const char *unit = *at ? strchr(units, toupper((unsigned char)*at)) : NULL;
	if (unit) {
		*bytes *= pow(1024, (double)(unit - units + 1));
		at++;
		if (*at == 'i')
			at++;
	}
	if (*at == 'B')
		at++;
	return isfinite(*bytes) && *bytes < 1e18 ? at : NULL;
}

/* Pairs in any order add up: "30s1m", "5m". */
static const char *take_duration(const char *at, double *seconds)
{
	at = skip(at);
	*seconds = 0;
	do {
		uint64_t ns;
		at = duration_take(at, &ns);
		*seconds += at ? (double)ns / 1e9 : 0;
	} while (at && isdigit((unsigned char)*at));
	return at && *seconds < 1e9 ? at : NULL;
}

static const char *take_word(const char *at, const char *word)
{
	size_t len = strlen(word);
	at = skip(at);
	return strncmp(at, word, len) == 0 && !isalnum((unsigned char)at[len]) ? at + len : NULL;
}

static const char *take_rate(const char *at, double *bytes_per_second)
{
	at = take_bytes(at, bytes_per_second);
	if (!at || *(at = skip(at)) != '/')
		return NULL;
	const char *behind;
	if ((behind = take_word(at + 1, "s")))
		return behind;
	if ((behind = take_word(at + 1, "min"))) {
		*bytes_per_second /= 60;
		return behind;
	}
	if ((behind = take_word(at + 1, "h"))) {
		*bytes_per_second /= 3600;
		return behind;
	}
	return NULL;
}

static const char *take_percent(const char *at, double *percent)
{
	char *end;
	at = skip(at);
	if (*at < '0' || *at > '9')
		return NULL;
	*percent = strtod(at, &end);
	at = skip(end);
	return *at == '%' && *percent <= 100 ? at + 1 : NULL;
}

/* "200%", "2": the share that one is of the other, in per cent. */
static const char *take_ratio(const char *at, double *percent)
{
	char *end;
	at = skip(at);
	if (*at < '0' || *at > '9')
		return NULL;
	*percent = strtod(at, &end);
	at = skip(end);
	if (*at == '%')
		return isfinite(*percent) ? at + 1 : NULL;
	*percent *= 100;
	return isfinite(*percent) ? at : NULL;
}

static const char *take_number(const char *at, double *number)
{
	char *end;
	at = skip(at);
	if (*at < '0' || *at > '9')
		return NULL;
	*number = (double)strtoull(at, &end, 10);
	return end;
}

static const char *take_value(enum unit unit, const char *at, double *value)
{
	switch (unit) {
	case RATE:
		return take_rate(at, value);
	case TIME:
		return take_duration(at, value);
	case SHARE:
		return take_percent(at, value);
	case RATIO:
		return take_ratio(at, value);
	case NUMBER:
		return take_number(at, value);
	default:
		return take_bytes(at, value);
	}
}

static int refuse(struct err *err, const char *text, const char *why)
{
	err_set(err, -EINVAL, "cannot understand the alert rule '%.100s': %s", text, why);
	return err_hint(
		err, "rules look like 'rss>2G', 'rss:CLASS>1G', 'rss>80%%', 'rate>1M/min for 5m', "
		     "'eta<2h', 'new>64M', 'step>100M', 'pss>2G', 'swap>100M', 'free>500M', "
		     "'free/live>200%%', 'pss-sum>8G', 'cgroup>80%%', 'mappings>80%%', "
		     "'unaccounted>5%%'");
}

/* "for 5m", "of 4G": each once, as many as stand at @at. NULL with *@why. */
static const char *take_clauses(const char *at, double *seconds, double *limit, const char **why)
{
	for (;;) {
		const char *behind = take_word(at, "for");
		if (behind) {
			*why = "'for' is followed by a time like 30s, 5m or 1h30m, once";
			at = *seconds > 0 ? NULL : take_duration(behind, seconds);
		} else if ((behind = take_word(at, "of"))) {
			*why = "'of' is followed by a size like 4G, once";
			at = *limit > 0 ? NULL : take_bytes(behind, limit);
		} else {
			return skip(at);
		}
		if (!at)
			return NULL;
	}
}

int alert_parse(const char *text, struct alert_rule *rule, struct err *err)
{
	const char *why = NULL;
	double seconds = 0, limit = 0;
	char words[96];
	memset(rule, 0, sizeof(*rule));
	if (strlen(text) >= sizeof(rule->text))
		return refuse(err, text, "it is too long");
	memcpy(rule->text, text, strlen(text) + 1);
	const char *at = take_clauses(text, &seconds, &limit, &why);
	if (!at)
		return refuse(err, text, why);
	size_t len = strcspn(at, ":<> \t"), i = 0;
	while (i < ARRAY_LEN(kinds) &&
	       (strlen(kinds[i].word) != len || strncmp(kinds[i].word, at, len) != 0))
		i++;
	if (i == ARRAY_LEN(kinds))
		return refuse(err, text,
			      "it says none of rss, rate, eta, new, step, unaccounted, pss, swap, "
			      "free, free/live, rss-sum, pss-sum, pagetables, mappings, cgroup, "
			      "working-set, page-cache, slab, sockets, pressure, oom, unmapped");
	rule->kind = kinds[i].kind;
	at = skip(at + len);
	if (*at == ':') {
		if (!kinds[i].selects)
			return refuse(err, text,
				      "only rss, rate, step and swap select a class or label");
		/* labels may hold anything: the last operator counts */
		const char *operator= strrchr(++at, kinds[i].operator);
		if (!operator|| operator== at || operator- at> HISTORY_NAME_MAX)
			return refuse(err, text,
				      "a class or label stands between ':' and the operator");
		memcpy(rule->select, at, (size_t)(operator- at));
		at = operator;
	}
	if (*at != kinds[i].operator) {
		snprintf(words, sizeof(words), "'%c' and a value follow, as in '%s'",
			 kinds[i].operator, kinds[i].example);
		return refuse(err, text, words);
	}
	const char *value = at + 1;
	at = kinds[i].of_limit ? take_percent(value, &rule->threshold) : NULL;
	rule->of_limit = at != NULL;
	if (!at)
		at = take_value(kinds[i].unit, value, &rule->threshold);
	if (!at) {
		snprintf(words, sizeof(words), "the value looks like the one of '%s'",
			 kinds[i].example);
		return refuse(err, text, words);
	}
	at = take_clauses(at, &seconds, &limit, &why);
	if (!at)
		return refuse(err, text, why);
	if (*at)
		return refuse(err, text, "something is left behind it");
	if (limit > 0 && rule->kind != ALERT_ETA &&
	    (!rule->of_limit || rule->kind == ALERT_MAPPINGS))
		return refuse(err, text, "'of' belongs to eta, or to a share like rss>80%");
	if (rule->kind == ALERT_RATE && seconds <= 0)
		seconds = 300;
	rule->for_ns = (uint64_t)(seconds * 1e9);
	rule->limit_bytes = (uint64_t)limit;
	return 0;
}

int alert_action_parse(const char *text, struct alert_action *action, struct err *err)
{
	*action = (struct alert_action){ 0 };
	if (strcmp(text, "log") == 0)
		action->kind = ALERT_LOG;
	else if (strcmp(text, "exit") == 0)
		action->kind = ALERT_EXIT;
	else if (strcmp(text, "snapshot") == 0)
		action->kind = ALERT_SNAPSHOT;
	else if (strncmp(text, "exec:", 5) == 0 && text[5])
		*action = (struct alert_action){ ALERT_EXEC, text + 5 };
	else if (strncmp(text, "post:http://", 12) == 0 || strncmp(text, "post:https://", 13) == 0)
		*action = (struct alert_action){ ALERT_POST, text + 5 };
	else
		return err_set(
			err, -EINVAL,
			"unknown action '%.100s': log, exit, exec:CMD, post:URL (http or https) "
			"or snapshot",
			text);
	return 0;
}
