/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "model/prof.h"

static void define(struct prof *prof, const struct def *def)
{
	struct err err = { 0 };
	if (prof_sink(prof)->define(prof_sink(prof), def, &err) < 0)
		fail_msg("%s", err.msg);
}

static void put(struct prof *prof, const struct event *events, size_t count)
{
	struct err err = { 0 };
	if (prof_sink(prof)->put(prof_sink(prof), events, count, &err) < 0)
		fail_msg("%s", err.msg);
}

/** define_world() - @threads threads; @stacks stacks, each one frame below the root. */
static void define_world(struct prof *prof, uint32_t threads, uint32_t stacks)
{
	for (uint32_t i = 0; i < threads; i++)
		define(prof,
		       &(struct def){ .kind = DEF_THREAD, .id = i, .thread = { .tid = 100 + i } });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/lib/a.so" } });
	for (uint32_t i = 1; i <= stacks; i++) {
		define(prof, &(struct def){ .kind = DEF_FRAME,
					    .id = i,
					    .frame = { .module = { 1 }, .offset = 16 * i } });
		define(prof, &(struct def){ .kind = DEF_STACK,
					    .id = i,
					    .stack = { .parent = { 0 }, .frame = { i } } });
	}
}

/* ---- the naive accountant: looks at every stack after every event ------------------------------------------------ */

#define STACKS 12
#define THREADS 3
#define BLOCKS 64

struct naive_row {
	struct cost cost;
	uint64_t live, live_blocks;
};
struct naive {
	struct naive_row stack[STACKS + 1], thread[THREADS];
	uint64_t live, peak, peak_time;
	struct {
		int live, at_risk;
		uint64_t bytes;
		uint32_t stack, thread;
	} block[BLOCKS];
};

/* One without any count says where frees were lost that were counted before. */
static int loses_frees(const struct event *ev)
{
	return ev->value != LOSS_EARLY && (ev->block.v || (!ev->addr && !ev->bytes));
}

static void naive_event(struct naive *n, const struct event *ev)
{
	if (ev->kind == EVENT_LOST) {
		for (int i = 0; loses_frees(ev) && i < BLOCKS; i++)
			n->block[i].at_risk = 1;
		return;
	}
	uint32_t b = ev->block.v;
	struct naive_row *s = &n->stack[ev->stack.v];
	if (ev->kind == EVENT_ALLOC) {
		n->block[b].live = 1;
		n->block[b].at_risk = 0;
		n->block[b].bytes = ev->bytes;
		n->block[b].stack = ev->stack.v;
		n->block[b].thread = ev->thread.v;
	}
	struct naive_row *rows[2] = { s, &n->thread[n->block[b].thread] };
	for (int i = 0; i < 2; i++) {
		struct naive_row *r = rows[i];
		if (ev->kind == EVENT_ALLOC) {
			r->cost.allocations++;
			r->cost.allocated_bytes += ev->bytes;
			r->live += ev->bytes;
			r->live_blocks++;
		} else {
			r->cost.frees += !(ev->flags & EVENT_F_IMPLIED);
			r->cost.temporary += !!(ev->flags & EVENT_F_TEMPORARY);
			r->live -= ev->bytes;
			r->live_blocks--;
		}
	}
	n->live += ev->kind == EVENT_ALLOC ? ev->bytes : -ev->bytes;
	if (ev->kind == EVENT_FREE)
		n->block[b].live = 0;
	if (n->live > n->peak) {
		n->peak = n->live;
		n->peak_time = ev->time_ns;
		for (int i = 0; i <= STACKS; i++) {
			n->stack[i].cost.peak_bytes = n->stack[i].live;
			n->stack[i].cost.peak_blocks = n->stack[i].live_blocks;
		}
		for (int i = 0; i < THREADS; i++) {
			n->thread[i].cost.peak_bytes = n->thread[i].live;
			n->thread[i].cost.peak_blocks = n->thread[i].live_blocks;
		}
	}
}

static void naive_end(struct naive *n)
{
	for (int i = 0; i <= STACKS; i++) {
		n->stack[i].cost.leaked = n->stack[i].live_blocks;
		n->stack[i].cost.leaked_bytes = n->stack[i].live;
	}
	for (int i = 0; i < THREADS; i++) {
		n->thread[i].cost.leaked = n->thread[i].live_blocks;
		n->thread[i].cost.leaked_bytes = n->thread[i].live;
	}
	for (int i = 0; i < BLOCKS; i++) {
		if (!n->block[i].live || !n->block[i].at_risk)
			continue;
		struct cost *costs[2] = { &n->stack[n->block[i].stack].cost,
					  &n->thread[n->block[i].thread].cost };
		for (int k = 0; k < 2; k++) {
			costs[k]->uncertain++;
			costs[k]->uncertain_bytes += n->block[i].bytes;
			costs[k]->leaked--;
			costs[k]->leaked_bytes -= n->block[i].bytes;
		}
	}
}

static size_t random_stream(struct event *events, size_t count, uint32_t threads, int losses)
{
	struct {
		uint64_t bytes;
		uint32_t stack;
		int live;
	} block[BLOCKS] = { 0 };
	uint64_t now = 0;
	int lost = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t b = (uint32_t)random() % BLOCKS;
		now += (uint64_t)random() % 3000000;
		struct event *ev = &events[i];
		*ev = (struct event){ .time_ns = now,
				      .thread = { (uint32_t)random() % threads },
				      .block = { b } };
		if (losses && random() % 400 == 0) {
			*ev = (struct event){ .kind = EVENT_LOST,
					      .time_ns = now,
					      .value = random() % 2 ? LOSS_EARLY : LOSS_RING_FULL,
					      .addr = 2,
					      .bytes = 20,
					      .block = { (uint32_t)random() % 2 } };
			if (random() % 4 == 0)
				*ev = (struct event){ .kind = EVENT_LOST,
						      .time_ns = now,
						      .value = LOSS_RING_FULL };
			lost |= loses_frees(ev);
			continue;
		}
		if (block[b].live) {
			ev->kind = EVENT_FREE;
			ev->flags = random() % 3 ? 0 : EVENT_F_TEMPORARY;
			if (lost && random() % 5 == 0)
				ev->flags = EVENT_F_IMPLIED;
		} else {
			ev->kind = EVENT_ALLOC;
			block[b].bytes = random() % 5 ? (uint64_t)random() % 100 : 0;
			block[b].stack = 1 + (uint32_t)random() % STACKS;
		}
		block[b].live ^= 1;
		ev->bytes = block[b].bytes;
		ev->stack.v = block[b].stack;
	}
	return count;
}

static void same_cost(const struct cost *a, const struct cost *b, const char *what, unsigned row)
{
	const char *const names[] = { "allocations", "allocated_bytes", "frees",
				      "temporary",   "leaked",          "leaked_bytes",
				      "peak_bytes",  "uncertain",       "uncertain_bytes",
				      "peak_blocks" };
	_Static_assert(sizeof(*a) == sizeof(names) / sizeof(names[0]) * 8, "all named");
	const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (x[i] != y[i])
			fail_msg("%s %u: %s is %llu, the naive count says %llu", what, row,
				 names[i], (unsigned long long)x[i], (unsigned long long)y[i]);
}

static void check_against_naive(uint32_t threads, int losses)
{
	enum { EVENTS = 3000 };
	static struct event events[EVENTS];
	for (unsigned seed = 1; seed <= 60; seed++) {
		srandom(seed * 7 + threads);
		size_t count =
			random_stream(events, 1 + (size_t)random() % EVENTS, threads, losses);
		struct prof *prof = prof_new(NULL);
		define_world(prof, threads, STACKS);
		struct naive naive = { 0 };
		for (size_t i = 0; i < count;) {
			size_t batch = 1 + (size_t)random() % 100;
			if (batch > count - i)
				batch = count - i;
			put(prof, events + i, batch);
			i += batch;
		}
		for (size_t i = 0; i < count; i++)
			naive_event(&naive, &events[i]);
		naive_end(&naive);
		struct cost sum = { 0 }, cost;
		for (uint32_t i = 0; i <= STACKS; i++) {
			prof_stack_cost(prof, (struct stack_id){ i }, &cost);
			same_cost(&cost, &naive.stack[i].cost, "stack", i);
			sum.peak_bytes += cost.peak_bytes;
		}
		for (uint32_t i = 0; i < threads; i++)
			same_cost(&prof_thread(prof, (struct thread_id){ i })->cost,
				  &naive.thread[i].cost, "thread", i);
		struct prof_totals totals;
		prof_totals(prof, &totals);
		assert_int_equal(totals.cost.peak_bytes, naive.peak);
		assert_int_equal(sum.peak_bytes, naive.peak);
		assert_int_equal(totals.peak_time_ns, naive.peak_time);
		size_t points;
		const struct prof_point *p = prof_timeline(prof, &points);
		assert_in_range(points, 1, PROF_POINTS_MAX);
		uint64_t highest = 0;
		for (size_t i = 0; i < points; i++) {
			if (p[i].heap_max_bytes > highest)
				highest = p[i].heap_max_bytes;
			if (i)
				assert_true(p[i].time_ns >= p[i - 1].time_ns);
		}
		assert_int_equal(highest, naive.peak);
		assert_int_equal(p[points - 1].heap_bytes, naive.live);
		prof_free(prof);
	}
}

static void counters_and_peaks_equal_a_naive_count_with_one_thread(void **state)
{
	(void)state;
	check_against_naive(1, 0);
}

static void counters_and_peaks_equal_a_naive_count_with_several_threads(void **state)
{
	(void)state;
	check_against_naive(THREADS, 0);
}

static void blocks_live_when_a_free_was_lost_become_uncertain(void **state)
{
	(void)state;
	check_against_naive(1, 1);
	check_against_naive(THREADS, 1);
}

static void a_loss_without_counts_says_only_where(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	define_world(prof, 1, 1);
	struct event events[] = {
		{ .kind = EVENT_ALLOC, .bytes = 10, .stack = { 1 }, .block = { 0 } },
		{ .kind = EVENT_LOST, .value = LOSS_RING_FULL, .block = { 2 } },
		{ .kind = EVENT_ALLOC, .bytes = 20, .stack = { 1 }, .block = { 1 } },
		{ .kind = EVENT_LOST, .value = LOSS_RING_FULL },
		{ .kind = EVENT_ALLOC, .bytes = 40, .stack = { 1 }, .block = { 2 } },
	};
	put(prof, events, 5);
	struct cost cost;
	prof_stack_cost(prof, (struct stack_id){ 1 }, &cost);
	assert_int_equal(cost.leaked_bytes, 40);
	assert_int_equal(cost.uncertain_bytes, 30);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	assert_int_equal(totals.lost_events, 2);
	prof_free(prof);
}

static void names_are_kept_up_to_a_bound(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	struct err err = { 0 };
	const size_t len = 1 << 20;
	char *name = malloc(len + 1);
	memset(name, 'a', len);
	name[len] = '\0';
	struct def def = { .kind = DEF_THREAD, .thread = { .tid = 1, .name = name } };
	int rc = 0;
	for (def.id = 0; rc == 0 && def.id < 300; def.id++) {
		char number[8];
		snprintf(number, sizeof(number), "%07u", def.id);
		memcpy(name, number, 7);
		rc = prof_sink(prof)->define(prof_sink(prof), &def, &err);
	}
	assert_int_equal(rc, -E2BIG);
	assert_true(def.id > 250 && def.id < 270);
	free(name);
	prof_free(prof);
}

static void equal_stacks_become_one_row_whatever_their_numbers(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	define_world(prof, 1, 2);
	/* the same module loaded again, the same frame and stack under new numbers */
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 2, .module = { .path = "/lib/a.so" } });
	define(prof, &(struct def){ .kind = DEF_FRAME, .id = 3, .frame = { { 2 }, 32 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 3, .stack = { { 0 }, { 3 }, 0 } });
	assert_int_equal(prof_stack_count(prof), 3);
	assert_int_equal(prof_stack_row(prof, (struct stack_id){ 3 }).v, 2);
	struct event events[] = {
		{ .kind = EVENT_ALLOC, .bytes = 10, .stack = { 2 }, .block = { 0 } },
		{ .kind = EVENT_ALLOC, .bytes = 30, .stack = { 3 }, .block = { 1 } },
	};
	put(prof, events, 2);
	struct cost cost;
	prof_stack_cost(prof, (struct stack_id){ 2 }, &cost);
	assert_int_equal(cost.allocations, 2);
	assert_int_equal(cost.peak_bytes, 40);
	prof_free(prof);
}

static void the_first_of_equal_peaks_counts(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	define_world(prof, 1, 2);
	struct event events[] = {
		{ .kind = EVENT_ALLOC, .time_ns = 1, .bytes = 50, .stack = { 1 }, .block = { 0 } },
		{ .kind = EVENT_FREE, .time_ns = 2, .bytes = 50, .stack = { 1 }, .block = { 0 } },
		{ .kind = EVENT_ALLOC, .time_ns = 3, .bytes = 50, .stack = { 2 }, .block = { 0 } },
	};
	put(prof, events, 3);
	struct cost cost;
	prof_stack_cost(prof, (struct stack_id){ 1 }, &cost);
	assert_int_equal(cost.peak_bytes, 50);
	prof_stack_cost(prof, (struct stack_id){ 2 }, &cost);
	assert_int_equal(cost.peak_bytes, 0);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	assert_int_equal(totals.peak_time_ns, 1);
	assert_int_equal(totals.peak_event, 1);
	prof_free(prof);
}

static void check_partial(struct prof *prof)
{
	define_world(prof, 1, 1);
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 2, .stack = { .stop = 6 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 3, .stack = { { 2 }, { 1 }, 0 } });
	struct event events[] = {
		{ .kind = EVENT_ALLOC, .bytes = 1, .stack = { 3 }, .block = { 0 } },
		{ .kind = EVENT_ALLOC, .bytes = 1, .stack = { 3 }, .block = { 1 } },
		{ .kind = EVENT_ALLOC, .bytes = 1, .stack = { 2 }, .block = { 2 } },
		{ .kind = EVENT_ALLOC, .bytes = 1, .stack = { 1 }, .block = { 3 } },
	};
	put(prof, events, 4);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	assert_int_equal(totals.partial[6], 3);
	assert_int_equal(totals.stacks, 3);
	prof_free(prof);
}

static void partial_stacks_are_counted_by_allocation_and_reason(void **state)
{
	(void)state;
	check_partial(prof_new(NULL));
	check_partial(prof_new_sums(NULL));
}

static void sums_stand_under_the_producers_numbers_and_know_no_others(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct prof *prof = prof_new_sums(&err);
	struct sink *sink = prof_sink(prof);
	define_world(prof, 1, 1);
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 1000, .stack = { { 1 }, { 1 }, 0 } });
	const struct def orphan = { .kind = DEF_STACK, .id = 1001, .stack = { { 999 }, { 1 }, 0 } };
	assert_int_equal(sink->define(sink, &orphan, &err), -EBADMSG);
	struct event ev = { .kind = EVENT_ALLOC, .bytes = 7, .stack = { 1000 } };
	put(prof, &ev, 1);
	for (uint32_t unknown = 999; unknown <= 1001; unknown += 2) {
		ev = (struct event){ .kind = EVENT_ALLOC, .stack = { unknown }, .block = { 1 } };
		assert_int_equal(sink->put(sink, &ev, 1, &err), -EBADMSG);
		assert_int_equal(prof_stack_row(prof, (struct stack_id){ unknown }).v, 0);
	}
	struct cost cost;
	assert_int_equal(prof_stack_next(prof, 0), 1000);
	assert_int_equal(prof_stack_used(prof, 0), 1000);
	assert_int_equal(prof_stack_count(prof), 1001);
	prof_stack_cost(prof, prof_stack_row(prof, (struct stack_id){ 1000 }), &cost);
	assert_int_equal(cost.allocated_bytes, 7);
	/* nor names, of which a thread may have any number */
	define(prof, &(struct def){ .kind = DEF_THREAD, .thread = { 77, "renamed" } });
	assert_int_equal(prof_thread(prof, (struct thread_id){ 0 })->tid, 77);
	assert_null(prof_thread(prof, (struct thread_id){ 0 })->name);
	prof_free(prof);
}

static uint64_t sum_of_rows(const struct prof *prof)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < prof_stack_count(prof); i++) {
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		assert_false(__builtin_add_overflow(sum, cost.allocated_bytes, &sum));
	}
	return sum;
}

/* 2^63 bytes come and go three times, then some more, by two threads or one and on two stacks. */
static void sums_stay_at_the_largest_number(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < 4; way++) {
		struct prof *prof = prof_new(NULL);
		define_world(prof, 1 + way % 2, 2);
		struct event lost = { .kind = EVENT_LOST,
				      .value = LOSS_RING_FULL,
				      .addr = UINT64_MAX - 1,
				      .bytes = 1ULL << 63,
				      .block = { 1u << 31 } };
		if (way >= 2)
			put(prof, &lost, 1);
		for (uint32_t i = 0; i < 5; i++) {
			struct event events[2] = { { .kind = EVENT_ALLOC,
						     .bytes = i < 3 ? 1ULL << 63 : i,
						     .thread = { i % (1 + way % 2) },
						     .stack = { 1 + i % 2 } } };
			events[1] = events[0];
			events[1].kind = EVENT_FREE;
			put(prof, events, 2);
			struct prof_totals totals;
			prof_totals(prof, &totals);
			assert_true(totals.cost.allocated_bytes == (i ? UINT64_MAX : 1ULL << 63));
			assert_true(sum_of_rows(prof) == totals.cost.allocated_bytes);
			assert_int_equal(totals.cost.allocations, i + 1);
			assert_int_equal(totals.cost.leaked_bytes, 0);
			assert_true(totals.cost.peak_bytes == 1ULL << 63);
		}
		if (way >= 2) {
			struct prof_totals totals;
			put(prof, &lost, 1);
			prof_totals(prof, &totals);
			assert_true(totals.lost_events == UINT64_MAX);
			assert_true(totals.lost[LOSS_RING_FULL] == UINT64_MAX);
			assert_true(totals.lost_bytes == UINT64_MAX);
		}
		prof_free(prof);
	}
}

static void more_than_can_be_is_refused(void **state)
{
	(void)state;
	const struct event hostile[][2] = {
		{ { .kind = EVENT_ALLOC, .bytes = 1ULL << 63, .stack = { 1 } },
		  { .kind = EVENT_ALLOC, .bytes = 1ULL << 63, .stack = { 2 }, .block = { 1 } } },
		{ { .kind = EVENT_CULLED, .addr = 1ULL << 61, .stack = { 1 } },
		  { .kind = EVENT_CULLED, .addr = 1ULL << 61, .stack = { 2 } } },
		{ { .kind = EVENT_CULLED, .addr = 5, .stack = { 1 }, .block = { 5 } },
		  { .kind = EVENT_CULLED, .addr = 5, .stack = { 2 }, .block = { 6 } } },
	};
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		struct err err = { 0 };
		struct prof *prof = prof_new(NULL);
		define_world(prof, 1, 2);
		put(prof, &hostile[i][0], 1);
		assert_int_equal(prof_sink(prof)->put(prof_sink(prof), &hostile[i][1], 1, &err),
				 -EBADMSG);
		assert_non_null(strstr(err.msg, "bad recording: "));
		prof_free(prof);
	}
}

static void hostile_definitions_and_events_are_refused(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	define_world(prof, 1, 1);
	struct sink *sink = prof_sink(prof);
	struct err err = { 0 };
	const struct def bad[] = {
		{ .kind = DEF_STACK, .id = 9, .stack = { { 7 }, { 1 }, 0 } },
		{ .kind = DEF_STACK, .id = 9, .stack = { { 0 }, { 7 }, 0 } },
		{ .kind = DEF_STACK, .id = 9, .stack = { { 0 }, { 1 }, 200 } },
		{ .kind = DEF_STACK, .id = 0xfffffff0u, .stack = { { 0 }, { 1 }, 0 } },
		{ .kind = DEF_FRAME, .id = 2, .frame = { { 77 }, 1 } },
		{ .kind = DEF_THREAD, .id = 0xffffffffu },
		{ .kind = DEF_SYMBOL, .id = 55 },
		{ .kind = 99 },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(sink->define(sink, &bad[i], &err), -EBADMSG);
	const struct event worse[] = {
		{ .kind = EVENT_ALLOC, .stack = { 5 }, .block = { 0 } },
		{ .kind = EVENT_ALLOC, .stack = { 0xffffffffu }, .block = { 0 } },
		{ .kind = EVENT_ALLOC, .stack = { 1 }, .time_ns = UINT64_MAX },
		{ .kind = EVENT_LOST, .value = 99 },
	};
	for (size_t i = 0; i < sizeof(worse) / sizeof(worse[0]); i++)
		assert_int_equal(sink->put(sink, &worse[i], 1, &err), -EBADMSG);
	prof_free(prof);
}

static void a_loaded_summary_reads_like_the_replay_it_came_from(void **state)
{
	(void)state;
	static struct event events[2000];
	srandom(5);
	random_stream(events, 2000, THREADS, 1);
	struct prof *from = prof_new(NULL), *to = prof_new(NULL);
	define_world(from, THREADS, STACKS);
	define_world(to, THREADS, STACKS);
	put(from, events, 2000);
	struct prof_totals a, b;
	prof_totals(from, &a);
	assert_int_equal(prof_load_totals(to, &a, NULL), 0);
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct cost cost;
		prof_stack_cost(from, (struct stack_id){ i }, &cost);
		assert_int_equal(prof_load_stack(to, (struct stack_id){ i }, &cost, NULL), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		const struct prof_thread *t = prof_thread(from, (struct thread_id){ i });
		assert_int_equal(
			prof_load_thread(to, (struct thread_id){ i }, &t->cost, t->events, NULL),
			0);
	}
	prof_totals(to, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	for (uint32_t i = 0; i <= STACKS; i++) {
		struct cost x, y;
		prof_stack_cost(from, (struct stack_id){ i }, &x);
		prof_stack_cost(to, (struct stack_id){ i }, &y);
		same_cost(&y, &x, "stack", i);
	}
	struct err err = { 0 };
	assert_int_equal(prof_sink(to)->put(prof_sink(to), events, 1, &err), -EINVAL);
	prof_free(from);
	prof_free(to);
}

/* ---- sampled stacks ------------------------------------------------------------------------------------------------ */

#define EVERY 1000
#define UNSAMPLED 3 /* a stack's number */

static struct prof *sampled_prof(int sums, int estimates)
{
	struct err err = { 0 };
	struct prof *prof = sums ? prof_new_sums(&err) : prof_new(&err);
	if (estimates)
		prof_set_estimates(prof);
	define(prof, &(struct def){ .kind = DEF_PROCESS,
				    .process = { .pid = 1, .sample_bytes = EVERY } });
	define_world(prof, 2, 2);
	define(prof, &(struct def){ .kind = DEF_STACK,
				    .id = UNSAMPLED,
				    .stack = { .stop = STACK_STOP_UNSAMPLED } });
	return prof;
}

/* 300 blocks of 100 bytes, each tenth with stack 1; 20 of 5000 with stack 2; the half of all are freed again. */
static void put_samples(struct prof *prof)
{
	for (uint32_t block = 0; block < 320; block++) {
		struct event ev = { .kind = EVENT_ALLOC,
				    .thread = { block % 2 },
				    .bytes = block < 300 ? 100 : 5000,
				    .stack = { block >= 300      ? 2
					       : block % 10 == 0 ? 1
								 : UNSAMPLED },
				    .block = { block } };
		put(prof, &ev, 1);
	}
	for (uint32_t block = 0; block < 320; block++) {
		if (block % 20 >= 10)
			continue;
		struct event ev = { .kind = EVENT_FREE,
				    .flags = EVENT_F_TEMPORARY,
				    .bytes = block < 300 ? 100 : 5000,
				    .stack = { block >= 300      ? 2
					       : block % 10 == 0 ? 1
								 : UNSAMPLED },
				    .block = { block } };
		put(prof, &ev, 1);
	}
}

static void what_has_a_stack_stands_for_those_of_its_size_that_have_none(void **state)
{
	(void)state;
	for (int sums = 0; sums < 2; sums++) {
		struct prof *prof = sampled_prof(sums, 0);
		put_samples(prof);
		struct prof_totals t;
		prof_totals(prof, &t);
		/* exact, whatever has a stack */
		assert_int_equal(t.cost.allocations, 320);
		assert_int_equal(t.cost.allocated_bytes, 300 * 100 + 20 * 5000);
		assert_int_equal(t.cost.frees, 160);
		assert_int_equal(t.cost.temporary, 160);
		assert_int_equal(t.cost.leaked_bytes, 150 * 100 + 10 * 5000);
		assert_int_equal(t.cost.peak_bytes, 300 * 100 + 20 * 5000);
		assert_int_equal(t.partial[STACK_STOP_UNSAMPLED], 0);
		assert_int_equal(t.stacks, 2);
		/* 30 blocks, each for 1 / (1 - exp(-0.1)) = 10.5083; 15 of them freed */
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ 1 }, &cost);
		assert_int_equal(cost.allocations, 315);
		assert_int_equal(cost.allocated_bytes, 31530);
		assert_int_equal(cost.frees, 158);
		assert_int_equal(cost.leaked, 315 - 158);
		assert_int_equal(cost.leaked_bytes, 15765);
		assert_int_equal(cost.peak_bytes, 31530);
		/* 1 / (1 - exp(-5)) = 1.006784 */
		prof_stack_cost(prof, (struct stack_id){ 2 }, &cost);
		assert_int_equal(cost.allocations, 20);
		assert_int_equal(cost.allocated_bytes, 20 * 5034);
		prof_stack_cost(prof, (struct stack_id){ UNSAMPLED }, &cost);
		assert_int_equal(cost.allocations + cost.frees + cost.peak_bytes, 0);
		assert_int_equal(prof_thread(prof, (struct thread_id){ 1 })->cost.allocations, 160);
		prof_free(prof);
	}
}

static void a_selection_by_names_holds_estimates_alone(void **state)
{
	(void)state;
	struct prof *prof = sampled_prof(0, 1);
	put_samples(prof);
	struct prof_totals t;
	prof_totals(prof, &t);
	assert_true(prof_estimates(prof));
	assert_int_equal(t.cost.allocations, 315 + 20);
	assert_int_equal(t.cost.allocated_bytes, 31530 + 20 * 5034);
	assert_int_equal(t.cost.peak_bytes, 31530 + 20 * 5034);
	struct cost both = { 0 };
	for (uint32_t i = 0; i < 2; i++)
		cost_add(&both, &prof_thread(prof, (struct thread_id){ i })->cost);
	assert_int_equal(both.allocated_bytes, t.cost.allocated_bytes);
	assert_true(both.allocations >= 334 && both.allocations <= 336); /* rounded twice */
	prof_free(prof);
}

static void a_loss_in_a_sampled_recording_leaves_blocks_uncertain(void **state)
{
	(void)state;
	struct prof *prof = sampled_prof(0, 0);
	for (uint32_t block = 0; block < 20; block++)
		put(prof,
		    &(struct event){ .kind = EVENT_ALLOC,
				     .bytes = 100,
				     .stack = { block < 10 ? 1 : UNSAMPLED },
				     .block = { block } },
		    1);
	struct event lost = { .kind = EVENT_LOST, .value = LOSS_RING_FULL };
	lost.block.v = 1;
	put(prof, &lost, 1);
	for (uint32_t block = 0; block < 20; block += 4)
		put(prof,
		    &(struct event){ .kind = EVENT_FREE,
				     .bytes = 100,
				     .stack = { block < 10 ? 1 : UNSAMPLED },
				     .block = { block } },
		    1);
	struct prof_totals t;
	struct cost cost;
	prof_totals(prof, &t);
	assert_int_equal(t.cost.uncertain, 15);
	assert_int_equal(t.cost.uncertain_bytes, 1500);
	assert_int_equal(t.cost.leaked, 0);
	prof_stack_cost(prof, (struct stack_id){ 1 }, &cost);
	assert_int_equal(cost.allocations, 105);
	assert_int_equal(cost.frees, 32);
	assert_int_equal(cost.uncertain, 74); /* 7 blocks */
	assert_int_equal(cost.uncertain_bytes, 7 * 1051);
	assert_int_equal(cost.leaked, 0);
	prof_free(prof);
}

static void a_sampling_that_cannot_be_is_refused(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct prof *prof = prof_new(&err);
	const struct def def = { .kind = DEF_PROCESS,
				 .process = { .sample_bytes = SAMPLE_BYTES_MAX + 1 } };
	assert_int_equal(prof_sink(prof)->define(prof_sink(prof), &def, &err), -EBADMSG);
	prof_free(prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_and_peaks_equal_a_naive_count_with_one_thread),
		cmocka_unit_test(counters_and_peaks_equal_a_naive_count_with_several_threads),
		cmocka_unit_test(blocks_live_when_a_free_was_lost_become_uncertain),
		cmocka_unit_test(a_loss_without_counts_says_only_where),
		cmocka_unit_test(names_are_kept_up_to_a_bound),
		cmocka_unit_test(equal_stacks_become_one_row_whatever_their_numbers),
		cmocka_unit_test(the_first_of_equal_peaks_counts),
		cmocka_unit_test(partial_stacks_are_counted_by_allocation_and_reason),
		cmocka_unit_test(sums_stand_under_the_producers_numbers_and_know_no_others),
		cmocka_unit_test(hostile_definitions_and_events_are_refused),
		cmocka_unit_test(sums_stay_at_the_largest_number),
		cmocka_unit_test(more_than_can_be_is_refused),
		cmocka_unit_test(a_loaded_summary_reads_like_the_replay_it_came_from),
		cmocka_unit_test(what_has_a_stack_stands_for_those_of_its_size_that_have_none),
		cmocka_unit_test(a_selection_by_names_holds_estimates_alone),
		cmocka_unit_test(a_loss_in_a_sampled_recording_leaves_blocks_uncertain),
		cmocka_unit_test(a_sampling_that_cannot_be_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
