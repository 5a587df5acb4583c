/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/suppress.h"

static void patterns_are_found_anywhere_but_for_anchors(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *name;
		int fits;
	} cases[] = {
		{ "foo", "foo", 1 },
		{ "foo", "xfoox", 1 },
		{ "foo", "fo", 0 },
		{ "^foo", "foobar", 1 },
		{ "^foo", "xfoo", 0 },
		{ "foo$", "xfoo", 1 },
		{ "foo$", "foox", 0 },
		{ "^foo$", "foo", 1 },
		{ "^foo$", "foofoo", 0 },
		{ "a*b", "xaxxbx", 1 },
		{ "a*b", "ba", 0 },
		{ "a*b$", "abbab", 1 },
		{ "^a*c$", "abcbc", 1 },
		{ "^a*c$", "abcb", 0 },
		{ "*", "", 1 },
		{ "lib*.so$", "/usr/lib/libz.so", 1 },
		{ "std::*pool", "std::my::pool", 1 },
		{ "$", "anything", 1 },
		{ "foo$", "foofoo", 1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (suppress_matches(cases[i].pattern, cases[i].name) != cases[i].fits)
			fail_msg("'%s' and '%s': not %d", cases[i].pattern, cases[i].name,
				 cases[i].fits);
}

static int add(const char *text, struct err *err)
{
	struct suppress *rules = suppress_new(0, NULL);
	int rc = suppress_add(rules, text, strlen(text), "some.supp", err);
	suppress_freep(&rules);
	return rc;
}

static void a_line_that_is_no_rule_is_named(void **state)
{
	(void)state;
	struct err err = { 0 };
	assert_int_equal(add("# a comment\n\n  leak:main  \r\nleak:lib*.so", &err), 0);
	assert_int_equal(add("leak:a\nrace:b\n", &err), -EINVAL);
	assert_string_equal(err.msg, "no suppression in line 2 of 'some.supp': 'race:b'");
	assert_int_equal(add("leak:", &err), -EINVAL);
	assert_int_equal(add("main", &err), -EINVAL);
}

static void put(struct prof *prof, const struct def *def)
{
	struct err err = { 0 };
	if (prof_sink(prof)->define(prof_sink(prof), def, &err) < 0)
		fail_msg("%s", err.msg);
}

static void what_is_suppressed_leaks_no_more_and_is_summed_up(void **state)
{
	(void)state;
	static const char *const names[] = { "main", "cache_fill", "work" };
	struct prof *prof = prof_new(NULL);
	put(prof, &(struct def){ .kind = DEF_THREAD, .thread = { .tid = 7 } });
	put(prof, &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	for (uint32_t i = 1; i <= 3; i++) {
		struct symbol s = { .function = names[i - 1], .file = "a.c", .line = i };
		put(prof, &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i * 16 } });
		put(prof, &(struct def){ .kind = DEF_SYMBOL, .id = i, .symbol = { &s, 1 } });
		put(prof, &(struct def){ .kind = DEF_STACK,
					 .id = i,
					 .stack = { { i == 1 ? 0 : 1 }, { i }, 0 } });
	}
	for (uint32_t i = 0; i < 3; i++) {
		struct event ev = { .kind = EVENT_ALLOC,
				    .bytes = 10 + i,
				    .stack = { i == 2 ? 3 : 2 },
				    .block = { i } };
		prof_sink(prof)->put(prof_sink(prof), &ev, 1, NULL);
	}
	struct suppress *rules = suppress_new(1, NULL);
	assert_int_equal(suppress_add(rules, "leak:^cache_", 12, "x", NULL), 0);
	assert_int_equal(suppress_run(rules, prof, 1, NULL), 0);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	assert_int_equal(totals.cost.leaked, 1);
	assert_int_equal(totals.cost.leaked_bytes, 12);
	assert_int_equal(totals.cost.peak_bytes, 33);
	uint64_t allocations, bytes;
	size_t count;
	suppress_sum(rules, &allocations, &bytes);
	assert_int_equal(allocations, 2);
	assert_int_equal(bytes, 21);
	assert_string_equal(suppress_rules(rules, &count)->pattern, "^cache_");
	assert_int_equal(count, 1);
	suppress_freep(&rules);
	prof_free(prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_are_found_anywhere_but_for_anchors),
		cmocka_unit_test(a_line_that_is_no_rule_is_named),
		cmocka_unit_test(what_is_suppressed_leaks_no_more_and_is_summed_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
