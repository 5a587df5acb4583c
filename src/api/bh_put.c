/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bh_put.c - answers of the bytehound-compatible routes that are about single blocks and their
 * stacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"
#include "base/clock.h"
#include "out/name.h"

#define COUNT_DEFAULT \
	10000 /* where a client names none: rows have whole stacks, and an answer lies in memory */
#define ROWS_MAX 1000000
#define ANSWER_MAX (64l << 20)

/* ---- times and stacks ------------------------------------------------------------------------ */

void bh_put_span(struct jsonw *json, const char *key, uint64_t ns)
{
	jsonw_object(json, key);
	jsonw_u64(json, "secs", ns / NS_PER_S);
	jsonw_u64(json, "fract_nsecs", ns % NS_PER_S);
	jsonw_object_end(json);
}

void bh_put_time(struct jsonw *json, const char *key, const struct bh_call *b, uint64_t ns)
{
	bh_put_span(json, key, b->start_ns + ns);
}

void bh_put_times(struct jsonw *json, const char *key, const struct bh_call *b, uint64_t ns)
{
	char name[64];
	bh_put_time(json, key, b, ns);
	snprintf(name, sizeof(name), "%s_relative", key);
	bh_put_span(json, name, ns);
	snprintf(name, sizeof(name), "%s_relative_p", key);
	jsonw_double(json, name, b->length_ns ? (double)ns / (double)b->length_ns : 0);
}

static void put_name(struct jsonw *json, const struct bh_call *b, const char *function)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (!function || !b->strip) {
		jsonw_str(json, "function", function);
		return;
	}
	int depth = 0;
	for (const char *at = function; *at; at++) {
		depth -= *at == '>' && depth;
		if (!depth)
			buf_putc(&text, *at);
		depth += *at == '<';
	}
	jsonw_str(json, "function", buf_cstr(&text));
}

static void put_frame(struct jsonw *json, const struct bh_call *b, struct frame_id row, uint32_t i)
{
	const struct prof_frame *f = prof_frame(b->names, row);
	const struct prof_module *m = prof_module(b->names, f->module);
	const struct symbol *s = i < f->symbol_count ? &f->symbols[i] : NULL;
	uint64_t address = f->module.v ? m->bias + f->offset : f->offset;
	char text[20];
	snprintf(text, sizeof(text), "%016llX", (unsigned long long)address);
	jsonw_object(json, NULL);
	jsonw_u64(json, "address", address);
	jsonw_str(json, "address_s", text);
	jsonw_u64(json, "count", b->frame_count[row.v]);
	jsonw_str(json, "library", *m->path ? m->path : NULL);
	put_name(json, b, s ? s->function : NULL);
	jsonw_str(json, "raw_function", s ? s->function : NULL);
	jsonw_str(json, "source", s ? s->file : NULL);
	if (s && s->line)
		jsonw_u64(json, "line", s->line);
	else
		jsonw_null(json, "line");
	jsonw_null(json, "column");
	jsonw_bool(json, "is_inline", s && s->inlined);
	jsonw_object_end(json);
}

void bh_put_backtrace(struct jsonw *json, const char *key, const struct bh_call *b, uint32_t stack)
{
	uint32_t depth = 0, n = 0;
	for (struct stack_id at = { stack }; at.v; at = prof_stack(b->names, at)->parent)
		depth++;
	uint32_t *way = malloc(((size_t)depth + 1) * sizeof(*way));
	for (struct stack_id at = { stack }; way && at.v; at = prof_stack(b->names, at)->parent)
		way[n++] = at.v;
	jsonw_array(json, key);
	while (n) {
		const struct prof_stack *s = prof_stack(b->names, (struct stack_id){ way[--n] });
		if (s->stop)
			continue;
		uint32_t count = prof_frame(b->names, s->frame)->symbol_count;
		for (uint32_t i = count ? count : 1; i-- > 0;)
			put_frame(json, b, s->frame, i);
	}
	jsonw_array_end(json);
	free(way);
}

/** is_large() - an answer lies in memory as a whole: it has a bound, and what is cut is told. */
static int is_large(const struct bh_call *b, struct err *err)
{
	if (ftell(b->call.json.to) < ANSWER_MAX)
		return 0;
	return err_set(
		err, -ERANGE,
		"the answer is larger than %ld MiB: ask for less with skip, count or a filter",
		ANSWER_MAX >> 20);
}

/* ---- paging ---------------------------------------------------------------------------------- */

int bh_paging(const struct bh_call *b, struct bh_paging *p, struct err *err)
{
	const char *order = bh_arg(b, "order"), *sort = bh_arg(b, "sort_by");
	const char *const keys[] = { "skip", "count" };
	uint64_t *const to[] = { &p->skip, &p->count };
	*p = (struct bh_paging){ .count = COUNT_DEFAULT, .sort_by = sort ? sort : "" };
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *text = bh_arg(b, keys[i]);
		char *end;
		if (!text)
			continue;
		*to[i] = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || *end)
			return err_set(err, -EINVAL, "'%s' is a number, not '%.40s'", keys[i],
				       text);
	}
	if (order && strcmp(order, "asc") != 0 && strcmp(order, "dsc") != 0)
		return err_set(err, -EINVAL, "'order' is asc or dsc, not '%.40s'", order);
	p->descending = order && strcmp(order, "dsc") == 0;
	if (p->skip + p->count < p->skip || p->skip + p->count > ROWS_MAX)
		return err_set(err, -ERANGE, "'skip' and 'count' together are %d at most",
			       ROWS_MAX);
	return 0;
}

/* ---- allocations ----------------------------------------------------------------------------- */

enum { BY_TIME, BY_ADDRESS, BY_SIZE };

struct listing {
	const struct bh_call *b;
	int by, descending;
	/* a heap: its top is the last that counts */
	struct block_row *rows;
	size_t count, most;
	uint64_t total, looks;
	struct err *err;
};

static uint64_t sort_value(const struct listing *l, const struct block_row *r)
{
	return l->by == BY_SIZE ? r->bytes : l->by == BY_ADDRESS ? r->addr : r->id;
}

static int goes_first(const struct listing *l, const struct block_row *x, const struct block_row *y)
{
	uint64_t a = sort_value(l, x), b = sort_value(l, y);
	if (a != b)
		return l->descending ? a > b : a < b;
	return x->id < y->id;
}

static void sink_down(struct listing *l, size_t i, size_t count)
{
	for (size_t child; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && goes_first(l, &l->rows[child], &l->rows[child + 1]))
			child++;
		if (!goes_first(l, &l->rows[i], &l->rows[child]))
			return;
		struct block_row row = l->rows[i];
		l->rows[i] = l->rows[child];
		l->rows[child] = row;
	}
}

static int listing_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct listing *l = ctx;
	for (size_t k = 0; k < count; k++) {
		if (!bh_matches(l->b, &rows[k]))
			continue;
		l->total++;
		if (!l->most)
			continue;
		if (l->count == l->most) {
			if (goes_first(l, &rows[k], &l->rows[0])) {
				l->rows[0] = rows[k];
				sink_down(l, 0, l->count);
			}
			continue;
		}
		size_t i = l->count++;
		for (; i && goes_first(l, &l->rows[(i - 1) / 2], &rows[k]); i = (i - 1) / 2)
			l->rows[i] = l->rows[(i - 1) / 2];
		l->rows[i] = rows[k];
	}
	return v1_is_gone(&l->b->call, &l->looks, l->err);
}

static void put_row(struct jsonw *json, const struct bh_call *b, const struct block_row *r)
{
	const struct block_chain *c = r->chain ? blocks_chain(b->blocks, r->chain) : NULL;
	uint64_t chain_freed = c ? c->freed_ns : r->freed_ns;
	uint64_t chain_first = c ? c->first_time_ns : r->time_ns;
	char text[20];
	snprintf(text, sizeof(text), "%016llX", (unsigned long long)r->addr);
	jsonw_object(json, NULL);
	jsonw_u64(json, "id", r->id - 1);
	jsonw_u64(json, "address", r->addr);
	jsonw_str(json, "address_s", text);
	bh_put_times(json, "timestamp", b, r->time_ns);
	jsonw_u64(json, "thread", r->tid);
	jsonw_u64(json, "size", r->bytes);
	jsonw_u64(json, "extra_space", 0);
	jsonw_u64(json, "backtrace_id", r->stack);
	bh_put_backtrace(json, "backtrace", b, r->stack);
	if (r->freed_ns == BLOCK_NEVER) {
		jsonw_null(json, "deallocation");
	} else {
		jsonw_object(json, "deallocation");
		bh_put_times(json, "timestamp", b, r->freed_ns);
		jsonw_u64(json, "thread", r->free_tid);
		if (r->free_stack) {
			jsonw_u64(json, "backtrace_id", r->free_stack);
			bh_put_backtrace(json, "backtrace", b, r->free_stack);
		} else {
			jsonw_null(json, "backtrace_id");
			jsonw_null(json, "backtrace");
		}
		jsonw_object_end(json);
	}
	if (chain_freed == BLOCK_NEVER) {
		jsonw_null(json, "chain_deallocation");
	} else {
		jsonw_object(json, "chain_deallocation");
		bh_put_times(json, "timestamp", b, chain_freed);
		jsonw_u64(json, "thread", r->free_tid);
		jsonw_object_end(json);
	}
	if (chain_freed == BLOCK_NEVER)
		jsonw_null(json, "chain_lifetime");
	else
		bh_put_span(json, "chain_lifetime",
			    chain_freed > chain_first ? chain_freed - chain_first : 0);
	jsonw_u64(json, "position_in_chain", r->position);
	jsonw_u64(json, "chain_length", c ? c->length : 1);
	jsonw_bool(json, "is_mmaped", block_is_mmaped(r));
	jsonw_bool(json, "is_jemalloc", b->has_jemalloc);
	jsonw_bool(json, "in_main_arena", block_in_main_arena(r));
	jsonw_object_end(json);
}

int bh_allocations(struct bh_call *b, struct err *err)
{
	static const char *const sorts[] = { "timestamp", "address", "size" };
	struct bh_paging paging;
	struct listing l = { .b = b, .err = err };
	int rc = bh_paging(b, &paging, err);
	if (rc < 0)
		return rc;
	while (*paging.sort_by && l.by < 3 && strcmp(paging.sort_by, sorts[l.by]) != 0)
		l.by++;
	if (l.by == 3)
		return err_set(err, -EINVAL, "'sort_by' is timestamp, address or size, not '%.40s'",
			       paging.sort_by);
	l.descending = paging.descending;
	l.most = (size_t)(paging.skip + paging.count);
	l.rows = malloc((l.most + 1) * sizeof(*l.rows));
	rc = l.rows ? blocks_scan(b->blocks, listing_each, &l, err)
		    : err_set(err, -ENOMEM, "cannot list the blocks");
	if (rc == 0) {
		struct jsonw *json = &b->call.json;
		for (size_t n = l.count; n-- > 1;) {
			struct block_row row = l.rows[0];
			l.rows[0] = l.rows[n];
			l.rows[n] = row;
			sink_down(&l, 0, n);
		}
		jsonw_object(json, NULL);
		jsonw_array(json, "allocations");
		for (size_t i = (size_t)paging.skip; i < l.count && rc == 0; i++) {
			put_row(json, b, &l.rows[i]);
			rc = is_large(b, err);
		}
		jsonw_array_end(json);
		jsonw_u64(json, "total_count", l.total);
		jsonw_object_end(json);
	}
	free(l.rows);
	return rc;
}

/* ---- groups ---------------------------------------------------------------------------------- */

struct grouping {
	const struct bh_call *b;
	/* by stack row */
	struct block_group *all;
	uint64_t looks;
	struct err *err;
};

static int grouping_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct grouping *g = ctx;
	for (size_t i = 0; i < count; i++)
		if (bh_matches(g->b, &rows[i]))
			v1_groups_add(&g->all[rows[i].stack], &rows[i]);
	return v1_is_gone(&g->b->call, &g->looks, g->err);
}

static void put_group(struct jsonw *json, const char *key, const struct bh_call *b,
		      const struct block_group *g, uint32_t stack, int all)
{
	jsonw_object(json, key);
	jsonw_u64(json, "size", g->bytes);
	jsonw_u64(json, "min_size", g->min_bytes);
	jsonw_u64(json, "max_size", g->max_bytes);
	bh_put_times(json, "min_timestamp", b, g->first_ns);
	bh_put_times(json, "max_timestamp", b, g->last_ns);
	bh_put_span(json, "interval", g->last_ns - g->first_ns);
	jsonw_u64(json, "leaked_count", g->leaked);
	jsonw_u64(json, "allocated_count", g->count);
	if (all)
		bh_put_times(json, "max_total_usage_first_seen_at", b, g->most_ns);
	else
		jsonw_null(json, "max_total_usage_first_seen_at");
	bh_put_graphs(json, b, all ? "all" : "group", stack);
	jsonw_object_end(json);
}

static int value_of(const struct block_group *g, const char *word, uint64_t *value)
{
	if (strcmp(word, "min_timestamp") == 0)
		*value = g->first_ns;
	else if (strcmp(word, "max_timestamp") == 0)
		*value = g->last_ns;
	else if (strcmp(word, "interval") == 0)
		*value = g->last_ns - g->first_ns;
	else if (strcmp(word, "allocated_count") == 0)
		*value = g->count;
	else if (strcmp(word, "leaked_count") == 0)
		*value = g->leaked;
	else if (strcmp(word, "size") == 0)
		*value = g->bytes;
	else if (strcmp(word, "max_total_usage_first_seen_at") == 0)
		*value = g->most_ns;
	else
		return -1;
	return 0;
}

int bh_allocation_groups(struct bh_call *b, struct err *err)
{
	struct bh_paging paging;
	uint32_t stacks = prof_stack_count(b->names);
	int rc = bh_paging(b, &paging, err), of_all = 0;
	if (rc < 0)
		return rc;
	const char *word = *paging.sort_by ? paging.sort_by : "only_matched.min_timestamp";
	of_all = strncmp(word, "all.", 4) == 0;
	const char *tail = of_all                                    ? word + 4
			   : strncmp(word, "only_matched.", 13) == 0 ? word + 13
								     : "";
	uint64_t unused;
	const struct block_group none = { 0 };
	if (value_of(&none, tail, &unused) < 0)
		return err_set(
			err, -EINVAL,
			"'sort_by' is only_matched. or all. and min_timestamp, max_timestamp, "
			"interval, allocated_count, leaked_count or size, not '%.60s'",
			word);
	struct grouping g = { .b = b,
			      .all = calloc((size_t)stacks + 1, sizeof(*g.all)),
			      .err = err };
	struct v1_group_key *keys = malloc(((size_t)stacks + 1) * sizeof(*keys));
	size_t count = 0;
	rc = g.all && keys ? blocks_scan(b->blocks, grouping_each, &g, err)
			   : err_set(err, -ENOMEM, "cannot group the blocks");
	for (uint32_t i = 0; rc == 0 && i < stacks; i++) {
		if (!g.all[i].count)
			continue;
		keys[count].stack = i;
		value_of(of_all ? &b->groups->all[i] : &g.all[i], tail, &keys[count].value);
		count++;
	}
	if (rc == 0) {
		struct jsonw *json = &b->call.json;
		v1_groups_sort(keys, count, paging.descending);
		jsonw_object(json, NULL);
		jsonw_array(json, "allocations");
		for (size_t i = (size_t)paging.skip; i < count && i < paging.skip + paging.count;
		     i++) {
			jsonw_object(json, NULL);
			jsonw_u64(json, "backtrace_id", keys[i].stack);
			bh_put_backtrace(json, "backtrace", b, keys[i].stack);
			put_group(json, "all", b, &b->groups->all[keys[i].stack], keys[i].stack, 1);
			put_group(json, "only_matched", b, &g.all[keys[i].stack], keys[i].stack, 0);
			jsonw_object_end(json);
			rc = is_large(b, err);
		}
		jsonw_array_end(json);
		jsonw_u64(json, "total_count", count);
		jsonw_object_end(json);
	}
	free(g.all);
	free(keys);
	return rc;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static int mark_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct grouping *g = ctx;
	for (size_t i = 0; i < count; i++)
		if (!g->all[rows[i].stack].count && bh_matches(g->b, &rows[i]))
			g->all[rows[i].stack].count = 1;
	return v1_is_gone(&g->b->call, &g->looks, g->err);
}

int bh_backtraces(struct bh_call *b, struct err *err)
{
	uint32_t stacks = prof_stack_count(b->names);
	struct jsonw *json = &b->call.json;
	struct grouping g = { .b = b,
			      .all = calloc((size_t)stacks + 1, sizeof(*g.all)),
			      .err = err };
	uint64_t total = 0;
	int rc = g.all ? blocks_scan(b->blocks, mark_each, &g, err)
		       : err_set(err, -ENOMEM, "cannot list the stacks");
	if (rc == 0) {
		jsonw_object(json, NULL);
		jsonw_array(json, "backtraces");
		for (uint32_t i = 0; i < stacks && rc == 0; i++) {
			if (!g.all[i].count)
				continue;
			total++;
			jsonw_object(json, NULL);
			jsonw_u64(json, "id", i);
			bh_put_backtrace(json, "frames", b, i);
			jsonw_object_end(json);
			rc = is_large(b, err);
		}
		jsonw_array_end(json);
		jsonw_u64(json, "total_count", total);
		jsonw_object_end(json);
	}
	free(g.all);
	return rc;
}

int bh_backtrace(struct bh_call *b, const char *number, struct err *err)
{
	char *end;
	unsigned long stack = strtoul(number, &end, 10);
	if (*number < '0' || *number > '9' || *end || stack >= prof_stack_count(b->names))
		return err_set(err, -ENOENT, "there is no backtrace '%.40s'", number);
	jsonw_object(&b->call.json, NULL);
	jsonw_u64(&b->call.json, "id", stack);
	bh_put_backtrace(&b->call.json, "frames", b, (uint32_t)stack);
	jsonw_object_end(&b->call.json);
	return 0;
}

struct raw {
	struct bh_call *b;
	uint64_t looks;
	struct err *err;
};

static int raw_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct raw *raw = ctx;
	struct jsonw *json = &raw->b->call.json;
	for (size_t i = 0; i < count; i++) {
		if (!bh_matches(raw->b, &rows[i]))
			continue;
		jsonw_object(json, NULL);
		jsonw_u64(json, "id", rows[i].id - 1);
		jsonw_u64(json, "address", rows[i].addr);
		bh_put_time(json, "timestamp", raw->b, rows[i].time_ns);
		jsonw_u64(json, "thread", rows[i].tid);
		jsonw_u64(json, "size", rows[i].bytes);
		jsonw_u64(json, "backtrace_id", rows[i].stack);
		jsonw_object_end(json);
	}
	int rc = is_large(raw->b, raw->err);
	return rc < 0 ? rc : v1_is_gone(&raw->b->call, &raw->looks, raw->err);
}

int bh_raw_allocations(struct bh_call *b, struct err *err)
{
	struct jsonw *json = &b->call.json;
	struct raw raw = { .b = b, .err = err };
	jsonw_object(json, NULL);
	jsonw_array(json, "backtraces");
	for (uint32_t i = 0; i < b->rows->book->count; i++) {
		struct stack_id at = { b->rows->book->stacks[i] };
		jsonw_object(json, NULL);
		jsonw_u64(json, "id", at.v);
		jsonw_array(json, "addresses");
		for (; at.v; at = prof_stack(b->names, at)->parent) {
			const struct prof_frame *f =
				prof_frame(b->names, prof_stack(b->names, at)->frame);
			jsonw_u64(json, NULL,
				  (f->module.v ? prof_module(b->names, f->module)->bias : 0) +
					  f->offset);
		}
		jsonw_array_end(json);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_array(json, "allocations");
	int rc = blocks_scan(b->blocks, raw_each, &raw, err);
	jsonw_array_end(json);
	jsonw_object_end(json);
	return rc;
}
