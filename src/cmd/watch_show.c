/* SPDX-License-Identifier: Apache-2.0 */
/* watch_show.c - what a person sees of a process over time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "cmd/watch.h"
#include "out/fit.h"
#include "out/growth.h"
#include "out/regions.h"

int watch_show_json(struct watched *w, const struct watch_args *args, struct err *err)
{
	struct out_regions_opt opt = { .top = args->top, .all = args->all, .sort = args->sort };
	const struct breakdown *b = w->quick->breakdown;
	struct jsonw json;
	int64_t *growth = NULL;
	if (args->sort == REGIONS_BY_GROWTH) {
		growth = memory_growth(w->history, b, w->since_ns);
		if (!growth)
			return err_set(err, -ENOMEM, "cannot tell what grew");
		opt.growth = growth;
	}
	jsonw_init(&json, args->result->to);
	int rc = out_regions_json(&json, NULL, b, &opt, clock_ns(CLOCK_MONOTONIC) - b->end_ns, err);
	jsonw_line(&json);
	free(growth);
	return rc;
}

int watch_show_look(struct watched *w, const struct watch_args *args, int several, int first,
		    struct err *err)
{
	FILE *to = args->result->to;
	int rc = 0;
	if (args->json) {
		rc = watch_show_json(w, args, err);
	} else {
		const struct proc_totals *totals = watch_totals(w->watch);
		const struct out_look look = {
			.pid = several ? w->pid : 0,
			.is_first = first,
			.time_ns = watch_time_ns(w->watch),
			.rss_bytes = totals->rss_bytes,
			.before_bytes = w->rss_before ? w->rss_before : totals->rss_bytes,
			.swap_bytes = totals->swap_bytes == UINT64_MAX ? 0 : totals->swap_bytes,
			.mappings = w->quick->breakdown->region_total,
			.history = w->history,
			.ascii = terminal_ascii(to),
		};
		out_look_text(to, &look);
		w->rss_before = totals->rss_bytes;
	}
	return rc == 0 ? result_flush(to, err) : rc;
}

int watch_show_growth(const struct watch_args *args, const struct history *history,
		      uint64_t limit_bytes, size_t rows, struct err *err)
{
	FILE *to = args->result->to;
	const struct out_growth_opt opt = { limit_bytes, rows, args->by_rss, terminal_ascii(to) };
	int rc = out_growth_text(to, history, &opt, err);
	return rc == 0 ? result_flush(to, err) : rc;
}
