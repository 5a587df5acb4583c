/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/jsonw.h"

static struct jsonw json;
static FILE *to;
static char *text;
static size_t len;

static void begin(void)
{
	to = open_memstream(&text, &len);
	assert_non_null(to);
	jsonw_init(&json, to);
}

static void ends_as(const char *expected)
{
	assert_int_equal(json.depth, 0);
	fclose(to);
	assert_string_equal(text, expected);
	json_error_t why;
	json_t *back = json_loads(text, JSON_DECODE_ANY, &why);
	if (!back)
		fail_msg("%s: %s", why.text, text);
	json_decref(back);
	free(text);
}

static void members_and_elements_are_separated_by_commas(void **state)
{
	(void)state;
	begin();
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "a", 1);
	jsonw_array(&json, "b");
	jsonw_array_end(&json);
	jsonw_array(&json, "c");
	jsonw_u64(&json, NULL, 0);
	jsonw_object(&json, NULL);
	jsonw_object_end(&json);
	jsonw_null(&json, NULL);
	jsonw_bool(&json, NULL, 1);
	jsonw_bool(&json, NULL, 0);
	jsonw_array_end(&json);
	jsonw_str(&json, "d", NULL);
	jsonw_object_end(&json);
	ends_as("{\"a\":1,\"b\":[],\"c\":[0,{},null,true,false],\"d\":null}");
}

static void numbers_are_exact(void **state)
{
	(void)state;
	begin();
	jsonw_array(&json, NULL);
	jsonw_u64(&json, NULL, UINT64_MAX);
	jsonw_i64(&json, NULL, INT64_MIN);
	jsonw_double(&json, NULL, 0.1);
	jsonw_double(&json, NULL, 1.0 / 3);
	jsonw_double(&json, NULL, NAN);
	jsonw_array_end(&json);
	fclose(to);
	assert_string_equal(text, "[18446744073709551615,-9223372036854775808,0.1,"
				  "0.3333333333333333,null]");
	free(text);
}

static void text_is_escaped(void **state)
{
	(void)state;
	begin();
	jsonw_array(&json, NULL);
	jsonw_str(&json, NULL, "a\"b\\c\n\t\x01\x7f");
	jsonw_str(&json, NULL, "");
	jsonw_strn(&json, NULL, "x\0y", 3);
	/* C1 controls: a terminal takes U+009B for the beginning of a command; U+00A0 is none */
	jsonw_str(&json, NULL, "a\xc2\x9b\x31m\xc2\x80\xc2\xa0");
	jsonw_str(&json, NULL, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8d\x95");
	jsonw_array_end(&json);
	fclose(to);
	assert_string_equal(text, "[\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\",\"\",\"x\\u0000y\","
				  "\"a\\u009b1m\\u0080\xc2\xa0\","
				  "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8d\x95\"]");
	free(text);
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
	(void)state;
	static const char *const bad[] = { "\xff",     "\x80",         "\xc0\x80",
					   "\xc3",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
					   "\xe2\x82", "a\xc3(" };
	static const char *const good[] = { "\"\\ufffd\"",
					    "\"\\ufffd\"",
					    "\"\\ufffd\\ufffd\"",
					    "\"\\ufffd\"",
					    "\"\\ufffd\\ufffd\\ufffd\"",
					    "\"\\ufffd\\ufffd\\ufffd\\ufffd\"",
					    "\"\\ufffd\\ufffd\"",
					    "\"a\\ufffd(\"" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin();
		jsonw_str(&json, NULL, bad[i]);
		ends_as(good[i]);
	}
}

static void any_bytes_read_back_as_json(void **state)
{
	(void)state;
	uint32_t x = 7;
	for (int round = 0; round < 2000; round++) {
		char bytes[64];
		for (size_t i = 0; i < sizeof(bytes); i++) {
			x = x * 1664525 + 1013904223;
			bytes[i] = (char)(x >> 24);
		}
		begin();
		jsonw_strn(&json, NULL, bytes, sizeof(bytes));
		fclose(to);
		json_error_t why;
		json_t *back = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
		if (!back)
			fail_msg("%s: %s", why.text, text);
		json_decref(back);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_and_elements_are_separated_by_commas),
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(text_is_escaped),
		cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
		cmocka_unit_test(any_bytes_read_back_as_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
