/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - rules against the newest sample and the stretch before it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/text.h"
#include "view/growth.h"

#define BACK 0.1                      /* by so much of the threshold a value must go back */
#define ETA_WINDOW_NS 600000000000ull /* the finest stretch that is kept */
#define SPAN_SHARE 0.9                /* of the window must have been seen */

struct state {
	struct alert_rule rule;
	int raised;
	int waits;         /* it holds, but not for long enough yet */
	uint64_t since_ns; /* when that began, CLOCK_MONOTONIC */
};

struct alert_set {
	struct state rules[ALERT_RULES_MAX];
	size_t count;
	int began, checked;
	uint64_t began_ns;                      /* as the clock says now */
	uint64_t seen[HISTORY_LABELS_MAX / 64]; /* labels that were there when watching began */
	uint64_t before[HISTORY_LABELS_MAX];    /* their RSS at the last check */
};

struct alert_set *alert_set_new(const struct alert_rule *rules, size_t count)
{
	struct alert_set *set = count <= ALERT_RULES_MAX ? calloc(1, sizeof(*set)) : NULL;
	if (!set)
		return NULL;
	for (size_t i = 0; i < count; i++)
		set->rules[i].rule = rules[i];
	set->count = count;
	return set;
}

void alert_set_free(struct alert_set *set)
{
	free(set);
}

/* What a stretch of one selection showed: rules that differ only in their threshold share it. */
struct judged {
	const char *select;
	uint64_t from_ns;
	struct growth growth;
};

struct look {
	struct alert_set *set;
	const struct history *history;
	const struct alert_facts *facts;
	struct history_point *now; /* of each key */
	size_t keys;
	struct judged judged[ALERT_RULES_MAX];
	size_t judged_count;
};

static int selected(const struct look *l, const char *select, size_t key)
{
	if (!select[0])
		return key == 0;
	if (!key)
		return 0;
	struct history_key k = history_key(l->history, key);
	return strcmp(k.class, select) == 0 || strcmp(k.label, select) == 0;
}

static uint64_t selected_rss(const struct look *l, const char *select)
{
	uint64_t rss = 0;
	for (size_t i = 0; i < l->keys; i++)
		rss += selected(l, select, i) ? l->now[i].rss_bytes : 0;
	return rss;
}

/* Every key has a point at the same moments, so series add up place by place. */
static int selected_series(const struct look *l, const char *select, uint64_t from_ns,
			   struct history_point **points, size_t *count)
{
	*points = NULL;
	*count = 0;
	for (size_t i = 0; i < l->keys; i++) {
		struct history_point *one;
		size_t n;
		if (!selected(l, select, i))
			continue;
		int rc = history_recent(l->history, i, from_ns, l->facts->time_ns, &one, &n);
		if (rc < 0) {
			free(*points);
			*points = NULL; /* the caller frees what it finds there */
			return rc;
		}
		if (!*points) {
			*points = one;
			*count = n;
			continue;
		}
		for (size_t j = 0; j < n && j < *count; j++)
			(*points)[j].rss_bytes += one[j].rss_bytes;
		free(one);
	}
	return 0;
}

static int judge(struct look *l, const struct alert_rule *rule, uint64_t window_ns,
		 struct growth *growth)
{
	uint64_t now = l->facts->time_ns, from = now > window_ns ? now - window_ns : 0;
	/* what was recorded before this watcher began is another process's, or another time's */
	if (from < l->set->began_ns)
		from = l->set->began_ns;
	for (size_t i = 0; i < l->judged_count; i++) {
		if (l->judged[i].from_ns != from || strcmp(l->judged[i].select, rule->select) != 0)
			continue;
		*growth = l->judged[i].growth;
		return 0;
	}
	struct history_point *points;
	size_t count;
	int rc = selected_series(l, rule->select, from, &points, &count);
	if (rc == 0)
		rc = view_growth(points, count, growth);
	free(points);
	if (rc == 0)
		l->judged[l->judged_count++] = (struct judged){ rule->select, from, *growth };
	return rc;
}

static void about(struct alert_event *event, const struct look *l, size_t key)
{
	struct history_key k = history_key(l->history, key);
	snprintf(event->label, sizeof(event->label), "%s/%s", k.class, k.label);
}

static int value_new(const struct look *l, struct alert_event *event, double *value)
{
	*value = 0;
	for (size_t i = 1; i < l->keys; i++) {
		if ((l->set->seen[i / 64] >> (i % 64) & 1) || (double)l->now[i].rss_bytes <= *value)
			continue;
		*value = (double)l->now[i].rss_bytes;
		about(event, l, i);
	}
	return 0;
}

static double value_step(const struct look *l, const struct alert_rule *rule)
{
	uint64_t before = 0, now = selected_rss(l, rule->select);
	if (!l->set->checked)
		return 0;
	for (size_t i = 0; i < l->keys; i++)
		before += selected(l, rule->select, i) ? l->set->before[i] : 0;
	return fabs((double)now - (double)before);
}

/* What the rule compares; *holds where it is met. */
static int measure(struct look *l, const struct alert_rule *rule, struct alert_event *event,
		   int *holds)
{
	struct growth growth = { 0 };
	char have[TEXT_NUMBER_MAX], want[TEXT_NUMBER_MAX];
	uint64_t limit = rule->limit_bytes ? rule->limit_bytes : l->facts->limit_bytes;
	double value = 0;
	int rc = 0;
	if (rule->select[0])
		snprintf(event->label, sizeof(event->label), "%s", rule->select);
	switch (rule->kind) {
	case ALERT_RSS:
		value = (double)selected_rss(l, rule->select);
		break;
	case ALERT_RATE:
		rc = judge(l, rule, rule->for_ns, &growth);
		value = growth.verdict == GROWTH_GROWING &&
					(double)growth.span_ns >= SPAN_SHARE * (double)rule->for_ns
				? growth.bytes_per_second
				: 0;
		break;
	case ALERT_ETA:
		rc = judge(l, rule, rule->for_ns > ETA_WINDOW_NS ? rule->for_ns : ETA_WINDOW_NS,
			   &growth);
		value = limit ? view_growth_eta(&growth, limit) : INFINITY;
		break;
	case ALERT_NEW:
		rc = value_new(l, event, &value);
		break;
	case ALERT_STEP:
		value = value_step(l, rule);
		break;
	case ALERT_UNACCOUNTED:
		value = l->facts->unaccounted;
		break;
	}
	if (rc < 0)
		return rc;
	event->value = value;
	*holds = rule->kind == ALERT_ETA ? value < rule->threshold : value > rule->threshold;
	const char *name = event->label[0] ? event->label : "the process";
	switch (rule->kind) {
	case ALERT_RATE:
		snprintf(event->words, sizeof(event->words),
			 "%s grows by %s a minute (%.1f %% sure)", name,
			 text_bytes(have, (uint64_t)(value * 60)), growth.confidence * 100);
		break;
	case ALERT_ETA:
		snprintf(event->words, sizeof(event->words), "the limit of %s is reached in %s",
			 text_bytes(want, limit),
			 text_duration(have, isfinite(value) ? (uint64_t)(value * 1e9) : 0));
		break;
	case ALERT_UNACCOUNTED:
		snprintf(event->words, sizeof(event->words), "%.1f %% of RSS is in no class",
			 value);
		break;
	case ALERT_STEP:
		snprintf(event->words, sizeof(event->words), "%s changed by %s at once", name,
			 text_bytes(have, (uint64_t)value));
		break;
	default:
		snprintf(event->words, sizeof(event->words), "%s%s is %s, above %s",
			 rule->kind == ALERT_NEW ? "new: " : "", name,
			 text_bytes(have, (uint64_t)value),
			 text_bytes(want, (uint64_t)rule->threshold));
		break;
	}
	return 0;
}

static int went_back(const struct alert_rule *rule, double value)
{
	return rule->kind == ALERT_ETA ? value > rule->threshold * (1 + BACK)
				       : value < rule->threshold * (1 - BACK);
}

static int check_rule(struct look *l, struct state *s, struct alert_event *event)
{
	int holds = 0;
	*event = (struct alert_event){ .rule = &s->rule,
				       .time_ns = l->facts->time_ns,
				       .rss_bytes = l->now[0].rss_bytes,
				       .pid = l->facts->pid };
	snprintf(event->comm, sizeof(event->comm), "%s", l->facts->comm ? l->facts->comm : "");
	int rc = measure(l, &s->rule, event, &holds);
	if (rc < 0)
		return rc;
	if (s->raised) {
		s->raised = !went_back(&s->rule, event->value);
		return 0;
	}
	if (!holds) {
		s->waits = 0;
		return 0;
	}
	if (!s->waits)
		s->since_ns = l->facts->at_ns;
	s->waits = 1;
	/* a rate was measured over that time already */
	if (s->rule.kind != ALERT_RATE && l->facts->at_ns - s->since_ns < s->rule.for_ns)
		return 0;
	s->raised = 1;
	s->waits = 0;
	return 1;
}

static int judges_growth(const struct alert_rule *rule)
{
	return rule->kind == ALERT_RATE || rule->kind == ALERT_ETA;
}

int alert_set_judges_growth(const struct alert_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		if (judges_growth(&set->rules[i].rule))
			return 1;
	}
	return 0;
}

int alert_check(struct alert_set *set, const struct history *history,
		const struct alert_facts *facts, struct alert_event *events)
{
	struct look l = { .set = set, .history = history, .facts = facts };
	int met = 0, rc = 0;
	l.keys = history_keys(history);
	l.now = calloc(HISTORY_LABELS_MAX, sizeof(*l.now));
	if (!l.now)
		return -ENOMEM;
	if (history_newest(history, l.now, l.keys) < 0)
		l.keys = 0;
	if (facts->time_ns < set->began_ns) /* the clock was set back */
		set->began_ns = facts->time_ns;
	if (!set->began) {
		set->began = 1;
		set->began_ns = facts->time_ns;
		for (size_t i = 0; i < l.keys; i++)
			set->seen[i / 64] |= (uint64_t)(l.now[i].rss_bytes != 0) << (i % 64);
	}
	for (size_t i = 0; i < set->count && rc >= 0 && l.keys; i++) {
		if (facts->skip_growth && judges_growth(&set->rules[i].rule))
			continue;
		rc = check_rule(&l, &set->rules[i], &events[met]);
		met += rc > 0;
	}
	for (size_t i = 0; i < l.keys; i++)
		set->before[i] = l.now[i].rss_bytes;
	set->checked = 1;
	free(l.now);
	return rc < 0 ? rc : met;
}
