/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of --fail-if: which are understood, which are met, and what is said then. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "query/limits.h"

static char said[2000];

static void hear(const char *text)
{
	size_t used = strlen(said);
	snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

static size_t check(const char *rule, const struct prof_totals *totals)
{
	struct limits limits = { 0 };
	struct err err = { 0 };
	said[0] = '\0';
	assert_int_equal(limits_add(&limits, rule, &err), 0);
	return limits_check(&limits, totals, hear);
}

static const struct prof_totals some = { .cost = { .allocations = 1000,
						   .temporary = 250,
						   .peak_bytes = 2 << 20,
						   .leaked_bytes = 64 },
					 .peak_rss_bytes = 8 << 20 };

static void a_rule_is_met_above_its_bound_and_not_at_it(void **state)
{
	(void)state;
	assert_int_equal(check("peak>2M", &some), 0);
	assert_string_equal(said, "");
	assert_int_equal(check("peak>=2M", &some), 1);
	assert_non_null(strstr(said, "failed: peak>=2M"));
	assert_int_equal(check("peak > 1M", &some), 1);
	assert_int_equal(check("leaked>0", &some), 1);
	assert_int_equal(check("allocations>1k", &some), 0);
	assert_int_equal(check("allocations>999", &some), 1);
	assert_int_equal(check("rss>8M", &some), 0);
}

static void a_share_is_of_all_allocations(void **state)
{
	(void)state;
	assert_int_equal(check("temporary>25%", &some), 0);
	assert_int_equal(check("temporary>24.9%", &some), 1);
	assert_non_null(strstr(said, "250 of 1000"));
	assert_int_equal(check("temporary>249", &some), 1);
}

static void what_was_not_recorded_is_no_success(void **state)
{
	(void)state;
	struct prof_totals blind = some;
	blind.peak_rss_bytes = 0;
	assert_int_equal(check("rss>1G", &blind), 1);
	assert_non_null(strstr(said, "no RSS was recorded"));
	assert_int_equal(check("peak>1G", NULL), 1);
	assert_non_null(strstr(said, "nothing was recorded"));
	blind.lost_events = 5;
	assert_int_equal(check("peak>1G", &blind), 0);
	assert_non_null(strstr(said, "5 events were lost"));
}

static void what_is_no_rule_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "",       "peak",    "peak<1M",      "peek>1M",
					   "peak>",  "peak>1X", "peak>5%",      "temporary>101%",
					   "rss>-1", ">1M",     "allocations>", "allocations>5z" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct limits limits = { 0 };
		struct err err = { 0 };
		assert_int_equal(limits_add(&limits, bad[i], &err), -EINVAL);
		assert_int_equal(limits.count, 0);
	}
	struct limits limits = { 0 };
	struct err err = { 0 };
	for (size_t i = 0; i < LIMITS_MAX; i++)
		assert_int_equal(limits_add(&limits, "peak>1G", &err), 0);
	assert_int_equal(limits_add(&limits, "peak>1G", &err), -E2BIG);
}

static void growth_is_judged_in_bytes_or_in_parts(void **state)
{
	(void)state;
	struct growth_limits limits = { 0 };
	struct err err = { 0 };
	said[0] = '\0';
	assert_int_equal(growth_limits_add(&limits, "growth>5%", &err), 0);
	assert_int_equal(growth_limits_add(&limits, "growth>10M", &err), 0);
	assert_int_equal(growth_limits_check(&limits, "peak", 100 << 20, 105 << 20, hear), 0);
	assert_int_equal(growth_limits_check(&limits, "peak", 100 << 20, 106 << 20, hear), 1);
	assert_non_null(strstr(said, "growth>5%: peak grew from 100 MiB to 106 MiB"));
	assert_int_equal(growth_limits_check(&limits, "peak", 100 << 20, 111 << 20, hear), 2);
	assert_int_equal(growth_limits_check(&limits, "peak", 100 << 20, 0, hear),
			 0);                                                   /* it shrank */
	assert_int_equal(growth_limits_check(&limits, "peak", 0, 1, hear), 1); /* from nothing */
	assert_int_equal(growth_limits_add(&limits, "growth>", &err), -EINVAL);
	assert_int_equal(growth_limits_add(&limits, "shrink>5%", &err), -EINVAL);
	assert_int_equal(limits.count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_is_met_above_its_bound_and_not_at_it),
		cmocka_unit_test(a_share_is_of_all_allocations),
		cmocka_unit_test(what_was_not_recorded_is_no_success),
		cmocka_unit_test(what_is_no_rule_is_refused),
		cmocka_unit_test(growth_is_judged_in_bytes_or_in_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
