/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "net/syslog.h"

#define NOW_NS 1626264000000000000ULL /* 2021-07-14T12:00:00Z */

static void check(const char *datagram, uint64_t time_ns, const char *level, const char *section,
		  const char *message)
{
	struct log_line line;
	assert_int_equal(net_syslog_parse(datagram, strlen(datagram), NOW_NS, &line), 0);
	char text[256];
	snprintf(text, sizeof(text), "%llu %s [%.*s] %.*s", (unsigned long long)line.time_ns,
		 log_level_name(line.level), (int)line.section_len, line.section,
		 (int)line.message_len, line.message);
	char want[256];
	snprintf(want, sizeof(want), "%llu %s [%s] %s", (unsigned long long)time_ns, level, section,
		 message);
	assert_string_equal(text, want);
}

static void the_vectors_parse_as_expected(void **state)
{
	(void)state;
	char path[512];
	json_error_t why;
	snprintf(path, sizeof(path), "%s/logs/syslog.json", getenv("TEZOS_VECTORS"));
	json_t *root = json_load_file(path, 0, &why), *item;
	assert_non_null(root);
	size_t i;
	json_t *cases = json_object_get(root, "cases");
	json_array_foreach(cases, i, item)
	{
		json_t *want = json_object_get(item, "expect");
		struct log_line line;
		const char *datagram = json_string_value(json_object_get(item, "datagram"));
		assert_int_equal(net_syslog_parse(datagram, strlen(datagram), NOW_NS, &line), 0);
		assert_true(line.time_ns ==
			    (uint64_t)json_integer_value(json_object_get(want, "timestamp_ns")));
		assert_string_equal(log_level_name(line.level),
				    json_string_value(json_object_get(want, "level")));
		const char *message = json_string_value(json_object_get(want, "message"));
		assert_int_equal(line.message_len, strlen(message));
		assert_memory_equal(line.message, message, line.message_len);
	}
	assert_true(json_array_size(cases) >= 4);
	json_decref(root);
}

static void octez_lines_keep_their_section_and_their_further_dashes_and_colons(void **state)
{
	(void)state;
	check("<30>1 2021-07-14T12:00:02Z host c1 1 c1 - Jul 14 12:00:02 - node.main: a - b: c",
	      1626264002000000000ULL, "Info", "node.main", "a - b: c");
	check("<30>1 2021-07-14T12:00:02Z host c1 1 c1 - Jul 14 12:00:02.123 NOTICE | head is now "
	      "BLx: 7",
	      1626264002000000000ULL, "Notice", "", "head is now BLx: 7");
}

static void headers_of_the_older_kind_and_none_at_all_are_taken(void **state)
{
	(void)state;
	check("<11>Jul 14 11:59:58 host node[77]: disk full", 1626263998000000000ULL, "Error", "",
	      "disk full");
	check("<14>Dec 31 23:59:59 host node: old year", 1609459199000000000ULL, "Info", "",
	      "old year");
	check("no header, just text", NOW_NS, "Info", "", "no header, just text");
	check("", NOW_NS, "Info", "", "");
	check("<3>", NOW_NS, "Error", "", "");
	check("<10>1 - - - - - - x", NOW_NS, "Fatal", "", "x");
	check("<15>1 2021-07-14T12:00:00.5Z h a p m [id k=\"v]\\\"\"][b] structured",
	      1626264000500000000ULL, "Debug", "", "structured");
}

static void text_that_is_not_utf8_is_refused(void **state)
{
	(void)state;
	struct log_line line;
	assert_true(net_syslog_parse("<14>\xff\xfe", 6, NOW_NS, &line) < 0);
}

static void times_that_nanoseconds_cannot_hold_are_those_of_the_arrival(void **state)
{
	(void)state;
	check("<30>1 2262-04-11T23:47:15Z h a - - - last", 9223372035000000000u, "Info", "",
	      "last");
	check("<30>1 2262-04-11T23:47:17Z h a - - - first", NOW_NS, "Info", "", "first");
	check("<30>1 2300-01-01T00:00:00Z h a - - - far", NOW_NS, "Info", "", "far");
	check("<30>1 9999-12-31T23:59:60.999999999Z h a - - - end", NOW_NS, "Info", "", "end");
	check("<30>2300-01-01T00:00:00Z h tag: old form", NOW_NS, "Info", "", "old form");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_that_nanoseconds_cannot_hold_are_those_of_the_arrival),
		cmocka_unit_test(the_vectors_parse_as_expected),
		cmocka_unit_test(
			octez_lines_keep_their_section_and_their_further_dashes_and_colons),
		cmocka_unit_test(headers_of_the_older_kind_and_none_at_all_are_taken),
		cmocka_unit_test(text_that_is_not_utf8_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
