/* SPDX-License-Identifier: Apache-2.0 */
#include "view/leak.h"
#include "base/clock.h"

#include <math.h>

#define SURE 2.33      /* one in a hundred */
#define READINGS_MIN 5 /* fewer cannot be sure of anything */
#define TWO_SIDED 1.96

double leak_trend(const double *values, size_t count)
{
	double s = 0, n = (double)count, ties = 0;
	for (size_t i = 0; i < count; i++) {
		size_t same = 0, first = 1;
		for (size_t k = 0; k < count; k++) {
			if (k > i)
				s += (values[k] > values[i]) - (values[k] < values[i]);
			same += values[k] == values[i];
			first &= !(k < i && values[k] == values[i]);
		}
		if (first && same > 1)
			ties += (double)same * (double)(same - 1) * (2.0 * (double)same + 5);
	}
	double variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;
	if (variance <= 0 || s == 0)
		return 0;
	return (s > 0 ? s - 1 : s + 1) / sqrt(variance);
}

double leak_survival(const struct sample_row *row, uint64_t age_ns)
{
	double at_risk = 0, share = 1;
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		at_risk += row->now.life[i] + row->ages.bytes[i];
	for (unsigned i = 0; i < SAMPLES_LIVES && (1024ull << i) <= age_ns; i++) {
		/* of what is still live and as old as this half has been at risk */
		double seen = at_risk - row->ages.bytes[i] / 2;
		if (seen > 0 && row->now.life[i] > 0)
			share *= 1 - (row->now.life[i] < seen ? row->now.life[i] / seen : 1);
		at_risk -= row->now.life[i] + row->ages.bytes[i];
	}
	return share;
}

struct series {
	double values[SAMPLES_PAST_MAX], times[SAMPLES_PAST_MAX];
	size_t count;
	/* the deepest fall from a height, and that height */
	double highest_fall;
	double height;
};

static void read_past(const struct sample_row *row, struct series *s)
{
	double top = 0;
	*s = (struct series){ 0 };
	for (uint32_t i = 0; i < row->past_count; i++) {
		s->values[s->count] = row->past[i].live_bytes;
		s->times[s->count++] = (double)row->past[i].time_ns / 1e9;
		if (row->past[i].live_bytes > top)
			top = row->past[i].live_bytes;
		else if (top - row->past[i].live_bytes > s->highest_fall) {
			s->highest_fall = top - row->past[i].live_bytes;
			s->height = top;
		}
	}
}

/* Bytes a second, by least squares. */
static double slope(const struct series *s, size_t from)
{
	double n = 0, t = 0, v = 0, tt = 0, tv = 0;
	for (size_t i = from; i < s->count; i++) {
		double time = s->times[i] - s->times[from];
		n++;
		t += time;
		v += s->values[i];
		tt += time * time;
		tv += time * s->values[i];
	}
	double below = n * tt - t * t;
	return below > 0 ? (n * tv - t * v) / below : 0;
}

static void judge(const struct samples *samples, struct sample_row *row)
{
	struct series s;
	const struct sample_figures *f = &row->now;
	read_past(row, &s);
	row->verdict = SAMPLE_UNKNOWN;
	row->growth_bytes_per_s = row->growth_error = row->score = 0;
	if (!samples->tracked || !f->taken)
		return;
	if (f->freed_count > 0 && f->temporary_count * 2 >= f->freed_count &&
	    f->live_bytes < f->bytes / 10) {
		row->verdict = SAMPLE_TEMPORARY;
		return;
	}
	if (s.count < READINGS_MIN)
		return;
	/* the later half of the time alone, too: what filled up and stays grows no more */
	size_t half = 0;
	while (half + 3 < s.count && s.times[half] < (s.times[0] + s.times[s.count - 1]) / 2)
		half++;
	double whole = leak_trend(s.values, s.count);
	double late = slope(&s, half), early = slope(&s, 0);
	double grown = s.values[s.count - 1] - s.values[0];
	double error =
		sqrt(row->past[s.count - 1].error_bytes * row->past[s.count - 1].error_bytes +
		     row->past[0].error_bytes * row->past[0].error_bytes);
	/*
	 * blocks of one size, each standing for many bytes: the same sample again must come some
	 * times to be a trend
	 */
	double runtime = s.times[s.count - 1] - s.times[0];
	int quiet =
		samples->now_ns - row->now.last_ns > (samples->now_ns - samples->start_ns) * 2 / 3;
	if (s.height > 0 && s.highest_fall > s.height * 0.4 &&
	    s.highest_fall > 3 * f->live_error_bytes && f->live_bytes > s.height * 0.1) {
		row->verdict = SAMPLE_SAWTOOTH;
	} else if (whole > SURE && late > early / 4 && grown > 2 * error && runtime > 0) {
		row->verdict = SAMPLE_GROWING;
		row->growth_bytes_per_s = slope(&s, 0);
		row->growth_error = TWO_SIDED * error / runtime;
		uint64_t old = samples->older_ns ? samples->older_ns : NS_PER_S;
		row->score = whole * f->live_bytes * leak_survival(row, old);
	} else if (f->live_error_bytes * 2 * TWO_SIDED > f->live_bytes && f->live_bytes > 0) {
		/* too few samples to say that it does not grow */
		row->verdict = SAMPLE_UNKNOWN;
	} else if (f->live_bytes > 0 && quiet) {
		row->verdict = SAMPLE_STARTUP;
	} else if (f->live_bytes > f->bytes / 10 && f->live_bytes > 0) {
		row->verdict = SAMPLE_PLATEAU;
	} else {
		row->verdict = SAMPLE_STEADY;
	}
}

void leak_judge(struct samples *samples)
{
	for (size_t i = 0; i < samples->row_count; i++)
		judge(samples, &samples->rows[i]);
}
