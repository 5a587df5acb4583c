/* SPDX-License-Identifier: Apache-2.0 */
#include "source/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/beside.h"

struct watch {
	struct target target;
	struct watch_opt opt;
	struct breakdown *last;
	struct proc_totals totals;
	/* of the last look: the clock's, and CLOCK_MONOTONIC's */
	uint64_t time_ns, time_at_ns;
	uint64_t due_ns, reading_due_ns, opened_ns;
	/* when mappings were read last, CPU spent on all else since */
	uint64_t read_ns, other_cpu_ns;
	struct watch_cost cost;
	/* of its program */
	uint64_t stack_start;
	unsigned programs;
};

int watch_open(pid_t pid, const struct watch_opt *opt, struct watch **out, struct err *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "cannot watch process %d", (int)pid);
	w->opt = opt ? *opt : (struct watch_opt){ 0 };
	w->opt.period_ns = w->opt.period_ns ? w->opt.period_ns : WATCH_PERIOD_NS;
	w->cost.period_ns = w->opt.period_ns;
	int rc = target_open(&w->target, pid, err);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->opened_ns = w->due_ns = w->reading_due_ns = clock_ns(CLOCK_MONOTONIC);
	*out = w;
	return 0;
}

void watch_close(struct watch *w)
{
	if (!w)
		return;
	breakdown_free(w->last);
	target_close(&w->target);
	free(w);
}

uint64_t watch_period(uint64_t reading_cpu_ns, uint64_t other_cpu_ns, uint64_t elapsed_ns,
		      double budget)
{
	double other = elapsed_ns ? (double)other_cpu_ns / (double)elapsed_ns : 0;
	double left = budget - other > budget / 2 ? budget - other : budget / 2;
	double period = (double)reading_cpu_ns / left;
	return period < 3600e9 ? (uint64_t)period : 3600000000000ull;
}

static void plan(struct watch *w, uint64_t now_ns)
{
	uint64_t period = watch_period(w->cost.reading_cpu_ns, w->other_cpu_ns,
				       w->read_ns ? now_ns - w->read_ns : 0, WATCH_BUDGET);
	/*
	 * the first one was an advance: it is earned back before the second, or a short watch would
	 * take more than its share
	 */
	uint64_t wait = w->read_ns ? period : 2 * period;
	w->cost.period_ns = period > w->opt.period_ns ? period : w->opt.period_ns;
	w->reading_due_ns = now_ns + (wait > w->opt.period_ns ? wait : w->opt.period_ns);
	w->read_ns = now_ns;
	w->other_cpu_ns = 0;
}

static int read_mappings(struct watch *w, struct err *err)
{
	struct breakdown_opt opt = { .quick = 1, .labels_max = WATCH_LABELS_MAX };
	struct breakdown *b = breakdown_read(&w->target, &opt, err);
	if (!b)
		return err->code;
	if (w->opt.names && mapnames_apply(w->opt.names, b, &w->target, err) < 0) {
		breakdown_free(b);
		return err->code;
	}
	breakdown_free(w->last);
	w->last = b;
	w->totals = b->totals;
	w->cost.readings++;
	w->cost.stall_ns = b->reading.stall_ns;
	if (b->reading.stall_ns > w->cost.worst_stall_ns)
		w->cost.worst_stall_ns = b->reading.stall_ns;
	return 1;
}

uint64_t watch_time_next(uint64_t last_ns, uint64_t elapsed_ns, uint64_t clock_ns)
{
	return clock_ns > last_ns || last_ns - clock_ns > WATCH_BACK_NS ? clock_ns
									: last_ns + elapsed_ns / 2;
}

/*
 * Where a program's stack begins, which the kernel chooses anew at each exec: another one since the
 * last look is another program.
 */
static int runs_another(struct watch *w)
{
	char text[1024];
	const char *at =
		target_text(&w->target, "stat", text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	for (int field = 2; at && field < 28; field++)
		at = strchr(at + 1, ' ');
	uint64_t start = at ? strtoull(at + 1, NULL, 10) : 0, before = w->stack_start;
	w->stack_start = start ? start : before;
	return start && before && start != before;
}

unsigned watch_programs(const struct watch *w)
{
	return w->programs;
}

int watch_look(struct watch *w, struct err *err)
{
	if (runs_another(w)) {
		target_renew(&w->target);
		w->programs++;
		w->reading_due_ns = 0;
	}
	uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int full = !w->cost.readings || now + w->opt.period_ns / 2 >= w->reading_due_ns;
	w->time_ns = watch_time_next(w->time_ns, w->time_at_ns ? now - w->time_at_ns : 0,
				     clock_ns(CLOCK_REALTIME));
	w->time_at_ns = now;
	int rc = full ? read_mappings(w, err) : totals_read(&w->target, &w->totals, err);
	if ((rc == -ESRCH || (rc >= 0 && w->totals.virtual_bytes == 0)) &&
	    target_again(&w->target)) {
		err_init(err);
		rc = full ? read_mappings(w, err) : totals_read(&w->target, &w->totals, err);
	}
	/* a zombie has no memory left: it ended */
	if (rc >= 0 && w->totals.virtual_bytes == 0)
		rc = err_set(err, -ESRCH, "process %d has ended", (int)w->target.pid);
	uint64_t spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	w->cost.looks++;
	w->cost.cpu_ns += spent;
	if (full) {
		w->cost.reading_cpu_ns = spent;
		plan(w, now);
	} else {
		w->other_cpu_ns += spent;
	}
	w->due_ns += w->opt.period_ns;
	if (w->due_ns <= now) /* the machine was busy: looks are left out, not made up for */
		w->due_ns = now + w->opt.period_ns;
	return rc;
}

struct breakdown *watch_take(struct watch *w)
{
	return STEAL(w->last);
}

const struct proc_totals *watch_totals(const struct watch *w)
{
	return &w->totals;
}

uint64_t watch_time_ns(const struct watch *w)
{
	return w->time_ns;
}

uint64_t watch_at_ns(const struct watch *w)
{
	return w->time_at_ns;
}

const struct target *watch_target(const struct watch *w)
{
	return &w->target;
}

uint64_t watch_due_ns(const struct watch *w)
{
	return w->due_ns;
}

void watch_spent(struct watch *w, uint64_t cpu_ns)
{
	w->cost.cpu_ns += cpu_ns;
	w->other_cpu_ns += cpu_ns;
}

void watch_cost(const struct watch *w, struct watch_cost *cost)
{
	*cost = w->cost;
	cost->since_ns = clock_ns(CLOCK_MONOTONIC) - w->opened_ns;
}

/* ---- the limit ------------------------------------------------------------------------------- */

uint64_t watch_limit(const struct target *target)
{
	uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t own = cgroup_limit(target);
	return own < limit ? own : limit;
}
