/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/chunked.h"
#include "base/intern.h"

static void equal_strings_get_one_address_and_keep_it_while_the_set_grows(void **state)
{
	(void)state;
	struct intern set = { 0 };
	const char *first[5000];
	char text[32];
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "string %d", i);
		first[i] = intern_str(&set, text);
		assert_string_equal(first[i], text);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "string %d", i);
		assert_ptr_equal(intern_str(&set, text), first[i]);
	}
	assert_int_equal(set.count, 5000);
	assert_ptr_not_equal(intern_mem(&set, "a\0b", 3), intern_mem(&set, "a\0c", 3));
	assert_string_equal(intern_str(&set, ""), "");
	intern_fini(&set);
}

static void arena_keeps_big_and_small_things_apart_and_refuses_overflow(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	char *small = arena_memdup(&arena, "abc", 3);
	char *big = arena_alloc(&arena, 1 << 20);
	memset(big, 'x', 1 << 20);
	char *next = arena_memdup(&arena, "def", 3);
	assert_string_equal(small, "abc");
	assert_string_equal(next, "def");
	assert_int_equal((uintptr_t)next % 16, 0);
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 40));
	arena_fini(&arena);
}

static void chunked_elements_never_move_and_sparse_ones_cost_only_their_chunk(void **state)
{
	(void)state;
	struct chunked array = CHUNKED_INIT(uint64_t);
	uint64_t *first = chunked_add(&array);
	*first = 7;
	for (int i = 0; i < 100000; i++)
		assert_int_equal(*(uint64_t *)chunked_add(&array), 0);
	assert_ptr_equal(chunked_at(&array, 0), first);
	assert_int_equal(*first, 7);
	assert_false(chunked_has(&array, 4000000000u));
	assert_non_null(chunked_touch(&array, 4000000000u));
	assert_true(chunked_has(&array, 4000000000u));
	assert_false(chunked_has(&array, 3000000000u));
	chunked_fini(&array);
}

static void what_collides_depends_on_the_seed_for_texts_of_every_length(void **state)
{
	(void)state;
	const char text[] = "abcdefghijklmnopqrstuvwxyz";
	for (size_t len = 0; len < sizeof(text); len++) {
		uint64_t one = hash_bytes(text, len, 1), two = hash_bytes(text, len, 2);
		if (one == two)
			fail_msg("%zu bytes hash to %llx whatever the seed", len,
				 (unsigned long long)one);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_strings_get_one_address_and_keep_it_while_the_set_grows),
		cmocka_unit_test(arena_keeps_big_and_small_things_apart_and_refuses_overflow),
		cmocka_unit_test(chunked_elements_never_move_and_sparse_ones_cost_only_their_chunk),
		cmocka_unit_test(what_collides_depends_on_the_seed_for_texts_of_every_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
