/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchers.h - processes watched over time, in one loop: each is looked at when it is due, restarts
 * and children get a place of their own, what ended keeps its last reading. In order of use:
 * watchers_new(), watchers_run(), watchers_freep(). It neither prints nor acts on rules: that is
 * what the ears are for.
 */
#ifndef WATCH_WATCHERS_H
#define WATCH_WATCHERS_H

#include "watch/targets.h"
#include "watch/watched.h"

struct watchers;

/** struct watchers_ears - who hears of it, on the loop's thread; all of it may be NULL. */
struct watchers_ears {
	void *ctx;
	/* worth knowing: one ended, one came */
	void (*say)(void *ctx, const char *text);
	/* something failed, and the watch goes on */
	void (*warn)(void *ctx, const struct err *what);
	/** A look was made; @mappings: they were read, too. Negative: go on no more. */
	int (*looked)(void *ctx, struct watched *w, int mappings, struct err *err);
	/* a rule, anew */
	void (*met)(void *ctx, struct watched *w, const struct alert_event *event);
	/* all that were due have been looked at */
	void (*turned)(void *ctx);
	/* @signals can be read; nonzero: end */
	int (*signalled)(void *ctx);
};

struct watchers_opt {
	struct watchers_ears ears;
	struct watched_opt each;
	/* lent; who else is looked for meanwhile */
	const struct targets *targets;
	/* file of the one process; NULL: in memory */
	const char *history;
	/* that was started for this: its end is ours; 0: none */
	pid_t program;
	/* of CLOCK_MONOTONIC; 0: none */
	uint64_t end_ns;
	/* a descriptor to wait for besides; -1: none */
	int signals;
};

/**
 * watchers_new() - open a place for each of @list. NULL with @err: too many, a history of several,
 * or one that cannot be looked at.
 */
struct watchers *watchers_new(const struct watchers_opt *opt, const struct target_list *list,
			      struct err *err);
/**
 * watchers_run() - until all have ended (a name is waited for), the time is over, or
 * watchers_stop(). 0 or negative errno with @err, as where none of them may be read.
 */
int watchers_run(struct watchers *watchers, struct err *err);
/** watchers_stop() - after this turn; from the ears. */
void watchers_stop(struct watchers *watchers);
/** watchers_stopped() - 1: time, a signal or watchers_stop() ended it, and not an end. */
int watchers_stopped(const struct watchers *watchers);
/** watchers_set() - the places, for watched_source() and for showing; lent. */
struct watched_set *watchers_set(struct watchers *watchers);
void watchers_freep(struct watchers **watchers);

#endif
