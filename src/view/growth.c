/* SPDX-License-Identifier: Apache-2.0 */
#include "view/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DROP_SHARE 0.2 /* of the range: a fall of that much is a collector at work, not noise */

struct sample {
	double seconds, bytes;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/*
 * Where values fall by much, the low after each fall is kept. Returns how many lows there are; 0
 * where nothing falls: then all points stay.
 */
static size_t keep_lows(struct sample *s, size_t count)
{
	double low = INFINITY, high = -INFINITY;
	for (size_t i = 0; i < count; i++) {
		low = s[i].bytes < low ? s[i].bytes : low;
		high = s[i].bytes > high ? s[i].bytes : high;
	}
	double drop = (high - low) * DROP_SHARE;
	size_t lows = 0;
	double top = s[0].bytes;
	struct sample bottom = s[0];
	int falling = 0;
	if (drop <= 0)
		return 0;
	struct sample *found = s; /* written behind what has been read */
	for (size_t i = 0; i < count; i++) {
		struct sample now = s[i];
		if (!falling) {
			top = now.bytes > top ? now.bytes : top;
			if (top - now.bytes >= drop) {
				falling = 1;
				bottom = now;
			}
		} else if (now.bytes < bottom.bytes) {
			bottom = now;
		} else if (now.bytes - bottom.bytes >= drop) {
			found[lows++] = bottom;
			falling = 0;
			top = now.bytes;
		}
	}
	if (falling)
		found[lows++] = bottom;
	return lows;
}

/*
 * Mann-Kendall: S = sum of sign(later - earlier); normal for n >= 6 or so, with the variance of
 * tied values taken off.
 */
static double confidence(const struct sample *s, size_t n, double *sorted)
{
	double sum = 0, var = (double)n * ((double)n - 1) * (2 * (double)n + 5);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++)
			sum += (s[j].bytes > s[i].bytes) - (s[j].bytes < s[i].bytes);
		sorted[i] = s[i].bytes;
	}
	qsort(sorted, n, sizeof(*sorted), by_value);
	for (size_t i = 0; i < n;) {
		size_t same = 1;
		while (i + same < n && sorted[i + same] <= sorted[i])
			same++;
		double t = (double)same;
		var -= t * (t - 1) * (2 * t + 5);
		i += same;
	}
	var /= 18;
	if (var <= 0)
		return 0;
	double z = (fabs(sum) - 1) / sqrt(var);
	return z > 0 ? erf(z / sqrt(2)) : 0;
}

/*
 * The value that stands at place @k once @v is in order (C. A. R. Hoare 1961); @v is left in no
 * order.
 */
static double select_at(double *v, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;
	while (low < high) {
		double pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;
		for (;;) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i >= j)
				break;
			double swap = v[i];
			v[i++] = v[j];
			v[j--] = swap;
		}
		/*
		 * @j ends the part that is at most the pivot; equal values stop both, so neither
		 * part is everything
		 */
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return v[k];
}

static double median(double *v, size_t n)
{
	double upper = select_at(v, n, n / 2);
	return n % 2 ? upper : (select_at(v, n, n / 2 - 1) + upper) / 2;
}

/* The median of all slopes. */
static double slope(const struct sample *s, size_t n, double *slopes)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			double time = s[j].seconds - s[i].seconds;
			if (time > 0)
				slopes[count++] = (s[j].bytes - s[i].bytes) / time;
		}
	}
	return count ? median(slopes, count) : 0;
}

/*
 * Neighbours become one point, the median of their values at the mean of their times; the new
 * number of points.
 */
static size_t squeeze(struct sample *s, size_t count, double *work)
{
	if (count <= GROWTH_POINTS_MAX)
		return count;
	for (size_t b = 0; b < GROWTH_POINTS_MAX; b++) {
		size_t from = b * count / GROWTH_POINTS_MAX,
		       n = (b + 1) * count / GROWTH_POINTS_MAX - from;
		double seconds = 0;
		for (size_t i = 0; i < n; i++) {
			seconds += s[from + i].seconds;
			work[i] = s[from + i].bytes;
		}
		s[b] = (struct sample){ seconds / (double)n, median(work, n) };
	}
	return GROWTH_POINTS_MAX;
}

static void take_points(const struct history_point *points, size_t count, struct sample *to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = (struct sample){ (double)(points[i].time_ns - points[0].time_ns) / 1e9,
					 (double)points[i].rss_bytes };
}

int view_growth(const struct history_point *points, size_t count, struct growth *g)
{
	memset(g, 0, sizeof(*g));
	if (!count)
		return 0;
	g->first_bytes = points[0].rss_bytes;
	g->last_bytes = points[count - 1].rss_bytes;
	g->span_ns = points[count - 1].time_ns - points[0].time_ns;
	g->low_bytes = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		uint64_t rss = points[i].rss_bytes;
		g->low_bytes = rss < g->low_bytes ? rss : g->low_bytes;
		g->high_bytes = rss > g->high_bytes ? rss : g->high_bytes;
	}
	if (count < GROWTH_POINTS_MIN)
		return 0;
	size_t pairs = (size_t)GROWTH_POINTS_MAX * (GROWTH_POINTS_MAX - 1) / 2;
	struct sample *s = malloc(count * sizeof(*s));
	double *work = malloc((count > pairs ? count : pairs) * sizeof(*work));
	if (!s || !work) {
		free(s);
		free(work);
		return -ENOMEM;
	}
	take_points(points, count, s);
	size_t lows = keep_lows(s, count);
	g->lows = lows >= GROWTH_LOWS_MIN;
	/* too few lows show no trend; but what falls from its height all the time is no sawtooth */
	if (lows && !g->lows)
		take_points(points, count, s);
	g->points = squeeze(s, g->lows ? lows : count, work);
	g->bytes_per_second = slope(s, g->points, work);
	g->confidence = confidence(s, g->points, work);
	double trend = fabs(g->bytes_per_second) * (double)g->span_ns / 1e9;
	g->verdict = GROWTH_STEADY;
	if (g->confidence >= GROWTH_SURE &&
	    trend >= GROWTH_SHARE * (double)(g->high_bytes - g->low_bytes))
		g->verdict = g->bytes_per_second > 0 ? GROWTH_GROWING : GROWTH_SHRINKING;
	if (lows && !g->lows && g->verdict != GROWTH_SHRINKING)
		g->verdict = GROWTH_UNKNOWN;
	free(s);
	free(work);
	return 0;
}

double view_growth_eta(const struct growth *g, uint64_t limit_bytes)
{
	if (g->last_bytes >= limit_bytes)
		return 0;
	if (g->verdict != GROWTH_GROWING)
		return INFINITY;
	return (double)(limit_bytes - g->last_bytes) / g->bytes_per_second;
}

const char *view_growth_word(enum growth_verdict verdict)
{
	static const char *const words[] = { "unknown", "steady", "growing", "shrinking" };
	return words[verdict];
}
