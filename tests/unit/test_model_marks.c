/* SPDX-License-Identifier: Apache-2.0 */
/* Moments that a program marked: which of them are kept, and which one a number names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/marks.h"

static struct marks marks;

static void the_first_of_a_number_is_meant(void **state)
{
	(void)state;
	memset(&marks, 0, sizeof(marks));
	assert_null(marks_find(&marks, 7));
	for (uint64_t i = 0; i < 4; i++)
		marks_put(&marks, 10 * i, 7 + i % 2);
	assert_int_equal(marks.count, 4);
	assert_int_equal(marks_find(&marks, 7)->time_ns, 0);
	assert_int_equal(marks_find(&marks, 8)->time_ns, 10);
	assert_null(marks_find(&marks, 9));
}

static void repeats_make_room_for_numbers_that_are_new(void **state)
{
	(void)state;
	memset(&marks, 0, sizeof(marks));
	for (uint64_t i = 0; i < 100 * MARKS_MAX; i++)
		marks_put(&marks, i, i % 3);
	marks_put(&marks, 100 * MARKS_MAX, 1000000);
	assert_int_equal(marks.total, 100 * MARKS_MAX + 1);
	assert_int_equal(marks.count, 4);
	assert_int_equal(marks_find(&marks, 2)->time_ns, 2);
	assert_int_equal(marks_find(&marks, 1000000)->time_ns, 100 * MARKS_MAX);
	for (uint32_t i = 1; i < marks.count; i++)
		assert_true(marks.at[i].time_ns > marks.at[i - 1].time_ns);
}

static void more_numbers_than_are_kept_are_counted(void **state)
{
	(void)state;
	memset(&marks, 0, sizeof(marks));
	for (uint64_t i = 0; i < MARKS_MAX + 50; i++)
		marks_put(&marks, i, i);
	assert_int_equal(marks.count, MARKS_MAX);
	assert_int_equal(marks.total, MARKS_MAX + 50);
	assert_null(marks_find(&marks, MARKS_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_of_a_number_is_meant),
		cmocka_unit_test(repeats_make_room_for_numbers_that_are_new),
		cmocka_unit_test(more_numbers_than_are_kept_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
