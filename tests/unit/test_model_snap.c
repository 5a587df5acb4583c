/* SPDX-License-Identifier: Apache-2.0 */
/* Readings that stand still: the same as a reading that had ended there, whatever comes later and whoever reads. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/prof.h"
#include "model/snap.h"
#include "trace_stream.h"

static struct prof *prof_made(void)
{
	struct err err = { 0 };
	struct prof *prof = prof_new(&err);
	if (!prof)
		fail_msg("%s", err.msg);
	return prof;
}

static struct snap *snap_made(const struct prof *prof)
{
	struct err err = { 0 };
	struct snap *snap = snap_take(prof, &err);
	if (!snap)
		fail_msg("%s", err.msg);
	return snap;
}

static void assert_same_text(const char *a, const char *b)
{
	assert_int_equal(a != NULL, b != NULL);
	if (a)
		assert_string_equal(a, b);
}

/* Every accessor says the same of both. */
static void assert_same(const struct prof *a, const struct prof *b)
{
	struct prof_totals x, y;
	prof_totals(a, &x);
	prof_totals(b, &y);
	assert_memory_equal(&x, &y, sizeof(x));
	assert_int_equal(prof_stack_count(a), prof_stack_count(b));
	assert_int_equal(prof_frame_count(a), prof_frame_count(b));
	assert_int_equal(prof_thread_count(a), prof_thread_count(b));
	for (uint32_t i = 0; i < prof_stack_count(a); i++) {
		struct cost p, q;
		prof_stack_cost(a, (struct stack_id){ i }, &p);
		prof_stack_cost(b, (struct stack_id){ i }, &q);
		assert_memory_equal(&p, &q, sizeof(p));
		assert_int_equal(prof_stack_used(a, i), prof_stack_used(b, i));
		assert_memory_equal(prof_stack(a, (struct stack_id){ i }),
				    prof_stack(b, (struct stack_id){ i }),
				    sizeof(struct prof_stack));
	}
	for (uint32_t i = 0; i < prof_frame_count(a); i++) {
		const struct prof_frame *p = prof_frame(a, (struct frame_id){ i });
		const struct prof_frame *q = prof_frame(b, (struct frame_id){ i });
		assert_int_equal(p->symbol_count, q->symbol_count);
		for (uint32_t k = 0; k < p->symbol_count; k++)
			assert_same_text(p->symbols[k].function, q->symbols[k].function);
		assert_string_equal(prof_module(a, p->module)->path,
				    prof_module(b, q->module)->path);
	}
	for (uint32_t i = 0; i < prof_thread_count(a); i++) {
		const struct prof_thread *p = prof_thread(a, (struct thread_id){ i });
		const struct prof_thread *q = prof_thread(b, (struct thread_id){ i });
		assert_memory_equal(&p->cost, &q->cost, sizeof(p->cost));
		assert_int_equal(p->events, q->events);
		assert_same_text(p->name, q->name);
	}
	size_t n, m;
	const struct prof_point *p = prof_timeline(a, &n), *q = prof_timeline(b, &m);
	assert_int_equal(n, m);
	assert_memory_equal(p, q, n * sizeof(*p));
}

/* What makes a reading one: 0, or the number of the rule that it breaks. Plain, because many threads ask. */
static int broken_rule(const struct prof *prof)
{
	struct prof_totals totals;
	struct cost sum = { 0 }, threads = { 0 };
	uint64_t partial = 0, partial_told = 0;
	size_t points;
	prof_totals(prof, &totals);
	for (uint32_t i = 0; i < prof_stack_count(prof); i++) {
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		cost_add(&sum, &cost);
		partial += prof_stack(prof, (struct stack_id){ i })->partial ? cost.allocations : 0;
	}
	if (memcmp(&sum, &totals.cost, sizeof(sum)) != 0)
		return 1;
	for (uint32_t i = 0; i < prof_thread_count(prof); i++)
		cost_add(&threads, &prof_thread(prof, (struct thread_id){ i })->cost);
	if (threads.allocations != sum.allocations || threads.frees != sum.frees ||
	    threads.leaked_bytes + threads.uncertain_bytes !=
		    sum.leaked_bytes + sum.uncertain_bytes)
		return 2;
	for (unsigned i = 0; i < STACK_STOP_MAX; i++)
		partial_told += totals.partial[i];
	if (partial != partial_told)
		return 3;
	uint64_t lost = 0;
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		lost += totals.lost[i];
	if (lost != totals.lost_events)
		return 4;
	const struct prof_point *at = prof_timeline(prof, &points);
	for (size_t i = 1; i < points; i++)
		if (at[i].time_ns < at[i - 1].time_ns)
			return 5;
	if (points && at[points - 1].heap_bytes != sum.leaked_bytes + sum.uncertain_bytes)
		return 6;
	return 0;
}

static void a_snap_is_the_reading_that_had_ended_there(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct stream s, same;
		struct prof *prof = prof_made(), *ended = prof_made();
		size_t count = seed * seed * 50;
		stream_init(&s, seed, 2000);
		stream_init(&same, seed, 2000);
		stream_run(&s, prof_sink(prof), count);
		stream_run(&same, prof_sink(ended), count);
		struct snap *snap = snap_made(prof);
		stream_run(&s, prof_sink(prof), 20000);
		assert_same(snap_prof(snap), ended);
		assert_int_equal(broken_rule(snap_prof(snap)), 0);
		snap_unref(snap);
		stream_fini(&s);
		stream_fini(&same);
		prof_free(prof);
		prof_free(ended);
	}
}

static void taking_snaps_changes_nothing_of_what_is_counted(void **state)
{
	(void)state;
	struct stream s, same;
	struct prof *prof = prof_made(), *quiet = prof_made();
	stream_init(&s, 7, 2000);
	stream_init(&same, 7, 2000);
	for (int i = 0; i < 200; i++) {
		stream_run(&s, prof_sink(prof), 300);
		snap_unref(snap_made(prof));
	}
	stream_run(&same, prof_sink(quiet), 200 * 300);
	assert_same(prof, quiet);
	stream_fini(&s);
	stream_fini(&same);
	prof_free(prof);
	prof_free(quiet);
}

static void a_snap_outlives_its_prof_and_keeps_the_names_that_it_had(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct prof *prof = prof_made();
	struct sink *sink = prof_sink(prof);
	struct symbol first[2] = { { "first", "a.c", 1, 0 }, { "outer", "a.c", 2, 0 } },
		      second[2] = { { "second", "b.c", 3, 0 }, { "other", "b.c", 4, 0 } };
	sink->define(sink, &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/a" } },
		     &err);
	sink->define(sink,
		     &(struct def){ .kind = DEF_FRAME,
				    .id = 1,
				    .frame = { .module = { 1 }, .offset = 9 } },
		     &err);
	sink->define(sink, &(struct def){ .kind = DEF_SYMBOL, .id = 1, .symbol = { first, 2 } },
		     &err);
	struct snap *snap = snap_made(prof), *later;
	assert_int_equal(
		sink->define(sink,
			     &(struct def){ .kind = DEF_SYMBOL, .id = 1, .symbol = { second, 2 } },
			     &err),
		0);
	later = snap_made(prof);
	prof_free(prof);
	const struct prof_frame *was = prof_frame(snap_prof(snap), (struct frame_id){ 1 });
	const struct prof_frame *is = prof_frame(snap_prof(later), (struct frame_id){ 1 });
	assert_string_equal(was->symbols[0].function, "first");
	assert_string_equal(was->symbols[1].function, "outer");
	assert_string_equal(is->symbols[0].function, "second");
	assert_string_equal(prof_module(snap_prof(snap), was->module)->path, "/a");
	snap_unref(snap);
	assert_string_equal(is->symbols[1].function, "other");
	snap_unref(later);
}

static void what_is_frozen_takes_nothing_and_can_be_frozen_again(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	struct prof *prof = prof_made();
	stream_init(&s, 3, 500);
	stream_run(&s, prof_sink(prof), 5000);
	struct prof *frozen = prof_freeze(prof, &err);
	assert_non_null(frozen);
	struct prof *again = prof_freeze(frozen, &err);
	assert_non_null(again);
	prof_free(prof);
	struct event e = { .kind = EVENT_ALLOC, .bytes = 1 };
	struct symbol symbol = { "f", NULL, 0, 0 };
	struct def def = { .kind = DEF_SYMBOL, .id = 1, .symbol = { &symbol, 1 } };
	assert_int_equal(prof_sink(frozen)->put(prof_sink(frozen), &e, 1, &err), -EROFS);
	assert_int_equal(prof_sink(frozen)->define(prof_sink(frozen), &def, &err), -EROFS);
	struct sink *names = prof_symbol_sink(frozen);
	assert_int_equal(names->define(names, &def, &err), -EROFS);
	assert_same(frozen, again);
	prof_free(frozen);
	assert_int_equal(broken_rule(again), 0);
	prof_free(again);
	stream_fini(&s);
}

static void a_prof_that_only_sums_cannot_be_frozen(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct prof *prof = prof_new_sums(&err);
	assert_non_null(prof);
	assert_null(snap_take(prof, &err));
	assert_int_equal(err.code, -EINVAL);
	prof_free(prof);
}

static void an_empty_place_has_no_snap_and_a_closed_one_keeps_its_last(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct snap_place *place = snap_place_new(&err);
	struct prof *prof = prof_made();
	assert_null(snap_get(place));
	assert_null(snap_wait(place, 0, 1000000));
	snap_publish(place, snap_made(prof));
	struct snap *snap = snap_wait(place, 0, UINT64_MAX);
	assert_int_equal(snap_number(snap), 1);
	snap_unref(snap);
	snap_place_close(place);
	assert_null(snap_wait(place, 1, UINT64_MAX));
	snap = snap_get(place);
	assert_int_equal(snap_number(snap), 1);
	snap_place_freep(&place);
	assert_int_equal(broken_rule(snap_prof(snap)), 0);
	snap_unref(snap);
	prof_free(prof);
}

/* ---- many readers ----------------------------------------------------------------------------------------------- */

#define READERS 4
#define ROUNDS 150

struct reader {
	pthread_t thread;
	struct snap_place *place;
	int broken;
	uint64_t read, last;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct snap *snap;
	while ((snap = snap_wait(r->place, r->last, UINT64_MAX))) {
		struct snap *newest = snap_get(r->place);
		int broken = broken_rule(snap_prof(snap));
		broken = broken ? broken : broken_rule(snap_prof(newest));
		if (snap_number(newest) < snap_number(snap) || snap_number(snap) <= r->last)
			broken = 9;
		r->broken = r->broken ? r->broken : broken;
		r->last = snap_number(snap);
		r->read++;
		snap_unref(newest);
		snap_unref(snap);
	}
	return NULL;
}

static void many_read_what_one_goes_on_writing(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	struct prof *prof = prof_made();
	struct snap_place *place = snap_place_new(&err);
	struct reader readers[READERS] = { 0 };
	stream_init(&s, 11, 3000);
	for (int i = 0; i < READERS; i++) {
		readers[i].place = place;
		assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		stream_run(&s, prof_sink(prof), 400);
		snap_publish(place, snap_made(prof));
	}
	prof_free(prof); /* snaps are still being read */
	snap_place_close(place);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		assert_int_equal(readers[i].broken, 0);
		assert_int_equal(readers[i].last, ROUNDS);
		assert_true(readers[i].read > 0);
	}
	snap_place_freep(&place);
	stream_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snap_is_the_reading_that_had_ended_there),
		cmocka_unit_test(taking_snaps_changes_nothing_of_what_is_counted),
		cmocka_unit_test(a_snap_outlives_its_prof_and_keeps_the_names_that_it_had),
		cmocka_unit_test(what_is_frozen_takes_nothing_and_can_be_frozen_again),
		cmocka_unit_test(a_prof_that_only_sums_cannot_be_frozen),
		cmocka_unit_test(an_empty_place_has_no_snap_and_a_closed_one_keeps_its_last),
		cmocka_unit_test(many_read_what_one_goes_on_writing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
