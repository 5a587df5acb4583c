/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a look follows the clock forward and never goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "source/watch.h"

static void time_follows_the_clock_forward_and_never_goes_back(void **state)
{
	(void)state;
	const uint64_t hour = 3600000000000ull, second = 1000000000;
	assert_int_equal(watch_time_next(0, 0, 10 * hour), 10 * hour);
	assert_int_equal(watch_time_next(10 * hour, second, 10 * hour + second),
			 10 * hour + second);
	assert_int_equal(watch_time_next(10 * hour, second, 12 * hour), 12 * hour);
	/* set back: time passes as it does, until the clock is ahead again */
	assert_int_equal(watch_time_next(12 * hour, second, 10 * hour), 12 * hour + second);
	assert_int_equal(watch_time_next(12 * hour, second, 12 * hour), 12 * hour + second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_follows_the_clock_forward_and_never_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
