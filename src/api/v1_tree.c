/* SPDX-License-Identifier: Apache-2.0 */
/* v1_tree.c - the tree that flame, icicle, sandwich and treemap draw. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_blocks.h"
#include "base/cleanup.h"

/*
 * What `more` asks for: how many allocations, how many of them temporary; bytes that live, and the
 * same weighted by their age in 65535ths of the time.
 */
enum more { MORE_CALLS, MORE_TEMPORARY, MORE_LIVE, MORE_AGE, MORE_MAX };
_Static_assert((int)MORE_MAX <= FOLD_MORE_MAX, "a pick has room for all of them");
#define AGE_UNITS 65535

/** struct sums - what the nodes of a tree are asked for. */
struct sums {
	struct fold_sums cost, blocks, base, more[MORE_MAX];
	uint64_t *values, *base_values;
	uint64_t base_total;
	/* of MORE_AGE: what a whole unit of it is */
	uint64_t length_ns;
};

static void sums_fini(struct sums *s)
{
	fold_sums_fini(&s->cost);
	fold_sums_fini(&s->blocks);
	fold_sums_fini(&s->base);
	for (unsigned i = 0; i < MORE_MAX; i++)
		fold_sums_fini(&s->more[i]);
	free(s->values);
	free(s->base_values);
}

static int add_up(struct v1_call *call, struct sums *s, struct err *err)
{
	const struct fold *fold = call->folded->fold;
	enum view_cost cost = call->ask.cost;
	uint64_t *blocks = NULL;
	s->values = v1_values(call->reading, cost, err);
	int rc = s->values ? fold_sum(fold, 0, s->values, &s->cost, err) : err->code;
	if (rc == 0) {
		blocks = v1_blocks(call->reading, cost, err);
		rc = blocks ? fold_sum(fold, 0, blocks, &s->blocks, err) : err->code;
	}
	free(blocks);
	if (rc == 0 && call->base) {
		unsigned side = call->base->book != call->reading->book;
		s->base_values = v1_values(call->base, cost, err);
		rc = s->base_values ? fold_sum(fold, side, s->base_values, &s->base, err)
				    : err->code;
		for (uint32_t i = 0; rc == 0 && i < call->base->book->count; i++)
			sum_add(&s->base_total, s->base_values[i]);
	}
	return rc;
}

/* ---- further columns ------------------------------------------------------------------------- */

static int add_temporary(struct v1_call *call, struct sums *s, struct err *err)
{
	static const enum view_cost costs[] = { VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY };
	int rc = 0;
	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		uint64_t *values = v1_values(call->reading, costs[i], err);
		rc = values ? fold_sum(call->folded->fold, 0, values, &s->more[MORE_CALLS + i], err)
			    : err->code;
		free(values);
	}
	return rc;
}

/** struct ageing - by account: bytes that live at a moment, and weighted by their age then. */
struct ageing {
	const struct v1_call *call;
	const struct block_filter *filter;
	const struct book *book;
	uint64_t *live, *weighted;
	uint64_t at_ns, looks;
	struct err *err;
};

static int age_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct ageing *a = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		if (!block_matches(a->filter, r))
			continue;
		uint32_t account = v1_account_of(a->book, r->stack);
		if (account == UINT32_MAX)
			continue;
		uint64_t age = a->at_ns > r->time_ns ? a->at_ns - r->time_ns : 0;
		uint64_t units = a->at_ns ? (uint64_t)((__uint128_t)age * AGE_UNITS / a->at_ns) : 0;
		uint64_t weight;
		if (__builtin_mul_overflow(r->bytes, units, &weight))
			weight = UINT64_MAX;
		sum_add(&a->live[account], r->bytes);
		sum_add(&a->weighted[account], weight);
	}
	return v1_is_gone(a->call, &a->looks, a->err);
}

/** add_age() - of the blocks that live at the moment, at the peak, or at the end. As v1_read(). */
static int add_age(struct v1_call *call, struct sums *s, struct err *err)
{
	struct reading *sums = call->reading;
	struct query query = call->ask.query;
	const struct blocks *blocks;
	CLEANUP(block_filter_fini) struct block_filter filter = { 0 };
	if (!query.at.kind && call->ask.cost == VIEW_COST_PEAK) {
		int rc = query_time_parse("peak", &query.at, err);
		if (rc < 0)
			return rc;
	} else if (!query.at.kind) {
		query.leaked = 1;
	}
	call->reading = NULL;
	int rc = v1_blocks_get(call, &blocks, err);
	const struct book *book = sums->book;
	size_t count = book->count;
	uint64_t *memory = rc == 0 ? calloc(2 * count + 1, sizeof(*memory)) : NULL;
	if (rc == 0 && !memory)
		rc = err_set(err, -ENOMEM, "cannot add up");
	/* blocks of a recording that grows may have stacks that the sums do not know yet */
	if (rc == 0)
		rc = block_filter_init(&filter, &query, call->reading->book->names, err);
	struct ageing a = { .call = call,
			    .filter = &filter,
			    .book = book,
			    .live = memory,
			    .weighted = memory ? memory + count : NULL,
			    .at_ns = filter.has_at && filter.at_ns < filter.end_ns ? filter.at_ns
										   : filter.end_ns,
			    .err = err };
	s->length_ns = a.at_ns;
	if (rc == 0)
		rc = blocks_scan(blocks, age_each, &a, err);
	if (rc == 0)
		rc = fold_sum(call->folded->fold, 0, a.live, &s->more[MORE_LIVE], err);
	if (rc == 0)
		rc = fold_sum(call->folded->fold, 0, a.weighted, &s->more[MORE_AGE], err);
	free(memory);
	shelf_put(call->shelf, call->reading);
	call->reading = sums;
	return rc;
}

static int add_more(struct v1_call *call, struct sums *s, struct err *err)
{
	const struct ask *ask = &call->ask;
	int lives = ask->cost == VIEW_COST_LIVE || ask->cost == VIEW_COST_LEAKED ||
		    ask->cost == VIEW_COST_PEAK;
	int rc = 0;
	if (ask->with_temporary && ask->query.at.kind)
		v1_unapplied(call, "what lives at a moment is not temporary", "more", "temporary");
	else if (ask->with_temporary)
		rc = add_temporary(call, s, err);
	if (rc == 0 && ask->with_age && !lives)
		v1_unapplied(call, "blocks that live have an age: of cost live, peak or leaked",
			     "more", "age");
	else if (rc == 0 && ask->with_age)
		rc = add_age(call, s, err);
	return rc;
}

static void put_more(struct v1_call *call, const struct sums *s, const struct fold_picks *picks)
{
	struct v1_column calls = { 0 }, temporary = { 0 }, age = { 0 };
	for (uint32_t i = 0; i < picks->count; i++) {
		const uint64_t *more = picks->all[i].more;
		v1_col_u64(&calls, more[MORE_CALLS]);
		v1_col_u64(&temporary, more[MORE_TEMPORARY]);
		if (more[MORE_LIVE])
			v1_col_u64(&age,
				   (uint64_t)((double)more[MORE_AGE] / (double)more[MORE_LIVE] /
					      AGE_UNITS * (double)s->length_ns));
		else
			v1_col_null(&age);
	}
	if (s->more[MORE_CALLS].total) {
		v1_col_put(call, "allocations", &calls);
		v1_col_put(call, "temporary", &temporary);
	}
	if (s->more[MORE_AGE].total)
		v1_col_put(call, "age_ns", &age);
	buf_fini(&calls.text);
	buf_fini(&temporary.text);
	buf_fini(&age.text);
}

static void put_path(struct v1_call *call, struct v1_frames *frames, const struct fold_picks *picks)
{
	struct v1_column key = { 0 }, frame = { 0 };
	jsonw_object(&call->json, "path");
	for (uint32_t i = 0; i < picks->path_count; i++) {
		v1_col_key(&key, picks->path[i].key);
		if (picks->path[i].frame)
			v1_col_u64(&frame, v1_frame(frames, picks->path[i].frame));
		else
			v1_col_i64(&frame, -1);
	}
	v1_col_put(call, "key", &key);
	v1_col_put(call, "frame", &frame);
	jsonw_object_end(&call->json);
}

static void put_nodes(struct v1_call *call, struct v1_frames *frames, const struct sums *s,
		      const struct fold_picks *picks)
{
	struct v1_column frame = { 0 }, depth = { 0 }, total = { 0 }, self = { 0 }, count = { 0 },
			 rest = { 0 }, children = { 0 }, base = { 0 }, base_self = { 0 },
			 key = { 0 }, trunk = { 0 };
	int keys = call->ask.keys || call->ask.trunk;
	int known = call->ask.cost != VIEW_COST_PEAK || call->reading->knows_peak_blocks;
	for (uint32_t i = 0; i < picks->count; i++) {
		const struct fold_pick *p = &picks->all[i];
		v1_col_i64(&frame, p->frame ? (int64_t)v1_frame(frames, p->frame) : -1);
		v1_col_u64(&depth, p->depth);
		v1_col_u64(&total, p->total);
		v1_col_u64(&self, p->self);
		if (known)
			v1_col_u64(&count, p->blocks);
		else
			v1_col_null(&count);
		v1_col_u64(&rest, p->rest);
		v1_col_u64(&children, p->children);
		if (call->base) {
			v1_col_u64(&base, p->base);
			v1_col_u64(&base_self, p->base_self);
		}
		if (keys)
			v1_col_key(&key, p->key);
		if (call->ask.trunk)
			v1_col_u64(&trunk, p->trunk);
	}
	jsonw_object(&call->json, "node");
	v1_col_put(call, "frame", &frame);
	v1_col_put(call, "depth", &depth);
	v1_col_put(call, "total", &total);
	v1_col_put(call, "self", &self);
	v1_col_put(call, "blocks", &count);
	v1_col_put(call, "rest", &rest);
	v1_col_put(call, "children", &children);
	if (call->base) {
		v1_col_put(call, "base", &base);
		v1_col_put(call, "base_self", &base_self);
	}
	if (keys)
		v1_col_put(call, "key", &key);
	if (call->ask.trunk)
		v1_col_put(call, "trunk", &trunk);
	put_more(call, s, picks);
	jsonw_object_end(&call->json);
}

static int answer(struct v1_call *call, const struct sums *s, const struct fold_picks *picks,
		  struct err *err)
{
	struct jsonw *json = &call->json;
	struct v1_frames frames;
	if (v1_frames_init(&frames, call->folded, err) < 0)
		return err->code;
	jsonw_object(json, NULL);
	v1_head(call, s->values);
	jsonw_u64(json, "shown", picks->all[0].total);
	if (call->base)
		jsonw_u64(json, "base_total", s->base_total);
	else
		jsonw_null(json, "base_total");
	jsonw_u64(json, "nodes_total", call->folded->fold->node_count - 1);
	jsonw_bool(json, "inverted", call->ask.inverted || call->ask.callers);
	char key[VIEW_KEY_TEXT];
	jsonw_str(json, "key", view_key_text(picks->all[0].key, key));
	put_path(call, &frames, picks);
	if (s->more[MORE_AGE].total)
		jsonw_u64(json, "age_at_ns", s->length_ns);
	put_nodes(call, &frames, s, picks);
	v1_frames_put(call, &frames);
	jsonw_object_end(json);
	v1_frames_fini(&frames);
	return 0;
}

/** say_unapplied() - what a tree has no use for. */
static void say_unapplied(struct v1_call *call)
{
	if (call->ask.by == VIEW_BY_THREAD)
		v1_unapplied(call, "a stack is not kept apart by thread: the tree is by function",
			     "by", "thread");
}

int v1_tree(struct v1_call *call, struct err *err)
{
	struct sums s = { 0 };
	struct fold_picks picks = { 0 };
	struct ask *ask = &call->ask;
	/*
	 * callees: what passes through the function, rooted there. Where recursion is folded, that
	 * has to be done from there on.
	 */
	int callees = ask->has_function && !ask->callers;
	if (callees && ask->fold.rec) {
		callees = 0;
		if (ask->fold.step_count == FOLD_STEPS_MAX)
			return err_set(err, -EINVAL, "'x' has too many words for 'side=callees'");
		ask->fold.steps[ask->fold.step_count++] =
			(struct fold_step){ .op = FOLD_FOCUS, .key = ask->function };
		char *folding = NULL, key[VIEW_KEY_TEXT];
		if (asprintf(&folding, "%s&callees=%s", ask->folding,
			     view_key_text(ask->function, key)) < 0)
			return err_set(err, -ENOMEM, "cannot fold the stacks");
		free(ask->folding);
		ask->folding = folding;
		if (!ask->has_node) {
			ask->has_node = 1;
			ask->node = view_key_mix(VIEW_KEY_ROOT, ask->function);
		}
	}
	call->wants_one = !ask->with_temporary;
	int rc = v1_fold(call, err);
	if (rc)
		return rc;
	say_unapplied(call);
	rc = add_up(call, &s, err);
	if (rc == 0)
		rc = add_more(call, &s, err);
	if (rc == 0) {
		struct fold_ask choice = { .cost = s.cost,
					   .blocks = s.blocks,
					   .base = s.base,
					   .inverted = ask->inverted && !ask->has_function,
					   .callers = ask->callers,
					   .callees = callees,
					   .function = ask->function,
					   .has_node = ask->has_node,
					   .node = ask->node,
					   .nodes_max = (uint32_t)ask->nodes,
					   .trunk = ask->trunk };
		memcpy(choice.more, s.more, sizeof(choice.more));
		rc = fold_choose(call->folded->fold, &choice, &picks, err);
	}
	if (rc == 0)
		rc = answer(call, &s, &picks, err);
	fold_picks_fini(&picks);
	sums_fini(&s);
	return rc;
}
