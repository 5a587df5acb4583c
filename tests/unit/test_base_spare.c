/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/huge.h"
#include "base/spare.h"

#define MIB ((size_t)1 << 20)

static int all_zero(const char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i])
			return 0;
	return 1;
}

static void what_comes_again_is_zero_again(void **state)
{
	(void)state;
	for (size_t bytes = 1; bytes <= 8 * MIB; bytes = bytes * 3 + 1) {
		for (unsigned round = 0; round < 3; round++) {
			char *at = spare_calloc(bytes, 1);
			assert_non_null(at);
			assert_int_equal((uintptr_t)at % 16, 0);
			assert_true(all_zero(at, bytes));
			memset(at, 0xa5, bytes);
			spare_free(at);
		}
	}
	spare_free(NULL);
}

static void what_is_kept_is_bounded_and_used(void **state)
{
	void *at[40];
	(void)state;
	for (unsigned i = 0; i < 40; i++)
		assert_non_null(at[i] = spare_calloc(3, MIB));
	for (unsigned i = 0; i < 40; i++)
		spare_free(at[i]);
	assert_in_range(spare_kept(), 0, SPARE_MAX);
#ifndef HUGE_WATCHED
	assert_int_equal(spare_kept() / (3 * MIB), SPARE_MAX / (3 * MIB));
	size_t before = spare_kept();
	void *again = spare_calloc(2, MIB);
	assert_int_equal(spare_kept(), before - 3 * MIB);
	/* a small array takes no large one, and what is larger than half of all is not kept */
	void *small = spare_calloc(1, MIB), *large = spare_calloc(1, SPARE_MAX);
	assert_int_equal(spare_kept(), before - 3 * MIB);
	spare_free(large);
	spare_free(small);
	spare_free(again);
	assert_in_range(spare_kept(), before - 3 * MIB, SPARE_MAX);
#endif
}

static void sizes_beyond_all_memory_are_refused(void **state)
{
	(void)state;
	assert_null(spare_calloc(SIZE_MAX, 2));
	assert_null(spare_calloc(SIZE_MAX, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_again_is_zero_again),
		cmocka_unit_test(what_is_kept_is_bounded_and_used),
		cmocka_unit_test(sizes_beyond_all_memory_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
