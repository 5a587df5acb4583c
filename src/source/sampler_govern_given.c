/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_govern_given.c - what windows are to cost, and what a program that is started is given
 * beside the budget: it is another program at each moment, and most are soon over.
 */
#include <math.h>

#include "base/clock.h"
#include "source/sampler_book.h"

#define PLANNED 0.6        /* of the full purse: what a window is to cost */
#define PLANNED_SHORT 0.15 /* of a program that is soon over: the more of them */
#define LEFT 0.25          /* of the full purse: probes that are in go out */
#define LATER 0.15         /* of what is given: for the first windows */
#define OVER 2.5           /* of what it is to cost a window may, of what is given */
#define SOON_NS 1e7        /* the first gap, where there is such; the next ones grow */
#define LATER_TIMES 1.4
#define UNSEEN 0.2   /* by how much a time that was not seen may differ from that before */
#define FEW_GAPS 4   /* were told: then it may be anything */
#define FASTEST_NS 8 /* no allocator answers sooner for long */
#define OWN_MIN 0.05 /* of what processes ran: that was not for probes */

double sampler_governor_planned(const struct sampler_governor *g)
{
	double share = g->given_ns > 0 ? PLANNED_SHORT : PLANNED;
	return share * sampler_purse_full(&g->purse);
}

double sampler_governor_left(const struct sampler_governor *g)
{
	return LEFT * sampler_purse_full(&g->purse);
}

int sampler_governor_is_first(const struct sampler_governor *g)
{
	return g->given_ns > 0 && !g->told_gaps && !g->had_gap;
}

double sampler_governor_floor(const struct sampler_governor *g)
{
	double least = sampler_governor_left(g);
	if (sampler_governor_is_first(g))
		return least + LATER * g->given_ns;
	if (g->purse.given_ns <= 0)
		return least;
	return fmax(g->purse.ns - OVER * sampler_governor_planned(g), least);
}

double sampler_governor_wait(const struct sampler_governor *g, double lacks_ns)
{
	double rate = sampler_purse_rate(&g->purse, g->gap_ns);
	if (g->lasting || lacks_ns < 0)
		return 0;
	if (g->purse.given_ns <= 0)
		return lacks_ns / rate;
	return fmin(sampler_governor_planned(g) / rate, SOON_NS * pow(LATER_TIMES, g->told_gaps));
}

/*
 * By their work where that is known: a window that a program begins with is mostly its probes, and
 * would tell next to nothing of what follows.
 */
void sampler_governor_rest(struct sampler_governor *g, uint64_t now_ns)
{
	double was_ns = (double)(g->epoch_ns - g->began_ns),
	       rest_ns = (double)(now_ns - g->epoch_ns);
	double ran_ns = g->window_cpu_ns - g->window_hits * g->price_ns - g->ticked_ns;
	double runs_ns = (double)g->cpu_ns(g->cpu_ctx) - g->window_cpu_ns -
			 (g->hits - g->window_hits) * g->price_ns;
	if (g->is_started && !g->told_gaps)
		return; /* nothing is known of it: sampler_governor_doubt() */
	if (g->is_started && runs_ns > 0) {
		was_ns = fmax(ran_ns, OWN_MIN * g->window_cpu_ns);
		rest_ns = runs_ns;
	}
	samples_go_on(g->samples, was_ns, rest_ns, g->told_gaps < FEW_GAPS ? 1 : UNSEEN);
}

void sampler_governor_doubt(struct sampler_governor *g)
{
	/* of an open window all is seen until now */
	double until_ns = g->on ? g->window_cpu_ns : (double)g->cpu_ns(g->cpu_ctx);
	double unseen_ns = fmax(until_ns - g->windows_cpu_ns, 0);
	unsigned least = g->is_started || g->ran_dry ? FEW_GAPS : 1;
	if (g->budget <= 0 || g->only_measure)
		return;
	sampler_governor_say(g, clock_ns(CLOCK_MONOTONIC));
	g->doubts = g->told_gaps < least && g->samples->duty < 1;
	samples_doubt(g->samples, g->doubts ? unseen_ns / FASTEST_NS / 2 : 0);
	sampler_governor_say(g, clock_ns(CLOCK_MONOTONIC));
}
