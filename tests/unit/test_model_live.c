/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/huge.h"
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
			enum live_result result = live_add(&live, addr, bytes, k, &number);
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
				    row.stack == k);
			model[k].live = 0;
			count--;
		}
		assert_int_equal(live.count, count);
		for (uint32_t i = 0; step % 1000 == 0 && i <= live.mask; i++)
			assert_int_equal(live_full(&live.buckets[i]),
					 live_match(&live.buckets[i], 0) == 0);
	}
	uint32_t rows = 0;
	for (uint32_t i = 0; i < live.numbers; i++)
		rows += live_at(&live, i) != NULL;
	assert_int_equal(rows, count);
	live_fini(&live);
}

static void the_number_freed_last_returns_first(void **state)
{
	(void)state;
	struct live live;
	struct live_block row;
	uint32_t first = BLOCK_NONE, second = BLOCK_NONE, again;
	assert_int_equal(live_init(&live, 1, NULL), 0);
	assert_int_equal(live_add(&live, 0x1000, 20, 0, &first), LIVE_OK);
	assert_int_equal(live_add(&live, 0x2000, 5000, 0, &second), LIVE_OK);
	assert_int_equal(live_remove(&live, 0x2000, &row), second);
	assert_int_equal(live_remove(&live, 0x1000, &row), first);
	assert_null(live_at(&live, first));
	assert_int_equal(live_add(&live, 0x3000, 100, 0, &again), LIVE_OK);
	assert_int_equal(again, first);
	assert_int_equal(live_add(&live, 0x4000, 24, 0, &again), LIVE_OK);
	assert_int_equal(again, second);
	assert_int_equal(live_at(&live, second)->addr, 0x4000);
	live_fini(&live);
}

static void there_are_as_many_numbers_as_blocks_ever_lived_at_once(void **state)
{
	(void)state;
	struct live live;
	struct live_block row;
	uint32_t number;
	assert_int_equal(live_init(&live, 3, NULL), 0);
	for (uint64_t phase = 0; phase < 10; phase++) {
		for (uint64_t i = 0; i < 100000; i++)
			assert_int_equal(live_add(&live, i * 64, 16 + phase * 16, 0, &number),
					 LIVE_OK);
		for (uint64_t i = 0; i < 100000; i++)
			assert_true(live_remove(&live, i * 64, &row) != BLOCK_NONE);
	}
	assert_int_equal(live.numbers, 100000);
	live_fini(&live);
}

/* Blocks of 16 bytes in runs fill whole buckets, so that many stand behind their home when the table grows. */
static void a_table_that_grows_keeps_every_block_where_it_is_found(void **state)
{
	(void)state;
	enum { RUN = 64, RUNS = 4000 };
	struct live live;
	struct live_block row;
	uint64_t rnd = 1234567891011ULL;
	static uint64_t base[RUNS];
	uint32_t number, size = 0, grown = 0;
	for (int seed = 1; seed <= 5; seed++) {
		assert_int_equal(live_init(&live, (uint64_t)seed, NULL), 0);
		for (int r = 0; r < RUNS; r++) {
			base[r] = (random_next(&rnd) & 0xffff) << 16 | (uint64_t)r << 32;
			for (uint64_t i = 0; i < RUN; i++)
				assert_int_equal(live_add(&live, base[r] + i * 16, i, 7, &number),
						 LIVE_OK);
			if (live.mask == size)
				continue;
			size = live.mask;
			grown++;
			for (int q = 0; q <= r; q++) {
				for (uint64_t i = 0; i < RUN; i++) {
					uint32_t at = live_find(&live, base[q] + i * 16);
					assert_true(at != BLOCK_NONE);
					assert_int_equal(live.blocks[at].bytes, i);
				}
				assert_int_equal(live_find(&live, base[q] + RUN * 16), BLOCK_NONE);
			}
		}
		for (int r = 0; r < RUNS; r++)
			for (uint64_t i = 0; i < RUN; i++)
				assert_true(live_remove(&live, base[r] + i * 16, &row) !=
					    BLOCK_NONE);
		assert_int_equal(live.count, 0);
		for (uint32_t i = 0; i <= live.mask; i++)
			assert_int_equal(live_match(&live.buckets[i], 0), 0xff);
		live_fini(&live);
	}
	assert_true(grown >= 20);
}

/* Two addresses that share a place in the small table. */
static void a_block_makes_room_for_one_of_another_address(void **state)
{
	(void)state;
	const uint64_t a = 0x7f0000001230, b = a + 16 * LIVE_NEAR;
	struct live live;
	struct live_block row = { 0 };
	uint32_t first = BLOCK_NONE, second = BLOCK_NONE, number;
	assert_int_equal(live_init(&live, 7, NULL), 0);
	assert_false(live_is_near(&live, a));
	assert_int_equal(live_find(&live, a), BLOCK_NONE);
	assert_int_equal(live_remove(&live, a, &row), BLOCK_NONE);
	assert_int_equal(live_add(&live, a, 10, 1, &first), LIVE_OK);
	assert_true(live_is_near(&live, a) && !live_is_near(&live, b) && live.far == 0);
	assert_int_equal(live_remove(&live, b, &row), BLOCK_NONE);
	assert_int_equal(live_add(&live, b, 20, 2, &second), LIVE_OK);
	assert_true(live_is_near(&live, b) && !live_is_near(&live, a) && live.far == 1);
	/* each of them is there once, wherever it stands */
	assert_int_equal(live_add(&live, a, 30, 3, &number), LIVE_EXISTS);
	assert_int_equal(number, first);
	assert_int_equal(live_add(&live, b, 30, 3, &number), LIVE_EXISTS);
	assert_int_equal(number, second);
	assert_true(live_find(&live, a) == first && live_find(&live, b) == second);
	assert_true(live.count == 2 && live.far == 1);
	/* the one that lives far dies there, and leaves the place to the other */
	assert_int_equal(live_remove(&live, a, &row), first);
	assert_true(row.bytes == 10 && row.stack == 1 && live.far == 0 && live.count == 1);
	assert_int_equal(live_find(&live, a), BLOCK_NONE);
	/* a dead one's place is known, and nothing is to be moved when another comes */
	assert_int_equal(live_remove(&live, b, &row), second);
	assert_true(row.bytes == 20 && row.stack == 2);
	assert_true(live_is_near(&live, b));
	assert_int_equal(live_find(&live, b), BLOCK_NONE);
	assert_int_equal(live_remove(&live, b, &row), BLOCK_NONE);
	assert_int_equal(live_add(&live, a, 40, 4, &number), LIVE_OK);
	assert_true(live.far == 0 && live.count == 1);
	live_fini(&live);
}

static void a_table_of_huge_pages_grows_on(void **state)
{
	(void)state;
	size_t bytes = HUGE_FROM + 4096; /* its end is none of a huge page */
	char *at = huge_resize(NULL, 0, bytes);
	assert_non_null(at);
	for (int i = 0; bytes < 8ul * HUGE_FROM; i++) {
		at[bytes - 1] = (char)(i + 1);
		at = huge_resize(at, bytes, bytes * 2);
		assert_non_null(at);
		assert_int_equal(at[bytes - 1], i + 1);
		bytes *= 2;
		assert_int_equal(at[bytes - 1], 0);
	}
	huge_free(at, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_makes_room_for_one_of_another_address),
		cmocka_unit_test(a_table_of_huge_pages_grows_on),
		cmocka_unit_test(a_table_that_grows_keeps_every_block_where_it_is_found),
		cmocka_unit_test(live_agrees_with_a_naive_table_over_a_million_random_steps),
		cmocka_unit_test(the_number_freed_last_returns_first),
		cmocka_unit_test(there_are_as_many_numbers_as_blocks_ever_lived_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
