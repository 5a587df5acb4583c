/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/varint.h"
#include "base/words.h"

static void buf_grows_and_hands_over_its_text(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf buf = { 0 };
	for (int i = 0; i < 1000; i++)
		buf_printf(&buf, "%d,", i % 10);
	assert_int_equal(buf.len, 2000);
	char *text = buf_take(&buf);
	assert_non_null(text);
	assert_memory_equal(text, "0,1,2,3,", 8);
	assert_int_equal(text[2000], 0);
	free(text);
	assert_null(buf.data);
}

static void buf_reports_an_impossible_reservation_once_at_the_end(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf buf = { 0 };
	buf_puts(&buf, "x");
	assert_null(buf_reserve(&buf, SIZE_MAX));
	buf_puts(&buf, "y");
	assert_true(buf_failed(&buf));
	assert_int_equal(buf.len, 1);
}

static void varint_keeps_every_width_and_refuses_overlong_input(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t v = (1ULL << bit) | (bit & 1), back = 0;
		uint8_t bytes[VARINT_MAX];
		uint8_t *end = varint_put(bytes, v);
		assert_ptr_equal(varint_get(bytes, end, &back), end);
		assert_true(back == v);
		assert_null(varint_get(bytes, end - 1, &back));
		assert_true(unzigzag(zigzag((int64_t)v)) == (int64_t)v);
		assert_true(unzigzag(zigzag(-(int64_t)v)) == -(int64_t)v);
	}
	const uint8_t overlong[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 };
	uint64_t v;
	assert_null(varint_get(overlong, overlong + sizeof(overlong), &v));
}

static void messages_show_what_a_terminal_would_obey(void **state)
{
	(void)state;
	struct err err = { 0 };
	err_set(&err, -EINVAL, "cannot open '%s'", "a\x1b[31m\n\xc2\x9b\xc3\xa4");
	assert_string_equal(err.msg, "cannot open 'a\\x1b[31m\\x0a\\x9b\xc3\xa4'");
	err_wrap(&err, "'%s'", "\x7f");
	assert_string_equal(err.msg, "'\\x7f': cannot open 'a\\x1b[31m\\x0a\\x9b\xc3\xa4'");
	err_hint(&err, "not '%s'", "\r");
	assert_string_equal(err.hint, "not '\\x0d'");
	/* what grows beyond the room is cut, not written beyond it */
	char name[2000];
	memset(name, 1, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	err_set(&err, -ENOENT, "%s", name);
	assert_in_range(strlen(err.msg), sizeof(err.msg) - 4, sizeof(err.msg) - 1);
	assert_null(strchr(err.msg, 1));
	err_set(&err, -ENOENT, "cannot open '%s'", "x");
	assert_string_equal(err.msg, "cannot open 'x': No such file or directory");
}

static void a_verdict_says_of_which_heap_nothing_is_known(void **state)
{
	CLEANUP(buf_fini) struct buf to = { 0 };
	struct words_verdict words = { .uses = "3 MiB", .keeper = "malloc" };
	(void)state;
	words_verdict(&to, &words);
	assert_string_equal(buf_cstr(&to),
			    "The program uses 3 MiB of it. Next to nothing is free.");
	words.unknown = "40 MiB";
	buf_clear(&to);
	words_verdict(&to, &words);
	assert_string_equal(
		buf_cstr(&to),
		"The program is known to use 3 MiB of it. Of 40 MiB of heap it is not known what "
		"is in use. Of the rest next to nothing is free.");
	words.mapped = "5 MiB";
	buf_clear(&to);
	words_verdict(&to, &words);
	assert_string_equal(
		buf_cstr(&to),
		"The program is known to use 3 MiB of it. Of 40 MiB of heap and 5 MiB that it "
		"mapped itself it is not known what is in use. Of the rest next to "
		"nothing is free.");
	words.unknown = NULL;
	buf_clear(&to);
	words_verdict(&to, &words);
	assert_string_equal(
		buf_cstr(&to),
		"The program is known to use 3 MiB of it. Of 5 MiB that it mapped itself it is not "
		"known what is in use. Of the rest next to nothing is free.");
	words.unknown = "40 MiB";
	words.mapped = NULL;
	words.free = "2 MiB";
	buf_clear(&to);
	words_verdict(&to, &words);
	assert_string_equal(
		buf_cstr(&to),
		"The program is known to use 3 MiB of it. Of 40 MiB of heap it is not known what "
		"is in use. Of the rest 2 MiB are free, but malloc has not given them "
		"back.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_grows_and_hands_over_its_text),
		cmocka_unit_test(buf_reports_an_impossible_reservation_once_at_the_end),
		cmocka_unit_test(varint_keeps_every_width_and_refuses_overlong_input),
		cmocka_unit_test(messages_show_what_a_terminal_would_obey),
		cmocka_unit_test(a_verdict_says_of_which_heap_nothing_is_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
