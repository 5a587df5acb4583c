/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_govern.c - what the probes cost, and what is done when that is more than it may be. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/intern.h"
#include "source/sampler_book.h"

#define WINDOW_NS 100000000ull
#define LOOK_NS 1000000000ull
#define STATS_NS \
	100000000ull /* the kernel's clock of BPF programs costs as much as they do: for a moment */
#define STATS_EVERY_NS 10000000000ull
#define DUTY_MIN 0.002
#define SAMPLES_SHARE 0.1 /* of the calls in a window, at most */

void sampler_governor_init(struct sampler_governor *g, uint64_t now_ns)
{
	g->duty = 1;
	g->on = 1;
	g->since_ns = g->epoch_ns = g->looked_ns = now_ns;
	g->until_ns = now_ns + LOOK_NS;
	g->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	g->stats_until_ns = now_ns + 3 * STATS_NS;
	g->random = hash_seed() | 1;
}

void sampler_governor_fini(struct sampler_governor *g)
{
	if (g->stats_fd > 0)
		close(g->stats_fd);
	g->stats_fd = 0;
}

static double draw(struct sampler_governor *g)
{
	g->random ^= g->random << 13;
	g->random ^= g->random >> 7;
	g->random ^= g->random << 17;
	return (double)(g->random >> 11) / 9007199254740992.0;
}

static void take_stats(struct sampler_governor *g, uint64_t now_ns)
{
	struct sampler_cost cost;
	struct err err = { 0 };
	if (g->stats_fd > 0 && now_ns >= g->stats_until_ns) {
		close(g->stats_fd);
		g->stats_fd = 0;
		g->stats_next_ns = now_ns + STATS_EVERY_NS;
	} else if (g->stats_fd <= 0 && g->on && now_ns >= g->stats_next_ns) {
		g->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		g->stats_until_ns = now_ns + STATS_NS;
	}
	if (sampler_cost(g->sampler, &cost, &err) == 0 && cost.runs)
		g->run_ns = (double)cost.run_ns / (double)cost.runs;
}

struct tally {
	const uint64_t *hits;
	uint64_t seen[WIRE_SAMPLE_FUNCTIONS_MAX / 64];
	double emulated, stepped;
};

static int add_function(void *ctx, uint32_t pid, const struct sampler_function *f)
{
	struct tally *t = ctx;
	uint32_t n = f->number & (WIRE_SAMPLE_FUNCTIONS_MAX - 1);
	(void)pid;
	if (!(t->seen[n / 64] >> (n % 64) & 1))
		*(f->kind == SAMPLER_EMULATED ? &t->emulated : &t->stepped) += (double)t->hits[n];
	t->seen[n / 64] |= 1ull << (n % 64);
	return 0;
}

/* Calls so far, and the mean price of one. */
static double count_hits(struct sampler_governor *g, double *price_ns, struct err *err)
{
	uint64_t hits[WIRE_SAMPLE_FUNCTIONS_MAX];
	struct tally tally = { .hits = hits };
	if (sampler_hits(g->sampler, hits, err) < 0)
		return -1;
	sampler_functions_each(g->sampler, add_function, &tally);
	double all = tally.emulated + tally.stepped;
	double share = all > 0 ? tally.emulated / all : 1;
	*price_ns =
		share * g->samples->emulated_ns + (1 - share) * g->samples->stepped_ns + g->run_ns;
	return all;
}

/*
 * What is seen in this epoch stands for so many times as much: as the work of the processes is more than that in windows. Work
 * is the CPU time they used beside the probes. By the clock alone a program without time to spare would seem to ask for less,
 * as probes slow it down while it is looked at; one that waits for others works on as before, and time would do.
 */
static void set_scale(struct sampler_governor *g, uint64_t now_ns)
{
	struct samples *s = g->samples;
	double price = 0, hits, cpu;
	struct err err = { 0 };
	s->duty = g->duty;
	s->scale = 1;
	s->scale_error = 0;
	if (g->duty >= 1 || !g->windows || !g->epoch_on_ns)
		return;
	hits = count_hits(g, &price, &err) - g->epoch_hits;
	cpu = (double)g->cpu_ns(g->cpu_ctx) - g->epoch_cpu_ns;
	double work = cpu - hits * price, seen = g->on_cpu_ns - g->on_hits * price;
	double most = (double)(now_ns - g->epoch_ns) / (double)g->epoch_on_ns;
	double share = g->on_cpu_ns > 0 ? g->on_hits * price / g->on_cpu_ns : 0;
	s->scale = seen > g->on_cpu_ns / 50 && work > seen ? work / seen : most;
	/* a price that is off by a tenth, and what the windows differ by */
	double unsure = share < 0.9 ? 0.1 * share / (1 - share) : 1;
	double mean = g->sum / g->windows, spread = 1;
	if (g->windows > 1 && mean > 0) {
		double variance = (g->squares - g->windows * mean * mean) / (g->windows - 1);
		spread = variance > 0 ? sqrt(variance / g->windows) / mean : 0;
	}
	s->scale_error = sqrt(unsure * unsure + spread * spread);
}

/* From here on another share of the time. */
static int begin_epoch(struct sampler_governor *g, uint64_t now_ns, double duty, struct err *err)
{
	struct samples *s = g->samples;
	set_scale(g, now_ns);
	int rc = sampler_read(g->sampler, s, err);
	if (rc == 0)
		rc = samples_epoch(s, err);
	if (rc < 0)
		return rc;
	double mean = 0, count = 0;
	for (size_t i = 0; i < s->row_count; i++) {
		mean += s->rows[i].now.bytes;
		count += s->rows[i].now.count;
	}
	mean = count > 0 ? mean / count : 0;
	/* as many samples as before, of a shorter time */
	double bytes = (double)g->sample_bytes * duty;
	if (bytes < mean / SAMPLES_SHARE)
		bytes = mean / SAMPLES_SHARE;
	if (bytes > (double)g->sample_bytes || duty >= 1)
		bytes = (double)g->sample_bytes;
	if (g->sample_bytes > 1)
		rc = sampler_set_bytes(g->sampler, (uint64_t)(bytes < 2 ? 2 : bytes), err);
	g->duty = duty;
	g->epoch_ns = now_ns;
	g->epoch_on_ns = 0;
	g->epoch_hits = count_hits(g, &count, err);
	g->epoch_cpu_ns = (double)g->cpu_ns(g->cpu_ctx);
	g->on_hits = g->on_cpu_ns = 0;
	g->windows = g->sum = g->squares = 0;
	return rc;
}

/* Calls since the last look, and what share of a CPU they took. */
static int look(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	double price = 0, all = count_hits(g, &price, err);
	if (all < 0)
		return err->code;
	double span = (double)(now_ns - g->looked_ns);
	g->fraction = span > 0 ? (all - (double)g->hits) * price / span : 0;
	g->hits = (uint64_t)all;
	g->looked_ns = now_ns;
	return 0;
}

static int begin_window(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	double price = 0, hits;
	int rc = sampler_resume(g->sampler, err);
	if (rc < 0)
		return rc;
	hits = count_hits(g, &price, err);
	if (hits < 0)
		return err->code;
	/* putting probes in takes its time; all are in from here on */
	now_ns = clock_ns(CLOCK_MONOTONIC);
	sampler_switch(g->sampler, 1);
	g->window_hits = (uint64_t)hits;
	g->window_cpu_ns = g->cpu_ns(g->cpu_ctx);
	g->on = 1;
	g->since_ns = now_ns;
	g->until_ns = now_ns + WINDOW_NS;
	return 0;
}

static int end_window(struct sampler_governor *g, struct err *err)
{
	sampler_switch(g->sampler, 0);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	double price = 0, hits = count_hits(g, &price, err);
	if (hits < 0)
		return err->code;
	double rate = (hits - (double)g->window_hits) / ((double)(now_ns - g->since_ns) / 1e9);
	if (g->duty < 1) {
		g->on_hits += hits - (double)g->window_hits;
		g->on_cpu_ns += (double)(g->cpu_ns(g->cpu_ctx) - g->window_cpu_ns);
		g->windows++;
		g->sum += rate;
		g->squares += rate * rate;
	}
	g->epoch_on_ns += now_ns - g->since_ns;
	g->on = 0;
	sampler_pause(g->sampler);
	return 0;
}

/* The share of the time that keeps to the budget, by what it has cost so far: probes cost on their way in and out, too. */
static double next_duty(const struct sampler_governor *g)
{
	double duty = g->fraction > 0 ? g->duty * g->budget / g->fraction : 1;
	if (g->duty < 1 && duty > g->duty * 2)
		duty = g->duty * 2;
	if (g->duty < 1 && duty < g->duty / 2)
		duty = g->duty / 2;
	return duty < DUTY_MIN ? DUTY_MIN : duty > 0.8 ? 1 : duty;
}

int sampler_govern(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = 0;
	take_stats(g, now_ns);
	if (now_ns < g->until_ns)
		return 0;
	if (!g->on) /* a whole turn has passed, gap and all */
		rc = look(g, now_ns, err);
	if (!g->on && rc == 0) {
		double duty = next_duty(g);
		if (g->windows && (duty > g->duty * 1.3 || duty < g->duty / 1.3))
			rc = begin_epoch(g, now_ns, duty, err);
		return rc < 0 ? rc : begin_window(g, now_ns, err);
	}
	if (g->duty >= 1) {
		rc = look(g, now_ns, err);
		double duty = g->budget > 0 && !g->only_measure ? next_duty(g) : 1;
		if (rc == 0 && duty >= 1)
			g->until_ns = now_ns + LOOK_NS;
		if (rc < 0 || duty >= 1)
			return rc;
		sampler_switch(g->sampler, 0);
		rc = begin_epoch(g, now_ns, duty, err);
		if (rc < 0)
			return rc;
		g->on = 0;
		sampler_pause(g->sampler);
	} else {
		rc = end_window(g, err);
	}
	/* gaps of all lengths, so that nothing that comes in step with them is always or never seen */
	g->until_ns = clock_ns(CLOCK_MONOTONIC) +
		      (uint64_t)((double)WINDOW_NS * (1 / g->duty - 1) * (0.5 + draw(g)));
	snprintf(g->samples->governed, sizeof(g->samples->governed),
		 "probes are in for %.3g %% of the time, to keep to the budget: figures are "
		 "multiplied by what is left out",
		 100 * g->duty);
	return rc;
}

void sampler_governor_cost(struct sampler_governor *g, uint64_t now_ns)
{
	struct samples *s = g->samples;
	struct sampler_cost cost;
	struct err err = { 0 };
	double seconds = (double)(now_ns - s->start_ns) / 1e9, price = 0;
	double hits = count_hits(g, &price, &err);
	set_scale(g, now_ns);
	if (sampler_cost(g->sampler, &cost, &err) == 0)
		s->kernel_bytes = cost.kernel_bytes;
	if (hits < 0 || seconds <= 0)
		return;
	s->hits = (uint64_t)hits;
	s->hits_per_second = hits / seconds;
	s->ns_per_hit = price;
	s->cpu_fraction = hits * price / 1e9 / seconds;
}
