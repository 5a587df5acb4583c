/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of code that belongs to no object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "preload/rowless.h"

#define AT 0x7f0000000000ull
#define PAGE 4096ull

static void a_page_is_there_from_when_it_was_met_until_it_goes(void **state)
{
	(void)state;
	assert_int_equal(rowless_in(AT, AT + 9 * PAGE), ROWLESS_NONE);
	rowless_met(AT + 3 * PAGE + 5);
	rowless_met(AT + 5 * PAGE);
	assert_int_equal(rowless_in(AT, AT + 3 * PAGE), ROWLESS_NONE);
	assert_int_equal(rowless_in(AT, AT + 3 * PAGE + 1), ROWLESS_THERE);
	assert_int_equal(rowless_in(AT + 4 * PAGE, AT + 5 * PAGE), ROWLESS_NONE);
	rowless_gone(AT, AT + 5 * PAGE);
	assert_int_equal(rowless_in(AT, AT + 5 * PAGE), ROWLESS_GONE);
	assert_int_equal(rowless_in(AT, AT + 6 * PAGE), ROWLESS_THERE);
	assert_int_equal(rowless_in(0, UINT64_MAX), ROWLESS_THERE);
	rowless_gone(AT, AT + 6 * PAGE);
	assert_int_equal(rowless_in(PAGE, UINT64_MAX), ROWLESS_GONE);
	rowless_met(AT + 3 * PAGE);
	assert_int_equal(rowless_in(AT, AT + 5 * PAGE), ROWLESS_THERE);
}

static void more_pages_than_there_is_room_for_end_nowhere(void **state)
{
	unsigned known = 0;
	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		rowless_met(2 * AT / 3 + i * PAGE);
	for (uint64_t i = 0; i < 10000; i++)
		known += rowless_in(2 * AT / 3 + i * PAGE, 2 * AT / 3 + (i + 1) * PAGE) ==
			 ROWLESS_THERE;
	assert_in_range(known, 1500, 1536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_there_from_when_it_was_met_until_it_goes),
		cmocka_unit_test(more_pages_than_there_is_room_for_end_nowhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
