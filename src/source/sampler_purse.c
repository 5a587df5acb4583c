/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler_purse.h"

#include <math.h>

/*
 * Over any five seconds no more than the budget: the purse holds what it earns in 0.6 s, and earns
 * a bit less than the budget: 0.6 + 0.85 * 5 = 4.85.
 *
 * Ahead: what it may hold sinks from 2.4 s to that within the first five, in which it earns 0.47.
 * Spent whole at any second t of these: 2.4 - 0.36 * t + 0.47 * (5 - t) + 0.85 * t <= 4.85.
 */
#define FULL_NS 0.6e9
#define EARNED 0.85
#define AHEAD_NS 2.4e9
#define AHEAD_EARNED 0.47
#define AHEAD_UNTIL_NS 5e9

static double since_begin(const struct sampler_purse *p, uint64_t now_ns)
{
	return now_ns > p->began_ns ? (double)(now_ns - p->began_ns) : 0;
}

static int is_ahead(const struct sampler_purse *p, uint64_t now_ns)
{
	return p->is_ahead && since_begin(p, now_ns) < AHEAD_UNTIL_NS;
}

double sampler_purse_full(const struct sampler_purse *purse)
{
	return purse->budget * FULL_NS;
}

double sampler_purse_rate(const struct sampler_purse *purse, uint64_t now_ns)
{
	return purse->budget * (is_ahead(purse, now_ns) ? AHEAD_EARNED : EARNED);
}

static double holds_at_most(const struct sampler_purse *p, uint64_t now_ns)
{
	double past = since_begin(p, now_ns) / AHEAD_UNTIL_NS;
	return is_ahead(p, now_ns) ? p->budget * (AHEAD_NS + past * (FULL_NS - AHEAD_NS))
				   : sampler_purse_full(p);
}

void sampler_purse_begin(struct sampler_purse *purse, double budget, int ahead, uint64_t now_ns)
{
	*purse = (struct sampler_purse){
		.budget = budget, .is_ahead = ahead, .began_ns = now_ns, .now_ns = now_ns
	};
	purse->ns = holds_at_most(purse, now_ns);
}

void sampler_purse_give(struct sampler_purse *purse, double ns)
{
	purse->given_ns += ns;
	purse->ns += ns;
}

void sampler_purse_turn(struct sampler_purse *purse, uint64_t now_ns, double cost_ns)
{
	double span_ns = now_ns > purse->now_ns ? (double)(now_ns - purse->now_ns) : 1;
	/* by the rate that it began with: that is never more */
	double earned_ns = span_ns * sampler_purse_rate(purse, purse->now_ns);
	double most_ns = holds_at_most(purse, now_ns);
	double own_ns = purse->ns - purse->given_ns + earned_ns;
	/* what is given goes behind what comes in meanwhile, and before what was saved up */
	double full_ns = purse->given_ns > 0 ? most_ns + cost_ns : most_ns;
	double taken_ns = fmin(purse->given_ns, fmax(full_ns - own_ns, 0));
	purse->given_ns -= taken_ns;
	purse->ns = fmin(own_ns + taken_ns, full_ns) - cost_ns + purse->given_ns;
	purse->now_ns = now_ns;
}
