/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time for probes: whatever they meet, over any five seconds no more of it than the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "source/sampler_purse.h"

#define TURN_NS 10000000ull
#define TURNS 2000
#define BUDGET 0.01
#define BEGAN_NS 77000000000ull

/* Spend all that there is, in @times turns by chance. */
static void spend(unsigned seed, int ahead, unsigned times, double *spent)
{
	struct sampler_purse purse;
	sampler_purse_begin(&purse, BUDGET, ahead, BEGAN_NS);
	for (unsigned i = 0; i < TURNS; i++) {
		sampler_purse_turn(&purse, BEGAN_NS + i * TURN_NS, 0);
		spent[i] =
			(unsigned)rand_r(&seed) % TURNS < times || (!i && seed % 2) ? purse.ns : 0;
		sampler_purse_turn(&purse, BEGAN_NS + i * TURN_NS, spent[i]);
	}
}

static void check_any_five_seconds(int ahead)
{
	static double spent[TURNS];
	const unsigned turns = 5000000000ull / TURN_NS;
	for (unsigned seed = 1; seed <= 400; seed++) {
		spend(seed, ahead, seed % 3 ? seed % 3 * 20 : TURNS, spent);
		double sum = 0;
		for (unsigned i = 0; i < TURNS; i++) {
			sum += spent[i] - (i >= turns ? spent[i - turns] : 0);
			assert_true(sum <= BUDGET * 5e9);
		}
	}
}

static void no_five_seconds_cost_more_than_the_budget(void **state)
{
	(void)state;
	check_any_five_seconds(0);
}

static void nor_do_they_where_much_is_spent_at_the_start(void **state)
{
	(void)state;
	check_any_five_seconds(1);
}

static void what_a_started_program_begins_with_may_cost_half_of_five_seconds(void **state)
{
	(void)state;
	struct sampler_purse purse;
	sampler_purse_begin(&purse, BUDGET, 1, BEGAN_NS);
	assert_true(purse.ns > BUDGET * 2.3e9);
	sampler_purse_begin(&purse, BUDGET, 0, BEGAN_NS);
	assert_true(purse.ns < BUDGET * 0.7e9);
}

static void what_is_given_beside_is_spent_once_and_behind_what_comes_in(void **state)
{
	(void)state;
	struct sampler_purse purse;
	uint64_t now_ns = BEGAN_NS;
	sampler_purse_begin(&purse, BUDGET, 0, now_ns);
	sampler_purse_give(&purse, 1e9);
	double full = sampler_purse_full(&purse);
	assert_true(purse.ns > 0.999 * (1e9 + full) && purse.ns < 1.001 * (1e9 + full));
	/* less than comes in takes none of it */
	for (unsigned i = 0; i < TURNS; i++)
		sampler_purse_turn(&purse, now_ns += TURN_NS, BUDGET * TURN_NS / 2);
	assert_true(purse.given_ns > 0.999e9);
	for (unsigned i = 0; i < 30; i++)
		sampler_purse_turn(&purse, now_ns += TURN_NS, 4e7);
	assert_true(purse.given_ns <= 0 && purse.ns < 0);
	for (unsigned i = 0; i < 10 * TURNS; i++)
		sampler_purse_turn(&purse, now_ns += TURN_NS, 0);
	assert_true(purse.ns < 1.001 * full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_five_seconds_cost_more_than_the_budget),
		cmocka_unit_test(nor_do_they_where_much_is_spent_at_the_start),
		cmocka_unit_test(what_a_started_program_begins_with_may_cost_half_of_five_seconds),
		cmocka_unit_test(what_is_given_beside_is_spent_once_and_behind_what_comes_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
