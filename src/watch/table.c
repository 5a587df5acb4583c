/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/table.h"

#include <errno.h>
#include <poll.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define BUDGET 0.05 /* of one CPU: PSS is a walk of all pages, and somebody is looking */

struct table {
	const struct table_opt *opt;
	/* who was there at any time; those that ended are passed over */
	struct target_list list;
	/* each as it was first seen */
	struct ledger first;
	int shown;
};

static int row_of(const struct ledger *l, pid_t pid)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->rows[i].pid == pid)
			return 1;
	return 0;
}

/* What each had when it was first seen: what has grown is counted from there. */
static int keep_first(struct table *l, const struct target *target)
{
	struct err ignored = { 0 };
	if (row_of(&l->first, target->pid))
		return 0;
	return ledger_add_quick(&l->first, target, &ignored) == -ENOMEM ? -ENOMEM : 0;
}

static int read_all(struct table *l, struct ledger *ledger, struct err *err)
{
	struct err why = { 0 };
	size_t kept = 0;
	for (size_t i = 0; i < l->list.count; i++) {
		CLEANUP(target_close) struct target target = { 0 };
		struct err one = { 0 };
		int rc = target_open(&target, l->list.pids[i], &one);
		if (rc == 0)
			rc = ledger_add_quick(ledger, &target, &one);
		if (rc == 0 && keep_first(l, &target) < 0)
			rc = err_set(err, -ENOMEM, "cannot add up the processes");
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0 && rc != -ESRCH) {
			ledger->unread++;
			why = one;
		}
		if (rc != -ESRCH) /* it has ended: its id may be another's soon */
			l->list.pids[kept++] = l->list.pids[i];
	}
	l->list.count = kept;
	if (ledger->unread && !ledger->count) {
		*err = why;
		return err->code;
	}
	ledger_grown(ledger, &l->first);
	ledger_sort(ledger, l->opt->sort);
	return 0;
}

/* 1: a signal or the end of the time. */
static int wait_until(const struct table_opt *opt, uint64_t due_ns)
{
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		uint64_t until = opt->end_ns && opt->end_ns < due_ns ? opt->end_ns : due_ns;
		if (opt->end_ns && now >= opt->end_ns)
			return 1;
		if (now >= due_ns)
			return 0;
		struct pollfd fd = { .fd = opt->signals, .events = POLLIN };
		if (poll(&fd, 1, (int)((until - now) / 1000000 + 1)) > 0 && fd.revents)
			return opt->signalled(opt->ctx);
	}
}

static int turn(struct table *l, uint64_t *cpu_ns, struct err *err)
{
	CLEANUP(ledger_fini) struct ledger ledger = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = 0;
	if (targets_follow(l->opt->targets))
		rc = targets_more(l->opt->targets, &l->list, err);
	if (rc == 0)
		rc = read_all(l, &ledger, err);
	*cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (rc == 0 && !ledger.count && !targets_follow(l->opt->targets))
		return l->shown ? -ECHILD : err_set(err, -ESRCH, "no process is left");
	if (rc == 0)
		rc = l->opt->show(l->opt->ctx, &ledger, err);
	l->shown |= rc == 0;
	return rc;
}

int watch_table(const struct table_opt *opt, const struct target_list *list, struct err *err)
{
	struct table l = { .opt = opt };
	int rc = 0;
	for (size_t i = 0; i < list->count && rc == 0; i++)
		rc = target_list_add(&l.list, list->pids[i], err);
	while (rc == 0) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC), cpu = 0;
		rc = turn(&l, &cpu, err);
		uint64_t least = (uint64_t)((double)cpu / BUDGET);
		uint64_t period = least > opt->period_ns ? least : opt->period_ns;
		if (rc == 0 && period > opt->period_ns)
			opt->slowed(opt->ctx, l.list.count, cpu, period);
		if (rc == 0 && wait_until(opt, began + period))
			break;
	}
	target_list_fini(&l.list);
	ledger_fini(&l.first);
	/* the reader has gone, or all have ended */
	return rc == -EPIPE || rc == -ECHILD ? 0 : rc;
}
