/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_growth.c - what is live at the end of each of some slices of time, by group: does it grow, how
 * fast, how sure is that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_blocks.h"
#include "base/cleanup.h"
#include "view/growth.h"

#define SLICES 16

struct growing {
	const struct v1_call *call;
	const struct block_filter *filter;
	/* what is looked at: the ends of so many slices, in order */
	unsigned slices;
	uint64_t ends[SLICES];
	/* by slice, then account; first as steps, then as levels */
	uint64_t *live;
	/* the same of what was made in a slice and lives at the end; NULL: not asked */
	uint64_t *made;
	uint32_t accounts;
	uint64_t looks;
	struct err *err;
};

static uint64_t slice_end(uint64_t from_ns, uint64_t to_ns, unsigned slice)
{
	/* the last one ends before the end: a program may be about to exit */
	return from_ns + (uint64_t)((__uint128_t)(to_ns - from_ns) * (slice + 1) / (SLICES + 1));
}

/**
 * before_exit() - where @to_ns, the end of a program, is cut: what it frees when nothing is asked
 * for any more, before it exits, says nothing of growth. At most a quarter of the time: who only
 * frees for longer does shrink.
 */
static uint64_t before_exit(const struct book *book, uint64_t from_ns, uint64_t to_ns)
{
	size_t count;
	const struct prof_point *points = prof_timeline(book->names, &count);
	const struct prof_process *process = prof_process(book->names);
	size_t first = count;
	if (!process || !process->ended || to_ns <= from_ns)
		return to_ns;
	/*
	 * back to the first stretch in which something is freed and nothing is asked for, then or
	 * later
	 */
	for (size_t i = count; i-- > 1 && points[i].allocations == points[i - 1].allocations;)
		if (points[i].frees > points[i - 1].frees)
			first = i;
	if (first == count)
		return to_ns;
	uint64_t stretch = to_ns / (PROF_POINTS_MAX / 2), cut = points[first].time_ns;
	cut = cut > stretch ? cut - stretch : 0;
	if (cut < points[first - 1].time_ns)
		cut = points[first - 1].time_ns;
	if (cut < to_ns - (to_ns - from_ns) / 4)
		cut = to_ns - (to_ns - from_ns) / 4;
	return cut < to_ns ? cut : to_ns;
}

/** take_range() - what is looked at. */
static void take_range(const struct book *book, const struct block_filter *filter,
		       uint64_t *from_ns, uint64_t *to_ns)
{
	*from_ns = filter->from_ns;
	*to_ns = filter->to_ns < filter->end_ns ? filter->to_ns : filter->end_ns;
	if (filter->to_ns >= filter->end_ns)
		*to_ns = before_exit(book, *from_ns, *to_ns);
	if (*to_ns <= *from_ns)
		*to_ns = *from_ns + SLICES;
}

/** first_slice() - the first that ends at or behind @time_ns; g->slices: none. */
static unsigned first_slice(const struct growing *g, uint64_t time_ns)
{
	unsigned slice = 0;
	while (slice < g->slices && g->ends[slice] < time_ns)
		slice++;
	return slice;
}

uint32_t v1_account_of(const struct book *book, uint32_t row)
{
	uint32_t lo = 0, hi = book->count;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (book->stacks[mid] < row)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < book->count && book->stacks[lo] == row ? lo : UINT32_MAX;
}

/* ---- out of events alone --------------------------------------------------------------------- */

/**
 * struct levels - what lives at the ends of the slices, where no word asks for more of a block than
 * its stack: one pass over the events, no list of blocks.
 */
struct levels {
	uint64_t from_ns, to_ns;
	/* 0: not all events count as they are, single blocks have to be looked at */
	int told;
	/* by slice, then account */
	uint64_t live[];
};

struct levelling {
	struct sink sink;
	struct levels *levels;
	const struct book *book;
	/* by stack row, plus one; 0: not asked for */
	uint32_t *account_of;
	uint64_t ends[SLICES];
	unsigned slice;
};

static int level_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int level_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct levelling *l = (struct levelling *)sink;
	uint64_t *live = l->levels->live + (size_t)l->slice * l->book->count;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
			continue;
		while (ev->time_ns > l->ends[l->slice]) {
			if (++l->slice == SLICES)
				return err_set(err, SHELF_ENOUGH,
					       "what comes later is not asked for");
			live += l->book->count;
		}
		uint32_t account = l->account_of[prof_stack_row(l->book->names, ev->stack).v];
		if (account)
			live[account - 1] += ev->kind == EVENT_ALLOC ? ev->bytes : -ev->bytes;
	}
	return 0;
}

/** counts_as_is() - are there no events but those of blocks that were seen from begin to end? */
static int counts_as_is(const struct shelf_task *task)
{
	const struct prof_totals *t = task->totals;
	const struct prof_process *p = prof_process(task->book->names);
	return !t->lost_events && !t->culled_allocations && !t->filtered_allocations &&
	       !t->forked_from && !t->cost.uncertain && !(p && p->sample_bytes) &&
	       !task->book->warning[0];
}

/** asks_for_stacks() - is that all that @query asks for of a block? */
static int asks_for_stacks(const struct query *query)
{
	struct query rest = *query;
	rest.from.kind = rest.to.kind = QUERY_TIME_NONE;
	rest.function_regex = rest.module = NULL;
	return query_is_empty(&rest);
}

static int make_levels(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	(void)args;
	const struct book *book = task->book;
	CLEANUP(block_filter_fini) struct block_filter filter = { 0 };
	if (block_filter_init(&filter, task->query, book->names, err) < 0)
		return err->code;
	size_t bytes = sizeof(struct levels) + (size_t)SLICES * book->count * sizeof(uint64_t);
	struct levels *levels = calloc(1, bytes);
	struct levelling l = { .sink = { .define = level_define, .put = level_put },
			       .levels = levels,
			       .book = book };
	l.account_of = calloc((size_t)prof_stack_count(book->names) + 1, sizeof(*l.account_of));
	int rc = levels && l.account_of ? 0 : err_set(err, -ENOMEM, "cannot judge growth");
	if (rc == 0) {
		take_range(book, &filter, &levels->from_ns, &levels->to_ns);
		levels->told = counts_as_is(task);
		for (unsigned s = 0; s < SLICES; s++)
			l.ends[s] = slice_end(levels->from_ns, levels->to_ns, s);
	}
	for (uint32_t i = 0; rc == 0 && i < book->count; i++)
		if (!filter.stacks || filter.stacks[book->stacks[i]])
			l.account_of[book->stacks[i]] = i + 1;
	if (rc == 0 && levels->told) {
		rc = task->source->run(task->source->ctx, &l.sink, err);
		if (rc == SHELF_ENOUGH) {
			err_init(err);
			rc = 0;
		}
	}
	for (size_t i = book->count; rc == 0 && i < (size_t)SLICES * book->count; i++)
		levels->live[i] += levels->live[i - book->count];
	free(l.account_of);
	if (rc < 0)
		free(levels);
	else
		*product = (struct shelf_product){ levels, bytes, free };
	return rc;
}

/* ---- out of blocks --------------------------------------------------------------------------- */

static int growing_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct growing *g = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		if (!block_matches(g->filter, r))
			continue;
		uint32_t account = v1_account_of(g->call->reading->book, r->stack);
		unsigned made = first_slice(g, r->time_ns), gone = first_slice(g, r->freed_ns);
		if (account == UINT32_MAX || made == gone)
			continue;
		g->live[(size_t)made * g->accounts + account] += r->bytes;
		if (gone < g->slices)
			g->live[(size_t)gone * g->accounts + account] -= r->bytes;
		else if (g->made)
			g->made[(size_t)made * g->accounts + account] += r->bytes;
	}
	return v1_is_gone(g->call, &g->looks, g->err);
}

struct row {
	uint32_t frame;
	struct growth growth;
};

static int by_rate(const void *a, const void *b)
{
	double x = ((const struct row *)a)->growth.bytes_per_second,
	       y = ((const struct row *)b)->growth.bytes_per_second;
	if (x != y)
		return x < y ? 1 : -1;
	return 0;
}
static int by_rate_up(const void *a, const void *b)
{
	return by_rate(b, a);
}
static int by_last(const void *a, const void *b)
{
	uint64_t x = ((const struct row *)a)->growth.last_bytes,
		 y = ((const struct row *)b)->growth.last_bytes;
	return x < y ? 1 : x > y ? -1 : by_rate(a, b);
}

/** struct sums - by slice, then frame. */
struct sums {
	uint64_t *own, *inclusive, *made;
};

static int sum_up(struct v1_call *call, const struct growing *g, const struct sums *to,
		  struct err *err)
{
	const struct fold *fold = call->folded->fold;
	for (unsigned s = 0; s < g->slices; s++) {
		struct fold_sums sums;
		int rc = fold_sum(fold, 0, g->live + (size_t)s * g->accounts, &sums, err);
		if (rc < 0)
			return rc;
		rc = fold_own_sums(fold, 0, g->live + (size_t)s * g->accounts,
				   to->own + (size_t)s * fold->frame_count, err);
		fold_inclusive_sums(fold, &sums, to->inclusive + (size_t)s * fold->frame_count);
		fold_sums_fini(&sums);
		if (rc >= 0 && g->made)
			rc = fold_own_sums(fold, 0, g->made + (size_t)s * g->accounts,
					   to->made + (size_t)s * fold->frame_count, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int judge(const struct growing *g, const uint64_t *levels, size_t stride,
		 struct growth *growth, struct err *err)
{
	struct history_point points[SLICES];
	for (unsigned s = 0; s < g->slices; s++)
		points[s] = (struct history_point){ .time_ns = g->ends[s],
						    .rss_bytes = levels[s * stride] };
	return view_growth(points, g->slices, growth) < 0
		       ? err_set(err, -ENOMEM, "cannot judge growth")
		       : 0;
}

static const char *why(const struct growth *growth, char text[160])
{
	if (growth->verdict == GROWTH_UNKNOWN && growth->points >= GROWTH_POINTS_MIN)
		snprintf(text, 160, "it rises and falls, with fewer than %d lows to go by",
			 GROWTH_LOWS_MIN);
	else if (growth->verdict == GROWTH_UNKNOWN)
		snprintf(text, 160, "too few points: %zu of %d", growth->points, GROWTH_POINTS_MIN);
	else if (growth->verdict == GROWTH_STEADY)
		snprintf(text, 160, "no trend that is %.0f %% sure and over %.0f %% of the range",
			 GROWTH_SURE * 100, GROWTH_SHARE * 100);
	else
		snprintf(text, 160, "the %s of %zu points go %s, %.1f %% sure",
			 growth->lows ? "lows" : "levels", growth->points,
			 growth->verdict == GROWTH_GROWING ? "up" : "down",
			 growth->confidence * 100);
	return text;
}

/** col_list() - one row's values at the ends of slices, from @first on. */
static void col_list(struct v1_column *column, const uint64_t *values, size_t stride,
		     unsigned first, unsigned slices)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	for (unsigned s = first; s < slices; s++)
		buf_printf(&text, "%c%llu", s == first ? '[' : ',',
			   (unsigned long long)values[s * stride]);
	buf_putc(&text, ']');
	v1_col_raw(column, buf_cstr(&text));
}

static void put_rows(struct v1_call *call, const struct growing *g, const struct sums *sums,
		     const struct row *rows, size_t count)
{
	const struct fold *fold = call->folded->fold;
	struct v1_frames frames;
	struct v1_column key = { 0 }, frame = { 0 }, rate = { 0 }, confidence = { 0 },
			 verdict = { 0 }, points = { 0 }, last = { 0 }, reason = { 0 },
			 through = { 0 }, generations = { 0 };
	const unsigned end = g->slices - 1;
	struct err none = { 0 };
	if (v1_frames_init(&frames, call->folded, &none) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		CLEANUP(buf_fini) struct buf text = { 0 };
		char sentence[160];
		const struct growth *growth = &rows[i].growth;
		v1_col_key(&key, fold->frames[rows[i].frame].key);
		v1_col_u64(&frame, v1_frame(&frames, rows[i].frame));
		v1_col_i64(&rate, (int64_t)(growth->bytes_per_second * 3600));
		buf_printf(&text, "%.4f", growth->confidence);
		v1_col_raw(&confidence, buf_cstr(&text));
		buf_clear(&text);
		buf_printf(&text, "\"%s\"", view_growth_word(growth->verdict));
		v1_col_raw(&verdict, buf_cstr(&text));
		buf_clear(&text);
		buf_printf(&text, "\"%s\"", why(growth, sentence));
		v1_col_raw(&reason, buf_cstr(&text));
		col_list(&points, sums->own + rows[i].frame, fold->frame_count, 0, g->slices);
		if (g->made)
			col_list(&generations, sums->made + rows[i].frame, fold->frame_count, 1,
				 g->slices);
		v1_col_u64(&last, sums->own[(size_t)end * fold->frame_count + rows[i].frame]);
		v1_col_u64(&through,
			   sums->inclusive[(size_t)end * fold->frame_count + rows[i].frame]);
	}
	jsonw_object(&call->json, "rows");
	v1_col_put(call, "key", &key);
	v1_col_put(call, "frame", &frame);
	v1_col_put(call, "live_bytes", &last);
	v1_col_put(call, "inclusive_live_bytes", &through);
	v1_col_put(call, "bytes_per_hour", &rate);
	v1_col_put(call, "confidence", &confidence);
	v1_col_put(call, "verdict", &verdict);
	v1_col_put(call, "why", &reason);
	v1_col_put(call, "points", &points);
	if (g->made)
		v1_col_put(call, "generations", &generations);
	jsonw_object_end(&call->json);
	v1_frames_put(call, &frames);
	v1_frames_fini(&frames);
}

static int answer(struct v1_call *call, const struct growing *g, const struct sums *sums,
		  struct err *err)
{
	const struct fold *fold = call->folded->fold;
	struct jsonw *json = &call->json;
	struct row *rows = calloc(fold->frame_count, sizeof(*rows));
	size_t count = 0;
	int rc = rows ? 0 : err_set(err, -ENOMEM, "cannot judge growth");
	for (uint32_t i = 1; i < fold->frame_count && rc == 0; i++) {
		uint64_t any = 0;
		for (unsigned s = 0; s < g->slices; s++)
			any |= sums->own[(size_t)s * fold->frame_count + i];
		if (!any)
			continue;
		rows[count].frame = i;
		rc = judge(g, sums->own + i, fold->frame_count, &rows[count++].growth, err);
	}
	if (rc == 0) {
		int by_live = call->ask.sort && strcmp(call->ask.sort, "live_bytes") == 0;
		if (call->ask.sort && !by_live && strcmp(call->ask.sort, "bytes_per_hour") != 0)
			rc = err_set(err, -EINVAL,
				     "'sort' is bytes_per_hour or live_bytes, not '%.40s'",
				     call->ask.sort);
		else
			qsort(rows, count, sizeof(*rows),
			      by_live               ? by_last
			      : call->ask.ascending ? by_rate_up
						    : by_rate);
	}
	if (rc == 0) {
		size_t begin = call->ask.cursor < count ? (size_t)call->ask.cursor : count;
		size_t shown =
			count - begin < call->ask.limit ? count - begin : (size_t)call->ask.limit;
		struct v1_column ends = { 0 };
		char next[24];
		jsonw_object(json, NULL);
		v1_head(call, NULL);
		jsonw_u64(json, "total_rows", count);
		snprintf(next, sizeof(next), "%zu", begin + shown);
		jsonw_str(json, "next", begin + shown < count ? next : NULL);
		for (unsigned s = 0; s < g->slices; s++)
			v1_col_u64(&ends, g->ends[s]);
		v1_col_put(call, "time_ns", &ends);
		put_rows(call, g, sums, rows + begin, shown);
		jsonw_object_end(json);
	}
	free(rows);
	return rc;
}

/** level_blocks() - the same of the blocks that @filter takes. */
static int level_blocks(struct growing *g, const struct blocks *blocks, struct block_filter *filter)
{
	filter->from_ns = 0; /* what was there before counts: the range is what is looked at */
	g->filter = filter;
	int rc = blocks_scan(blocks, growing_each, g, g->err);
	for (size_t i = g->accounts; rc == 0 && i < (size_t)g->slices * g->accounts; i++)
		g->live[i] += g->live[i - g->accounts];
	return rc;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/** take_marks() - slices from mark to mark; the last one goes from the last mark to @to_ns. */
static int take_marks(struct growing *g, const struct marks *marks, uint64_t to_ns, struct err *err)
{
	const uint64_t before_ns = g->ends[SLICES - 1];
	const char *at = g->call->ask.marks;
	g->slices = 0;
	while (*at) {
		char *end;
		uint64_t value = strtoull(at, &end, 10);
		if (*at < '0' || *at > '9' || (*end && *end != ','))
			return err_set(err, -EINVAL,
				       "'marks' is a list of numbers of marks, not '%.40s'",
				       g->call->ask.marks);
		if (g->slices == SLICES - 1)
			return err_set(err, -EINVAL, "'marks' are at most %d", SLICES - 1);
		if (query_mark(marks, value, &g->ends[g->slices], err) < 0)
			return err->code;
		g->slices++;
		at = end + (*end == ',');
	}
	if (!g->slices)
		return err_set(err, -EINVAL, "'marks' names no mark");
	qsort(g->ends, g->slices, sizeof(*g->ends), by_time);
	/* as without marks: the program may be about to exit */
	uint64_t last = g->ends[g->slices - 1];
	g->ends[g->slices++] = before_ns > last ? before_ns : to_ns > last ? to_ns : last;
	return 0;
}

int v1_growth(struct v1_call *call, struct err *err)
{
	const struct blocks *blocks = NULL;
	struct levels *levels = NULL;
	int rc = 0;
	if (!call->ask.marks && asks_for_stacks(&call->ask.query)) {
		rc = v1_make(call, "growth", make_levels, NULL, 0, 0, err);
		if (rc)
			return rc;
		levels = call->reading->product.data;
	}
	if (!levels || !levels->told) {
		shelf_put(call->shelf, call->reading);
		call->reading = NULL;
		levels = NULL;
		rc = v1_blocks_get(call, &blocks, err);
		if (rc)
			return rc;
	}
	const struct book *book = call->reading->book;
	call->folded =
		shelf_fold(call->shelf, &call->ask.fold, call->ask.folding, &call->reading, 1, err);
	if (!call->folded)
		return err->code;
	CLEANUP(block_filter_fini) struct block_filter filter = { 0 };
	rc = block_filter_init(&filter, &call->ask.query, book->names, err);
	if (rc < 0)
		return rc;
	if (call->ask.by == VIEW_BY_STACK || call->ask.by == VIEW_BY_THREAD)
		if (call->ask.by_given)
			v1_unapplied(call, "rows are functions: stacks and threads are not judged",
				     "by", call->ask.by == VIEW_BY_STACK ? "stack" : "thread");
	if (call->ask.cost_given)
		v1_unapplied(call, "growth is of live bytes", "cost", NULL);
	uint32_t frames = call->folded->fold->frame_count;
	struct growing g = { .call = call, .slices = SLICES, .accounts = book->count, .err = err };
	uint64_t from_ns, to_ns;
	take_range(book, &filter, &from_ns, &to_ns);
	for (unsigned s = 0; s < SLICES; s++)
		g.ends[s] = slice_end(from_ns, to_ns, s);
	if (call->ask.marks && take_marks(&g, prof_marks(book->names), to_ns, err) < 0)
		return err->code;
	uint64_t *made = levels ? NULL : calloc((size_t)SLICES * (book->count + 1), sizeof(*made));
	uint64_t *generations =
		call->ask.marks ? calloc((size_t)SLICES * (book->count + 1), sizeof(*generations))
				: NULL;
	/* of own, inclusive, made */
	uint64_t *columns = calloc((size_t)3 * SLICES * frames, sizeof(*columns));
	const struct sums sums = { columns, columns + (size_t)SLICES * frames,
				   columns + (size_t)2 * SLICES * frames };
	g.live = levels ? levels->live : made;
	g.made = generations;
	rc = g.live && columns && (generations || !call->ask.marks)
		     ? 0
		     : err_set(err, -ENOMEM, "cannot judge growth");
	if (rc == 0 && !levels)
		rc = level_blocks(&g, blocks, &filter);
	if (rc == 0)
		rc = sum_up(call, &g, &sums, err);
	if (rc == 0)
		rc = answer(call, &g, &sums, err);
	free(made);
	free(generations);
	free(columns);
	return rc;
}
