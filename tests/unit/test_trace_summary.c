/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording's summary says is what replaying it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/varint.h"
#include "model/prof.h"
#include "trace/summary.h"
#include "trace/trace.h"
#include "trace_folder.h"
#include "trace_stream.h"

static void assert_same_cost(const struct cost *a, const struct cost *b)
{
	if (memcmp(a, b, sizeof(*a)) != 0)
		fail_msg("allocations %lu/%lu bytes %lu/%lu frees %lu/%lu temporary %lu/%lu leaked "
			 "%lu/%lu %lu/%lu peak %lu/%lu",
			 a->allocations, b->allocations, a->allocated_bytes, b->allocated_bytes,
			 a->frees, b->frees, a->temporary, b->temporary, a->leaked, b->leaked,
			 a->leaked_bytes, b->leaked_bytes, a->peak_bytes, b->peak_bytes);
}

static void check_summary(struct prof *prof, int twins)
{
	struct err err = { 0 };
	struct stream s;
	struct sink_tee tee;
	CLEANUP(prof_freep) struct prof *written = prof;
	CLEANUP(prof_freep) struct prof *replayed = prof_new(&err);
	CLEANUP(prof_freep) struct prof *loaded = prof_new(&err);
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(w));
	sink_tee_add(&tee, prof_sink(written));
	stream_init(&s, 5, 5000);
	stream_run(&s, &tee.sink, 150000);
	stream_fini(&s);
	assert_done(trace_writer_finish(w, written, &err), err);
	CLEANUP(trace_reader_freep) struct trace_reader *r = trace_reader_new(path, &err);
	assert_done(trace_reader_run(r, prof_sink(replayed), NULL, &err), err);
	int rc = trace_reader_summary(r, loaded, &err);
	if (rc != 1)
		fail_msg("no summary: %d %s", rc, err.msg);
	struct prof_totals a, b, c;
	prof_totals(written, &a);
	prof_totals(replayed, &b);
	prof_totals(loaded, &c);
	assert_same_cost(&a.cost, &b.cost);
	assert_same_cost(&a.cost, &c.cost);
	assert_true(twins ? a.stacks > b.stacks : a.stacks == b.stacks);
	a.stacks = b.stacks;
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_equal(&a, &c, sizeof(a));
	assert_true(a.cost.allocations > 50000 && a.stacks > 100);
	assert_int_equal(prof_stack_count(loaded), prof_stack_count(replayed));
	for (uint32_t i = 0; i < prof_stack_count(replayed); i++) {
		struct cost x, y;
		prof_stack_cost(replayed, (struct stack_id){ i }, &x);
		prof_stack_cost(loaded, (struct stack_id){ i }, &y);
		assert_same_cost(&x, &y);
	}
	for (uint32_t i = 0; i < prof_thread_count(replayed); i++) {
		const struct prof_thread *x = prof_thread(replayed, (struct thread_id){ i });
		const struct prof_thread *y = prof_thread(loaded, (struct thread_id){ i });
		assert_int_equal(x->tid, y->tid);
		assert_int_equal(x->events, y->events);
		assert_same_cost(&x->cost, &y->cost);
	}
	size_t points, more;
	const struct prof_point *p = prof_timeline(loaded, &points);
	const struct prof_point *q = prof_timeline(replayed, &more);
	assert_true(points > 10 && points <= more);
	/* thinned or not: the curve reaches the peak */
	uint64_t highest = 0;
	for (size_t i = 0; i < points; i++)
		highest = p[i].heap_max_bytes > highest ? p[i].heap_max_bytes : highest;
	assert_int_equal(highest, a.cost.peak_bytes);
	assert_int_equal(p[points - 1].time_ns, q[more - 1].time_ns);
	assert_int_equal(p[points - 1].heap_bytes, q[more - 1].heap_bytes);
	assert_int_equal(p[points - 1].frees, q[more - 1].frees);
	for (unsigned k = 0; k < PROF_PARTS; k++) {
		uint64_t most[2] = { 0, 0 };
		for (size_t i = 0; i < points; i++)
			most[0] =
				p[i].part_max_bytes[k] > most[0] ? p[i].part_max_bytes[k] : most[0];
		for (size_t i = 0; i < more; i++)
			most[1] =
				q[i].part_max_bytes[k] > most[1] ? q[i].part_max_bytes[k] : most[1];
		assert_true(most[0] > 0);
		assert_int_equal(most[0], most[1]);
		assert_int_equal(p[points - 1].part_bytes[k], q[more - 1].part_bytes[k]);
	}
}

static void the_summary_says_what_a_replay_says(void **state)
{
	(void)state;
	check_summary(prof_new(NULL), 0);
}

static void a_recorders_sums_say_it_too_though_it_numbers_equal_stacks_twice(void **state)
{
	(void)state;
	check_summary(prof_new_sums(NULL), 1);
}

static void a_thinned_curve_keeps_a_short_peak(void **state)
{
	(void)state;
	for (uint64_t spike = 500; spike < 506;
	     spike++) { /* wherever it falls among those left out */
		struct err err = { 0 };
		CLEANUP(prof_freep) struct prof *written = prof_new(&err);
		CLEANUP(prof_freep) struct prof *loaded = prof_new(&err);
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		struct sink_tee tee;
		sink_tee_init(&tee);
		sink_tee_add(&tee, trace_writer_sink(w));
		sink_tee_add(&tee, prof_sink(written));
		struct def thread = { .kind = DEF_THREAD, .thread = { .tid = 1 } };
		assert_done(tee.sink.define(&tee.sink, &thread, &err), err);
		for (uint64_t i = 0; i < 70000; i++) { /* fewer events have no summary */
			uint64_t bytes = i == spike * 70 ? 100 << 20 : 64, now = i * 140000;
			struct event pair[2] = {
				{ .kind = EVENT_ALLOC, .time_ns = now, .bytes = bytes },
				{ .kind = EVENT_FREE, .time_ns = now + 1000, .bytes = bytes },
			};
			assert_done(tee.sink.put(&tee.sink, pair, 2, &err), err);
		}
		assert_done(trace_writer_finish(w, written, &err), err);
		CLEANUP(trace_reader_freep) struct trace_reader *r = trace_reader_new(path, &err);
		assert_int_equal(trace_reader_summary(r, loaded, &err), 1);
		size_t points, highest = 0;
		const struct prof_point *p = prof_timeline(loaded, &points);
		assert_true(points >= 50 && points < 500);
		for (size_t i = 0; i < points; i++)
			highest = p[i].heap_max_bytes > highest ? p[i].heap_max_bytes : highest;
		assert_int_equal(highest, 100 << 20);
		assert_int_equal(unlink(path), 0);
	}
}

/* A block, as docs/format.md has it, with two stacks whose allocated bytes fit alone. */
static int load_two(uint64_t first, uint64_t second)
{
	struct err err = { 0 };
	CLEANUP(prof_freep) struct prof *loaded = prof_new(&err);
	uint8_t zeros[128] = { 0 }, bytes[2 * VARINT_MAX];
	for (uint32_t i = 1; i <= 2; i++) {
		const struct def frame = { .kind = DEF_FRAME, .id = i, .frame = { { 0 }, 16 * i } };
		const struct def stack = { .kind = DEF_STACK,
					   .id = i,
					   .stack = { { 0 }, { i }, 0 } };
		assert_done(prof_sink(loaded)->define(prof_sink(loaded), &frame, &err), err);
		assert_done(prof_sink(loaded)->define(prof_sink(loaded), &stack, &err), err);
	}
	struct blt_view view = { .col[0] = { zeros, zeros + 68 } };
	for (unsigned i = 1; i <= 10; i++) {
		view.col[i].at = zeros;
		view.col[i].end = zeros + 2;
	}
	view.col[1].at = (const uint8_t[]){ 1, 0 };
	view.col[1].end = view.col[1].at + 2;
	view.col[3].at = bytes;
	view.col[3].end = varint_put(varint_put(bytes, first), second);
	int rc = summary_get(&view, 2, loaded, &err);
	struct prof_totals totals = { 0 };
	if (rc == 0)
		prof_totals(loaded, &totals);
	assert_int_equal(totals.stacks, 0); /* nothing was allocated: only bytes stand there */
	return rc;
}

static void sums_beyond_64_bits_are_no_summary(void **state)
{
	(void)state;
	assert_int_equal(load_two(UINT64_MAX - 9, 9), 0);
	assert_int_equal(load_two(UINT64_MAX - 9, 10), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_recorders_sums_say_it_too_though_it_numbers_equal_stacks_twice, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(sums_beyond_64_bits_are_no_summary, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_thinned_curve_keeps_a_short_peak, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_summary_says_what_a_replay_says, set_up,
						tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
