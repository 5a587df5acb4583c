/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.h - is it growing, how fast, how sure is that: Theil-Sen slope (the median of the slopes
 * of all pairs of points; up to 29 % of wild points do not move it) and the Mann-Kendall test (H.
 * B. Mann 1945, with the correction for ties), which needs no assumption on how the points scatter.
 * A garbage collector's sawtooth is judged by its lower envelope: the lows after its drops, which
 * are looked for among all points.
 *
 * Both tests take all pairs, so they see GROWTH_POINTS_MAX points at most: neighbours are put
 * together by their median. That keeps what makes the tests robust (half of the points of a group
 * may be wild) and most of their sharpness, for a median's scatter is that much smaller; it costs
 * 0.05 ms instead of 10 for 400 points.
 */
#ifndef VIEW_GROWTH_H
#define VIEW_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "model/history.h"

#define GROWTH_POINTS_MAX 96 /* more become medians of neighbours: the test takes all pairs */
#define GROWTH_POINTS_MIN 6
#define GROWTH_LOWS_MIN 6
#define GROWTH_SURE 0.99 /* what "growing" and "shrinking" mean, together with: */
#define GROWTH_SHARE 0.1 /* the trend over the whole stretch is that much of the range of values */

enum growth_verdict { GROWTH_UNKNOWN, GROWTH_STEADY, GROWTH_GROWING, GROWTH_SHRINKING };

struct growth {
	enum growth_verdict verdict;
	/* slope; of the lower envelope where @lows is set */
	double bytes_per_second;
	/* 0 to 1: that there is a trend in the slope's direction */
	double confidence;
	/* that the test saw */
	size_t points;
	/* 1: a sawtooth, judged by its lows */
	int lows;
	uint64_t span_ns;
	uint64_t first_bytes, last_bytes, low_bytes, high_bytes;
};

/**
 * view_growth() - judge the RSS of @points, which are in order of time; O(n), and all pairs of
 * GROWTH_POINTS_MAX. Fewer than GROWTH_POINTS_MIN points, or a sawtooth with fewer than
 * GROWTH_LOWS_MIN lows (that does not shrink), are GROWTH_UNKNOWN.
 * -ENOMEM.
 */
int view_growth(const struct history_point *points, size_t count, struct growth *growth);

/**
 * view_growth_eta() - seconds until @limit_bytes at this rate; INFINITY unless it is surely
 * growing, 0 beyond it.
 */
double view_growth_eta(const struct growth *growth, uint64_t limit_bytes);

/** view_growth_word() - "growing", "steady", "shrinking", "unknown". */
const char *view_growth_word(enum growth_verdict verdict);

#endif
