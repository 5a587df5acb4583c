/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions_live.c - `regions --group process --watch SEC`: the table of watch/table.h, on a terminal
 * each over the one before.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "out/fit.h"
#include "out/regions.h"
#include "watch/table.h"

struct live {
	struct regions *r;
	const char *title;
	uint64_t began_ns, said_ns;
	/* a terminal */
	int screen;
	int printed, signals;
};

static int on_show(void *ctx, struct ledger *ledger, struct err *err)
{
	struct live *l = ctx;
	struct regions *r = l->r;
	FILE *to = r->result.to;
	int rc;
	if (!to)
		return 0;
	struct regions_text_opt how = regions_fit(r);
	how.colour = 0;
	if (r->format == OUT_REGIONS_JSON)
		rc = out_ledger_page(to, ledger, l->title, 1, &how, err);
	else
		rc = out_ledger_screen(
			to, ledger, l->title, l->screen ? terminal_rows(to) : 0,
			l->printed || !l->screen ? clock_ns(CLOCK_MONOTONIC) - l->began_ns : 0,
			l->printed, &how, err);
	l->printed = 1;
	if (rc == 0 && (fflush(to) != 0 || ferror(to)))
		rc = errno == EPIPE ? -EPIPE : result_failed(err);
	return rc;
}

/* Said once, and again where it has doubled. */
static void on_slowed(void *ctx, size_t count, uint64_t cpu_ns, uint64_t period_ns)
{
	struct live *l = ctx;
	char cpu[TEXT_NUMBER_MAX], period[TEXT_NUMBER_MAX];
	if (period_ns < l->said_ns * 2)
		return;
	l->said_ns = period_ns;
	if (!l->screen)
		cmd_say("reading %zu processes takes %s of CPU: one table every %s", count,
			text_duration(cpu, cpu_ns), text_duration(period, period_ns));
}

static int on_signals(void *ctx)
{
	return started_signals(((const struct live *)ctx)->signals, 0);
}

int regions_live(struct regions *r, const struct target_list *list, const char *title,
		 struct err *err)
{
	struct live l = { .r = r,
			  .title = title,
			  .began_ns = clock_ns(CLOCK_MONOTONIC),
			  .signals = signals_open(0) };
	const struct table_opt opt = { .targets = &r->targets,
				       .period_ns = (uint64_t)(r->watch.seconds * 1e9),
				       .end_ns = r->watch.end_ns,
				       .sort = r->sort_given ? r->sort : REGIONS_BY_PSS,
				       .signals = l.signals,
				       .ctx = &l,
				       .signalled = on_signals,
				       .show = on_show,
				       .slowed = on_slowed };
	int rc = result_for(&r->result, "processes", list->pids[0], err);
	l.screen = r->format == OUT_REGIONS_TEXT && r->result.to && isatty(fileno(r->result.to));
	if (rc == 0)
		rc = watch_table(&opt, list, err);
	if (l.signals >= 0)
		close(l.signals);
	return rc;
}
