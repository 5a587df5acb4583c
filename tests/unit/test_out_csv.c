/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "out/csv.h"

static void is_written_as(const char *text, const char *expected)
{
	struct buf line = { 0 };
	csv_field(&line, text);
	assert_string_equal(buf_cstr(&line), expected);
	buf_fini(&line);
}

static void a_field_is_text_to_a_spreadsheet_whatever_it_begins_with(void **state)
{
	(void)state;
	is_written_as("=HYPERLINK(\"x\")", ",\"'=HYPERLINK(\"\"x\"\")\"");
	is_written_as("+1", ",\"'+1\"");
	is_written_as("-[NSObject init]", ",\"'-[NSObject init]\"");
	is_written_as("@sum", ",\"'@sum\"");
	is_written_as("a=b", ",\"a=b\"");
	is_written_as("", ",\"\"");
	is_written_as(NULL, ",\"\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_field_is_text_to_a_spreadsheet_whatever_it_begins_with),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
