/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - a process looked at again and again, at two speeds: its sums from status at each look,
 * its mappings with what is resident of them (no PSS, no walk under the target's lock) as often as
 * a share of one CPU allows. The period adapts to what a reading costs and is told. What the looks
 * between readings cost is taken off that share, down to half of it: a caller who looks very often
 * or does much at each look gets fewer readings, but never none.
 */
#ifndef SOURCE_WATCH_H
#define SOURCE_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "proc/breakdown.h"
#include "source/mapnames.h"

#define WATCH_BUDGET 0.004 /* of one CPU: a watcher as a whole stays below half a per cent */
#define WATCH_RULES_BUDGET \
	(WATCH_BUDGET / 2)       /* of that, at most, for alert rules that judge growth */
#define WATCH_PERIOD_NS NS_PER_S /* between looks */
#define WATCH_LABELS_MAX 256
#define WATCH_BACK_NS 5000000000ull /* a clock that goes back by more was set, by less adjusted */

struct watch_opt {
	/* 0 = WATCH_PERIOD_NS */
	uint64_t period_ns;
	/* lent; names for what is mapped meanwhile. NULL: by rules only */
	struct mapnames *names;
};

struct watch_cost {
	/* so far: all, and those of mappings */
	uint64_t looks, readings;
	/* between readings of mappings now */
	uint64_t period_ns;
	/* of the last one */
	uint64_t reading_cpu_ns;
	/* all CPU so far, over that time */
	uint64_t cpu_ns, since_ns;
	/* longest system call that may make the target's mmap() wait: last, ever */
	uint64_t stall_ns, worst_stall_ns;
};

struct watch;

/**
 * watch_open() - hold process @pid. Errors as target_open(). One thread; release with
 * watch_close().
 */
int watch_open(pid_t pid, const struct watch_opt *opt, struct watch **out, struct err *err);
void watch_close(struct watch *watch);

/**
 * watch_look() - look now. Return: 1 where the mappings were read, 0 where only the sums were;
 * -ESRCH where the process has ended, or another negative errno with @err.
 */
int watch_look(struct watch *watch, struct err *err);
/** watch_take() - the last reading of mappings, now the caller's (breakdown_free()); NULL: none. */
struct breakdown *watch_take(struct watch *watch);
/**
 * watch_totals() - the sums of the last look; watch_time_ns() when that was: CLOCK_REALTIME, but
 * where that went back by a little, time goes at half its speed until the clock has caught up;
 * watch_at_ns() the same on CLOCK_MONOTONIC.
 */
const struct proc_totals *watch_totals(const struct watch *watch);
uint64_t watch_time_ns(const struct watch *watch);
uint64_t watch_at_ns(const struct watch *watch);
/**
 * watch_time_next() - the time of a look @elapsed_ns behind the one of @last_ns, where the clock
 * says @clock_ns.
 */
uint64_t watch_time_next(uint64_t last_ns, uint64_t elapsed_ns, uint64_t clock_ns);
const struct target *watch_target(const struct watch *watch);
/**
 * watch_programs() - how often the process was seen to exec: another number than before means
 * another program.
 */
unsigned watch_programs(const struct watch *watch);

/** watch_due_ns() - when the next look is due, CLOCK_MONOTONIC. */
uint64_t watch_due_ns(const struct watch *watch);
/**
 * watch_period() - time between readings that take @reading_cpu_ns each, where @other_cpu_ns were
 * spent on other things in the last @elapsed_ns, and all of it is to be @budget of one CPU. At most
 * twice what the readings alone need, and an hour.
 */
uint64_t watch_period(uint64_t reading_cpu_ns, uint64_t other_cpu_ns, uint64_t elapsed_ns,
		      double budget);
/**
 * watch_spent() - CPU that the caller spent on this watch's samples (history, rules, output) counts
 * for the budget, too.
 */
void watch_spent(struct watch *watch, uint64_t cpu_ns);
void watch_cost(const struct watch *watch, struct watch_cost *cost);

/**
 * watch_limit() - of the process's cgroup (version 1 or 2) or of one above it, the lowest; else the
 * machine's memory. Bytes.
 */
uint64_t watch_limit(const struct target *target);

#endif
