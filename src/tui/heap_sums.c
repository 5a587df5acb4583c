/* SPDX-License-Identifier: Apache-2.0 */
/* heap_sums.c - what a heap's readings say: now, in those before, and row by row over time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/heap_internal.h"

#define CHANGE_NS 10000000000ull

/* By stack row, so that a later reading of the same recording finds its own again. */
static uint64_t *values_of(const struct heap_view *v, enum view_cost cost, uint32_t *count)
{
	*count = prof_stack_count(v->prof);
	uint64_t *values = calloc((size_t)*count + 1, sizeof(*values));
	for (uint32_t i = 0; values && i < v->stack_count; i++) {
		struct cost c;
		prof_stack_cost(v->prof, (struct stack_id){ v->stacks[i] }, &c);
		values[v->stacks[i]] = view_cost_of(&c, cost);
	}
	return values;
}

static void past_drop(struct heap_past *past)
{
	free(past->values);
	free(past->traffic);
	*past = (struct heap_past){ 0 };
}

/** read_now() - what each stack says now; -ENOMEM. */
static int read_now(const struct heap_view *v, struct heap_past *now)
{
	*now = (struct heap_past){ .time_ns = v->time_ns };
	now->values = values_of(v, v->opt.cost, &now->count);
	now->traffic = values_of(v, VIEW_COST_ALLOCATED, &now->count);
	if (now->values && now->traffic)
		return 0;
	past_drop(now);
	return -ENOMEM;
}

void heap_set_base(struct heap_view *v)
{
	struct heap_past now;
	past_drop(&v->base);
	if (v->prof && read_now(v, &now) == 0)
		v->base = now; /* without memory: as before */
}

void heap_forget(struct heap_view *v)
{
	for (unsigned i = 0; i < v->past_count; i++)
		past_drop(&v->past[i]);
	v->past_count = 0;
	past_drop(&v->base);
	heap_drop_trail(v);
}

void heap_remember(struct heap_view *v)
{
	struct heap_past now;
	if (!v->opt.live ||
	    (v->past_count && v->time_ns < v->past[v->past_count - 1].time_ns + 900000000ull))
		return;
	if (read_now(v, &now) < 0)
		return;
	if (v->past_count == HEAP_PAST) {
		past_drop(&v->past[0]);
		memmove(&v->past[0], &v->past[1], (HEAP_PAST - 1) * sizeof(v->past[0]));
		v->past_count--;
	}
	v->past[v->past_count++] = now;
}

/*
 * The reading that changes are told from: the reader's own, else the newest that is ten seconds
 * old, else the oldest.
 */
static const struct heap_past *before(const struct heap_view *v)
{
	const struct heap_past *found = NULL;
	if (v->base.values)
		return &v->base;
	for (unsigned i = 0; i + 1 < v->past_count; i++)
		if (!found || v->past[i].time_ns + CHANGE_NS <= v->time_ns)
			found = &v->past[i];
	return found;
}

int heap_list_stacks(struct heap_view *v)
{
	uint32_t rows = prof_stack_count(v->prof), count = 0;
	uint32_t *stacks = calloc((size_t)rows + 1, sizeof(*stacks));
	if (!stacks)
		return -ENOMEM;
	for (uint32_t i = prof_stack_used(v->prof, 0); i < rows;
	     i = prof_stack_used(v->prof, i + 1))
		stacks[count++] = i;
	free(v->stacks);
	v->stacks = stacks;
	v->stack_count = count;
	return 0;
}

/* By account, which is what the fold asks for. */
static uint64_t *by_account(const struct heap_view *v, const uint64_t *by_row, uint32_t count)
{
	uint64_t *values = calloc((size_t)v->stack_count + 1, sizeof(*values));
	for (uint32_t i = 0; values && i < v->stack_count; i++)
		values[i] = v->stacks[i] < count ? by_row[v->stacks[i]] : 0;
	return values;
}

static int sum_rows(const struct heap_view *v, const uint64_t *by_row, uint32_t count,
		    struct fold_sums *sums, struct err *err)
{
	uint64_t *values = by_account(v, by_row, count);
	int rc = values ? fold_sum(v->fold, 0, values, sums, err) : -ENOMEM;
	free(values);
	return rc;
}

void heap_sums_fini(struct heap_sums *s)
{
	fold_sums_fini(&s->cost);
	fold_sums_fini(&s->blocks);
	fold_sums_fini(&s->base);
	for (unsigned k = 0; k < HEAP_MORE; k++)
		fold_sums_fini(&s->more[k]);
	free(s->accounts);
}

/* What a stack counts for in a further cost. */
static uint64_t more_of(const struct heap_view *v, const struct cost *c, unsigned which)
{
	switch (which) {
	case HEAP_CALLS:
		return c->allocations;
	case HEAP_TEMPORARY:
		return c->temporary;
	case HEAP_PEAK:
		return v->opt.cost == VIEW_COST_PEAK ? view_cost_of(c, VIEW_COST_LIVE)
						     : c->peak_bytes;
	default:
		return c->allocated_bytes;
	}
}

/** add_more() - the columns of wide terminals; @past: what traffic is told from. */
static int add_more(const struct heap_view *v, const struct heap_past *past, struct heap_sums *s,
		    struct err *err)
{
	int rc = 0;
	uint64_t *values = calloc((size_t)v->stack_count + 1, sizeof(*values));
	for (unsigned k = 0; values && k < HEAP_MORE && rc == 0; k++) {
		for (uint32_t i = 0; i < v->stack_count; i++) {
			struct cost c;
			prof_stack_cost(v->prof, (struct stack_id){ v->stacks[i] }, &c);
			values[i] = more_of(v, &c, k);
			uint64_t then = k == HEAP_TRAFFIC && past && v->stacks[i] < past->count
						? past->traffic[v->stacks[i]]
						: 0;
			values[i] -= then < values[i] ? then : values[i];
		}
		rc = fold_sum(v->fold, 0, values, &s->more[k], err);
	}
	free(values);
	return values ? rc : -ENOMEM;
}

int heap_add_up(struct heap_view *v, struct heap_sums *s, struct err *err)
{
	const struct heap_past *past = before(v);
	uint32_t count;
	uint64_t *by_row = values_of(v, v->opt.cost, &count);
	s->accounts = by_row ? by_account(v, by_row, count) : NULL;
	int rc = s->accounts ? fold_sum(v->fold, 0, s->accounts, &s->cost, err) : -ENOMEM;
	v->whole = 0;
	for (uint32_t i = 0; rc == 0 && i < v->stack_count; i++)
		sum_add(&v->whole, by_row[v->stacks[i]]);
	for (uint32_t i = 0; rc == 0 && i < v->stack_count; i++) {
		struct cost c;
		prof_stack_cost(v->prof, (struct stack_id){ v->stacks[i] }, &c);
		by_row[v->stacks[i]] = v->opt.cost == VIEW_COST_LIVE && !v->opt.moment
					       ? c.leaked + c.uncertain
					       : c.allocations;
	}
	if (rc == 0)
		rc = sum_rows(v, by_row, count, &s->blocks, err);
	free(by_row);
	v->has_before = past != NULL;
	v->before_ns = past ? past->time_ns : 0;
	if (rc == 0 && past)
		rc = sum_rows(v, past->values, past->count, &s->base, err);
	v->has_more = v->columns >= HEAP_WIDE && !v->opt.moment;
	if (rc == 0 && v->has_more)
		rc = add_more(v, past, s, err);
	return rc;
}

/* ---- how each row was, reading by reading ---------------------------------------------------- */

void heap_drop_trail(struct heap_view *v)
{
	for (unsigned i = 0; i < v->trail_count; i++)
		free(v->trail[i].values);
	v->trail_count = 0;
}

/* Of the tree all that could be opened, of the table its rows. */
void heap_trail(struct heap_view *v)
{
	struct past_reading now;
	int tree = v->screen == HEAP_TREE;
	size_t count = tree ? v->picks.count : v->row_count;
	if (!v->opt.live || past_new(&now, v->time_ns, count) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		now.values[i] =
			tree ? (struct past_value){ v->picks.all[i].key,
						    (int64_t)v->picks.all[i].total }
			     : (struct past_value){ v->rows[i].key, (int64_t)v->rows[i].total };
	past_sort(&now);
	if (v->trail_count == HEAP_TRAIL) {
		free(v->trail[0].values);
		memmove(&v->trail[0], &v->trail[1], (HEAP_TRAIL - 1) * sizeof(v->trail[0]));
		v->trail_count--;
	}
	v->trail[v->trail_count++] = now;
}

unsigned heap_trail_of(const struct heap_view *v, uint64_t key, uint64_t points[HEAP_TRAIL])
{
	for (unsigned i = 0; i < v->trail_count; i++)
		points[i] = (uint64_t)past_value(&v->trail[i], key, 0);
	return v->trail_count;
}
