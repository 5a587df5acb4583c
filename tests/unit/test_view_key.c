/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of frames and nodes: the examples that the page is held to as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "view/key.h"

static json_t *vectors(void)
{
	json_error_t error;
	json_t *all = json_load_file(getenv("KEYS_JSON"), 0, &error);
	assert_non_null(all);
	return all;
}

static uint64_t key_in(const json_t *object, const char *name)
{
	uint64_t key = 0;
	assert_int_equal(
		view_key_parse(json_string_value(json_object_get(object, name)), &key, NULL), 0);
	return key;
}

static void frames_have_the_keys_of_the_examples(void **state)
{
	(void)state;
	json_t *all = vectors(), *one;
	size_t i;
	json_array_foreach(json_object_get(all, "frames"), i, one)
	{
		uint64_t made = view_key_function(
			json_string_value(json_object_get(one, "module")),
			json_string_value(json_object_get(one, "function")),
			(uint64_t)json_integer_value(json_object_get(one, "offset")));
		assert_int_equal(made, key_in(one, "key"));
	}
	assert_true(i >= 9);
	json_decref(all);
}

static void bytes_have_the_keys_of_the_examples(void **state)
{
	(void)state;
	json_t *all = vectors(), *one;
	size_t i;
	json_array_foreach(json_object_get(all, "bytes"), i, one)
	{
		const char *hex = json_string_value(json_object_get(one, "hex"));
		uint8_t bytes[256];
		size_t len = strlen(hex) / 2;
		assert_true(len <= sizeof(bytes));
		for (size_t k = 0; k < len; k++) {
			char digits[3] = { hex[2 * k], hex[2 * k + 1], 0 };
			bytes[k] = (uint8_t)strtoul(digits, NULL, 16);
		}
		assert_int_equal(view_key_bytes(bytes, len), key_in(one, "key"));
	}
	assert_true(i >= 5);
	json_decref(all);
}

static void nodes_have_the_keys_of_the_examples(void **state)
{
	(void)state;
	json_t *all = vectors(), *one;
	size_t i;
	json_array_foreach(json_object_get(all, "nodes"), i, one) assert_int_equal(
		view_key_mix(key_in(one, "parent"), key_in(one, "frame")), key_in(one, "key"));
	assert_true(i >= 11);
	json_decref(all);
}

static void a_key_is_sixteen_digits_and_nothing_else(void **state)
{
	(void)state;
	char text[VIEW_KEY_TEXT];
	uint64_t key = 0;
	assert_string_equal(view_key_text(0x0123456789abcdefull, text), "0123456789abcdef");
	assert_int_equal(view_key_parse(text, &key, NULL), 0);
	assert_int_equal(key, 0x0123456789abcdefull);
	static const char *const bad[] = { "",
					   "123",
					   "0123456789abcdeF",
					   "0123456789abcdef0",
					   "0123456789abcde ",
					   "0x23456789abcdef",
					   "-123456789abcdef" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(view_key_parse(bad[i], &key, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_have_the_keys_of_the_examples),
		cmocka_unit_test(bytes_have_the_keys_of_the_examples),
		cmocka_unit_test(nodes_have_the_keys_of_the_examples),
		cmocka_unit_test(a_key_is_sixteen_digits_and_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
