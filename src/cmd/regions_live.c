/* SPDX-License-Identifier: Apache-2.0 */
/* regions_live.c - `regions --group process --watch SEC`: the processes of a name, container or cgroup as a table, again and again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "cmd/terminal.h"
#include "out/regions.h"
#include "proc/ledger.h"

#define BUDGET 0.05 /* of one CPU: PSS is a walk of all pages, and somebody is looking */

struct live {
	struct regions *r;
	const char *title;
	struct target_list list; /* who was there at any time; those that ended are passed over */
	struct ledger first;     /* each as it was first seen */
	uint64_t began_ns, said_ns;
	int screen; /* a terminal: each table over the one before */
	int printed;
};

static int row_of(const struct ledger *l, pid_t pid)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->rows[i].pid == pid)
			return 1;
	return 0;
}

/* What each had when it was first seen: what has grown is counted from there. */
static int keep_first(struct live *l, const struct target *target)
{
	struct err ignored = { 0 };
	if (row_of(&l->first, target->pid))
		return 0;
	return ledger_add_quick(&l->first, target, &ignored) == -ENOMEM ? -ENOMEM : 0;
}

static int read_all(struct live *l, struct ledger *ledger, struct err *err)
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
	ledger_sort(ledger, l->r->sort_given ? l->r->sort : REGIONS_BY_PSS);
	return 0;
}

static size_t rows_that_fit(const struct live *l, size_t above)
{
	struct winsize size;
	if (!l->screen || ioctl(fileno(l->r->result.to), TIOCGWINSZ, &size) < 0 || !size.ws_row)
		return 0;
	return size.ws_row > above + 1 ? size.ws_row - above : 1;
}

static int show(struct live *l, struct ledger *ledger, struct err *err)
{
	struct regions *r = l->r;
	FILE *to = r->result.to;
	int rc = 0;
	if (!to)
		return 0;
	if (r->format == FORMAT_JSON) {
		struct jsonw json;
		jsonw_init(&json, to);
		rc = out_ledger_json(&json, ledger, l->title, err);
		jsonw_line(&json);
	} else {
		CLEANUP(buf_fini) struct buf text = { 0 };
		struct out_opt terminal = { 0 };
		char since[TEXT_NUMBER_MAX];
		terminal_fit(to, &terminal);
		struct regions_text_opt opt = {
			.ascii = terminal.ascii, .raw = r->raw, .top = r->top, .all = r->all
		};
		if (l->screen)
			buf_puts(&text, "\033[H\033[J");
		else if (l->printed)
			buf_putc(&text, '\n');
		if (l->printed || !l->screen)
			buf_printf(&text, "after %s\n",
				   text_duration(since, clock_ns(CLOCK_MONOTONIC) - l->began_ns));
		/* head, cgroup, heading, "more", sum, time */
		ledger_live_text(&text, ledger, l->title, rows_that_fit(l, 7), &opt);
		if (buf_failed(&text))
			return err_set(err, -ENOMEM, "cannot print");
		fwrite(text.data, 1, text.len, to);
	}
	l->printed = 1;
	if (rc == 0 && (fflush(to) != 0 || ferror(to)))
		rc = errno == EPIPE ? -EPIPE : result_failed(err);
	return rc;
}

/* Said once, and again where it has doubled. */
static void say_period(struct live *l, uint64_t cpu_ns, uint64_t period_ns)
{
	char cpu[TEXT_NUMBER_MAX], period[TEXT_NUMBER_MAX];
	if (period_ns <= (uint64_t)(l->r->watch.seconds * 1e9) || period_ns < l->said_ns * 2)
		return;
	l->said_ns = period_ns;
	if (!l->screen)
		cmd_say("reading %zu processes takes %s of CPU: one table every %s", l->list.count,
			text_duration(cpu, cpu_ns), text_duration(period, period_ns));
}

/* 1: a signal or the end of the time. */
static int wait_until(uint64_t due_ns, uint64_t end_ns, int signals)
{
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		uint64_t until = end_ns && end_ns < due_ns ? end_ns : due_ns;
		if (end_ns && now >= end_ns)
			return 1;
		if (now >= due_ns)
			return 0;
		struct pollfd fd = { .fd = signals, .events = POLLIN };
		if (poll(&fd, 1, (int)((until - now) / 1000000 + 1)) > 0 && fd.revents)
			return started_signals(signals, 0);
	}
}

static int turn(struct live *l, uint64_t *cpu_ns, struct err *err)
{
	CLEANUP(ledger_fini) struct ledger ledger = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = 0;
	if (targets_follow(&l->r->targets))
		rc = targets_more(&l->r->targets, &l->list, err);
	if (rc == 0)
		rc = read_all(l, &ledger, err);
	*cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (rc == 0 && !ledger.count && !targets_follow(&l->r->targets))
		return l->printed ? -ECHILD : err_set(err, -ESRCH, "no process is left");
	return rc < 0 ? rc : show(l, &ledger, err);
}

int regions_live(struct regions *r, const struct target_list *list, const char *title,
		 struct err *err)
{
	struct live l = { .r = r, .title = title, .began_ns = clock_ns(CLOCK_MONOTONIC) };
	int signals = signals_open(0);
	int rc = result_for(&r->result, "processes", list->pids[0], err);
	for (size_t i = 0; i < list->count && rc == 0; i++)
		rc = target_list_add(&l.list, list->pids[i], err);
	l.screen = r->format == FORMAT_TEXT && r->result.to && isatty(fileno(r->result.to));
	while (rc == 0) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC), cpu = 0;
		rc = turn(&l, &cpu, err);
		uint64_t period = (uint64_t)(r->watch.seconds * 1e9),
			 least = (uint64_t)((double)cpu / BUDGET);
		period = least > period ? least : period;
		if (rc == 0)
			say_period(&l, cpu, period);
		if (rc == 0 && wait_until(began + period, r->watch.end_ns, signals))
			break;
	}
	if (rc == -EPIPE || rc == -ECHILD) /* the reader has gone, or all have ended */
		rc = 0;
	target_list_fini(&l.list);
	ledger_fini(&l.first);
	if (signals >= 0)
		close(signals);
	return rc;
}
