/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - rules over a history of regions, with hysteresis, and what to do when one is met.
 *
 * A rule: KIND[:SELECT]OPERATOR VALUE [for DURATION] [of LIMIT], the last two in any place
 * 	rss>2G			the process's resident size; rss:CLASS>X, rss:LABEL>X,
 *				rss:CLASS/LABEL>X that of a class or label;
 * 				rss>80% of the limit, which is the cgroup's or the machine's, or `of
 *				4G`
 * 	rate>1M/min for 5m	growing at more than that, surely (view/growth.h), over the last 5
 *				minutes; also /s, /h
 * 	eta<2h			the limit is reached within that time at the rate of the last ten
 *				minutes (or of `for`, if that is longer; a
 * 				minute must have been seen); the limit is the cgroup's, or `of 4G`
 * 	new>64M			a label that was not there when watching began; each by itself, the
 *				largest first
 * 	step>100M		changed by more than that, up or down, from one look to the next
 * 	unaccounted>5%		that share of the kernel's RSS is in no class
 * 	pss>2G swap>100M	proportional size; what is swapped out (swap:CLASS>X, too)
 * 	free>500M		what allocators keep free; free/live>200%: beside what is in use
 * 	rss-sum>8G pss-sum>8G	of all processes that are watched
 * 	pagetables>1G		of the process; mappings>60000, mappings>80% (of vm.max_map_count)
 * 	cgroup>80%		what the cgroup is charged for; working-set, page-cache, slab,
 *				sockets: of the cgroup
 * 	pressure>10%		that share of the last ten seconds some task of the cgroup waited
 *				for memory
 * 	oom>80%			what the OOM killer counts: RSS, swap and page tables of the process
 * 	unmapped>100M		in open files without a name that the process does not map
 * `for` keeps any rule waiting until it has held so long. A rule that was met is met again only
 * after its value went back by a tenth of its threshold.
 */
#ifndef ALERT_ALERT_H
#define ALERT_ALERT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/history.h"

#define ALERT_RULES_MAX 32

enum alert_kind {
	ALERT_RSS,
	ALERT_RATE,
	ALERT_ETA,
	ALERT_NEW,
	ALERT_STEP,
	ALERT_UNACCOUNTED,
	ALERT_PSS, /* from here on: what struct alert_facts tells in beside[] */
	ALERT_SWAP,
	ALERT_FREE,
	ALERT_FREE_LIVE,
	ALERT_RSS_SUM,
	ALERT_PSS_SUM,
	ALERT_PAGE_TABLES,
	ALERT_MAPPINGS,
	ALERT_CGROUP,
	ALERT_WORKING_SET,
	ALERT_SLAB,
	ALERT_SOCKETS,
	ALERT_PAGE_CACHE,
	ALERT_PRESSURE,
	ALERT_OOM,
	ALERT_UNMAPPED,
	ALERT_KIND_COUNT
};

struct alert_rule {
	enum alert_kind kind;
	char text[160];
	/* class or label; "" = the process */
	char select[HISTORY_NAME_MAX + 1];
	/* bytes, bytes a second, seconds, per cent, a number */
	double threshold;
	/* the threshold is per cent of a limit */
	int of_limit;
	uint64_t for_ns;
	/* 0 = the one that alert_facts tells */
	uint64_t limit_bytes;
};

/** alert_parse() - -EINVAL with @err saying what is wrong and how rules look. */
int alert_parse(const char *text, struct alert_rule *rule, struct err *err);

/**
 * alert_longest_period_ns() - between looks, for the rule to be met at all: a trend takes several;
 * UINT64_MAX: any will do.
 */
uint64_t alert_longest_period_ns(const struct alert_rule *rule);

/** struct alert_facts - what the history does not hold. */
struct alert_facts {
	/* of the last sample, as in the history: may be set back */
	uint64_t time_ns;
	/* likewise on a clock that nobody sets, CLOCK_MONOTONIC: what `for` counts */
	uint64_t at_ns;
	/* of the process's cgroup, or the machine; 0 = none is known */
	uint64_t limit_bytes;
	/* per cent of RSS at the last reading of mappings; negative = not known */
	double unaccounted;
	/* of mappings, so far: the kernel's total is of another moment than they are, so that it
	 * takes three in a row to tell */
	uint64_t readings;
	/* from ALERT_PSS on; not a number: not known */
	double beside[ALERT_KIND_COUNT];
	/* 0 = not known */
	uint64_t mappings_max;
	/* 1: rate and eta stay as they are, for what they cost must be earned first */
	int skip_growth;
	int32_t pid;
	const char *comm;
};

struct alert_event {
	const struct alert_rule *rule;
	/* in the rule's unit; a share of a limit as what it comes to */
	double value, threshold;
	uint64_t time_ns, rss_bytes;
	int32_t pid;
	char comm[32];
	/* what it is about: "class/label", or "" */
	char label[2 * HISTORY_NAME_MAX + 2];
	/* one line for people */
	char words[256];
};

struct alert_set;

/** alert_set_new() - watch by these rules, which are copied; NULL without memory. One thread. */
struct alert_set *alert_set_new(const struct alert_rule *rules, size_t count);
void alert_set_free(struct alert_set *set);
/**
 * alert_set_judges_growth() - 1 if a rule is a rate or an eta, which look at a whole stretch of the
 * history.
 */
int alert_set_judges_growth(const struct alert_set *set);
/** alert_set_asks() - 1 if a rule of @kind is among them. */
int alert_set_asks(const struct alert_set *set, enum alert_kind kind);
/**
 * alert_check() - look at the newest sample of @history. @events has ALERT_RULES_MAX places;
 * returns how many rules were met anew, or -ENOMEM.
 */
int alert_check(struct alert_set *set, const struct history *history,
		const struct alert_facts *facts, struct alert_event *events);

/** alert_event_line() - the rule, what it found, and whose: for a terminal. */
void alert_event_line(struct buf *to, const struct alert_event *event);

enum alert_action_kind { ALERT_LOG, ALERT_EXIT, ALERT_EXEC, ALERT_POST, ALERT_SNAPSHOT };
struct alert_action {
	enum alert_action_kind kind;
	/* command or URL; lent */
	const char *argument;
};
/** alert_action_parse() - log, exit, exec:CMD, post:URL, snapshot. */
int alert_action_parse(const char *text, struct alert_action *action, struct err *err);

struct alert_runner;
/** alert_runner_new() - starts commands and posts; NULL without memory. */
struct alert_runner *alert_runner_new(void);
/** alert_runner_free() - waits for what was started: at most 10 s, then commands are left alone. */
void alert_runner_free(struct alert_runner *runner);
/**
 * alert_run() - start an exec or post action for @event and do not wait for it. A command is run by
 * /bin/sh -c and finds BYTELEDGER_ALERT_RULE, _VALUE, _THRESHOLD, _PID, _COMM, _LABEL, _RSS_BYTES,
 * _TIME_NS and _MESSAGE in its environment (nothing is put into its text); a URL gets the same as a
 * JSON object. At most 4 run at once: -EBUSY. Others: -EINVAL.
 */
int alert_run(struct alert_runner *runner, const struct alert_action *action,
	      const struct alert_event *event, struct err *err);
/**
 * alert_runner_failed() - one line on an action that failed since the last call, into @text; 0 if
 * there is none.
 */
int alert_runner_failed(struct alert_runner *runner, char *text, size_t size);

#endif
