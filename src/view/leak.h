/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak.h - what the live bytes of a stack do over time, as far as samples can tell. Pure functions.
 */
#ifndef VIEW_LEAK_H
#define VIEW_LEAK_H

#include "model/samples.h"

/**
 * leak_trend() - the Mann-Kendall test over @count values: its normal deviate; above 2.33 they
 * grow, of a hundred series that do not one is taken for such. O(count^2).
 */
double leak_trend(const double *values, size_t count);

/**
 * leak_survival() - the share of a stack's bytes that is live after @age_ns, by Kaplan and Meier:
 * what is live now has been seen for as long as it is old and no longer. 0 to 1; 1 where nothing
 * that old was seen.
 */
double leak_survival(const struct sample_row *row, uint64_t age_ns);

/** leak_judge() - fill in verdict, growth and score of every row, from their past. */
void leak_judge(struct samples *samples);

#endif
