/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler_pace.h"

#include <math.h>

#define KEPT 0.93         /* of the sums, from window to window */
#define PRICE_ERROR 0.1   /* of what a probe costs */
#define CALL_NS 5         /* no allocator answers sooner */
#define CLOCK_TICK_NS 4e6 /* where nothing but the process's clock is known */
#define PENDING_MAX 0.5   /* of all calls, where sleep is to tell anything */
#define PACE_MIN 0.05     /* as far as sleep tells */
#define KNOWN 0.35        /* what work tells is believed by itself */

void sampler_pace_add(struct sampler_pace *p, const struct sampler_window *w)
{
	/* they ran for at least as long as the probes took, whatever is thought of their price */
	double probes_ns = w->hits * w->price_ns, most_ns = w->run_ns - w->hits * CALL_NS;
	if (w->sleeps_known && probes_ns > most_ns)
		probes_ns = most_ns > 0 ? most_ns : 0;
	const struct {
		double *sum, value;
	} sums[] = {
		{ &p->on_ns, w->on_ns },
		{ &p->hits, w->hits },
		{ &p->probes_ns, probes_ns },
		{ &p->run_ns, w->run_ns },
		{ &p->called_ns, w->callers * w->on_ns },
		{ &p->sleeps, w->sleeps },
		{ &p->pending, w->pending },
		{ &p->pending_ns, w->pending_ns },
		{ &p->waited_ns, w->waited_ns },
		{ &p->unknown_ns, w->sleeps_known ? 0 : w->on_ns },
		{ &p->off_ns, w->off_ns },
		{ &p->off_run_ns, w->off_run_ns },
		{ &p->windows, 1 },
	};
	for (unsigned i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		*sums[i].sum = *sums[i].sum * KEPT + sums[i].value;
}

static double clamp(double value, double min, double max)
{
	return value < min ? min : value > max ? max : value;
}

/*
 * The share of a window's calls that was pending when it ended: of what comes from sleep to sleep the half, and no more than comes in
 * the time that it takes. 1: it was never done.
 */
static double pending_of(const struct sampler_pace *p, double use)
{
	if (p->unknown_ns <= p->on_ns / 2) {
		if (p->pending <= 0 || p->called_ns <= 0)
			return 0;
		double half = p->pending / (2 * p->sleeps + p->pending);
		double late = p->pending_ns / p->called_ns;
		return clamp(half > late ? half : late, 0, 1);
	}
	/* one that uses more than else, and not all that there is, has time to spare */
	double on_use = p->run_ns / p->on_ns, cores = ceil(use < 0.1 ? 1 : use - 0.1);
	return on_use > 1.3 * use && on_use < 0.85 * cores ? 0.25 : 1;
}

struct sampler_paced sampler_paced(const struct sampler_pace *p)
{
	struct sampler_paced to = { .pace = 1 };
	double use = p->off_ns > 0 ? p->off_run_ns / p->off_ns : 0; /* of CPUs, without probes */
	if (p->hits < 1 || p->on_ns <= 0 || use <= 0)
		return to;
	double undone = pending_of(p, use), whole = use * p->on_ns;
	double work = (p->run_ns - p->probes_ns) / whole;
	/* what waits for a processor is behind, however much it catches up with in the end, and finds its caches cold: all costs more */
	double held = p->called_ns > 0 ? (p->pending_ns + p->waited_ns) / p->called_ns : 0;
	double waits = held > 0 ? clamp(held - p->run_ns / p->called_ns, 0, 1) : 0;
	double work_error = (PRICE_ERROR + waits) * p->probes_ns / whole;
	if (p->unknown_ns > 0)
		work_error += CLOCK_TICK_NS * sqrt(p->windows) / 3.5 / whole;
	if (undone <= PENDING_MAX && held <= PENDING_MAX) {
		/* a chain of answers is held up by all of the probes' time that is one thread's, and by what others ran because of that */
		double threads_ns = p->called_ns > p->on_ns ? p->called_ns : p->on_ns;
		double held_ns =
			(1 + 2 * PRICE_ERROR) * p->probes_ns + p->waited_ns + p->pending_ns;
		double open = 1 - undone, chain = clamp(1 - held_ns / threads_ns, PACE_MIN, open);
		/* errors are those of the quotient, which the slower pace moves further */
		double spread = (1 / chain - 1) / 2;
		double variance = spread * spread + undone * undone;
		double weight = variance / (variance + work_error * work_error);
		if (variance > 0) {
			to.pace = clamp(open + weight * (work - open), chain, 1);
			to.error = sqrt(variance * (1 - weight * weight)) / to.pace;
		}
		to.is_starved = waits > PENDING_MAX / 2;
		return to;
	}
	to.is_starved = p->run_ns < 0.6 * p->on_ns * ceil(use);
	if (work > 0 && work_error < KNOWN * work) {
		to.pace = clamp(work, PACE_MIN, 1);
		to.error = work_error / to.pace;
		return to;
	}
	/* at least so many: as few as its work allows, and up to what the fastest allocator would answer in its time */
	double fastest = p->hits * CALL_NS / whole;
	to.pace = clamp(work + 2 * work_error, PACE_MIN, 1);
	to.error = to.pace > fastest ? to.pace / fastest - 1 : 0;
	return to;
}
