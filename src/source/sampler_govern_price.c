/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_govern_price.c - how many calls there were, and what one costs. */
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "source/sampler_book.h"

#define STATS_NS \
	100000000ull /* the kernel's clock of BPF programs costs as much as they do: for a moment */
#define STATS_EVERY_NS 10000000000ull

void sampler_governor_clock(struct sampler_governor *g, uint64_t now_ns)
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

double sampler_governor_hits(struct sampler_governor *g, double *price_ns, struct err *err)
{
	uint64_t hits[WIRE_SAMPLE_FUNCTIONS_MAX];
	struct tally tally = { .hits = hits };
	if (sampler_hits(g->sampler, hits, err) < 0)
		return -1;
	sampler_functions_each(g->sampler, add_function, &tally);
	for (uint32_t i = 0; g->of_kernel && i < WIRE_SAMPLE_KERNEL_MAX; i++)
		tally.emulated += (double)hits[i];
	double all = tally.emulated + tally.stepped;
	double share = all > 0 ? tally.emulated / all : 1;
	g->elsewhere_ns =
		share * g->samples->emulated_ns + (1 - share) * g->samples->stepped_ns + g->run_ns;
	*price_ns = g->elsewhere_ns * g->dearer;
	return all;
}
