/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram of a stack, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/samples.h"
#include "out/sample_impl.h"

#define HEAD                                                   \
	"Size       | Count     | Percentage | Distribution\n" \
	"-----------+-----------+------------+-------------\n"
#define BAR50 "##################################################"

static void check(const uint64_t *sizes, size_t count, const char *expected)
{
	double size[SAMPLES_SIZES] = { 0 }, bytes = 0;
	struct buf text = { 0 };
	for (size_t i = 0; i < count; i++) {
		size[sizes[i] ? 63 - __builtin_clzll(sizes[i]) : 0]++;
		bytes += (double)sizes[i];
	}
	sample_histogram(&text, size, bytes, (double)count);
	assert_string_equal(buf_cstr(&text), expected);
	buf_fini(&text);
}

static void nothing_is_a_head_and_a_sum(void **state)
{
	(void)state;
	check(NULL, 0, HEAD "Total allocations: 0 B in 0 allocations\n");
}

static void one_byte_is_a_full_bar(void **state)
{
	const uint64_t sizes[] = { 1 };
	(void)state;
	check(sizes, 1,
	      HEAD "1 B        | 1         |    100.00% | " BAR50
		   "\nTotal allocations: 1 B in 1 allocations\n");
}

static void sizes_stand_at_their_lower_power_of_two(void **state)
{
	const uint64_t sizes[] = { 1, 512, 1026 };
	(void)state;
	check(sizes, 3,
	      HEAD "1 B        | 1         |     33.33% | " BAR50
		   "\n512 B      | 1         |     33.33% | " BAR50
		   "\n1.0 kiB    | 1         |     33.33% | " BAR50
		   "\nTotal allocations: 1.5 kiB in 3 allocations\n");
}

static void large_sizes_have_larger_units(void **state)
{
	const uint64_t sizes[] = { 1 << 20, 1 << 30 };
	(void)state;
	check(sizes, 2,
	      HEAD "1.0 MiB    | 1         |     50.00% | " BAR50
		   "\n1.0 GiB    | 1         |     50.00% | " BAR50
		   "\nTotal allocations: 1.0 GiB in 2 allocations\n");
}

static void bars_are_measured_by_the_fullest(void **state)
{
	uint64_t sizes[1001];
	(void)state;
	for (int i = 0; i < 1000; i++)
		sizes[i] = 1;
	sizes[1000] = 1023;
	check(sizes, 1001,
	      HEAD "1 B        | 1000      |     99.90% | " BAR50
		   "\n512 B      | 1         |      0.10% | "
		   "\nTotal allocations: 2.0 kiB in 1001 allocations\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_a_head_and_a_sum),
		cmocka_unit_test(one_byte_is_a_full_bar),
		cmocka_unit_test(sizes_stand_at_their_lower_power_of_two),
		cmocka_unit_test(large_sizes_have_larger_units),
		cmocka_unit_test(bars_are_measured_by_the_fullest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
