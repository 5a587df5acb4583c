/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - stacks grouped and sorted. Groups stay small (cost and one example) until a row is
 * spelled out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/groups.h"

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot group the stacks");
}

static int collect_threads(const struct prof *prof, struct groups *g, struct err *err)
{
	for (uint32_t i = 0; i < prof_thread_count(prof); i++) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ i });
		if (cost_is_zero(&t->cost))
			continue;
		struct group *item = groups_add(g, i);
		if (!item)
			return no_memory(err);
		item->cost = t->cost;
	}
	return 0;
}

static int collect_stacks(const struct prof *prof, struct groups *g, struct err *err)
{
	uint32_t stacks = prof_stack_count(prof);
	uint32_t *group_of = calloc(
		stacks, sizeof(*group_of)); /* of a canonical stack; 0 = none, else 1 + index */
	int rc = group_of ? 0 : no_memory(err);
	for (uint32_t i = prof_stack_used(prof, 0); i < stacks && rc == 0;
	     i = prof_stack_used(prof, i + 1)) {
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		if (cost_is_zero(&cost))
			continue;
		uint32_t *known = &group_of[view_canonical(prof, (struct stack_id){ i }).v];
		if (*known) {
			cost_add(&g->items[*known - 1].cost, &cost);
			continue;
		}
		struct group *item = groups_add(g, view_canonical(prof, (struct stack_id){ i }).v);
		if (!item) {
			rc = no_memory(err);
			break;
		}
		item->cost = cost;
		*known = g->count;
	}
	free(group_of);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	/*
	 * Where the asked cost is equal, more bytes first, then the order of definition: the same
	 * file prints the same.
	 */
	if (x->cost.allocated_bytes != y->cost.allocated_bytes)
		return x->cost.allocated_bytes < y->cost.allocated_bytes ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int collect(const struct prof *prof, const struct view_opt *opt, struct groups *g,
		   struct err *err)
{
	int rc = opt->by == VIEW_BY_THREAD  ? collect_threads(prof, g, err)
		 : opt->by == VIEW_BY_STACK ? collect_stacks(prof, g, err)
					    : groups_of_frames(prof, opt->by, opt->skip, g, err);
	if (rc < 0)
		return rc;
	int inclusive = opt->inclusive && view_by_frames(opt->by);
	for (uint32_t i = 0; i < g->count; i++)
		g->items[i].key = view_cost_of(
			inclusive ? &g->items[i].inclusive : &g->items[i].cost, opt->cost);
	if (g->count)
		qsort(g->items, g->count, sizeof(*g->items), by_key);
	return 0;
}

static void spell_out(const struct prof *prof, enum view_by by, const struct group *g,
		      struct view_row *row)
{
	*row = (struct view_row){ .cost = g->cost, .inclusive = g->inclusive };
	if (by == VIEW_BY_THREAD) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ g->id });
		row->tid = t->tid;
		row->thread_name = t->name;
		return;
	}
	row->stack.v = g->id;
	if (by == VIEW_BY_STACK)
		row->stop = prof_stack(prof, row->stack)->partial;
	else
		row->frame = g->frame;
}

struct view_table *view_table_new(const struct prof *prof, const struct view_opt *opt,
				  struct err *err)
{
	struct groups g = { 0 };
	struct view_table *table = NULL;
	if (collect(prof, opt, &g, err) == 0) {
		size_t count = opt->limit && opt->limit < g.count ? opt->limit : g.count;
		table = calloc(1, sizeof(*table));
		if (table)
			table->rows = calloc(count ? count : 1, sizeof(*table->rows));
		if (!table || !table->rows) {
			free(table);
			table = NULL;
			no_memory(err);
		} else {
			table->count = count;
			table->total = g.count;
			table->by = opt->by;
			table->cost = opt->cost;
			for (size_t i = 0; i < count; i++)
				spell_out(prof, opt->by, &g.items[i], &table->rows[i]);
			while (table->nonzero < g.count && g.items[table->nonzero].key)
				table->nonzero++;
		}
	}
	free(g.items);
	return table;
}

int view_each(const struct prof *prof, const struct view_opt *opt,
	      int (*fn)(void *ctx, const struct view_row *row), void *ctx, struct err *err)
{
	struct groups g = { 0 };
	int rc = collect(prof, opt, &g, err);
	size_t count = opt->limit && opt->limit < g.count ? opt->limit : g.count;
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct view_row row;
		spell_out(prof, opt->by, &g.items[i], &row);
		rc = fn(ctx, &row);
	}
	free(g.items);
	return rc;
}

void view_table_free(struct view_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table);
}

void view_table_freep(struct view_table **table)
{
	view_table_free(*table);
	*table = NULL;
}
