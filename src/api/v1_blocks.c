/* SPDX-License-Identifier: Apache-2.0 */
/* v1_blocks.c - single blocks: lists of them, and how sizes and lifetimes are spread. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_blocks.h"
#include "base/clock.h"

static void blocks_release(void *data)
{
	blocks_free(data);
}

static int make_blocks(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	(void)args;
	struct blocks *blocks = blocks_open(err);
	if (!blocks)
		return err->code;
	*product = (struct shelf_product){ blocks, 0, blocks_release };
	shelf_show(task);
	int rc = blocks_fill(blocks, task->source, task->book->names, err);
	/*
	 * the rows are in a file: counted so that a few large ones push others out, and their disk
	 * space goes
	 */
	product->bytes = (size_t)(blocks_count(blocks) / 4);
	return rc;
}

/** no_room() - what is asked for needs all blocks, and some found no room. */
static int no_room(const struct v1_call *call, const struct blocks *blocks, struct err *err)
{
	uint64_t kept = blocks_count(blocks), all = call->reading->totals.cost.allocations;
	double need = (double)blocks_disk(blocks) / (double)kept * (double)all / 1e9;
	err_set(err, -ENOSPC,
		"the folder for temporary files has room for %llu of %llu single blocks",
		(unsigned long long)kept, (unsigned long long)all);
	return err_hint(err, "set TMPDIR to a folder with %.3g GB of free space", need);
}

int v1_blocks_get(struct v1_call *call, const struct blocks **blocks, struct err *err)
{
	const struct shelf_query query = { .source = call->source,
					   .key = "blocks?",
					   .make = make_blocks };
	int rc = v1_reading(call, &query, &call->reading, err);
	if (rc == V1_PENDING && call->reading &&
	    blocks_count(call->reading->product.data)) { /* those so far */
		call->in_part = 1;
		rc = 0;
	}
	if (rc)
		return rc;
	*blocks = call->reading->product.data;
	return blocks_is_full(*blocks) && !call->takes_kept ? no_room(call, *blocks, err) : 0;
}

int v1_is_gone(const struct v1_call *call, uint64_t *looks, struct err *err)
{
	if (++*looks % 256 || !http_request_gone(call->request))
		return 0;
	return err_set(err, -ECANCELED, "the client went");
}

/* ---- a list ---------------------------------------------------------------------------------- */

/*
 * Until it is worth asking again for the rest: longer where the rows take long to go through, but
 * less than what a question waits for who comes back.
 */
#define PART_MS 700
#define PART_MOST_MS 1500

enum { BY_ID, BY_SIZE, BY_LIFETIME };

/**
 * struct list - the first @most rows in the asked order, as a heap whose top is the last of them.
 */
struct list {
	const struct v1_call *call;
	const struct block_filter *filter;
	int by, descending;
	/* BY_ID: only beyond it, in that order */
	uint64_t after_id;
	struct block_row *rows;
	size_t count, most;
	/* @beyond: of @matched, those behind the cursor */
	uint64_t matched, scanned, beyond;
	uint64_t looks, began_ns;
	struct err *err;
};

static uint64_t value_of(const struct list *l, const struct block_row *r)
{
	uint64_t end = r->freed_ns == BLOCK_NEVER ? l->filter->end_ns : r->freed_ns;
	switch (l->by) {
	case BY_SIZE:
		return r->bytes;
	case BY_LIFETIME:
		return end > r->time_ns ? end - r->time_ns : 0;
	default:
		return r->id;
	}
}

/** goes_first() - does @a stand before @b? */
static int goes_first(const struct list *l, const struct block_row *a, const struct block_row *b)
{
	uint64_t x = value_of(l, a), y = value_of(l, b);
	if (x != y)
		return l->descending ? x > y : x < y;
	return a->id < b->id;
}

static void sink_down(struct list *l, size_t i, size_t count)
{
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= count)
			return;
		if (child + 1 < count && goes_first(l, &l->rows[child], &l->rows[child + 1]))
			child++;
		if (!goes_first(l, &l->rows[i], &l->rows[child]))
			return;
		struct block_row row = l->rows[i];
		l->rows[i] = l->rows[child];
		l->rows[child] = row;
		i = child;
	}
}

static void take_row(struct list *l, const struct block_row *row)
{
	if (l->count == l->most) {
		if (!goes_first(l, row, &l->rows[0]))
			return;
		l->rows[0] = *row;
		sink_down(l, 0, l->count);
		return;
	}
	size_t i = l->count++;
	for (; i && goes_first(l, &l->rows[(i - 1) / 2], row); i = (i - 1) / 2)
		l->rows[i] = l->rows[(i - 1) / 2];
	l->rows[i] = *row;
}

/**
 * is_behind() - does the whole page lie where the list has no use for it, be it before the cursor
 * or behind the last row?
 */
static int is_behind(const struct list *l, const struct block_view *view, int *beyond_all)
{
	uint64_t least, most;
	block_view_id_range(view, &least, &most);
	*beyond_all = !l->after_id || (l->descending ? most < l->after_id : least > l->after_id);
	if (l->after_id && (l->descending ? least >= l->after_id : most <= l->after_id))
		return 1;
	return *beyond_all && l->count == l->most &&
	       (l->descending ? most < l->rows[0].id : least > l->rows[0].id);
}

static int take_ids(struct list *l, struct block_view *view, struct err *err)
{
	int beyond_all;
	const uint8_t *mask = block_view_mask(view);
	if (is_behind(l, view, &beyond_all)) {
		l->beyond += beyond_all ? block_view_matched(view) : 0;
		return 0;
	}
	const uint32_t *ids = block_view_ids(view, err);
	for (uint32_t i = 0; ids && i < block_view_count(view); i++) {
		struct block_row row;
		if (!mask[i])
			continue;
		row.id = ids[i];
		int read = ids[i] == UINT32_MAX;
		if (read && block_view_row(view, i, &row, err) < 0)
			return err->code;
		if (l->after_id && (l->descending ? row.id >= l->after_id : row.id <= l->after_id))
			continue;
		l->beyond++;
		if (l->count == l->most && !goes_first(l, &row, &l->rows[0]))
			continue;
		if (!read && block_view_row(view, i, &row, err) < 0)
			return err->code;
		take_row(l, &row);
	}
	return ids ? 0 : err->code;
}

static int take_values(struct list *l, struct block_view *view, struct err *err)
{
	const uint8_t *mask = block_view_mask(view);
	const uint16_t *codes =
		l->by == BY_SIZE ? block_view_sizes(view, err) : block_view_lifetimes(view, err);
	const uint32_t *ids = codes ? block_view_ids(view, err) : NULL;
	uint16_t last = l->count ? blocks_code(value_of(l, &l->rows[0])) : 0;
	for (uint32_t i = 0; ids && i < block_view_count(view); i++) {
		struct block_row row;
		if (!mask[i])
			continue;
		if (l->count == l->most && codes[i] != BLOCK_CODE_UNENDED) {
			if (l->descending ? codes[i] < last : codes[i] > last)
				continue;
			if (codes[i] == last && last < BLOCK_CODES_EXACT && ids[i] != UINT32_MAX &&
			    ids[i] >= l->rows[0].id)
				continue; /* the same value, and later */
		}
		if (block_view_row(view, i, &row, err) < 0)
			return err->code;
		take_row(l, &row);
		last = blocks_code(value_of(l, &l->rows[0]));
	}
	return ids ? 0 : err->code;
}

static int list_each(void *ctx, struct block_view *view, struct err *err)
{
	struct list *l = ctx;
	int rc = 0;
	l->matched += block_view_matched(view);
	l->scanned += block_view_count(view);
	if (block_view_matched(view))
		rc = l->by == BY_ID ? take_ids(l, view, err) : take_values(l, view, err);
	return rc < 0 ? rc : v1_is_gone(l->call, &l->looks, l->err);
}

static void sort_list(struct list *l)
{
	for (size_t n = l->count; n-- > 1;) {
		struct block_row row = l->rows[0];
		l->rows[0] = l->rows[n];
		l->rows[n] = row;
		sink_down(l, 0, n);
	}
}

/* ---- rows out -------------------------------------------------------------------------------- */

void v1_col_time(struct v1_column *column, uint64_t time_ns)
{
	if (time_ns == BLOCK_NEVER)
		v1_col_null(column);
	else
		v1_col_u64(column, time_ns);
}

void v1_col_addr(struct v1_column *column, uint64_t addr)
{
	char text[24];
	snprintf(text, sizeof(text), "\"0x%llx\"", (unsigned long long)addr);
	v1_col_raw(column, text);
}

static int by_row(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

int v1_stacks_init(struct v1_stacks *s, struct v1_call *call, uint32_t *rows, uint32_t count,
		   struct err *err)
{
	static const struct fold_opt plain = { 0 };
	*s = (struct v1_stacks){ .call = call, .rows = rows };
	qsort(rows, count, sizeof(*rows), by_row);
	for (uint32_t i = 0; i < count; i++)
		if (rows[i] && (!s->row_count || rows[s->row_count - 1] != rows[i]))
			rows[s->row_count++] = rows[i];
	const struct fold_side side = { call->reading->book->names, rows, s->row_count };
	call->own.fold = fold_new(&plain, &side, 1, err);
	if (!call->own.fold)
		return err->code;
	call->folded = &call->own;
	if (v1_frames_init(&s->frames, call->folded, err) < 0)
		return err->code;
	s->number = calloc(call->own.fold->node_count, sizeof(*s->number));
	s->list = calloc(call->own.fold->node_count, sizeof(*s->list));
	if (s->number && s->list)
		return 0;
	v1_stacks_fini(s);
	return err_set(err, -ENOMEM, "cannot list the stacks");
}

void v1_stacks_fini(struct v1_stacks *s)
{
	v1_frames_fini(&s->frames);
	free(s->number);
	free(s->list);
	s->number = s->list = NULL;
}

int64_t v1_stack(struct v1_stacks *s, uint32_t row)
{
	const uint32_t *at = row ? bsearch(&row, s->rows, s->row_count, sizeof(row), by_row) : NULL;
	uint32_t node = at ? s->call->own.fold->node_of[0][at - s->rows] : FOLD_NONE;
	if (node == FOLD_NONE)
		return -1;
	if (!s->number[node]) {
		s->list[s->count++] = node;
		s->number[node] = s->count;
	}
	return s->number[node] - 1;
}

void v1_stacks_put(struct v1_stacks *s)
{
	const struct fold *fold = s->call->folded->fold;
	struct v1_column key = { 0 }, frames = { 0 };
	for (uint32_t i = 0; i < s->count; i++) {
		CLEANUP(buf_fini) struct buf text = { 0 };
		v1_col_key(&key, fold->nodes[s->list[i]].key);
		buf_putc(&text, '[');
		for (uint32_t at = s->list[i]; at; at = fold->nodes[at].parent)
			buf_printf(&text, "%s%u", text.len > 1 ? "," : "",
				   v1_frame(&s->frames, fold->nodes[at].frame));
		buf_putc(&text, ']');
		v1_col_raw(&frames, buf_cstr(&text));
	}
	jsonw_object(&s->call->json, "stacks");
	v1_col_put(s->call, "key", &key);
	v1_col_put(s->call, "frames", &frames);
	jsonw_object_end(&s->call->json);
	v1_frames_put(s->call, &s->frames);
}

void v1_block_rows(struct v1_call *call, struct v1_stacks *stacks, const struct block_row *rows,
		   size_t count, uint64_t end_ns, const struct blocks *blocks)
{
	struct v1_column id = { 0 }, addr = { 0 }, time = { 0 }, bytes = { 0 }, freed = { 0 },
			 lifetime = { 0 }, thread = { 0 }, stack = { 0 }, temporary = { 0 },
			 realloc = { 0 }, chain = { 0 }, position = { 0 }, free_thread = { 0 },
			 free_stack = { 0 };
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		uint64_t end = r->freed_ns == BLOCK_NEVER ? end_ns : r->freed_ns;
		int never = r->freed_ns == BLOCK_NEVER;
		v1_col_u64(&id, r->id);
		v1_col_addr(&addr, r->addr);
		v1_col_u64(&time, r->time_ns);
		v1_col_u64(&bytes, r->bytes);
		v1_col_time(&freed, r->freed_ns);
		v1_col_u64(&lifetime, end > r->time_ns ? end - r->time_ns : 0);
		v1_col_u64(&thread, r->tid);
		v1_col_i64(&stack, v1_stack(stacks, r->stack));
		v1_col_raw(&temporary, r->flags & BLOCK_TEMPORARY ? "true" : "false");
		v1_col_raw(&realloc, r->flags & BLOCK_BY_REALLOC ? "true" : "false");
		const struct block_chain *of = r->chain ? blocks_chain(blocks, r->chain) : NULL;
		if (r->chain && !of)
			v1_col_null(&chain); /* not known yet */
		else
			v1_col_u64(&chain, of ? of->length : 1);
		v1_col_u64(&position, r->position);
		if (never)
			v1_col_null(&free_thread);
		else
			v1_col_u64(&free_thread, r->free_tid);
		v1_col_i64(&free_stack, r->free_stack ? v1_stack(stacks, r->free_stack) : -1);
	}
	jsonw_object(&call->json, "allocations");
	v1_col_put(call, "id", &id);
	v1_col_put(call, "address", &addr);
	v1_col_put(call, "time_ns", &time);
	v1_col_put(call, "bytes", &bytes);
	v1_col_put(call, "freed_ns", &freed);
	v1_col_put(call, "lifetime_ns", &lifetime);
	v1_col_put(call, "thread", &thread);
	v1_col_put(call, "stack", &stack);
	v1_col_put(call, "temporary", &temporary);
	v1_col_put(call, "realloc", &realloc);
	v1_col_put(call, "chain_length", &chain);
	v1_col_put(call, "chain_position", &position);
	v1_col_put(call, "free_thread", &free_thread);
	v1_col_put(call, "free_stack", &free_stack);
	jsonw_object_end(&call->json);
}

/** stacks_of() - those of @rows, allocating and freeing; malloc'd, NULL with @err. */
static uint32_t *stacks_of(const struct block_row *rows, size_t count, struct err *err)
{
	uint32_t *all = malloc((2 * count + 1) * sizeof(*all));
	if (!all)
		err_set(err, -ENOMEM, "cannot list the stacks");
	for (size_t i = 0; all && i < count; i++) {
		all[2 * i] = rows[i].stack;
		all[2 * i + 1] = rows[i].free_stack;
	}
	return all;
}

void v1_blocks_unapplied(struct v1_call *call)
{
	const struct ask *ask = &call->ask;
	static const char why[] = "single blocks have no such thing";
	if (ask->by_given)
		v1_unapplied(call, why, "by", NULL);
	if (ask->cost_given)
		v1_unapplied(call, why, "cost", NULL);
	if (ask->inverted)
		v1_unapplied(call, why, "inverted", NULL);
	if (ask->has_base)
		v1_unapplied(call, why, "base", NULL);
}

/** put_kept() - how far the blocks go that found room: they come in order of their end. */
static int put_kept(struct v1_call *call, const struct blocks *blocks, struct err *err)
{
	struct block_row last;
	uint64_t kept = blocks_count(blocks);
	if (blocks_read(blocks, kept - 1, &last, err) < 0)
		return err->code;
	jsonw_object(&call->json, "kept");
	jsonw_u64(&call->json, "blocks", kept);
	jsonw_u64(&call->json, "of", call->reading->totals.cost.allocations);
	uint64_t end = call->reading->totals.runtime_ns;
	jsonw_u64(&call->json, "freed_until_ns", last.freed_ns < end ? last.freed_ns : end);
	jsonw_object_end(&call->json);
	return 0;
}

static uint64_t part_ms(const struct list *l)
{
	uint64_t ms = 3 * (clock_ns(CLOCK_MONOTONIC) - l->began_ns) / 1000000;
	return ms < PART_MS ? PART_MS : ms < PART_MOST_MS ? ms : PART_MOST_MS;
}

static int put_list(struct v1_call *call, const struct list *l, size_t begin, size_t count,
		    const char *next, int cut, const struct blocks *blocks, struct err *err)
{
	struct jsonw *json = &call->json;
	struct v1_stacks stacks;
	int rc = 0;
	uint32_t *rows = stacks_of(l->rows + begin, count, err);
	if (!rows || v1_stacks_init(&stacks, call, rows, (uint32_t)(2 * count), err) < 0) {
		free(rows);
		return err->code;
	}
	v1_blocks_unapplied(call);
	jsonw_object(json, NULL);
	v1_head(call, NULL);
	jsonw_u64(json, "scanned", l->scanned);
	jsonw_u64(json, "matched", l->matched);
	jsonw_double(json, "progress", call->in_part ? call->progress : 1);
	if (call->in_part)
		jsonw_u64(json, "retry_ms", part_ms(l));
	if (cut)
		jsonw_u64(json, "first_only", ASK_LIMIT_MAX);
	if (blocks_is_full(blocks) && put_kept(call, blocks, err) < 0)
		rc = err->code;
	jsonw_str(json, "next", next);
	v1_block_rows(call, &stacks, l->rows + begin, count, l->filter->end_ns, blocks);
	v1_stacks_put(&stacks);
	jsonw_object_end(json);
	v1_stacks_fini(&stacks);
	free(rows);
	return rc;
}

int v1_allocations(struct v1_call *call, struct err *err)
{
	const struct ask *ask = &call->ask;
	const char *order = ask->order ? ask->order : "time";
	const struct blocks *blocks;
	if (ask->grouped)
		return v1_groups(call, err);
	call->takes_part = ask->part && ask->has_wait;
	call->takes_kept = 1;
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc)
		return rc;
	struct block_filter filter;
	rc = block_filter_init(&filter, &ask->query, call->reading->book->names, err);
	if (rc < 0)
		return rc;
	struct list l = {
		.call = call, .filter = &filter, .err = err, .began_ns = clock_ns(CLOCK_MONOTONIC)
	};
	l.descending = *order == '-';
	order += l.descending;
	l.by = strcmp(order, "size") == 0   ? BY_SIZE
	       : strcmp(order, "time") == 0 ? BY_ID
					    : BY_LIFETIME;
	l.after_id = l.by == BY_ID ? ask->cursor : 0;
	l.most = l.by == BY_ID ? (size_t)ask->limit : ASK_LIMIT_MAX;
	l.rows = malloc(l.most * sizeof(*l.rows));
	rc = l.rows ? blocks_select(blocks, &filter, l.by == BY_ID && l.descending, list_each, &l,
				    err)
		    : err_set(err, -ENOMEM, "cannot list the blocks");
	if (rc == 0) {
		char next[24] = "";
		size_t begin = l.by == BY_ID ? 0 : (size_t)ask->cursor, count;
		sort_list(&l);
		begin = begin < l.count ? begin : l.count;
		count = l.count - begin < ask->limit ? l.count - begin : (size_t)ask->limit;
		if (l.by == BY_ID && count && l.beyond > count)
			snprintf(next, sizeof(next), "%llu",
				 (unsigned long long)l.rows[begin + count - 1].id);
		else if (l.by != BY_ID && begin + count < l.count)
			snprintf(next, sizeof(next), "%zu", begin + count);
		rc = put_list(call, &l, begin, count, *next ? next : NULL,
			      l.by != BY_ID && l.matched > l.count, blocks, err);
	}
	free(l.rows);
	block_filter_fini(&filter);
	return rc;
}

/* ---- one block ------------------------------------------------------------------------------- */

int v1_allocation(struct v1_call *call, struct err *err)
{
	const char *tail = http_request_tail(call->request);
	char *end;
	struct block_row row;
	uint64_t id = strtoull(tail, &end, 10);
	const struct blocks *blocks;
	if (*tail < '0' || *tail > '9' || *end)
		return err_set(err, -ENOENT, "there is no allocation '%.40s': a number is", tail);
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc)
		return rc;
	rc = blocks_find(blocks, id, &row, err);
	if (rc <= 0)
		return rc < 0 ? rc
			      : err_set(err, -ENOENT, "there is no allocation %llu: there are %llu",
					(unsigned long long)id,
					(unsigned long long)blocks_count(blocks));
	struct v1_stacks stacks;
	uint32_t rows[2] = { row.stack, row.free_stack };
	if (v1_stacks_init(&stacks, call, rows, 2, err) < 0)
		return err->code;
	jsonw_object(&call->json, NULL);
	v1_head(call, NULL);
	v1_block_rows(call, &stacks, &row, 1, call->reading->totals.runtime_ns, blocks);
	v1_stacks_put(&stacks);
	jsonw_object_end(&call->json);
	v1_stacks_fini(&stacks);
	return 0;
}

/* ---- histograms ------------------------------------------------------------------------------ */

#define SIZE_BINS 65     /* 0, then octaves */
#define LIFETIME_BINS 26 /* below 1 us, half decades from there on, never */
#define BINS SIZE_BINS

struct histogram {
	const struct v1_call *call;
	const struct block_filter *filter;
	/* @y NULL: one axis */
	const char *x, *y;
	uint64_t moment_ns, edges[LIFETIME_BINS];
	uint64_t blocks[BINS][BINS], bytes[BINS][BINS], looks;
	struct err *err;
};

static void lifetime_edges(uint64_t edges[LIFETIME_BINS])
{
	edges[0] = 0;
	for (int i = 1; i < LIFETIME_BINS; i++)
		edges[i] = (uint64_t)llround(1000 * pow(10, (i - 1) / 2.0));
}

static unsigned bin_of(const struct histogram *h, const char *axis, const struct block_row *r)
{
	if (axis[0] == 's')
		return r->bytes ? 64 - (unsigned)__builtin_clzll(r->bytes) : 0;
	uint64_t end = axis[0] == 'a' ? h->moment_ns : r->freed_ns;
	if (end == BLOCK_NEVER)
		return LIFETIME_BINS - 1;
	uint64_t span = end > r->time_ns ? end - r->time_ns : 0;
	unsigned bin = LIFETIME_BINS - 2;
	while (bin && span < h->edges[bin])
		bin--;
	return bin;
}

static int histogram_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct histogram *h = ctx;
	for (size_t i = 0; i < count; i++) {
		if (!block_matches(h->filter, &rows[i]))
			continue;
		unsigned x = bin_of(h, h->x, &rows[i]), y = h->y ? bin_of(h, h->y, &rows[i]) : 0;
		h->blocks[x][y]++;
		h->bytes[x][y] += rows[i].bytes;
	}
	return v1_is_gone(h->call, &h->looks, h->err);
}

/** bins_of() - of sizes up to the largest that occurs, of lifetimes all. */
static unsigned bins_of(const struct histogram *h, const char *axis, int is_x)
{
	unsigned count = SIZE_BINS;
	if (axis[0] != 's')
		return LIFETIME_BINS;
	for (; count > 1; count--)
		for (unsigned i = 0; i < BINS; i++)
			if (is_x ? h->blocks[count - 1][i] : h->blocks[i][count - 1])
				return count;
	return count;
}

/**
 * put_edges() - the lower bound of each bin up to the last that holds anything; the last of
 * lifetimes is `never`.
 */
static void put_edges(struct v1_call *call, const char *key, const struct histogram *h,
		      const char *axis, unsigned count)
{
	struct v1_column edges = { 0 };
	for (unsigned i = 0; i < count; i++) {
		if (axis[0] == 's')
			v1_col_u64(&edges, i ? 1ull << (i - 1) : 0);
		else if (i == LIFETIME_BINS - 1)
			v1_col_null(&edges);
		else
			v1_col_u64(&edges, h->edges[i]);
	}
	v1_col_put(call, key, &edges);
}

static void put_cells(struct v1_call *call, const char *key, const uint64_t cells[BINS][BINS],
		      unsigned nx, unsigned ny)
{
	struct v1_column all = { 0 };
	for (unsigned x = 0; x < nx; x++) {
		struct v1_column row = { 0 };
		for (unsigned y = 0; y < ny; y++)
			v1_col_u64(ny == 1 ? &all : &row, cells[x][y]);
		if (ny > 1) {
			buf_putc(&row.text, ']');
			v1_col_raw(&all, buf_cstr(&row.text));
		}
		buf_fini(&row.text);
	}
	v1_col_put(call, key, &all);
}

int v1_histogram(struct v1_call *call, struct err *err)
{
	const struct ask *ask = &call->ask;
	const struct blocks *blocks;
	struct histogram *h = NULL;
	struct block_filter filter;
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc)
		return rc;
	rc = block_filter_init(&filter, &ask->query, call->reading->book->names, err);
	if (rc < 0)
		return rc;
	h = calloc(1, sizeof(*h));
	if (!h) {
		block_filter_fini(&filter);
		return err_set(err, -ENOMEM, "cannot count");
	}
	h->call = call;
	h->filter = &filter;
	h->x = ask->axis_x ? ask->axis_x : "size";
	h->y = ask->axis_y;
	h->err = err;
	struct prof_totals totals;
	prof_totals(call->reading->book->names, &totals);
	h->moment_ns = filter.has_at && filter.at_ns < totals.runtime_ns ? filter.at_ns
									 : totals.runtime_ns;
	lifetime_edges(h->edges);
	rc = blocks_scan(blocks, histogram_each, h, err);
	if (rc == 0) {
		struct jsonw *json = &call->json;
		v1_blocks_unapplied(call);
		unsigned nx = bins_of(h, h->x, 1), ny = h->y ? bins_of(h, h->y, 0) : 1;
		jsonw_object(json, NULL);
		v1_head(call, NULL);
		put_edges(call, "x", h, h->x, nx);
		if (h->y)
			put_edges(call, "y", h, h->y, ny);
		put_cells(call, "blocks", h->blocks, nx, ny);
		put_cells(call, "bytes", h->bytes, nx, ny);
		jsonw_object_end(json);
	}
	free(h);
	block_filter_fini(&filter);
	return rc;
}
