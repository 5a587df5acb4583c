/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/live.h"

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#define MODEL 5000

/* A naive model: one row per possible address. */
static void live_agrees_with_a_naive_table_over_a_million_random_steps(void **state)
{
	(void)state;
	static struct {
		int live;
		uint32_t number;
		uint64_t bytes;
	} model[MODEL];
	struct live live;
	uint64_t rnd = 88172645463325252ULL;
	uint32_t count = 0;
	assert_int_equal(live_init(&live, 42, NULL), 0);
	for (int step = 0; step < 1000000; step++) {
		/* waves, so that the table fills, empties and shifts back over its own end */
		uint32_t span = 16 + (uint32_t)(step / 1000 % 10) * (MODEL / 10 - 2);
		uint32_t k = (uint32_t)(random_next(&rnd) % span);
		uint64_t addr = 0x5500000000ULL + k * 16ULL;
		uint32_t number = 0;
		assert_int_equal(live_find(&live, addr),
				 model[k].live ? model[k].number : BLOCK_NONE);
		if (random_next(&rnd) & 1) {
			uint64_t bytes = random_next(&rnd) % 3000;
			enum live_result result = live_add(&live, addr, bytes, k, 7, &number);
			assert_int_equal(result, model[k].live ? LIVE_EXISTS : LIVE_OK);
			if (result == LIVE_EXISTS) {
				assert_int_equal(number, model[k].number);
				continue;
			}
			model[k].live = 1;
			model[k].number = number;
			model[k].bytes = bytes;
			count++;
		} else {
			struct live_block row = { 0 };
			number = live_remove(&live, addr, &row);
			assert_int_equal(number, model[k].live ? model[k].number : BLOCK_NONE);
			if (!model[k].live)
				continue;
			assert_true(row.addr == addr && row.bytes == model[k].bytes &&
				    row.stack == k && row.thread == 7);
			model[k].live = 0;
			count--;
		}
		assert_int_equal(live.count, count);
	}
	uint32_t rows = 0;
	for (uint32_t i = 0; i < live.numbers; i++)
		rows += live_at(&live, i) != NULL;
	assert_int_equal(rows, count);
	live_fini(&live);
}

static void a_freed_number_returns_with_the_next_block_of_its_size_class(void **state)
{
	(void)state;
	struct live live;
	struct live_block row;
	uint32_t small, large, again;
	assert_int_equal(live_init(&live, 1, NULL), 0);
	assert_int_equal(live_add(&live, 0x1000, 20, 0, 0, &small), LIVE_OK);
	assert_int_equal(live_add(&live, 0x2000, 5000, 0, 0, &large), LIVE_OK);
	assert_int_equal(live_remove(&live, 0x1000, &row), small);
	assert_int_equal(live_remove(&live, 0x2000, &row), large);
	assert_int_equal(live_add(&live, 0x1000, 24, 0, 0, &again), LIVE_OK);
	assert_int_equal(again, small);
	assert_int_equal(live_add(&live, 0x2000, 5100, 0, 0, &again), LIVE_OK);
	assert_int_equal(again, large);
	live_fini(&live);
}

static void numbers_stay_below_twice_the_most_blocks_whatever_sizes_come(void **state)
{
	(void)state;
	struct live live;
	struct live_block row;
	uint32_t number;
	assert_int_equal(live_init(&live, 3, NULL), 0);
	/* 40 phases of 100,000 blocks, each of another size class: without borrowing, 4 million rows */
	for (uint64_t phase = 0; phase < 40; phase++) {
		for (uint64_t i = 0; i < 100000; i++)
			assert_int_equal(live_add(&live, i * 64, 16 + phase * 16, 0, 0, &number),
					 LIVE_OK);
		for (uint64_t i = 0; i < 100000; i++)
			assert_true(live_remove(&live, i * 64, &row) != BLOCK_NONE);
	}
	assert_true(live.numbers <= 300000);
	live_fini(&live);
}

static void every_size_has_a_class_within_the_table_and_classes_never_fall(void **state)
{
	(void)state;
	unsigned last = 0;
	for (uint64_t bytes = 0; bytes < 1u << 20; bytes++) {
		unsigned class = live_class(bytes);
		assert_true(class >= last && class < LIVE_CLASSES);
		last = class;
	}
	assert_true(live_class(UINT64_MAX) < LIVE_CLASSES);
	assert_int_equal(live_class(25), live_class(40));
	assert_int_not_equal(live_class(24), live_class(25));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_agrees_with_a_naive_table_over_a_million_random_steps),
		cmocka_unit_test(a_freed_number_returns_with_the_next_block_of_its_size_class),
		cmocka_unit_test(numbers_stay_below_twice_the_most_blocks_whatever_sizes_come),
		cmocka_unit_test(every_size_has_a_class_within_the_table_and_classes_never_fall),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
