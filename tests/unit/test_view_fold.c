/* SPDX-License-Identifier: Apache-2.0 */
/* Folded trees of random stacks under random transforms, compared with somebody who rewrites each stack on its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/fold.h"

#define FUNCTIONS 6
#define STACKS 60
#define DEPTH 60
#define ROUNDS 400

/* Function i lies in module a, the odd ones in b; the last has no name. */
static const char *const functions[FUNCTIONS] = { "main", "parse", "eval", "walk", "put", NULL };

struct world {
	struct prof *prof;
	uint32_t parent[STACKS + 1], frame[STACKS + 1];
	/* accounts */
	uint32_t rows[STACKS];
	uint64_t value[STACKS];
};

static void define(struct prof *prof, const struct def *def)
{
	struct err err = { 0 };
	if (prof_sink(prof)->define(prof_sink(prof), def, &err) < 0)
		fail_msg("%s", err.msg);
}

static uint64_t key_of(uint32_t function)
{
	return view_key_function(function % 2 ? "b" : "a", functions[function],
				 (function + 1) * 16);
}

static void world_make(struct world *w)
{
	struct prof *prof = w->prof = prof_new(NULL);
	define(prof, &(struct def){ .kind = DEF_THREAD, .thread = { .tid = 1 } });
	define(prof, &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/x/a" } });
	define(prof, &(struct def){ .kind = DEF_MODULE, .id = 2, .module = { .path = "/x/b" } });
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct symbol s = { .function = functions[i] };
		define(prof, &(struct def){ .kind = DEF_FRAME,
					    .id = i + 1,
					    .frame = { { 1 + i % 2 }, (i + 1) * 16 } });
		if (functions[i])
			define(prof, &(struct def){ .kind = DEF_SYMBOL,
						    .id = i + 1,
						    .symbol = { &s, 1 } });
	}
	for (uint32_t i = 1; i <= STACKS; i++) {
		w->parent[i] = i < 4 ? 0 : (uint32_t)random() % i;
		w->frame[i] = (uint32_t)random() % FUNCTIONS;
		define(prof,
		       &(struct def){ .kind = DEF_STACK,
				      .id = i,
				      .stack = { { w->parent[i] }, { w->frame[i] + 1 }, 0 } });
		w->rows[i - 1] = prof_stack_row(prof, (struct stack_id){ i }).v;
		w->value[i - 1] = (uint64_t)random() % 5;
	}
}

/** rewrite() - the keys of stack @i under @opt, outermost first; -1: it is left out. */
static int rewrite(const struct world *w, uint32_t stack, const struct fold_opt *opt,
		   uint64_t out[DEPTH])
{
	struct one {
		uint64_t key;
		const char *module;
	} path[DEPTH];
	int count = 0;
	for (uint32_t at = stack; at; at = w->parent[at])
		count++;
	int i = count;
	for (uint32_t at = stack; at; at = w->parent[at])
		path[--i] = (struct one){ key_of(w->frame[at]), w->frame[at] % 2 ? "b" : "a" };
	for (unsigned s = 0; s < opt->step_count; s++) {
		const struct fold_step *step = &opt->steps[s];
		int kept = 0, met = 0, was_in = 0;
		for (i = 0; i < count; i++) {
			struct one one = path[i];
			int is = step->op == FOLD_MODULE ? strcmp(one.module, step->module) == 0
							 : one.key == step->key;
			met |= is;
			if ((step->op == FOLD_HIDE && is) || (step->op == FOLD_FOCUS && !met) ||
			    (step->op == FOLD_MODULE && is && was_in))
				continue;
			was_in = is;
			if (step->op == FOLD_MODULE && is)
				one.key = view_key_function(one.module, "", 0);
			path[kept++] = one;
		}
		if ((step->op == FOLD_DROP && met) || (step->op == FOLD_FOCUS && !met))
			return -1;
		count = kept;
	}
	int kept = 0;
	for (i = 0; i < count; i++) {
		int k = kept;
		while (opt->rec && k && out[k - 1] != path[i].key)
			k--;
		if (opt->rec && k)
			kept = k;
		else
			out[kept++] = path[i].key;
	}
	return kept;
}

static void random_opt(struct fold_opt *opt)
{
	*opt = (struct fold_opt){ .rec = random() % 3 == 0 };
	opt->step_count = (unsigned)random() % 4;
	for (unsigned i = 0; i < opt->step_count; i++) {
		opt->steps[i].op = (enum fold_op)(1 + random() % 4);
		opt->steps[i].key = key_of((uint32_t)random() % FUNCTIONS);
		opt->steps[i].module = random() % 2 ? "a" : "b";
	}
}

static void stacks_are_folded_as_if_each_were_rewritten(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct world w;
		struct fold_opt opt;
		world_make(&w);
		random_opt(&opt);
		const struct fold_side side = { w.prof, w.rows, STACKS };
		struct fold *fold = fold_new(&opt, &side, 1, NULL);
		assert_non_null(fold);
		for (uint32_t i = 0; i < STACKS; i++) {
			uint64_t path[DEPTH], key = VIEW_KEY_ROOT;
			int count = rewrite(&w, i + 1, &opt, path);
			uint32_t node = fold->node_of[0][i];
			if (count < 0) {
				assert_int_equal(node, FOLD_NONE);
				continue;
			}
			for (int k = 0; k < count; k++)
				key = view_key_mix(key, path[k]);
			assert_int_not_equal(node, FOLD_NONE);
			assert_int_equal(fold->nodes[node].key, key);
			for (int k = count; k--; node = fold->nodes[node].parent)
				assert_int_equal(fold->frames[fold->nodes[node].frame].key,
						 path[k]);
			assert_int_equal(node, 0);
		}
		fold_free(fold);
		prof_free(w.prof);
	}
}

static void check_picks(const struct fold_picks *picks)
{
	uint64_t *below = calloc(picks->count, sizeof(*below));
	for (uint32_t i = 1; i < picks->count; i++) {
		const struct fold_pick *p = &picks->all[i];
		assert_true(p->parent < i);
		assert_int_equal(p->depth, picks->all[p->parent].depth + 1);
		below[p->parent] += p->total;
	}
	for (uint32_t i = 0; i < picks->count; i++)
		assert_int_equal(picks->all[i].total,
				 picks->all[i].self + below[i] + picks->all[i].rest);
	free(below);
}

static void every_choice_adds_up_and_is_found_again_by_its_key(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct world w;
		struct fold_opt opt;
		struct fold_sums sums;
		struct fold_picks picks, zoomed;
		world_make(&w);
		random_opt(&opt);
		const struct fold_side side = { w.prof, w.rows, STACKS };
		struct fold *fold = fold_new(&opt, &side, 1, NULL);
		assert_int_equal(fold_sum(fold, 0, w.value, &sums, NULL), 0);
		struct fold_ask ask = { .cost = sums,
					.more = { sums },
					.inverted = round % 2,
					.nodes_max = 1 + (uint32_t)random() % 100 };
		assert_int_equal(fold_choose(fold, &ask, &picks, NULL), 0);
		assert_true(picks.count <= ask.nodes_max);
		assert_int_equal(picks.all[0].total,
				 sums.total[0] - (ask.inverted ? sums.self[0] : 0));
		check_picks(&picks);
		for (uint32_t k = 0; k < picks.count; k++) /* the same cost, told once more */
			assert_int_equal(picks.all[k].more[0], picks.all[k].total);
		/* each is there again when asked for alone */
		uint32_t i = (uint32_t)random() % picks.count;
		ask.has_node = 1;
		ask.node = picks.all[i].key;
		if (picks.all[i].total) {
			assert_int_equal(fold_choose(fold, &ask, &zoomed, NULL), 0);
			assert_int_equal(zoomed.all[0].total, picks.all[i].total);
			assert_int_equal(zoomed.all[0].key, picks.all[i].key);
			assert_int_equal(zoomed.path_count,
					 picks.all[i].depth ? picks.all[i].depth - 1 : 0);
			check_picks(&zoomed);
			fold_picks_fini(&zoomed);
		}
		ask.node = 12345;
		assert_true(fold_choose(fold, &ask, &zoomed, NULL) < 0);
		fold_picks_fini(&picks);
		fold_sums_fini(&sums);
		fold_free(fold);
		prof_free(w.prof);
	}
}

static void callees_are_the_tree_of_what_is_focused_on_the_function(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct world w;
		struct fold_opt opt;
		struct fold_sums sums, focused_sums;
		struct fold_picks picks, expected;
		world_make(&w);
		random_opt(&opt);
		opt.rec = 0; /* folded before, recursion hides what lies below the function */
		const struct fold_side side = { w.prof, w.rows, STACKS };
		struct fold *fold = fold_new(&opt, &side, 1, NULL);
		uint64_t function = key_of((uint32_t)random() % FUNCTIONS);
		opt.steps[opt.step_count++] =
			(struct fold_step){ .op = FOLD_FOCUS, .key = function };
		struct fold *focused = fold_new(&opt, &side, 1, NULL);
		assert_int_equal(fold_sum(fold, 0, w.value, &sums, NULL), 0);
		assert_int_equal(fold_sum(focused, 0, w.value, &focused_sums, NULL), 0);
		struct fold_ask ask = { .cost = sums,
					.blocks = sums,
					.more = { [FOLD_MORE_MAX - 1] = sums },
					.callees = 1,
					.function = function,
					.nodes_max = 1 + (uint32_t)random() % 100 };
		struct fold_ask as_focused = { .cost = focused_sums,
					       .blocks = focused_sums,
					       .has_node = 1,
					       .node = view_key_mix(VIEW_KEY_ROOT, function),
					       .nodes_max = ask.nodes_max };
		for (int zoom = 0; zoom < 2; zoom++) {
			int rc = fold_choose(fold, &ask, &picks, NULL);
			if (fold_choose(focused, &as_focused, &expected, NULL) < 0) {
				/* whoever has no place has no sum */
				assert_true(rc < 0 || !picks.all[0].total);
				fold_picks_fini(&picks);
				break;
			}
			assert_int_equal(rc, 0);
			assert_int_equal(picks.count, expected.count);
			assert_int_equal(picks.path_count, expected.path_count);
			for (uint32_t i = 0; i < picks.path_count; i++)
				assert_int_equal(picks.path[i].key, expected.path[i].key);
			for (uint32_t i = 0; i < picks.count; i++) {
				const struct fold_pick *a = &picks.all[i], *b = &expected.all[i];
				assert_int_equal(a->key, b->key);
				assert_int_equal(a->total, b->total);
				assert_int_equal(a->more[FOLD_MORE_MAX - 1], a->total);
				assert_int_equal(a->self, b->self);
				assert_int_equal(a->blocks, b->blocks);
				assert_int_equal(a->rest, b->rest);
				assert_int_equal(a->depth, b->depth);
				assert_int_equal(a->parent, b->parent);
				assert_int_equal(a->children, b->children);
			}
			ask.has_node = 1;
			ask.node = as_focused.node =
				picks.all[(uint32_t)random() % picks.count].key;
			fold_picks_fini(&picks);
			fold_picks_fini(&expected);
		}
		fold_sums_fini(&sums);
		fold_sums_fini(&focused_sums);
		fold_free(fold);
		fold_free(focused);
		prof_free(w.prof);
	}
}

static void a_function_is_inclusive_once_and_its_callers_add_up_to_that(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct world w;
		struct fold_sums sums;
		struct fold_picks picks;
		const struct fold_opt opt = { 0 };
		world_make(&w);
		const struct fold_side side = { w.prof, w.rows, STACKS };
		struct fold *fold = fold_new(&opt, &side, 1, NULL);
		assert_int_equal(fold_sum(fold, 0, w.value, &sums, NULL), 0);
		uint64_t own[FUNCTIONS + 1] = { 0 }, inclusive[FUNCTIONS + 1] = { 0 };
		assert_true(fold->frame_count <= FUNCTIONS + 1);
		assert_int_equal(fold_own_sums(fold, 0, w.value, own, NULL), 0);
		fold_inclusive_sums(fold, &sums, inclusive);
		for (uint32_t f = 0; f < FUNCTIONS; f++) {
			uint32_t frame = fold_frame_of(fold, key_of(f));
			uint64_t through = 0, here = 0;
			for (uint32_t i = 1; i <= STACKS; i++) {
				int passes = 0;
				for (uint32_t at = i; at; at = w.parent[at])
					passes |= w.frame[at] == f;
				through += passes ? w.value[i - 1] : 0;
				here += w.frame[i] == f ? w.value[i - 1] : 0;
			}
			if (frame == FOLD_NONE)
				continue;
			assert_int_equal(inclusive[frame], through);
			assert_int_equal(own[frame], here);
			const struct fold_ask ask = {
				.cost = sums, .callers = 1, .function = key_of(f), .nodes_max = 1000
			};
			assert_int_equal(fold_choose(fold, &ask, &picks, NULL), 0);
			assert_int_equal(picks.all[0].total, through);
			check_picks(&picks);
			fold_picks_fini(&picks);
		}
		fold_sums_fini(&sums);
		fold_free(fold);
		prof_free(w.prof);
	}
}

static void two_readings_meet_by_symbol(void **state)
{
	(void)state;
	struct world a, b;
	struct fold_sums of_a, of_b;
	world_make(&a);
	world_make(&b);
	const struct fold_side sides[] = { { a.prof, a.rows, STACKS }, { b.prof, b.rows, STACKS } };
	const struct fold_opt opt = { 0 };
	struct fold *fold = fold_new(&opt, sides, 2, NULL);
	assert_int_equal(fold_sum(fold, 0, a.value, &of_a, NULL), 0);
	assert_int_equal(fold_sum(fold, 1, b.value, &of_b, NULL), 0);
	const struct fold_ask ask = { .cost = of_a, .base = of_b, .nodes_max = 1000 };
	struct fold_picks picks;
	assert_int_equal(fold_choose(fold, &ask, &picks, NULL), 0);
	uint64_t sum_a = 0, sum_b = 0;
	for (uint32_t i = 0; i < STACKS; i++) {
		sum_a += a.value[i];
		sum_b += b.value[i];
	}
	assert_int_equal(picks.all[0].total, sum_a);
	assert_int_equal(picks.all[0].base, sum_b);
	check_picks(&picks);
	fold_picks_fini(&picks);
	fold_sums_fini(&of_a);
	fold_sums_fini(&of_b);
	fold_free(fold);
	prof_free(a.prof);
	prof_free(b.prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_folded_as_if_each_were_rewritten),
		cmocka_unit_test(every_choice_adds_up_and_is_found_again_by_its_key),
		cmocka_unit_test(callees_are_the_tree_of_what_is_focused_on_the_function),
		cmocka_unit_test(a_function_is_inclusive_once_and_its_callers_add_up_to_that),
		cmocka_unit_test(two_readings_meet_by_symbol),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
