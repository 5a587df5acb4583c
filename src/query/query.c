/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - what has to be known before, and how many passes that takes. */
#include "query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/impl.h"

int query_is_empty(const struct query *query)
{
	return !query ||
	       (!query->at.kind && !query->from.kind && !query->to.kind && !query->function_regex &&
		query->min_size == 0 && !query->has_max_size && !query->has_lifetime_min &&
		!query->has_lifetime_max && !query->leaked && !query->module &&
		!query->has_thread && !query->has_stack && !query->has_address);
}

/** read_whole() - everything: the summary where there is one. */
static struct prof *read_whole(const struct query_source *source, struct err *err)
{
	CLEANUP(prof_freep) struct prof *prof = prof_new(err);
	if (!prof)
		return NULL;
	int rc = source->summary ? source->summary(source->ctx, prof, err) : 0;
	if (rc == 0)
		rc = source->run(source->ctx, prof_sink(prof), err);
	return rc < 0 ? NULL : STEAL(prof);
}

/** moment_needs_reading() - does the moment depend on how the recording went? */
static int moment_needs_reading(const struct query *query, const struct query_time *time)
{
	return time->kind != QUERY_TIME_NONE &&
	       (time->kind != QUERY_TIME_START_NS || query->times_inside);
}

static int resolve(const struct query *query, const struct query_time *time,
		   const struct prof *whole, uint64_t *ns, struct err *err)
{
	if (query->times_inside)
		return query_time_resolve_inside(time, whole, time == &query->at, ns, err);
	if (time->kind == QUERY_TIME_START_NS) {
		*ns = time->value;
		return 0;
	}
	return query_time_resolve(time, whole, ns, err);
}

/** is_end() - the end as a bound excludes nothing: the last event of all stands exactly there. */
static int is_end(const struct query_time *time)
{
	return time->kind == QUERY_TIME_NONE || time->kind == QUERY_TIME_END ||
	       (time->kind == QUERY_TIME_PERMILLION && time->value == 1000000);
}

int plan_make(struct plan *plan, const struct query *q, const struct prof *whole, struct err *err)
{
	*plan = (struct plan){
		.to_ns = UINT64_MAX,
		.min_size = q->min_size,
		.max_size = q->has_max_size ? q->max_size : UINT64_MAX,
		.lifetime_min_ns = q->has_lifetime_min ? q->lifetime_min_ns : 0,
		.lifetime_max_ns = q->has_lifetime_max ? q->lifetime_max_ns : UINT64_MAX,
		.leaked = q->leaked,
		.needs_fate = q->has_lifetime_min || q->has_lifetime_max || q->leaked,
		.thread = q->thread,
		.address_from = q->address_from,
		.address_to = q->has_address ? q->address_to : UINT64_MAX,
		.has_at = q->at.kind != QUERY_TIME_NONE,
		.at_ns = UINT64_MAX,
	};
	int rc = 0;
	if (q->from.kind)
		rc = resolve(q, &q->from, whole, &plan->from_ns, err);
	if (rc == 0 && !is_end(&q->to))
		rc = resolve(q, &q->to, whole, &plan->to_ns, err);
	if (rc == 0 && !is_end(&q->at))
		rc = resolve(q, &q->at, whole, &plan->at_ns, err);
	if (rc < 0)
		return rc;
	struct prof_totals totals = { 0 };
	if (whole)
		prof_totals(whole, &totals);
	plan->end_ns = totals.runtime_ns;
	/*
	 * The peak is a place between two events; a time would name all events of its millisecond.
	 */
	plan->at_by_event = q->at.kind == QUERY_TIME_PEAK;
	plan->at_event = totals.peak_event;
	return 0;
}

/**
 * copy_symbols() - hand the names that @from knows to the same frames of @to. Both read the same
 * definitions in the same order, so rows agree; a row that does not is left alone (and resolved
 * again later, by whoever wants its name).
 */
static int copy_symbols(const struct prof *from, struct prof *to, struct err *err)
{
	uint32_t count = prof_frame_count(from);
	if (prof_frame_count(to) < count)
		count = prof_frame_count(to);
	for (uint32_t i = 1; i < count; i++) {
		const struct prof_frame *a = prof_frame(from, (struct frame_id){ i });
		const struct prof_frame *b = prof_frame(to, (struct frame_id){ i });
		if (!a->symbol_count || b->symbol_count || a->offset != b->offset ||
		    strcmp(prof_module(from, a->module)->path, prof_module(to, b->module)->path) !=
			    0)
			continue;
		struct def def = { .kind = DEF_SYMBOL,
				   .id = i,
				   .symbol = { a->symbols, a->symbol_count } };
		struct sink *sink = prof_symbol_sink(to);
		int rc = sink->define(sink, &def, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int select_blocks(const struct query_source *source, const struct plan *plan,
			 struct sink *to, struct outcome *outcome, struct err *err)
{
	if (!plan->needs_fate)
		return filter_run(source, plan, NULL, to, outcome, err);
	struct bits bits = { 0 };
	int rc = fate_run(source, plan, &bits, err);
	if (rc == 0)
		rc = filter_run(source, plan, &bits, to, outcome, err);
	bits_fini(&bits);
	return rc;
}

/**
 * may_have_culled() - 1: short-lived blocks may have been left out of the recording, so that all of
 * it must be looked at.
 */
static int may_have_culled(const struct query_source *source, const struct prof *whole,
			   struct err *err)
{
	struct prof_totals totals = { 0 };
	CLEANUP(prof_freep) struct prof *summary = NULL;
	if (!whole && source->summary) {
		summary = prof_new(err);
		int rc = summary ? source->summary(source->ctx, summary, err) : -ENOMEM;
		if (rc < 0)
			return rc;
		whole = rc ? summary : NULL;
	}
	if (whole)
		prof_totals(whole, &totals);
	return !whole || totals.culled_allocations;
}

/**
 * prepare() - what has to be known before: *@whole receives a reading of everything if that is
 * needed.
 */
static int prepare(const struct query_source *source, const struct query *query, struct plan *plan,
		   struct prof **whole, struct err *err)
{
	*whole = NULL;
	int by_stack = query->function_regex || query->module || query->has_stack;
	if (by_stack || query->has_lifetime_min || query->has_lifetime_max ||
	    moment_needs_reading(query, &query->at) || moment_needs_reading(query, &query->from) ||
	    moment_needs_reading(query, &query->to)) {
		*whole = read_whole(source, err);
		if (!*whole)
			return err ? err->code : -EIO;
	}
	int rc = plan_make(plan, query, *whole, err);
	if (rc == 0 && plan->has_at && !plan->leaked && source->run_until) {
		rc = may_have_culled(source, *whole, err);
		plan->to_the_end = rc > 0;
	}
	if (rc < 0 || !by_stack)
		return rc < 0 ? rc : 0;
	plan->names = *whole;
	if (query->function_regex) {
		if (source->resolve && (rc = source->resolve(source->ctx, *whole, err)) < 0)
			return rc;
		plan->stacks = query_mask(*whole, query->function_regex, 0, err);
		rc = plan->stacks ? 0 : err ? err->code : -EINVAL;
	}
	if (rc == 0 && query->module)
		rc = module_stacks(*whole, query->module, &plan->stacks, err);
	return rc == 0 && query->has_stack ? one_stack(*whole, query->stack, &plan->stacks, err)
					   : rc;
}

struct prof *query_run(const struct query_source *source, const struct query *query,
		       struct err *err)
{
	if (query_is_empty(query))
		return read_whole(source, err);
	CLEANUP(prof_freep) struct prof *whole = NULL;
	struct plan plan;
	struct chunked mine = CHUNKED_INIT(uint8_t);
	if (prepare(source, query, &plan, &whole, err) < 0)
		return NULL;
	plan.mine = query->has_thread ? &mine : NULL;
	CLEANUP(prof_freep) struct prof *to = prof_new(err);
	struct outcome outcome = { 0 };
	if (to && plan.stacks)
		prof_set_estimates(to);
	int rc = to ? select_blocks(source, &plan, prof_sink(to), &outcome, err) : -ENOMEM;
	/* where some were taken the reading says how exact its times are */
	if (rc == 0 && outcome.missed_allocations && !prof_peaks_lack_culled(to))
		prof_set_missed(to, outcome.missed_allocations, outcome.missed_bytes);
	if (rc == 0 && plan.has_at) {
		struct prof_totals totals;
		prof_totals(to, &totals);
		prof_keep_live(to, plan.needs_fate ? totals.peak_time_ns : outcome.last_ns);
	}
	if (rc == 0 && plan.stacks)
		rc = copy_symbols(whole, to, err);
	free(plan.stacks);
	chunked_fini(&mine);
	return rc < 0 ? NULL : STEAL(to);
}

int query_scratch(struct err *err)
{
	return scratch_open(err);
}

int query_stream(const struct query_source *source, const struct query *query, struct sink *to,
		 struct err *err)
{
	if (query_is_empty(query))
		return source->run(source->ctx, to, err);
	CLEANUP(prof_freep) struct prof *whole = NULL;
	struct plan plan;
	struct outcome outcome;
	struct chunked mine = CHUNKED_INIT(uint8_t);
	int rc = prepare(source, query, &plan, &whole, err);
	if (rc < 0)
		return rc;
	plan.mine = query->has_thread ? &mine : NULL;
	plan.needs_fate |=
		plan.has_at; /* events handed on cannot be taken back: know the end first */
	rc = select_blocks(source, &plan, to, &outcome, err);
	free(plan.stacks);
	chunked_fini(&mine);
	return rc;
}
