/* SPDX-License-Identifier: Apache-2.0 */
/* v1_groups.c - blocks by call stack: those that match, and the whole group. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_blocks.h"

/* ---- whole groups ---------------------------------------------------------------------------- */

static void groups_free(void *data)
{
	struct v1_groups *groups = data;
	free(groups->all);
	free(groups);
}

struct group_build {
	struct sink sink;
	struct v1_groups *groups;
	const struct prof *names;
};

static int group_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int group_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct group_build *b = (struct group_build *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
			continue;
		struct block_group *g = &b->groups->all[prof_stack_row(b->names, ev->stack).v];
		if (ev->kind == EVENT_FREE) {
			g->live_bytes -= ev->bytes < g->live_bytes ? ev->bytes : g->live_bytes;
			if (g->leaked) {
				g->leaked--;
				g->life_ns += ev->time_ns;
			}
			continue;
		}
		if (!g->count++) {
			g->first_ns = ev->time_ns;
			g->min_bytes = UINT64_MAX;
		}
		g->leaked++;
		g->last_ns = ev->time_ns;
		g->life_ns -= ev->time_ns;
		g->bytes += ev->bytes;
		g->min_bytes = ev->bytes < g->min_bytes ? ev->bytes : g->min_bytes;
		g->max_bytes = ev->bytes > g->max_bytes ? ev->bytes : g->max_bytes;
		g->live_bytes += ev->bytes;
		if (g->live_bytes > g->most_bytes) {
			g->most_bytes = g->live_bytes;
			g->most_ns = ev->time_ns;
		}
	}
	return 0;
}

static int make_groups(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	(void)args;
	uint32_t count = prof_stack_count(task->book->names);
	struct v1_groups *groups = calloc(1, sizeof(*groups));
	if (!groups || !(groups->all = calloc((size_t)count + 1, sizeof(*groups->all)))) {
		free(groups);
		return err_set(err, -ENOMEM, "cannot add up the groups");
	}
	groups->count = count;
	struct group_build b = { .sink = { .define = group_define, .put = group_put },
				 .groups = groups,
				 .names = task->book->names };
	int rc = task->source->run(task->source->ctx, &b.sink, err);
	if (rc < 0) {
		groups_free(groups);
		return rc;
	}
	*product = (struct shelf_product){ groups, count * sizeof(*groups->all), groups_free };
	return 0;
}

/**
 * agree() - does each stack of @some have its row in @all? One recording that grows is read into
 * names of their own by each reading, in one order.
 */
static int agree(const struct prof *some, const struct prof *all)
{
	uint32_t count = prof_stack_count(some);
	if (count > prof_stack_count(all))
		return 0;
	for (uint32_t row = 1; row < count; row++) {
		const struct prof_stack *x = prof_stack(some, (struct stack_id){ row });
		const struct prof_stack *y = prof_stack(all, (struct stack_id){ row });
		if (x->parent.v != y->parent.v || x->frame.v != y->frame.v || x->stop != y->stop)
			return 0;
	}
	return 1;
}

int v1_groups_get(struct v1_call *call, const struct reading *rows, struct reading **sums,
		  struct err *err)
{
	const struct shelf_query query = { .source = call->source,
					   .key = "groups?",
					   .make = make_groups };
	int rc = v1_reading(call, &query, sums, err);
	if (rc == 0 && (*sums)->book != rows->book &&
	    !agree(rows->book->names, (*sums)->book->names)) {
		shelf_put(call->shelf, *sums);
		*sums = NULL;
		rc = err_set(err, -EAGAIN, "the recording changed while it was read");
	}
	return rc;
}

/* ---- those that match ------------------------------------------------------------------------ */

void v1_groups_add(struct block_group *g, const struct block_row *r)
{
	if (!g->count || r->time_ns < g->first_ns)
		g->first_ns = r->time_ns;
	if (!g->count || r->bytes < g->min_bytes)
		g->min_bytes = r->bytes;
	g->last_ns = r->time_ns > g->last_ns ? r->time_ns : g->last_ns;
	g->max_bytes = r->bytes > g->max_bytes ? r->bytes : g->max_bytes;
	g->count++;
	g->life_ns -= r->time_ns;
	if (r->freed_ns == BLOCK_NEVER)
		g->leaked++;
	else
		g->life_ns += r->freed_ns;
	g->bytes += r->bytes;
}

static int ascending(const void *a, const void *b)
{
	const struct v1_group_key *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}
static int descending(const void *a, const void *b)
{
	const struct v1_group_key *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void v1_groups_sort(struct v1_group_key *keys, size_t count, int is_descending)
{
	qsort(keys, count, sizeof(*keys), is_descending ? descending : ascending);
}

/** mean_life() - of the blocks of @g; what was never freed lasts to the end. */
static uint64_t mean_life(const struct block_group *g, uint64_t end_ns)
{
	__int128 sum = g->life_ns + (__int128)end_ns * g->leaked;
	return g->count && sum > 0 ? (uint64_t)(sum / g->count) : 0;
}

static uint64_t value_of(const struct block_group *g, const char *word, uint64_t end_ns)
{
	if (strcmp(word, "count") == 0)
		return g->count;
	if (strcmp(word, "leaked") == 0)
		return g->leaked;
	if (strcmp(word, "lifetime") == 0)
		return mean_life(g, end_ns);
	return strcmp(word, "time") == 0 ? g->first_ns : g->bytes;
}

/* ---- the answer ------------------------------------------------------------------------------ */

struct grouping {
	const struct v1_call *call;
	/* by stack row */
	struct block_group *matched;
	uint64_t scanned, taken, looks;
};

static int group_each(void *ctx, struct block_view *view, struct err *err)
{
	struct grouping *g = ctx;
	const uint8_t *mask = block_view_mask(view);
	g->scanned += block_view_count(view);
	g->taken += block_view_matched(view);
	for (uint32_t i = 0; block_view_matched(view) && i < block_view_count(view); i++) {
		struct block_row row;
		if (!mask[i])
			continue;
		if (block_view_row(view, i, &row, err) < 0)
			return err->code;
		v1_groups_add(&g->matched[row.stack], &row);
	}
	return v1_is_gone(g->call, &g->looks, err);
}

/** put_side() - the columns of one side, each name behind @prefix. */
static void put_side(struct v1_call *call, const char *prefix, const struct block_group *all,
		     const struct v1_group_key *keys, size_t count, uint64_t end_ns)
{
	static const char *const names[] = { "count",     "bytes",    "leaked",  "min_bytes",
					     "max_bytes", "first_ns", "last_ns", "lifetime_ns" };
	struct v1_column columns[ARRAY_LEN(names)] = { 0 };
	for (size_t i = 0; i < count; i++) {
		const struct block_group *g = &all[keys[i].stack];
		const uint64_t values[] = { g->count,     g->bytes,
					    g->leaked,    g->min_bytes,
					    g->max_bytes, g->first_ns,
					    g->last_ns,   mean_life(g, end_ns) };
		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			v1_col_u64(&columns[k], values[k]);
	}
	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%s", prefix, names[k]);
		v1_col_put(call, name, &columns[k]);
	}
}

static int put_groups(struct v1_call *call, const struct grouping *g,
		      const struct block_group *whole, const struct v1_group_key *keys,
		      size_t total, uint64_t end_ns, struct err *err)
{
	const struct ask *ask = &call->ask;
	struct jsonw *json = &call->json;
	size_t begin = ask->cursor < total ? (size_t)ask->cursor : total;
	size_t count = total - begin < ask->limit ? total - begin : (size_t)ask->limit;
	struct v1_column group = { 0 }, stack = { 0 }, most = { 0 }, most_ns = { 0 };
	struct v1_stacks stacks;
	uint32_t *rows = malloc((count + 1) * sizeof(*rows));
	char next[24] = "";
	keys += begin;
	for (size_t i = 0; rows && i < count; i++)
		rows[i] = keys[i].stack;
	if (!rows || v1_stacks_init(&stacks, call, rows, (uint32_t)count, err) < 0) {
		free(rows);
		return err->code ? err->code : err_set(err, -ENOMEM, "cannot list the groups");
	}
	if (begin + count < total)
		snprintf(next, sizeof(next), "%zu", begin + count);
	v1_blocks_unapplied(call);
	jsonw_object(json, NULL);
	v1_head(call, NULL);
	jsonw_u64(json, "scanned", g->scanned);
	jsonw_u64(json, "matched", g->taken);
	jsonw_u64(json, "total_rows", total);
	jsonw_str(json, "next", *next ? next : NULL);
	jsonw_object(json, "rows");
	for (size_t i = 0; i < count; i++) {
		v1_col_u64(&group, keys[i].stack);
		v1_col_i64(&stack, v1_stack(&stacks, keys[i].stack));
		v1_col_u64(&most, whole[keys[i].stack].most_bytes);
		v1_col_u64(&most_ns, whole[keys[i].stack].most_ns);
	}
	v1_col_put(call, "group", &group);
	v1_col_put(call, "stack", &stack);
	put_side(call, "", g->matched, keys, count, end_ns);
	put_side(call, "all_", whole, keys, count, end_ns);
	v1_col_put(call, "all_most_bytes", &most);
	v1_col_put(call, "all_most_ns", &most_ns);
	jsonw_object_end(json);
	v1_stacks_put(&stacks);
	jsonw_object_end(json);
	v1_stacks_fini(&stacks);
	free(rows);
	return 0;
}

/** answer_groups() - call->reading has @blocks, @whole is of the same reading. */
static int answer_groups(struct v1_call *call, const struct blocks *blocks,
			 const struct v1_groups *whole, const struct block_filter *filter,
			 struct err *err)
{
	const char *order = call->ask.order ? call->ask.order : "-size";
	int down = *order == '-', of_all = strncmp(order + down, "all.", 4) == 0;
	const char *word = order + down + 4 * of_all;
	struct grouping g = { .call = call };
	struct v1_group_key *keys = malloc(((size_t)whole->count + 1) * sizeof(*keys));
	size_t total = 0;
	g.matched = calloc((size_t)whole->count + 1, sizeof(*g.matched));
	int rc = keys && g.matched ? blocks_select(blocks, filter, 0, group_each, &g, err)
				   : err_set(err, -ENOMEM, "cannot group the blocks");
	for (uint32_t i = 0; rc == 0 && i < whole->count; i++)
		if (g.matched[i].count)
			keys[total++] = (struct v1_group_key){ value_of(of_all ? &whole->all[i]
									       : &g.matched[i],
									word, filter->end_ns),
							       i };
	if (rc == 0) {
		v1_groups_sort(keys, total, down);
		rc = put_groups(call, &g, whole->all, keys, total, filter->end_ns, err);
	}
	free(keys);
	free(g.matched);
	return rc;
}

int v1_groups(struct v1_call *call, struct err *err)
{
	const struct blocks *blocks;
	struct reading *sums = NULL;
	struct block_filter filter;
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc == 0)
		rc = v1_groups_get(call, call->reading, &sums, err);
	if (rc == 0)
		rc = block_filter_init(&filter, &call->ask.query, call->reading->book->names, err);
	if (rc == 0) {
		rc = answer_groups(call, blocks, sums->product.data, &filter, err);
		block_filter_fini(&filter);
	}
	shelf_put(call->shelf, sums);
	return rc;
}
