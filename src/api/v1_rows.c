/* SPDX-License-Identifier: Apache-2.0 */
/* v1_rows.c - tables: a row a function, module, file, line, stack or thread, with all costs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "base/spare.h"

/* The columns of a report's rows, and what is live. */
enum column {
	COL_ALLOCATIONS,
	COL_ALLOCATED_BYTES,
	COL_TEMPORARY,
	COL_LEAKED,
	COL_LEAKED_BYTES,
	COL_PEAK_BYTES,
	COL_LIVE_BYTES,
	COL_LIVE,
	COL_UNCERTAIN,
	COL_PEAK,
	COLUMNS
};
static const char *const names[COLUMNS] = {
	"allocations",        "allocated_bytes",  "temporary_allocations",
	"leaked_allocations", "leaked_bytes",     "peak_bytes",
	"live_bytes",         "live_allocations", "uncertain_allocations",
	"peak_allocations"
};
#define SORT_BASE (2 * COLUMNS)
#define SORT_BASE_INCLUSIVE (2 * COLUMNS + 1)
#define SORT_DELTA (2 * COLUMNS + 2)
#define SORT_DELTA_INCLUSIVE (2 * COLUMNS + 3)

static uint64_t column_of(const struct cost *c, enum column column)
{
	switch (column) {
	case COL_ALLOCATIONS:
		return c->allocations;
	case COL_ALLOCATED_BYTES:
		return c->allocated_bytes;
	case COL_TEMPORARY:
		return c->temporary;
	case COL_LEAKED:
		return c->leaked;
	case COL_LEAKED_BYTES:
		return c->leaked_bytes;
	case COL_PEAK_BYTES:
		return c->peak_bytes;
	case COL_LIVE_BYTES:
		return view_cost_of(c, VIEW_COST_LIVE);
	case COL_LIVE:
		return c->leaked + c->uncertain;
	case COL_UNCERTAIN:
		return c->uncertain;
	case COL_PEAK:
		return c->peak_blocks;
	case COLUMNS:
		break;
	}
	return 0;
}

static enum column column_of_cost(enum view_cost cost)
{
	static const enum column columns[] = { [VIEW_COST_PEAK] = COL_PEAK_BYTES,
					       [VIEW_COST_ALLOCATIONS] = COL_ALLOCATIONS,
					       [VIEW_COST_ALLOCATED] = COL_ALLOCATED_BYTES,
					       [VIEW_COST_TEMPORARY] = COL_TEMPORARY,
					       [VIEW_COST_LEAKED] = COL_LEAKED_BYTES,
					       [VIEW_COST_LIVE] = COL_LIVE_BYTES };
	return columns[cost];
}

/** struct table - rows before they are ordered: @own[column][group], likewise @inclusive. */
struct table {
	uint32_t groups;
	uint64_t *own[COLUMNS], *inclusive[COLUMNS];
	uint64_t *base, *base_inclusive;
	int has_inclusive;
};

static void table_fini(struct table *t)
{
	for (unsigned i = 0; i < COLUMNS; i++) {
		spare_free(t->own[i]);
		spare_free(t->inclusive[i]);
	}
	spare_free(t->base);
	spare_free(t->base_inclusive);
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot make the table");
}

static int table_init(struct table *t, uint32_t groups, int has_inclusive, int has_base)
{
	*t = (struct table){ .groups = groups, .has_inclusive = has_inclusive };
	for (unsigned i = 0; i < COLUMNS; i++) {
		t->own[i] = spare_calloc((size_t)groups + 1, sizeof(uint64_t));
		if (has_inclusive)
			t->inclusive[i] = spare_calloc((size_t)groups + 1, sizeof(uint64_t));
		if (!t->own[i] || (has_inclusive && !t->inclusive[i]))
			return -1;
	}
	if (has_base) {
		t->base = spare_calloc((size_t)groups + 1, sizeof(uint64_t));
		t->base_inclusive = spare_calloc((size_t)groups + 1, sizeof(uint64_t));
	}
	return has_base && !(t->base && t->base_inclusive) ? -1 : 0;
}

/** add_frames() - groups are frames. */
static int add_frames(struct v1_call *call, struct table *t, struct err *err)
{
	const struct fold *fold = call->folded->fold;
	const struct reading *r = call->reading;
	uint64_t *values = malloc(((size_t)r->book->count + 1) * sizeof(*values));
	int rc = values ? 0 : no_memory(err);
	for (unsigned c = 0; c < COLUMNS && rc == 0; c++) {
		struct fold_sums sums;
		uint64_t any = 0;
		for (uint32_t i = 0; i < r->book->count; i++)
			any |= values[i] = column_of(&r->costs[i], (enum column)c);
		if (!any)
			continue; /* of a moment, of a range: most columns */
		rc = fold_sum(fold, 0, values, &sums, err);
		if (rc == 0) {
			rc = fold_own_sums(fold, 0, values, t->own[c], err);
			fold_inclusive_sums(fold, &sums, t->inclusive[c]);
		}
		fold_sums_fini(&sums);
	}
	free(values);
	if (rc == 0 && call->base) {
		struct fold_sums sums = { 0 };
		unsigned side = call->base->book != r->book;
		values = v1_values(call->base, call->ask.cost, err);
		rc = values ? fold_sum(fold, side, values, &sums, err) : err->code;
		if (rc == 0) {
			rc = fold_own_sums(fold, side, values, t->base, err);
			fold_inclusive_sums(fold, &sums, t->base_inclusive);
		}
		fold_sums_fini(&sums);
		free(values);
	}
	return rc;
}

/** add_stacks() - groups are nodes of the tree. */
static void add_stacks(struct v1_call *call, struct table *t)
{
	const struct fold *fold = call->folded->fold;
	const struct reading *r = call->reading, *b = call->base;
	for (uint32_t i = 0; i < r->book->count; i++) {
		uint32_t node = fold->node_of[0][i];
		if (node == FOLD_NONE)
			continue;
		for (unsigned c = 0; c < COLUMNS; c++)
			sum_add(&t->own[c][node], column_of(&r->costs[i], (enum column)c));
	}
	const uint32_t *node_of = b ? fold->node_of[b->book != r->book] : NULL;
	for (uint32_t i = 0; b && i < b->book->count; i++) {
		if (node_of[i] == FOLD_NONE)
			continue;
		sum_add(&t->base[node_of[i]], view_cost_of(&b->costs[i], call->ask.cost));
	}
}

static void add_threads(struct v1_call *call, struct table *t)
{
	const struct reading *r = call->reading;
	for (uint32_t i = 0; i < r->thread_count; i++)
		for (unsigned c = 0; c < COLUMNS; c++)
			t->own[c][i] = column_of(&r->threads[i].cost, (enum column)c);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int parse_sort(const struct v1_call *call, const struct table *t, unsigned *sort,
		      struct err *err)
{
	const char *word = call->ask.sort;
	int inclusive = word && strncmp(word, "inclusive_", 10) == 0;
	*sort = column_of_cost(call->ask.cost);
	if (!word)
		return 0;
	for (unsigned i = 0; i < COLUMNS; i++) {
		if (strcmp(word + (inclusive ? 10 : 0), names[i]) != 0)
			continue;
		if (inclusive && !t->has_inclusive)
			return err_set(err, -EINVAL, "these rows have no column '%.40s'", word);
		*sort = i + (inclusive ? COLUMNS : 0);
		return 0;
	}
	static const char *const of_base[] = { "base", "base_inclusive", "delta",
					       "delta_inclusive" };
	for (unsigned i = 0; i < ARRAY_LEN(of_base); i++) {
		if (strcmp(word, of_base[i]) != 0)
			continue;
		if (!t->base)
			return err_set(err, -EINVAL, "'sort=%s' needs a 'base'", word);
		*sort = SORT_BASE + i;
		return 0;
	}
	return err_set(err, -EINVAL, "'sort' is a column of the rows, base or delta, not '%.40s'",
		       word);
}

struct order {
	int64_t value;
	uint64_t second, key;
	uint32_t group;
};

static int descending(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	if (x->second != y->second)
		return x->second < y->second ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int ascending(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return descending(a, b);
}

/**
 * sink_row() - @rows is a heap of @count, the last one in order on top, but for what stands at @at.
 */
static void sink_row(struct order *rows, uint32_t count, uint32_t at,
		     int (*compare)(const void *a, const void *b))
{
	for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
		child += child + 1 < count && compare(&rows[child + 1], &rows[child]) > 0;
		if (compare(&rows[child], &rows[at]) <= 0)
			return;
		const struct order row = rows[at];
		rows[at] = rows[child];
		rows[child] = row;
	}
}

/** sort_first() - the first @wanted of @rows in order; the others stand behind them as they may. */
static void sort_first(struct order *rows, uint32_t count, uint64_t wanted,
		       int (*compare)(const void *a, const void *b))
{
	if (wanted < count / 8) {
		uint32_t heap = (uint32_t)wanted;
		for (uint32_t i = heap / 2; i--;)
			sink_row(rows, heap, i, compare);
		for (uint32_t i = heap; i < count && heap; i++) {
			if (compare(&rows[i], &rows[0]) >= 0)
				continue;
			const struct order row = rows[i];
			rows[i] = rows[0];
			rows[0] = row;
			sink_row(rows, heap, 0, compare);
		}
		count = heap;
	}
	if (count)
		qsort(rows, count, sizeof(*rows), compare);
}

static int64_t as_signed(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int64_t sort_value(const struct table *t, unsigned sort, enum column cost, uint32_t g)
{
	const uint64_t *inclusive = t->has_inclusive ? t->inclusive[cost] : t->own[cost];
	switch (sort) {
	case SORT_BASE:
		return as_signed(t->base[g]);
	case SORT_BASE_INCLUSIVE:
		return as_signed(t->base_inclusive[g]);
	case SORT_DELTA:
		return as_signed(t->own[cost][g]) - as_signed(t->base[g]);
	case SORT_DELTA_INCLUSIVE:
		return as_signed(inclusive[g]) - as_signed(t->base_inclusive[g]);
	default:
		return as_signed(sort < COLUMNS ? t->own[sort][g]
						: t->inclusive[sort - COLUMNS][g]);
	}
}

static int is_empty(const struct table *t, uint32_t g)
{
	uint64_t any = t->base ? t->base[g] | t->base_inclusive[g] : 0;
	for (unsigned c = 0; c < COLUMNS; c++)
		any |= t->own[c][g] | (t->has_inclusive ? t->inclusive[c][g] : 0);
	return !any;
}

/**
 * in_order() - the groups that have anything, sorted as far as they are asked for; *@out malloc'd.
 */
static int in_order(const struct v1_call *call, const struct table *t, struct order **out,
		    uint32_t *count, struct err *err)
{
	const struct fold *fold = call->folded ? call->folded->fold : NULL;
	enum column cost = column_of_cost(call->ask.cost);
	unsigned sort;
	*out = NULL;
	*count = 0;
	if (parse_sort(call, t, &sort, err) < 0)
		return err->code;
	struct order *rows = malloc(((size_t)t->groups + 1) * sizeof(*rows));
	if (!rows)
		return no_memory(err);
	for (uint32_t g = 0; g < t->groups; g++) {
		if (is_empty(t, g))
			continue;
		uint64_t key = call->ask.by == VIEW_BY_THREAD  ? call->reading->threads[g].tid
			       : call->ask.by == VIEW_BY_STACK ? fold->nodes[g].key
							       : fold->frames[g].key;
		rows[(*count)++] = (struct order){ .value = sort_value(t, sort, cost, g),
						   .second = t->own[COL_ALLOCATED_BYTES][g],
						   .key = key,
						   .group = g };
	}
	uint64_t wanted;
	if (__builtin_add_overflow(call->ask.cursor, call->ask.limit, &wanted))
		wanted = UINT64_MAX;
	sort_first(rows, *count, wanted, call->ask.ascending ? ascending : descending);
	*out = rows;
	return 0;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void put_stack(struct v1_column *stacks, struct v1_column *partial, struct v1_frames *frames,
		      const struct fold *fold, uint32_t node)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	const char *reason = NULL;
	buf_putc(&text, '[');
	for (uint32_t at = node; at; at = fold->nodes[at].parent) {
		const struct fold_frame *f = &fold->frames[fold->nodes[at].frame];
		if (f->reason) {
			reason = f->function;
			continue;
		}
		if (text.len > 1)
			buf_putc(&text, ',');
		buf_printf(&text, "%u", v1_frame(frames, fold->nodes[at].frame));
	}
	buf_putc(&text, ']');
	v1_col_raw(stacks, buf_cstr(&text));
	buf_clear(&text);
	/* "[partial: too_deep]" */
	if (reason) {
		const char *word = strchr(reason, ':') ? strchr(reason, ':') + 2 : reason + 1;
		buf_printf(&text, "\"%.*s\"", (int)strcspn(word, "]"), word);
	}
	v1_col_raw(partial, reason ? buf_cstr(&text) : "null");
}

static void put_columns(struct v1_call *call, const struct table *t, const struct order *rows,
			uint32_t count)
{
	char name[64];
	for (unsigned c = 0; c < 2 * COLUMNS; c++) {
		const uint64_t *values = c < COLUMNS ? t->own[c] : t->inclusive[c - COLUMNS];
		struct v1_column column = { 0 };
		if (!values)
			continue;
		int is_peak = c % COLUMNS == COL_PEAK || c % COLUMNS == COL_PEAK_BYTES,
		    known = !(is_peak && call->reading->lacks_peaks) &&
			    (c % COLUMNS != COL_PEAK || call->reading->knows_peak_blocks);
		for (uint32_t i = 0; i < count; i++) {
			if (known)
				v1_col_u64(&column, values[rows[i].group]);
			else
				v1_col_null(&column);
		}
		snprintf(name, sizeof(name), "%s%s", c < COLUMNS ? "" : "inclusive_",
			 names[c % COLUMNS]);
		v1_col_put(call, name, &column);
	}
	if (!t->base)
		return;
	struct v1_column base = { 0 }, inclusive = { 0 };
	for (uint32_t i = 0; i < count; i++) {
		v1_col_u64(&base, t->base[rows[i].group]);
		v1_col_u64(&inclusive, t->base_inclusive[rows[i].group]);
	}
	v1_col_put(call, "base", &base);
	if (t->has_inclusive)
		v1_col_put(call, "base_inclusive", &inclusive);
	else
		buf_fini(&inclusive.text);
}

static void put_names(struct v1_call *call, struct v1_frames *frames, const struct order *rows,
		      uint32_t count)
{
	struct v1_column a = { 0 }, b = { 0 }, c = { 0 };
	const struct fold *fold = call->folded ? call->folded->fold : NULL;
	struct jsonw *json = &call->json;
	if (call->ask.by == VIEW_BY_THREAD) {
		for (uint32_t i = 0; i < count; i++)
			v1_col_u64(&a, call->reading->threads[rows[i].group].tid);
		v1_col_put(call, "tid", &a);
		jsonw_array(json, "name");
		for (uint32_t i = 0; i < count; i++)
			jsonw_str(json, NULL, call->reading->threads[rows[i].group].name);
		jsonw_array_end(json);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		v1_col_key(&a, rows[i].key);
		if (call->ask.by == VIEW_BY_STACK)
			put_stack(&b, &c, frames, fold, rows[i].group);
		else
			v1_col_u64(&b, v1_frame(frames, rows[i].group));
	}
	v1_col_put(call, "key", &a);
	v1_col_put(call, call->ask.by == VIEW_BY_STACK ? "stack" : "frame", &b);
	if (call->ask.by == VIEW_BY_STACK)
		v1_col_put(call, "partial", &c);
}

static int answer(struct v1_call *call, const struct table *t, const struct order *rows,
		  uint32_t total, struct err *err)
{
	static const char *const words[] = {
		[VIEW_BY_STACK] = "stack",   [VIEW_BY_FUNCTION] = "function",
		[VIEW_BY_MODULE] = "module", [VIEW_BY_FILE] = "file",
		[VIEW_BY_LINE] = "line",     [VIEW_BY_THREAD] = "thread"
	};
	struct jsonw *json = &call->json;
	struct v1_frames frames = { 0 };
	uint64_t *values = v1_values(call->reading, call->ask.cost, err);
	if (!values || (call->folded && v1_frames_init(&frames, call->folded, err) < 0)) {
		free(values);
		return err->code;
	}
	uint32_t begin = call->ask.cursor < total ? (uint32_t)call->ask.cursor : total;
	uint32_t count =
		total - begin < call->ask.limit ? total - begin : (uint32_t)call->ask.limit;
	jsonw_object(json, NULL);
	v1_head(call, values);
	jsonw_str(json, "by", words[call->ask.by]);
	jsonw_u64(json, "total_rows", total);
	if (begin + count < total) {
		char next[16];
		snprintf(next, sizeof(next), "%u", begin + count);
		jsonw_str(json, "next", next);
	} else {
		jsonw_null(json, "next");
	}
	jsonw_object(json, "rows");
	put_names(call, &frames, rows + begin, count);
	put_columns(call, t, rows + begin, count);
	jsonw_object_end(json);
	if (call->folded)
		v1_frames_put(call, &frames);
	jsonw_object_end(json);
	v1_frames_fini(&frames);
	free(values);
	return 0;
}

int v1_rows(struct v1_call *call, struct err *err)
{
	int threads = call->ask.by == VIEW_BY_THREAD, stacks = call->ask.by == VIEW_BY_STACK;
	struct table t = { 0 };
	struct order *rows = NULL;
	uint32_t count = 0;
	call->wants_threads = threads;
	int rc = threads ? v1_read(call, err) : v1_fold(call, err);
	if (rc)
		return rc;
	if (call->ask.inverted)
		v1_unapplied(call, "rows have no direction", "inverted", NULL);
	if (call->ask.trunk)
		v1_unapplied(call, "it is about the tree", "x", "trunk");
	if (threads && (call->ask.fold.step_count || call->ask.fold.rec))
		v1_unapplied(call, "threads are counted without their stacks", "x", NULL);
	if (threads && call->ask.has_base)
		v1_unapplied(call, "threads are not compared", "base", NULL);
	uint32_t groups = threads  ? call->reading->thread_count
			  : stacks ? call->folded->fold->node_count
				   : call->folded->fold->frame_count;
	rc = table_init(&t, groups, !threads && !stacks, call->base && !threads) < 0
		     ? no_memory(err)
		     : 0;
	if (rc == 0 && threads)
		add_threads(call, &t);
	else if (rc == 0 && stacks)
		add_stacks(call, &t);
	else if (rc == 0)
		rc = add_frames(call, &t, err);
	if (rc == 0)
		rc = in_order(call, &t, &rows, &count, err);
	if (rc == 0)
		rc = answer(call, &t, rows, count, err);
	table_fini(&t);
	free(rows);
	return rc;
}
