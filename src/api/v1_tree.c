/* SPDX-License-Identifier: Apache-2.0 */
/* v1_tree.c - the tree that flame, icicle, sandwich and treemap draw. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"

/** struct sums - what the nodes of a tree are asked for. */
struct sums {
	struct fold_sums cost, blocks, base;
	uint64_t *values, *base_values;
	uint64_t base_total;
};

static void sums_fini(struct sums *s)
{
	fold_sums_fini(&s->cost);
	fold_sums_fini(&s->blocks);
	fold_sums_fini(&s->base);
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

static void put_nodes(struct v1_call *call, struct v1_frames *frames,
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
	put_nodes(call, &frames, picks);
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
	call->wants_one = 1;
	int rc = v1_fold(call, err);
	if (rc)
		return rc;
	say_unapplied(call);
	rc = add_up(call, &s, err);
	if (rc == 0) {
		const struct fold_ask choice = { .cost = s.cost,
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
		rc = fold_choose(call->folded->fold, &choice, &picks, err);
	}
	if (rc == 0)
		rc = answer(call, &s, &picks, err);
	fold_picks_fini(&picks);
	sums_fini(&s);
	return rc;
}
