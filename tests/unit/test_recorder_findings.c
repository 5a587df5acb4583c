/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording that has ended lacks is said in words, and only where somebody wants to hear it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/findings.h"

static char said[4000];

static void hear(const char *text)
{
	size_t used = strlen(said);
	snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

static const struct findings_opt plain = { .say = hear, .hint = hear };
static const struct recorder_result whole = { .attached = 1,
					      .allocations = 10,
					      .own_allocators = "",
					      .before = "",
					      .replaced_by = "",
					      .child_exe = "",
					      .no_pages = "" };

static const char *findings(const struct recorder_result *result, const struct findings_opt *opt)
{
	said[0] = '\0';
	recorder_findings_children(result, opt);
	recorder_findings(result, opt, "prog");
	return said;
}

static void of_a_whole_recording_nothing_is_said(void **state)
{
	(void)state;
	assert_string_equal(findings(&whole, &plain), "");
}

static void a_program_without_the_library_is_named(void **state)
{
	(void)state;
	struct recorder_result r = whole;
	r.attached = 0;
	assert_non_null(strstr(findings(&r, &plain), "'prog' never loaded the recording library"));
	assert_non_null(strstr(said, "LD_PRELOAD"));
}

static void who_replaced_it_and_why_that_one_is_not_followed(void **state)
{
	(void)state;
	struct recorder_result r = whole;
	r.replaced = 1;
	r.replaced_by = "/proc/self/exe"; /* dynamic, or a sanitizer's: a hint in any case */
	assert_non_null(strstr(findings(&r, &plain), "'prog' replaced itself by /proc/self/exe"));
	assert_true(strchr(said, '\n')[1] != '\0');
	struct findings_opt follow = plain;
	follow.follow_children = 1;
	assert_non_null(strstr(findings(&r, &follow), "which is followed"));
	r.unfollowed = 1;
	assert_non_null(strstr(findings(&r, &follow), "without the recording library"));
}

static void children_are_told_unless_they_are_followed_or_nobody_asks(void **state)
{
	(void)state;
	struct recorder_result r = whole;
	r.children = 2;
	r.child_peak_bytes = 3 << 20;
	r.child_exe = "/usr/bin/cc1";
	assert_string_equal(
		findings(&r, &plain),
		"not recorded: 2 children, the largest 3.00 MiB, cc1: --follow-children\n");
	r.children = 1;
	assert_non_null(strstr(findings(&r, &plain), "1 child, its peak RSS 3.00 MiB, cc1"));
	struct findings_opt other = plain;
	other.is_quiet = 1;
	assert_string_equal(findings(&r, &other), "");
	other = plain;
	other.follow_children = 1;
	assert_string_equal(findings(&r, &other), "");
	other = plain;
	other.is_quiet = other.is_explained = 1;
	assert_non_null(strstr(findings(&r, &other), "not explained: 1 child"));
}

static void for_a_machine_it_is_said_that_nothing_was_allocated(void **state)
{
	(void)state;
	struct recorder_result r = whole;
	struct findings_opt json = plain;
	r.allocations = 0;
	assert_string_equal(findings(&r, &plain), "");
	json.is_json = 1;
	assert_string_equal(findings(&r, &json), "no allocation of 'prog' was seen\n");
}

static void a_place_that_takes_no_file_is_found_before_the_program_runs(void **state)
{
	(void)state;
	char folder[] = "/tmp/byteledger-may-XXXXXX", path[64];
	struct err err = { 0 };
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/%%e.blt", folder);
	assert_int_equal(recorder_may_create(path, "/bin/prog", &err), 0);
	snprintf(path, sizeof(path), "%s/prog.blt", folder);
	assert_int_equal(access(path, F_OK), -1); /* it leaves nothing */
	snprintf(path, sizeof(path), "%s/none/prog.blt", folder);
	assert_true(recorder_may_create(path, "/bin/prog", &err) < 0);
	assert_non_null(strstr(err.hint, "was not started"));
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_whole_recording_nothing_is_said),
		cmocka_unit_test(a_program_without_the_library_is_named),
		cmocka_unit_test(who_replaced_it_and_why_that_one_is_not_followed),
		cmocka_unit_test(children_are_told_unless_they_are_followed_or_nobody_asks),
		cmocka_unit_test(for_a_machine_it_is_said_that_nothing_was_allocated),
		cmocka_unit_test(a_place_that_takes_no_file_is_found_before_the_program_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
