/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/cull.h"

#define STACKS 7
#define THREADS 3
#define BLOCKS 200
#define LIFETIME 1000u

/* Takes what the culling hands on, checks it, and keeps its own reading. */
struct checker {
	struct sink sink;
	struct prof *prof;
	uint64_t last_ns, block_events, culled;
	/* 1 + time of the allocation */
	uint64_t live_at[BLOCKS];
};

static int check_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct checker *c = (struct checker *)sink;
	return prof_sink(c->prof)->define(prof_sink(c->prof), def, err);
}

static int check_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct checker *c = (struct checker *)sink;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		assert_true(ev->time_ns >= c->last_ns);
		c->last_ns = ev->time_ns;
		if (ev->kind == EVENT_ALLOC) {
			assert_int_equal(c->live_at[ev->block.v], 0);
			c->live_at[ev->block.v] = 1 + ev->time_ns;
		} else if (ev->kind == EVENT_FREE) {
			assert_int_not_equal(c->live_at[ev->block.v], 0);
			c->live_at[ev->block.v] = 0;
		}
		c->culled += ev->kind == EVENT_CULLED ? ev->addr : 0;
		c->block_events += ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE;
	}
	return prof_sink(c->prof)->put(prof_sink(c->prof), events, count, err);
}

struct world {
	struct prof *sums;
	struct checker checker;
	struct cull *cull;
	struct err err;
};

static void define_world(struct sink *sink)
{
	struct err err = { 0 };
	for (uint32_t i = 0; i < THREADS; i++) {
		struct def def = { .kind = DEF_THREAD, .id = i, .thread = { .tid = 100 + i } };
		assert_int_equal(sink->define(sink, &def, &err), 0);
	}
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct def frame = { .kind = DEF_FRAME, .id = i, .frame = { .offset = 16 * i } };
		struct def stack = { .kind = DEF_STACK, .id = i, .stack = { .frame = { i } } };
		assert_int_equal(sink->define(sink, &frame, &err), 0);
		assert_int_equal(sink->define(sink, &stack, &err), 0);
	}
}

static void begin(struct world *w, uint32_t pending)
{
	const struct cull_opt opt = { .lifetime_ns = LIFETIME, .pending_max = pending };
	*w = (struct world){ 0 };
	w->sums = prof_new(&w->err);
	w->checker = (struct checker){ .sink = { .define = check_define, .put = check_put },
				       .prof = prof_new(&w->err) };
	w->cull = cull_new(&opt, w->sums, &w->checker.sink, &w->err);
	assert_non_null(w->cull);
	define_world(prof_sink(w->sums));
	define_world(cull_sink(w->cull));
}

static void put(struct world *w, const struct event *events, size_t count)
{
	struct sink *sums = prof_sink(w->sums), *cull = cull_sink(w->cull);
	assert_int_equal(sums->put(sums, events, count, &w->err), 0);
	assert_int_equal(cull->put(cull, events, count, &w->err), 0);
}

static void finish(struct world *w)
{
	assert_int_equal(cull_finish(w->cull, &w->err), 0);
}

static void end(struct world *w)
{
	cull_freep(&w->cull);
	prof_free(w->sums);
	prof_free(w->checker.prof);
}

static struct event alloc(uint64_t ns, uint32_t block, uint64_t bytes, uint8_t flags)
{
	struct event ev = { .kind = EVENT_ALLOC,
			    .flags = flags,
			    .time_ns = ns,
			    .addr = 4096 + block * 16,
			    .bytes = bytes,
			    .stack.v = 1 + block % STACKS };
	ev.block.v = block;
	return ev;
}

static struct event released(const struct event *of, uint64_t ns, uint8_t flags)
{
	struct event ev = *of;
	ev.kind = EVENT_FREE;
	ev.flags = flags;
	ev.time_ns = ns;
	return ev;
}

static uint64_t rand_state = 1;
static uint32_t below(uint32_t n)
{
	rand_state = rand_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rand_state >> 33) % n;
}

static void compare_cost(const struct cost *a, const struct cost *b)
{
	assert_int_equal(a->allocations, b->allocations);
	assert_int_equal(a->allocated_bytes, b->allocated_bytes);
	assert_int_equal(a->frees, b->frees);
	assert_int_equal(a->temporary, b->temporary);
	assert_int_equal(a->leaked, b->leaked);
	assert_int_equal(a->leaked_bytes, b->leaked_bytes);
}

/* One event of a random program: blocks of all ages, reallocs by every thread, temporary ones. */
static size_t random_step(struct event *live, uint8_t *is_live, uint64_t ns, struct event out[2])
{
	uint32_t block = below(BLOCKS), thread = below(THREADS);
	if (!is_live[block]) {
		out[0] = alloc(ns, block, 1 + below(1000), 0);
		out[0].thread.v = thread;
		live[block] = out[0];
		is_live[block] = 1;
		return 1;
	}
	int realloc = below(4) == 0;
	out[0] = released(
		&live[block], ns,
		(uint8_t)((realloc ? EVENT_F_REALLOC : 0) | (below(3) ? 0 : EVENT_F_TEMPORARY)));
	out[0].thread.v = thread;
	is_live[block] = 0;
	if (!realloc)
		return 1;
	uint32_t to = block;
	for (uint32_t tries = 0; tries < 10; tries++) {
		uint32_t other = below(BLOCKS);
		to = is_live[other] ? to : other;
	}
	out[1] = alloc(ns, to, 1 + below(2000), EVENT_F_REALLOC);
	out[1].thread.v = thread;
	live[to] = out[1];
	is_live[to] = 1;
	return 2;
}

static void run_random(uint32_t pending, uint64_t seed)
{
	struct world w;
	struct event live[BLOCKS], out[2];
	uint8_t is_live[BLOCKS] = { 0 };
	uint64_t ns = 0;
	rand_state = seed;
	begin(&w, pending);
	for (int i = 0; i < 20000; i++) {
		ns += below(20);
		size_t count = random_step(live, is_live, ns, out);
		put(&w, out, count);
		if (i % 97 == 0)
			assert_int_equal(cull_advance(w.cull, ns, &w.err), 0);
	}
	finish(&w);
	struct prof_totals all, kept;
	struct cull_result result;
	prof_totals(w.sums, &all);
	prof_totals(w.checker.prof, &kept);
	cull_result(w.cull, &result);
	compare_cost(&kept.cost, &all.cost);
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct cost a, b;
		prof_stack_cost(w.checker.prof, (struct stack_id){ i }, &a);
		prof_stack_cost(w.sums, (struct stack_id){ i }, &b);
		compare_cost(&a, &b);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		compare_cost(&prof_thread(w.checker.prof, (struct thread_id){ i })->cost,
			     &prof_thread(w.sums, (struct thread_id){ i })->cost);
	assert_int_equal(kept.culled_allocations, result.allocations);
	assert_int_equal(kept.culled_bytes, result.bytes);
	assert_int_equal(w.checker.culled, result.allocations);
	assert_true(result.allocations > 1000);
	assert_true(w.checker.block_events + 2 * result.allocations ==
		    all.cost.allocations + all.cost.frees);
	end(&w);
}

static void totals_of_each_stack_and_thread_stay_exact(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		run_random(0, seed);
}

static void a_bound_on_what_is_undecided_changes_no_total(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		run_random(40, seed);
}

static void what_lives_as_long_as_the_threshold_is_kept_and_nothing_else(void **state)
{
	(void)state;
	struct world w;
	begin(&w, 0);
	struct event short_lived = alloc(10, 1, 100, 0), long_lived = alloc(20, 2, 200, 0);
	struct event forever = alloc(30, 3, 300, 0);
	struct event events[] = { short_lived, long_lived, forever,
				  released(&short_lived, 10 + LIFETIME - 1, 0),
				  released(&long_lived, 20 + LIFETIME, 0) };
	put(&w, events, 5);
	assert_int_equal(w.checker.block_events, 0);
	finish(&w);
	assert_int_equal(w.checker.block_events, 3);
	assert_int_equal(w.checker.live_at[3], 31);
	struct cull_result result;
	cull_result(w.cull, &result);
	assert_int_equal(result.allocations, 1);
	assert_int_equal(result.bytes, 100);
	end(&w);
}

static void a_chain_of_reallocs_is_as_old_as_its_first_block(void **state)
{
	(void)state;
	struct world w;
	begin(&w, 0);
	struct event a = alloc(0, 1, 10, 0), b = alloc(600, 2, 20, EVENT_F_REALLOC);
	struct event c = alloc(0, 4, 1, 0), d = alloc(900, 5, 2, EVENT_F_REALLOC);
	struct event events[] = { a,
				  c,
				  released(&a, 600, EVENT_F_REALLOC),
				  b,
				  released(&c, 900, EVENT_F_REALLOC),
				  d,
				  released(&d, 950, 0),    /* 50 young, its chain 950 */
				  released(&b, 1100, 0) }; /* 500 young, its chain 1100 */
	put(&w, events, 8);
	finish(&w);
	assert_int_equal(w.checker.block_events, 4);
	struct cull_result result;
	cull_result(w.cull, &result);
	assert_int_equal(result.allocations, 2);
	assert_int_equal(result.bytes, 3);
	end(&w);
}

static void the_peaks_place_is_told_among_what_is_kept(void **state)
{
	(void)state;
	struct world w;
	begin(&w, 0);
	struct event kept = alloc(0, 1, 1000, 0), gone = alloc(10, 2, 5000, 0);
	struct event later = alloc(20, 3, 10, 0);
	put(&w, (struct event[]){ kept, gone }, 2); /* the peak */
	put(&w, (struct event[]){ released(&gone, 15, 0), later }, 2);
	put(&w, (struct event[]){ released(&kept, 5000, 0) }, 1);
	finish(&w);
	struct cull_result result;
	cull_result(w.cull, &result);
	assert_int_equal(result.peak_event, 1); /* behind the first of three */
	assert_int_equal(w.checker.block_events, 3);
	prof_set_culled(w.sums, result.allocations, result.bytes, result.peak_event);
	struct prof_totals totals;
	prof_totals(w.sums, &totals);
	assert_int_equal(totals.cost.peak_bytes, 6000);
	assert_int_equal(totals.peak_event, 1);
	assert_int_equal(totals.culled_bytes, 5000);
	end(&w);
}

static void what_was_inherited_is_never_left_out(void **state)
{
	(void)state;
	struct world w;
	begin(&w, 0);
	struct event block = alloc(0, 1, 64, EVENT_F_INHERITED);
	put(&w, (struct event[]){ block, released(&block, 5, 0) }, 2);
	finish(&w);
	assert_int_equal(w.checker.block_events, 2);
	end(&w);
}

static void a_block_whose_free_nobody_saw_is_kept(void **state)
{
	(void)state;
	struct world w;
	begin(&w, 0);
	const struct event lost = {
		.kind = EVENT_LOST, .value = LOSS_RING_FULL, .addr = 1, .block.v = 1
	};
	struct event first = alloc(1, 1, 100, 0), again = alloc(3, 1, 50, 0);
	const struct event events[] = { lost, first, released(&first, 3, EVENT_F_IMPLIED), again,
					released(&again, 4, 0) };
	struct cull_result result;
	put(&w, events, sizeof(events) / sizeof(events[0]));
	finish(&w);
	cull_result(w.cull, &result);
	assert_int_equal(result.allocations, 1);
	assert_int_equal(result.bytes, 50);
	struct prof_totals all, kept;
	prof_totals(w.sums, &all);
	prof_totals(w.checker.prof, &kept);
	assert_int_equal(all.cost.frees, 1);
	assert_int_equal(kept.cost.frees, all.cost.frees);
	assert_int_equal(w.checker.block_events, 2);
	end(&w);
}

static void sums_say_how_long_the_blocks_lived_and_how_large_they_were(void **state)
{
	(void)state;
	assert_int_equal(cull_class(0), 0);
	assert_int_equal(cull_class(999999), 0);
	assert_int_equal(cull_class(1000000), 1);
	assert_int_equal(cull_class(9999999999), 4);
	assert_int_equal(cull_class(UINT64_MAX), CULL_CLASSES - 1);
	uint64_t value = cull_value(3, 12345);
	assert_int_equal(cull_value_class(value), 3);
	assert_int_equal(cull_value_largest(value), 12345);
	assert_int_equal(cull_value_class(cull_value(5, UINT64_MAX)), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_of_each_stack_and_thread_stay_exact),
		cmocka_unit_test(a_bound_on_what_is_undecided_changes_no_total),
		cmocka_unit_test(what_lives_as_long_as_the_threshold_is_kept_and_nothing_else),
		cmocka_unit_test(a_chain_of_reallocs_is_as_old_as_its_first_block),
		cmocka_unit_test(the_peaks_place_is_told_among_what_is_kept),
		cmocka_unit_test(what_was_inherited_is_never_left_out),
		cmocka_unit_test(a_block_whose_free_nobody_saw_is_kept),
		cmocka_unit_test(sums_say_how_long_the_blocks_lived_and_how_large_they_were),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
