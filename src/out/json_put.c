/* SPDX-License-Identifier: Apache-2.0 */
/* json_put.c - see json_put.h. */
#include "out/json_put.h"

void json_totals(struct jsonw *json, const struct prof *prof, const struct prof_totals *t,
		 uint64_t live, uint64_t live_bytes)
{
	jsonw_u64(json, "allocations", t->cost.allocations);
	jsonw_u64(json, "allocated_bytes", t->cost.allocated_bytes);
	jsonw_u64(json, "frees", t->cost.frees);
	jsonw_u64(json, "foreign_frees", t->foreign_frees);
	jsonw_u64(json, "temporary_allocations", t->cost.temporary);
	jsonw_u64(json, "leaked_allocations", t->cost.leaked);
	jsonw_u64(json, "leaked_bytes", t->cost.leaked_bytes);
	jsonw_u64(json, "uncertain_allocations", t->cost.uncertain);
	jsonw_u64(json, "uncertain_bytes", t->cost.uncertain_bytes);
	jsonw_u64(json, "peak_bytes", t->cost.peak_bytes);
	if (prof_knows_peak_blocks(prof))
		jsonw_u64(json, "peak_allocations", t->cost.peak_blocks);
	jsonw_u64(json, "live_allocations", live);
	jsonw_u64(json, "live_bytes", live_bytes);
	jsonw_u64(json, "peak_time_ns", t->peak_time_ns);
	jsonw_u64(json, "peak_rss_bytes", t->peak_rss_bytes);
	jsonw_u64(json, "threads", t->threads);
	if (prof_threads_share(prof))
		jsonw_bool(json, "threads_exact", 0);
	jsonw_u64(json, "stacks", t->stacks);
}

void json_lost(struct jsonw *json, const struct prof_totals *t)
{
	jsonw_object(json, "lost");
	jsonw_u64(json, "events", t->lost_events);
	jsonw_u64(json, "bytes", t->lost_bytes);
	jsonw_object(json, "by_reason");
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		/* 0 events of a reason that was reported: their number is not known. */
		if ((t->lost[i] || t->loss_reports[i]) && loss_reason_name(i))
			jsonw_u64(json, loss_reason_name(i), t->lost[i]);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

void json_partial(struct jsonw *json, const char *name, const struct prof_totals *t)
{
	uint64_t partial = 0;
	for (unsigned i = 1; i < STACK_STOP_MAX; i++)
		sum_add(&partial, t->partial[i]);
	jsonw_object(json, name);
	jsonw_u64(json, "events", partial);
	jsonw_object(json, "by_reason");
	for (unsigned i = 1; i < STACK_STOP_MAX; i++)
		if (t->partial[i] && stack_stop_name(i))
			jsonw_u64(json, stack_stop_name(i), t->partial[i]);
	jsonw_object_end(json);
	jsonw_object_end(json);
}
