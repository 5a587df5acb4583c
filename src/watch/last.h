/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last.h - what a process had before it ended. Once it has, nothing can be read any more, and
 * nobody is told before: so it is read again and again, and the last reading is told with its age.
 */
#ifndef WATCH_LAST_H
#define WATCH_LAST_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/breakdown.h"
#include "watch/targets.h"

/** struct last_opt - on one thread; every function is given. */
struct last_opt {
	/* lent; who else is looked for meanwhile */
	const struct targets *targets;
	/* a child that was started for this: its end is ours; 0: none */
	pid_t program;
	/* of CLOCK_MONOTONIC; 0: none */
	uint64_t end_ns;
	/* a descriptor to wait for besides; -1: none */
	int signals;
	void *ctx;
	/* @signals can be read; nonzero: end */
	int (*signalled)(void *ctx);
	/** One reading of @target, malloc'd; NULL with @err. */
	struct breakdown *(*read)(void *ctx, const struct target *target, struct err *err);
	/**
	 * The last reading of one that runs @exe; @age_ns before its end, or before now where it
	 * has not @ended.
	 */
	int (*tell)(void *ctx, const struct breakdown *breakdown, const char *exe, uint64_t age_ns,
		    int ended, struct err *err);
	/* one ended before it was read */
	void (*unread)(void *ctx, const struct err *why);
	/* there are more: they are left out */
	void (*full)(void *ctx, unsigned most);
};

/**
 * watch_last() - read these processes again and again, at a fifth of a CPU at most, until they end,
 * the program ends, the time is over or a signal comes; then tell the last reading of each.
 * *@stopped: it was not an end. 0, or negative errno with @err.
 */
int watch_last(const struct last_opt *opt, const struct target_list *list, int *stopped,
	       struct err *err);

#endif
