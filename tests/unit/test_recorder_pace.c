/* SPDX-License-Identifier: Apache-2.0 */
/* What looking at a process may cost, whatever it costs: of times that are made up, so that no machine's load is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "recorder/pace.h"

#define SECOND 1000000000ull
#define STEP 1000000ull

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

struct spent {
	uint64_t shots, pages, shot_ns, pages_ns, worst_shot_ns, worst_pages_ns;
};

/*
 * A recorder that looks whenever it may, for @seconds, of a process that always grows: each look costs so much, give or take half,
 * and takes three times as long as that, for the machine is busy.
 */
static struct spent live(int eager, uint64_t shot_ns, uint64_t pages_ns, uint64_t seconds,
			 uint64_t seed)
{
	struct record_pace pace = { .eager = eager };
	struct spent s = { 0 };
	for (uint64_t now = 0; now < seconds * SECOND; now += STEP) {
		int shot = record_pace_shot(&pace, now), pages = record_pace_pages(&pace, now, 1);
		if (!shot && !pages)
			continue;
		uint64_t a = shot ? 1 + shot_ns / 2 + next_random(&seed) % (shot_ns + 1) : 0;
		uint64_t b = pages ? 1 + pages_ns / 2 + next_random(&seed) % (pages_ns + 1) : 0;
		now += 3 * (a + b);
		record_pace_spent(&pace, now, a, b);
		s.shots += shot;
		s.pages += pages;
		s.shot_ns += a;
		s.pages_ns += b;
		s.worst_shot_ns = a > s.worst_shot_ns ? a : s.worst_shot_ns;
		s.worst_pages_ns = b > s.worst_pages_ns ? b : s.worst_pages_ns;
	}
	return s;
}

/* The last look is paid for by the time that follows it: whatever the moment, no more than that one is owed. */
static void snapshots_take_half_a_per_cent_of_a_cpu_whatever_one_costs(void **state)
{
	(void)state;
	const uint64_t costs[] = { 0, 1000, 30000, 1000000, 20000000, 150000000, 2 * SECOND };
	for (unsigned i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		for (unsigned k = 0; k < sizeof(costs) / sizeof(costs[0]); k++) {
			struct spent s = live(0, costs[i], costs[k], 3600, 77 + i * 10 + k);
			print_message(
				"# %llu and %llu ns: %llu snapshots, %llu readings of pages; %.4f "
				"and %.4f %% of an hour\n",
				(unsigned long long)costs[i], (unsigned long long)costs[k],
				(unsigned long long)s.shots, (unsigned long long)s.pages,
				(double)s.shot_ns / 36 / SECOND, (double)s.pages_ns / 36 / SECOND);
			assert_true(s.shots > 0);
			assert_true((s.shot_ns - s.worst_shot_ns) * 200 <= 3600 * SECOND);
			assert_true(s.pages > 0);
			assert_true((s.pages_ns - s.worst_pages_ns) * 50 <= 3600 * SECOND);
		}
	}
}

static void who_asked_for_nothing_else_has_a_tenth(void **state)
{
	(void)state;
	struct spent s = live(1, 20000000, 0, 60, 5);
	assert_true((s.shot_ns - s.worst_shot_ns) * 10 <= 60 * SECOND);
	assert_true(s.shots > live(0, 20000000, 0, 60, 5).shots * 10);
}

static void the_next_one_waits_two_hundred_times_what_one_took(void **state)
{
	(void)state;
	struct record_pace pace = { 0 };
	assert_false(record_pace_shot(&pace, SECOND / 4 - 1));
	assert_true(record_pace_shot(&pace, SECOND / 4));
	record_pace_spent(&pace, SECOND, SECOND / 10, 0);
	assert_false(record_pace_shot(&pace, 21 * SECOND - 1));
	assert_true(record_pace_shot(&pace, 21 * SECOND));
	/* a cheap one: twice a second at most */
	record_pace_spent(&pace, 21 * SECOND, 1000, 0);
	assert_false(record_pace_shot(&pace, 21 * SECOND + SECOND / 2 - 1));
	assert_true(record_pace_shot(&pace, 21 * SECOND + SECOND / 2));
	/* no overflow makes it soon */
	record_pace_spent(&pace, 30 * SECOND, UINT64_MAX / 3, 0);
	assert_false(record_pace_shot(&pace, 1ull << 62));
}

static void a_snapshot_and_the_pages_beside_it_wait_for_their_own_costs(void **state)
{
	(void)state;
	struct record_pace pace = { 0 };
	record_pace_spent(&pace, SECOND, 1000, SECOND);
	assert_true(record_pace_shot(&pace, 2 * SECOND));
	assert_false(record_pace_pages(&pace, 51 * SECOND - 1, 1));
	assert_true(record_pace_pages(&pace, 51 * SECOND, 0));
	record_pace_spent(&pace, 60 * SECOND, SECOND, 1000);
	assert_true(record_pace_pages(&pace, 61 * SECOND, 1));
	assert_false(record_pace_pages(&pace, 61 * SECOND, 0));
	assert_false(record_pace_shot(&pace, 259 * SECOND));
}

/* Nothing happened: the next one is as far away as behind a reading, and a reason comes first as ever. */
static void pages_of_a_process_that_sleeps_are_not_read_again(void **state)
{
	(void)state;
	struct record_pace pace = { 0 };
	record_pace_spent(&pace, SECOND, 0, 1000);
	assert_true(record_pace_pages(&pace, 3 * SECOND, 0));
	record_pace_same(&pace, 3 * SECOND);
	assert_false(record_pace_pages(&pace, 5 * SECOND - 1, 0));
	assert_true(record_pace_pages(&pace, 3 * SECOND, 1));
	assert_true(record_pace_pages(&pace, 5 * SECOND, 0));
	record_pace_same(&pace, 3000 * SECOND);
	assert_false(record_pace_pages(&pace, 3059 * SECOND, 0));
	assert_true(record_pace_pages(&pace, 3060 * SECOND, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshots_take_half_a_per_cent_of_a_cpu_whatever_one_costs),
		cmocka_unit_test(who_asked_for_nothing_else_has_a_tenth),
		cmocka_unit_test(the_next_one_waits_two_hundred_times_what_one_took),
		cmocka_unit_test(a_snapshot_and_the_pages_beside_it_wait_for_their_own_costs),
		cmocka_unit_test(pages_of_a_process_that_sleeps_are_not_read_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
