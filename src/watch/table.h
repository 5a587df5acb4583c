/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the processes of a name, container or cgroup by PSS, and what each has grown since it
 * was first seen, again and again.
 */
#ifndef WATCH_TABLE_H
#define WATCH_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "proc/ledger.h"
#include "watch/targets.h"

/** struct table_opt - on one thread; every function is given. */
struct table_opt {
	/* lent; who else is looked for meanwhile */
	const struct targets *targets;
	/* between two tables, at least */
	uint64_t period_ns;
	/* of CLOCK_MONOTONIC; 0: none */
	uint64_t end_ns;
	enum regions_sort sort;
	/* a descriptor to wait for besides */
	int signals;
	void *ctx;
	/* @signals can be read; nonzero: end */
	int (*signalled)(void *ctx);
	/** A table. -EPIPE: nobody looks any more, which ends it well. */
	int (*show)(void *ctx, struct ledger *ledger, struct err *err);
	/**
	 * Tables come less often than asked for: reading @count processes takes @cpu_ns. After each
	 * such one.
	 */
	void (*slowed)(void *ctx, size_t count, uint64_t cpu_ns, uint64_t period_ns);
};

/**
 * watch_table() - until the time is over, a signal comes or all have ended. 0, or negative errno
 * with @err.
 */
int watch_table(const struct table_opt *opt, const struct target_list *list, struct err *err);

#endif
