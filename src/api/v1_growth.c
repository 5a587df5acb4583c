/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_growth.c - what is live at the end of each of some slices of time, by group: does it grow, how
 * fast, how sure is that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_blocks.h"
#include "view/growth.h"

#define SLICES 16

struct growing {
	const struct v1_call *call;
	const struct block_filter *filter;
	uint64_t from_ns, to_ns;
	/* by slice, then account; first as steps, then as levels */
	uint64_t *live;
	uint32_t accounts;
	uint64_t looks;
	struct err *err;
};

static uint64_t slice_end(const struct growing *g, unsigned slice)
{
	/* the last one ends before the end: a program may be about to exit */
	return g->from_ns +
	       (uint64_t)((__uint128_t)(g->to_ns - g->from_ns) * (slice + 1) / (SLICES + 1));
}

/** first_slice() - the first that ends at or behind @time_ns; SLICES: none. */
static unsigned first_slice(const struct growing *g, uint64_t time_ns)
{
	unsigned slice = 0;
	while (slice < SLICES && slice_end(g, slice) < time_ns)
		slice++;
	return slice;
}

static uint32_t account_of(const struct book *book, uint32_t row)
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

static int growing_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct growing *g = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		if (!block_matches(g->filter, r))
			continue;
		uint32_t account = account_of(g->call->reading->book, r->stack);
		unsigned made = first_slice(g, r->time_ns), gone = first_slice(g, r->freed_ns);
		if (account == UINT32_MAX || made == gone)
			continue;
		g->live[(size_t)made * g->accounts + account] += r->bytes;
		if (gone < SLICES)
			g->live[(size_t)gone * g->accounts + account] -= r->bytes;
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

/** sum_up() - @own and @inclusive: by slice, then frame. */
static int sum_up(struct v1_call *call, const struct growing *g, uint64_t *own, uint64_t *inclusive,
		  struct err *err)
{
	const struct fold *fold = call->folded->fold;
	for (unsigned s = 0; s < SLICES; s++) {
		struct fold_sums sums;
		int rc = fold_sum(fold, 0, g->live + (size_t)s * g->accounts, &sums, err);
		if (rc < 0)
			return rc;
		rc = fold_own_sums(fold, 0, g->live + (size_t)s * g->accounts,
				   own + (size_t)s * fold->frame_count, err);
		fold_inclusive_sums(fold, &sums, inclusive + (size_t)s * fold->frame_count);
		fold_sums_fini(&sums);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int judge(const struct growing *g, const uint64_t *levels, size_t stride,
		 struct growth *growth, struct err *err)
{
	struct history_point points[SLICES];
	for (unsigned s = 0; s < SLICES; s++)
		points[s] = (struct history_point){ .time_ns = slice_end(g, s),
						    .rss_bytes = levels[s * stride] };
	return view_growth(points, SLICES, growth) < 0
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
		snprintf(text, 160,
			 "no trend: surer than %.0f %% and over %.0f %% of the range is asked for",
			 GROWTH_SURE * 100, GROWTH_SHARE * 100);
	else
		snprintf(text, 160, "the %s of %zu points go %s, %.1f %% sure",
			 growth->lows ? "lows" : "levels", growth->points,
			 growth->verdict == GROWTH_GROWING ? "up" : "down",
			 growth->confidence * 100);
	return text;
}

static void put_rows(struct v1_call *call, const struct growing *g, const uint64_t *own,
		     const uint64_t *inclusive, const struct row *rows, size_t count)
{
	const struct fold *fold = call->folded->fold;
	struct v1_frames frames;
	struct v1_column key = { 0 }, frame = { 0 }, rate = { 0 }, confidence = { 0 },
			 verdict = { 0 }, points = { 0 }, last = { 0 }, reason = { 0 },
			 through = { 0 };
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
		buf_clear(&text);
		for (unsigned s = 0; s < SLICES; s++)
			buf_printf(&text, "%c%llu", s ? ',' : '[',
				   (unsigned long long)
					   own[(size_t)s * fold->frame_count + rows[i].frame]);
		buf_putc(&text, ']');
		v1_col_raw(&points, buf_cstr(&text));
		v1_col_u64(&last, own[(size_t)(SLICES - 1) * fold->frame_count + rows[i].frame]);
		v1_col_u64(&through,
			   inclusive[(size_t)(SLICES - 1) * fold->frame_count + rows[i].frame]);
	}
	(void)g;
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
	jsonw_object_end(&call->json);
	v1_frames_put(call, &frames);
	v1_frames_fini(&frames);
}

static int answer(struct v1_call *call, const struct growing *g, const uint64_t *own,
		  const uint64_t *inclusive, struct err *err)
{
	const struct fold *fold = call->folded->fold;
	struct jsonw *json = &call->json;
	struct row *rows = calloc(fold->frame_count, sizeof(*rows));
	size_t count = 0;
	int rc = rows ? 0 : err_set(err, -ENOMEM, "cannot judge growth");
	for (uint32_t i = 1; i < fold->frame_count && rc == 0; i++) {
		uint64_t any = 0;
		for (unsigned s = 0; s < SLICES; s++)
			any |= own[(size_t)s * fold->frame_count + i];
		if (!any)
			continue;
		rows[count].frame = i;
		rc = judge(g, own + i, fold->frame_count, &rows[count++].growth, err);
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
		for (unsigned s = 0; s < SLICES; s++)
			v1_col_u64(&ends, slice_end(g, s));
		v1_col_put(call, "time_ns", &ends);
		put_rows(call, g, own, inclusive, rows + begin, shown);
		jsonw_object_end(json);
	}
	free(rows);
	return rc;
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

int v1_growth(struct v1_call *call, struct err *err)
{
	const struct blocks *blocks;
	struct block_filter filter;
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc)
		return rc;
	const struct book *book = call->reading->book;
	call->folded =
		shelf_fold(call->shelf, &call->ask.fold, call->ask.folding, &call->reading, 1, err);
	if (!call->folded)
		return err->code;
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
	struct growing g = { .call = call,
			     .filter = &filter,
			     .from_ns = filter.from_ns,
			     .to_ns = filter.to_ns < filter.end_ns ? filter.to_ns : filter.end_ns,
			     .accounts = book->count,
			     .err = err };
	if (filter.to_ns >= filter.end_ns)
		g.to_ns = before_exit(book, g.from_ns, g.to_ns);
	g.to_ns = g.to_ns > g.from_ns ? g.to_ns : g.from_ns + SLICES;
	filter.from_ns = 0; /* what was there before counts: the range is what is looked at */
	g.live = calloc((size_t)SLICES * (book->count + 1), sizeof(*g.live));
	uint64_t *own = calloc((size_t)SLICES * frames, sizeof(*own));
	uint64_t *inclusive = calloc((size_t)SLICES * frames, sizeof(*inclusive));
	rc = g.live && own && inclusive ? blocks_scan(blocks, growing_each, &g, err)
					: err_set(err, -ENOMEM, "cannot judge growth");
	for (size_t s = 1; s < SLICES && rc == 0; s++)
		for (uint32_t i = 0; i < book->count; i++)
			g.live[s * g.accounts + i] += g.live[(s - 1) * g.accounts + i];
	if (rc == 0)
		rc = sum_up(call, &g, own, inclusive, err);
	if (rc == 0)
		rc = answer(call, &g, own, inclusive, err);
	free(g.live);
	free(own);
	free(inclusive);
	block_filter_fini(&filter);
	return rc;
}
