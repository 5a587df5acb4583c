/* SPDX-License-Identifier: Apache-2.0 */
/* rule.c - the words of a rule. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"

static const struct {
	const char *word;
	enum alert_kind kind;
	char operator;
	const char *example;
} kinds[] = {
	{ "rss", ALERT_RSS, '>', "rss>2G" },
	{ "rate", ALERT_RATE, '>', "rate>1M/min for 5m" },
	{ "eta", ALERT_ETA, '<', "eta<2h" },
	{ "new", ALERT_NEW, '>', "new>64M" },
	{ "step", ALERT_STEP, '>', "step>100M" },
	{ "unaccounted", ALERT_UNACCOUNTED, '>', "unaccounted>5%" },
};

static const char *skip(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

/* "2G", "1.5 MiB", "100": bytes, in powers of 1024. The place behind it, NULL where there is none. */
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

/* "10s", "5m", "1h30m", "2d". */
static const char *take_duration(const char *at, double *seconds)
{
	char *end;
	*seconds = 0;
	at = skip(at);
	if (*at < '0' || *at > '9')
		return NULL;
	while (*at >= '0' && *at <= '9') {
		double n = (double)strtoull(at, &end, 10);
		switch (*end) {
		case 's':
			break;
		case 'm':
			n *= 60;
			break;
		case 'h':
			n *= 3600;
			break;
		case 'd':
			n *= 86400;
			break;
		default:
			return NULL;
		}
		at = end + 1;
		*seconds += n;
	}
	return *seconds < 1e9 ? at : NULL;
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

static int refuse(struct err *err, const char *text, const char *why)
{
	err_set(err, -EINVAL, "cannot understand the alert rule '%.100s': %s", text, why);
	return err_hint(err,
			"rules look like 'rss>2G', 'rss:CLASS>1G', 'rate>1M/min for 5m', 'eta<2h', "
			"'new>64M', 'step>100M', 'unaccounted>5%%'");
}

int alert_parse(const char *text, struct alert_rule *rule, struct err *err)
{
	memset(rule, 0, sizeof(*rule));
	if (strlen(text) >= sizeof(rule->text))
		return refuse(err, text, "it is too long");
	memcpy(rule->text, text, strlen(text) + 1);
	const char *at = skip(text);
	size_t len = strcspn(at, ":<> \t"), i = 0;
	while (i < ARRAY_LEN(kinds) &&
	       (strlen(kinds[i].word) != len || strncmp(kinds[i].word, at, len) != 0))
		i++;
	if (i == ARRAY_LEN(kinds))
		return refuse(err, text,
			      "it begins with none of rss, rate, eta, new, step, unaccounted");
	rule->kind = kinds[i].kind;
	at = skip(at + len);
	if (*at == ':') {
		if (rule->kind != ALERT_RSS && rule->kind != ALERT_RATE && rule->kind != ALERT_STEP)
			return refuse(err, text, "only rss, rate and step select a class or label");
		/* labels may hold anything: the last operator counts */
		const char *operator= strrchr(++at, kinds[i].operator);
		if (!operator|| operator== at || operator- at> HISTORY_NAME_MAX)
			return refuse(err, text,
				      "a class or label stands between ':' and the operator");
		memcpy(rule->select, at, (size_t)(operator- at));
		at = operator;
	}
	if (*at != kinds[i].operator) {
		char why[64];
		snprintf(why, sizeof(why), "'%c' and a value follow, as in '%s'", kinds[i].operator,
			 kinds[i].example);
		return refuse(err, text, why);
	}
	at++;
	at = rule->kind == ALERT_RATE          ? take_rate(at, &rule->threshold)
	     : rule->kind == ALERT_ETA         ? take_duration(at, &rule->threshold)
	     : rule->kind == ALERT_UNACCOUNTED ? take_percent(at, &rule->threshold)
					       : take_bytes(at, &rule->threshold);
	if (!at) {
		char why[64];
		snprintf(why, sizeof(why), "the value looks like the one of '%s'",
			 kinds[i].example);
		return refuse(err, text, why);
	}
	double seconds = 0, limit = 0;
	const char *behind = take_word(at, "for");
	if (behind && !(at = take_duration(behind, &seconds)))
		return refuse(err, text, "'for' is followed by a time like 30s, 5m or 1h30m");
	behind = take_word(at, "of");
	if (behind && (rule->kind != ALERT_ETA || !(at = take_bytes(behind, &limit))))
		return refuse(err, text, "'of' belongs to eta and is followed by a size like 4G");
	if (*skip(at))
		return refuse(err, text, "something is left behind it");
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
