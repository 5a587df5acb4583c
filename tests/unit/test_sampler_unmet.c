/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that met no call, of a process that was seen calling before: that leaves room for some, and the error says for how many. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model/samples.h"
#include "source/sampler_book.h"
#include "source/sampler_pace.h"

#define WINDOWS 40
#define SEEN 1000.0 /* in 5 ms, before probes went */

/* What is told of 4 s in which @count windows of 2 ms met nothing; @run: what ran in them, of what ran between. */
static double told_error(unsigned count, double run, double off_use)
{
	struct err err = { 0 };
	struct samples *s = samples_new(&err);
	const uint32_t frames[] = { samples_frame(s, 0, 1, 1), samples_frame(s, 0, 2, 2) };
	struct sample_row *row = samples_add_row(s, 1, 77, frames, 2, 0);
	struct sampler_pace pace = { 0 };
	double span_ns = 4e9, gap_ns = span_ns / count - 2e6;
	s->scale = s->mean = s->times = 1;
	row->raw.count = SEEN;
	row->raw.bytes = 100 * SEEN;
	row->raw.taken = 50;
	assert_int_equal(samples_epoch(s, &err), 0);
	s->times = span_ns / count / 2e6;
	for (unsigned i = 0; i < count; i++) {
		const struct sampler_window w = { .on_ns = 2e6,
						  .run_ns = run * off_use * 2e6,
						  .off_ns = gap_ns,
						  .off_run_ns = off_use * gap_ns,
						  .sleeps_known = 1 };
		sampler_pace_add(&pace, &w);
		assert_int_equal(samples_window(s, sampler_window_weight(&w), w.on_ns, &err), 0);
	}
	struct sampler_paced paced = sampler_paced(&pace);
	assert_true(paced.pace == 1 && paced.error == 0);
	s->mean = s->times;
	s->times = 1;
	s->missed = sampler_pace_missed(&pace, span_ns, 5e6, 5e6);
	s->heard = sampler_pace_heard(&pace);
	samples_scale(s, row);
	double error = row->now.error_count;
	assert_true(fabs(row->now.count - SEEN) < 1e-6);
	assert_true(fabs(row->now.error_bytes - 100 * error) < 1e-3);
	/* it stays when the epoch is over */
	assert_int_equal(samples_epoch(s, &err), 0);
	s->mean = 1;
	s->missed = 0;
	samples_scale(s, row);
	assert_true(fabs(row->now.error_count - error) < 1e-6);
	samples_free(s);
	print_message("%u windows, %.2f of their work: %.0f +- %.0f\n", count, run, SEEN, error);
	return error;
}

static void windows_that_met_nothing_leave_room_for_what_one_of_them_stands_for(void **state)
{
	(void)state;
	double all = SEEN * 4e9 / 5e6; /* had it gone on as it was seen */
	double error = told_error(WINDOWS, 1, 1);
	assert_true(error > 0.9 * all / WINDOWS && error < 1.1 * all / WINDOWS);
	assert_true(told_error(2, 1, 1) > 0.45 * all);
	assert_true(told_error(1, 1, 1) > 0.9 * all);
}

static void windows_in_which_nothing_ran_leave_room_for_all(void **state)
{
	(void)state;
	double all = SEEN * 4e9 / 5e6;
	assert_true(told_error(WINDOWS, 0, 1) > 0.9 * all);
	assert_true(told_error(WINDOWS, 0.1, 1) > 0.2 * all);
}

static void one_that_hardly_runs_any_more_does_not_call_as_before(void **state)
{
	(void)state;
	double error = told_error(WINDOWS, 1, 0.01);
	assert_true(error > 0 && error < 0.02 * SEEN * 4e9 / 5e6 / WINDOWS);
}

static void a_doubt_is_all_rows_together(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct samples *s = samples_new(&err);
	assert_non_null(s);
	s->times = s->scale = s->mean = 1;
	for (unsigned i = 0; i < 2; i++) {
		struct sample_row *row = samples_add_row(s, 7, i + 1, NULL, 0, 0);
		assert_non_null(row);
		row->raw.count = 100 + 200 * i;
		row->raw.bytes = 1000;
		samples_scale(s, row);
	}
	assert_int_equal(samples_epoch(s, &err), 0);
	samples_doubt(s, 8000);
	assert_true(samples_are_least(s));
	double bytes, count, all = 0;
	for (unsigned i = 0; i < 2; i++) {
		samples_unsure(s, &s->rows[i], &bytes, &count);
		all += count;
		assert_true(s->rows[i].now.error_count >= 0.999 * count);
	}
	assert_true(all > 7999 && all < 8001);
	/* instead of what was doubted, whatever came meanwhile; and none any more */
	s->rows[0].raw.count = 500;
	samples_scale(s, &s->rows[0]);
	for (unsigned i = 0; i < 2; i++) {
		double calls = i ? 0 : 3000;
		samples_doubt(s, calls);
		all = 0;
		for (unsigned k = 0; k < 2; k++) {
			samples_unsure(s, &s->rows[k], &bytes, &count);
			all += count;
		}
		assert_true(fabs(all - calls) < 1);
	}
	assert_false(s->bounded);
	samples_free(s);
}

static uint64_t second_of_cpu(void *ctx)
{
	(void)ctx;
	return 1000000000ull;
}

/* Of 100 calls that were seen, and a second of CPU that was not. */
static double doubted(unsigned gaps, int is_started, int ran_dry, double duty)
{
	struct err err = { 0 };
	struct samples *s = samples_new(&err);
	assert_non_null(s);
	s->times = s->scale = s->mean = 1;
	struct sample_row *row = samples_add_row(s, 7, 1, NULL, 0, 0);
	assert_non_null(row);
	row->raw.count = 100;
	row->raw.bytes = 1000;
	samples_scale(s, row);
	assert_int_equal(samples_epoch(s, &err), 0);
	struct sampler_governor g = { .samples = s,
				      .cpu_ns = second_of_cpu,
				      .told_gaps = gaps,
				      .is_started = is_started,
				      .budget = 0.01,
				      .ran_dry = ran_dry };
	g.began_ns = g.since_ns = 1;
	g.on_ns = (uint64_t)(duty * (double)clock_ns(CLOCK_MONOTONIC));
	sampler_governor_doubt(&g);
	double error = row->now.error_count;
	samples_free(s);
	return error;
}

static void what_no_window_looked_into_may_be_anything(void **state)
{
	(void)state;
	assert_true(2 * doubted(0, 0, 0, 0.1) > 1e9 / 10);
	assert_true(doubted(1, 0, 0, 0.1) < 1);
	assert_true(2 * doubted(3, 1, 0, 0.1) > 1e9 / 10);
	assert_true(2 * doubted(3, 0, 1, 0.1) > 1e9 / 10);
	assert_true(doubted(4, 1, 1, 0.1) < 1);
	assert_true(doubted(0, 1, 0, 1) < 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			windows_that_met_nothing_leave_room_for_what_one_of_them_stands_for),
		cmocka_unit_test(windows_in_which_nothing_ran_leave_room_for_all),
		cmocka_unit_test(one_that_hardly_runs_any_more_does_not_call_as_before),
		cmocka_unit_test(a_doubt_is_all_rows_together),
		cmocka_unit_test(what_no_window_looked_into_may_be_anything),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
