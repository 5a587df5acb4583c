/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - rules against the newest sample and the stretch before it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "view/growth.h"

#define BACK 0.1                      /* by so much of the threshold a value must go back */
#define ETA_WINDOW_NS 600000000000ull /* the finest stretch that is kept */
#define ETA_SPAN_NS 60000000000ull    /* a sawtooth's first rise looks like a leak */
#define UNACCOUNTED_READINGS 3
#define SPAN_SHARE 0.9 /* of the window must have been seen */

/* Whether a rule holds, and whether that was told. */
struct hold {
	int raised;
	/* it holds, but not for long enough yet */
	int waits;
	/* when that began, CLOCK_MONOTONIC */
	uint64_t since_ns;
};

struct state {
	struct alert_rule rule;
	/* the keys that it is about */
	uint8_t picked[HISTORY_LABELS_MAX];
	struct hold hold;
	/* `new`: of each key by itself */
	struct hold *labels;
};

struct label {
	/* history_key's */
	uint64_t id;
	/* was there when watching began */
	int known;
	/* RSS at the last check */
	uint64_t before;
};

struct alert_set {
	struct state rules[ALERT_RULES_MAX];
	size_t count;
	int began, checked;
	/* as the clock says now */
	uint64_t began_ns;
	/* CLOCK_MONOTONIC */
	uint64_t began_at_ns;
	/* of the last readings */
	double unaccounted[UNACCOUNTED_READINGS];
	uint64_t readings;
	/* of the history's labels, as of these: */
	uint64_t changes;
	struct label labels[HISTORY_LABELS_MAX];
	size_t label_count;
};

struct alert_set *alert_set_new(const struct alert_rule *rules, size_t count)
{
	struct alert_set *set = count <= ALERT_RULES_MAX ? calloc(1, sizeof(*set)) : NULL;
	int failed = 0;
	if (!set)
		return NULL;
	set->count = count;
	for (size_t i = 0; i < count; i++) {
		struct state *s = &set->rules[i];
		s->rule = rules[i];
		s->labels = rules[i].kind == ALERT_NEW
				    ? calloc(HISTORY_LABELS_MAX, sizeof(*s->labels))
				    : NULL;
		failed |= rules[i].kind == ALERT_NEW && !s->labels;
	}
	if (failed) {
		alert_set_free(set);
		return NULL;
	}
	return set;
}

void alert_set_free(struct alert_set *set)
{
	for (size_t i = 0; set && i < set->count; i++)
		free(set->rules[i].labels);
	free(set);
}

static int picks(const struct alert_rule *rule, const struct history_key *key, size_t number)
{
	if (!rule->select[0])
		return number == 0;
	if (!number || strcmp(key->class, HISTORY_CLASS_KIND) == 0)
		return 0; /* what is of a kind is of a label, too */
	if (strcmp(key->class, rule->select) == 0 || strcmp(key->label, rule->select) == 0)
		return 1;
	size_t len = strlen(key->class);
	return strncmp(rule->select, key->class, len) == 0 && rule->select[len] == '/' &&
	       strcmp(rule->select + len + 1, key->label) == 0;
}

/* Numbers of labels change where labels retire: what is known of one goes where it is now. */
static void move_labels(struct alert_set *set, const uint64_t *ids, size_t count)
{
	struct label labels[HISTORY_LABELS_MAX] = { 0 };
	size_t from[HISTORY_LABELS_MAX];
	for (size_t i = 0; i < count; i++) {
		size_t j = 0;
		while (j < set->label_count && set->labels[j].id != ids[i])
			j++;
		from[i] = j;
		if (j < set->label_count)
			labels[i] = set->labels[j];
		labels[i].id = ids[i];
	}
	for (size_t r = 0; r < set->count; r++) {
		struct hold holds[HISTORY_LABELS_MAX] = { 0 };
		for (size_t i = 0; i < count && set->rules[r].labels; i++) {
			if (from[i] < set->label_count)
				holds[i] = set->rules[r].labels[from[i]];
		}
		if (set->rules[r].labels)
			memcpy(set->rules[r].labels, holds, sizeof(holds));
	}
	memcpy(set->labels, labels, sizeof(labels));
	set->label_count = count;
}

static void learn_labels(struct alert_set *set, const struct history *history)
{
	uint64_t ids[HISTORY_LABELS_MAX], changes = history_changes(history);
	size_t count = history_keys(history);
	if (changes == set->changes)
		return;
	for (size_t r = 0; r < set->count; r++)
		memset(set->rules[r].picked, 0, sizeof(set->rules[r].picked));
	for (size_t i = 0; i < count; i++) {
		struct history_key key = history_key(history, i);
		ids[i] = key.id;
		for (size_t r = 0; r < set->count; r++)
			set->rules[r].picked[i] = (uint8_t)picks(&set->rules[r].rule, &key, i);
	}
	move_labels(set, ids, count);
	set->changes = changes;
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
	/* of each key */
	struct history_point *now;
	size_t keys;
	struct judged judged[ALERT_RULES_MAX];
	size_t judged_count;
};

static uint64_t picked_rss(const struct look *l, const struct state *s)
{
	uint64_t rss = 0;
	for (size_t i = 0; i < l->keys; i++)
		rss += s->picked[i] ? l->now[i].rss_bytes : 0;
	return rss;
}

static double picked_swap(const struct look *l, const struct state *s)
{
	uint64_t swap = 0;
	for (size_t i = 0; i < l->keys; i++)
		swap += s->picked[i] ? l->now[i].swap_bytes : 0;
	return (double)swap;
}

static int judge(struct look *l, const struct state *s, uint64_t window_ns, struct growth *growth)
{
	uint64_t now = l->facts->time_ns, from = now > window_ns ? now - window_ns : 0;
	/* what was recorded before this watcher began is another process's, or another time's */
	if (from < l->set->began_ns)
		from = l->set->began_ns;
	for (size_t i = 0; i < l->judged_count; i++) {
		if (l->judged[i].from_ns != from ||
		    strcmp(l->judged[i].select, s->rule.select) != 0)
			continue;
		*growth = l->judged[i].growth;
		return 0;
	}
	struct history_point *points;
	size_t count;
	int rc = history_recent(l->history, s->picked, from, l->facts->time_ns, &points, &count);
	if (rc < 0)
		return rc;
	rc = view_growth(points, count, growth);
	free(points);
	if (rc == 0)
		l->judged[l->judged_count++] = (struct judged){ s->rule.select, from, *growth };
	return rc;
}

static double value_step(const struct look *l, const struct state *s)
{
	uint64_t before = 0, now = picked_rss(l, s);
	if (!l->set->checked)
		return 0;
	for (size_t i = 0; i < l->keys; i++)
		before += s->picked[i] ? l->set->labels[i].before : 0;
	return fabs((double)now - (double)before);
}

static int went_back(const struct alert_rule *rule, double threshold, double value)
{
	return rule->kind == ALERT_ETA ? value > threshold * (1 + BACK)
				       : value < threshold * (1 - BACK);
}

/*
 * 1 if it is to be told now: it holds, @sure, has done so for long enough, and was not told since
 * it last went back; that one need not be sure of, or a trend at the edge of being one would be
 * told again and again.
 */
static int rises(struct hold *h, const struct alert_rule *rule, double threshold, double value,
		 int sure, uint64_t at_ns)
{
	int holds = sure && (rule->kind == ALERT_ETA ? value < threshold : value > threshold);
	/* what cannot be told is no reason to tell it again, nor to have waited for it */
	if (h->raised) {
		h->raised = isnan(value) || !went_back(rule, threshold, value);
		return 0;
	}
	if (!holds) {
		h->waits = 0;
		return 0;
	}
	if (!h->waits)
		h->since_ns = at_ns;
	h->waits = 1;
	/* a rate was measured over that time already */
	return rule->kind == ALERT_RATE || at_ns - h->since_ns >= rule->for_ns;
}

static void was_told(struct hold *h)
{
	*h = (struct hold){ .raised = 1 };
}

/* Each new label rises by itself; of several the largest is told, the others at the next looks. */
static size_t new_label(const struct look *l, struct state *s)
{
	size_t largest = 0;
	for (size_t i = 1; i < l->keys; i++) {
		if (l->set->labels[i].known || !history_adds_up(history_key(l->history, i).class))
			continue; /* no part of RSS, or told by another label, too */
		if (rises(&s->labels[i], &s->rule, s->rule.threshold, (double)l->now[i].rss_bytes,
			  1, l->facts->at_ns) &&
		    (!largest || l->now[i].rss_bytes > l->now[largest].rss_bytes))
			largest = i;
	}
	if (largest)
		was_told(&s->labels[largest]);
	return largest;
}

uint64_t alert_longest_period_ns(const struct alert_rule *rule)
{
	/* an eta is also met where the limit is reached, whatever the trend */
	return rule->kind == ALERT_RATE ? rule->for_ns / (GROWTH_POINTS_MIN - 1) : UINT64_MAX;
}

/* In the value's unit; of a share of a limit that nobody knows nothing is above it. */
static double threshold_of(const struct look *l, const struct alert_rule *rule)
{
	if (!rule->of_limit)
		return rule->threshold;
	uint64_t limit = rule->kind == ALERT_MAPPINGS ? l->facts->mappings_max
			 : rule->limit_bytes          ? rule->limit_bytes
						      : l->facts->limit_bytes;
	return limit ? rule->threshold * (double)limit / 100 : INFINITY;
}

int alert_set_asks(const struct alert_set *set, enum alert_kind kind)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->rules[i].rule.kind == kind)
			return 1;
	return 0;
}

static int judges_growth(const struct alert_rule *rule)
{
	return rule->kind == ALERT_RATE || rule->kind == ALERT_ETA;
}

static uint64_t limit_of(const struct look *l, const struct alert_rule *rule)
{
	return rule->limit_bytes ? rule->limit_bytes : l->facts->limit_bytes;
}

/* At the slope, sure or not. */
static double eta_of(const struct growth *growth, uint64_t limit_bytes)
{
	return growth->bytes_per_second > 0
		       ? (double)(limit_bytes - growth->last_bytes) / growth->bytes_per_second
		       : INFINITY;
}

static void note_reading(struct alert_set *set, const struct alert_facts *facts)
{
	if (facts->readings == set->readings)
		return;
	memmove(set->unaccounted + 1, set->unaccounted,
		(UNACCOUNTED_READINGS - 1) * sizeof(*set->unaccounted));
	set->unaccounted[0] = facts->unaccounted;
	set->readings = facts->readings;
}

/*
 * What was missing each time: of a program that maps and unmaps all the time something is at most
 * times.
 */
static double unaccounted(const struct alert_set *set)
{
	double least = set->unaccounted[0];
	for (int i = 1; i < UNACCOUNTED_READINGS; i++)
		least = set->unaccounted[i] < least ? set->unaccounted[i] : least;
	return least;
}

/* What the rule compares; not a number where it is not known. */
static int measure(struct look *l, const struct state *s, struct growth *growth, double *value)
{
	const struct alert_rule *rule = &s->rule;
	int rc = 0, known = 1;
	switch (rule->kind) {
	case ALERT_RSS:
		*value = (double)picked_rss(l, s);
		break;
	case ALERT_RATE:
		rc = judge(l, s, rule->for_ns, growth);
		/* the whole of it must have gone by, and most of it been seen */
		known = (double)growth->span_ns >= SPAN_SHARE * (double)rule->for_ns &&
			l->facts->at_ns - l->set->began_at_ns >= rule->for_ns;
		*value = growth->bytes_per_second;
		break;
	case ALERT_ETA:
		rc = judge(l, s, rule->for_ns > ETA_WINDOW_NS ? rule->for_ns : ETA_WINDOW_NS,
			   growth);
		if (limit_of(l, rule) && growth->last_bytes >= limit_of(l, rule)) {
			growth->verdict = GROWTH_GROWING; /* it has arrived, whatever it does now */
			break;
		}
		known = growth->span_ns >= ETA_SPAN_NS && limit_of(l, rule);
		*value = eta_of(growth, limit_of(l, rule));
		break;
	case ALERT_STEP:
		*value = value_step(l, s);
		break;
	case ALERT_UNACCOUNTED:
		*value = unaccounted(l->set);
		break;
	case ALERT_NEW: /* by label: new_label() */
		break;
	case ALERT_SWAP:
		*value = rule->select[0] ? picked_swap(l, s) : l->facts->beside[ALERT_SWAP];
		break;
	default:
		*value = l->facts->beside[rule->kind];
		break;
	}
	if (judges_growth(rule) && (!known || growth->verdict == GROWTH_UNKNOWN))
		*value = NAN;
	return rc;
}

static const char *what_of(enum alert_kind kind)
{
	static const char *const words[ALERT_KIND_COUNT] = {
		[ALERT_PSS] = "PSS of ",
		[ALERT_SWAP] = "swapped out of ",
		[ALERT_FREE] = "what allocators keep free in ",
		[ALERT_RSS_SUM] = "RSS of all, told by ",
		[ALERT_PSS_SUM] = "PSS of all, told by ",
		[ALERT_PAGE_TABLES] = "page tables of ",
		[ALERT_CGROUP] = "the cgroup of ",
		[ALERT_WORKING_SET] = "the working set of the cgroup of ",
		[ALERT_SLAB] = "slab in the cgroup of ",
		[ALERT_SOCKETS] = "socket buffers in the cgroup of ",
		[ALERT_PAGE_CACHE] = "page cache in the cgroup of ",
		[ALERT_OOM] = "what the OOM killer counts of ",
		[ALERT_UNMAPPED] = "open files without a name that nobody maps in ",
	};
	return words[kind] ? words[kind] : "";
}

static void put_words(struct alert_event *event, const struct look *l, double value,
		      const struct growth *growth)
{
	char have[TEXT_NUMBER_MAX], want[TEXT_NUMBER_MAX];
	const struct alert_rule *rule = event->rule;
	const char *name = event->label[0] ? event->label : "the process";
	switch (rule->kind) {
	case ALERT_RATE:
		snprintf(event->words, sizeof(event->words),
			 "%s grows by %s a minute (%.1f %% sure)", name,
			 text_bytes(have, (uint64_t)(value * 60)), growth->confidence * 100);
		break;
	case ALERT_ETA:
		snprintf(event->words, sizeof(event->words), "the limit of %s is reached in %s",
			 text_bytes(want, limit_of(l, rule)),
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
	case ALERT_FREE_LIVE:
		snprintf(event->words, sizeof(event->words),
			 "allocators keep %.0f %% of what is in use free, above %.0f %%", value,
			 event->threshold);
		break;
	case ALERT_PRESSURE:
		snprintf(event->words, sizeof(event->words),
			 "tasks waited for memory in %.1f %% of the last 10 s, above %.1f %%",
			 value, event->threshold);
		break;
	case ALERT_MAPPINGS:
		snprintf(event->words, sizeof(event->words), "%.0f mappings, above %.0f", value,
			 event->threshold);
		break;
	default:
		snprintf(event->words, sizeof(event->words), "%s%s%s is %s, above %s",
			 rule->kind == ALERT_NEW ? "new: " : "", what_of(rule->kind), name,
			 text_bytes(have, (uint64_t)value),
			 text_bytes(want, (uint64_t)event->threshold));
		break;
	}
}

static int check_rule(struct look *l, struct state *s, struct alert_event *event)
{
	struct growth growth = { 0 };
	double value = 0;
	*event = (struct alert_event){ .rule = &s->rule,
				       .time_ns = l->facts->time_ns,
				       .rss_bytes = l->now[0].rss_bytes,
				       .pid = l->facts->pid,
				       .threshold = threshold_of(l, &s->rule) };
	snprintf(event->comm, sizeof(event->comm), "%s", l->facts->comm ? l->facts->comm : "");
	snprintf(event->label, sizeof(event->label), "%s", s->rule.select);
	if (s->rule.kind == ALERT_NEW) {
		size_t label = new_label(l, s);
		if (!label)
			return 0;
		struct history_key key = history_key(l->history, label);
		snprintf(event->label, sizeof(event->label), "%s/%s", key.class, key.label);
		value = (double)l->now[label].rss_bytes;
	} else {
		int rc = measure(l, s, &growth, &value);
		if (rc < 0)
			return rc;
		int sure = !judges_growth(&s->rule) || growth.verdict == GROWTH_GROWING;
		if (!rises(&s->hold, &s->rule, event->threshold, value, sure, l->facts->at_ns))
			return 0;
		was_told(&s->hold);
	}
	event->value = value;
	put_words(event, l, value, &growth);
	return 1;
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
	learn_labels(set, history);
	note_reading(set, facts);
	if (facts->time_ns < set->began_ns) /* the clock was set back */
		set->began_ns = facts->time_ns;
	if (!set->began) {
		set->began = 1;
		set->began_ns = facts->time_ns;
		set->began_at_ns = facts->at_ns;
		for (size_t i = 0; i < l.keys; i++)
			set->labels[i].known = l.now[i].rss_bytes != 0;
	}
	for (size_t i = 0; i < set->count && rc >= 0 && l.keys; i++) {
		if (facts->skip_growth && judges_growth(&set->rules[i].rule))
			continue;
		rc = check_rule(&l, &set->rules[i], &events[met]);
		met += rc > 0;
	}
	for (size_t i = 0; i < l.keys; i++)
		set->labels[i].before = l.now[i].rss_bytes;
	set->checked = 1;
	free(l.now);
	return rc < 0 ? rc : met;
}

void alert_event_line(struct buf *to, const struct alert_event *event)
{
	CLEANUP(buf_fini) struct buf words = { 0 };
	buf_printf(&words, "%s: %s", event->rule->text, event->words);
	text_escape(to, buf_cstr(&words), 0);
	buf_printf(to, " (process %d, ", (int)event->pid);
	text_escape(to, event->comm, 0);
	buf_putc(to, ')');
}
