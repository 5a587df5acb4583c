/* SPDX-License-Identifier: Apache-2.0 */
/* When looks were, as histories have it, and how often mappings are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "source/watch.h"

static void time_follows_the_clock(void **state)
{
	(void)state;
	const uint64_t hour = 3600000000000ull, second = 1000000000;
	assert_int_equal(watch_time_next(0, 0, 10 * hour), 10 * hour);
	assert_int_equal(watch_time_next(10 * hour, second, 10 * hour + second),
			 10 * hour + second);
	assert_int_equal(watch_time_next(10 * hour, second, 12 * hour), 12 * hour);
	/* set back: what was recorded meanwhile had the wrong time, what comes has the right one */
	assert_int_equal(watch_time_next(12 * hour, second, 10 * hour), 10 * hour);
}

static void a_clock_adjusted_by_a_little_is_met_without_going_back(void **state)
{
	(void)state;
	const uint64_t hour = 3600000000000ull, second = 1000000000;
	uint64_t time = 10 * hour, clock = 10 * hour - 3 * second;
	int looks = 0;
	for (; time > clock; looks++) {
		uint64_t next = watch_time_next(time, second, clock += second);
		assert_true(next > time);
		time = next;
		assert_true(looks < 10);
	}
	assert_int_equal(time, clock);
}

static void what_else_is_done_makes_readings_rarer_but_not_without_end(void **state)
{
	(void)state;
	const uint64_t ms = 1000000, second = 1000 * ms;
	const double budget = 0.004;
	uint64_t alone = watch_period(4 * ms, 0, 0, budget), period = alone;
	assert_in_range(alone, second - ms, second + ms);
	/* half of the budget goes elsewhere: half is left */
	assert_in_range(watch_period(4 * ms, 2 * ms, second, budget), 2 * second - ms,
			2 * second + ms);
	/* elsewhere takes more than all of it, again and again */
	for (int i = 0; i < 50; i++) {
		period = watch_period(4 * ms, period / 100, period, budget);
		assert_in_range(period, alone, 2 * alone + ms);
	}
	assert_in_range(watch_period(1000 * second, 0, 0, budget), 3600 * second, 3600 * second);
}

/* This process is the one that is watched, as often as it may be. */
static void the_first_reading_is_earned_back_before_the_second(void **state)
{
	(void)state;
	const struct watch_opt opt = { .period_ns = 1 };
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct watch *watch;
	struct watch_cost cost;
	struct err err = { 0 };
	assert_int_equal(watch_open(getpid(), &opt, &watch, &err), 0);
	assert_int_equal(watch_look(watch, &err), 1);
	watch_cost(watch, &cost);
	uint64_t first_ns = watch_at_ns(watch), period_ns = cost.period_ns;
	assert_true(period_ns > cost.reading_cpu_ns);
	int rc;
	while ((rc = watch_look(watch, &err)) == 0)
		nanosleep(&pause, NULL);
	assert_int_equal(rc, 1);
	assert_true(watch_at_ns(watch) - first_ns >= 2 * period_ns - opt.period_ns);
	watch_close(watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_reading_is_earned_back_before_the_second),
		cmocka_unit_test(what_else_is_done_makes_readings_rarer_but_not_without_end),
		cmocka_unit_test(time_follows_the_clock),
		cmocka_unit_test(a_clock_adjusted_by_a_little_is_met_without_going_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
