/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_purse.h - CPU time that probes may take: over any five seconds no more than a budget,
 * beside what is given once.
 */
#ifndef SOURCE_SAMPLER_PURSE_H
#define SOURCE_SAMPLER_PURSE_H

#include <stdint.h>

struct sampler_purse {
	/* of a CPU */
	double budget;
	/* that may be spent now; below zero: that was spent too much */
	double ns;
	/* of that, given beside the budget, and never earned again */
	double given_ns;
	/* private */
	int is_ahead;
	uint64_t began_ns, now_ns;
};

/**
 * sampler_purse_begin() - full at @now_ns; @ahead: with half of what five seconds may cost, and
 * then it earns the less in these.
 */
void sampler_purse_begin(struct sampler_purse *purse, double budget, int ahead, uint64_t now_ns);

/** sampler_purse_give() - @ns beside the budget, once. */
void sampler_purse_give(struct sampler_purse *purse, double ns);

/** sampler_purse_turn() - it has earned until @now_ns, and @cost_ns is spent. */
void sampler_purse_turn(struct sampler_purse *purse, uint64_t now_ns, double cost_ns);

/** sampler_purse_rate() - what it earns then, of a CPU. */
double sampler_purse_rate(const struct sampler_purse *purse, uint64_t now_ns);

/** sampler_purse_full() - what it holds at most, but ahead of its first five seconds, ns. */
double sampler_purse_full(const struct sampler_purse *purse);

#endif
