/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler_pace.h"

#include <math.h>

#define PRICE_ERROR 0.4 /* of what a probe costs, where no clock has told */
#define COLD 0.15 /* of it comes later: the program finds less in its caches than it would have */
#define COLD_ERROR 0.09
#define CROWDED 0.4       /* more than that at most, where others use the caches meanwhile */
#define SLOWER 2.5        /* than without probes its own instructions are at most, beside that */
#define SLOWEST 5         /* and with it, of one that does little between two calls */
#define DRIFT 0.1         /* of what it was to what it is */
#define PRIOR_TICKS 2     /* of the clock, that what a probe cost elsewhere is worth in its share */
#define LEAST_OWN 0.08    /* of a piece of time: what it called often in is not known to better */
#define CALL_NS 5         /* no allocator answers sooner */
#define CLOCK_TICK_NS 4e6 /* where nothing but the process's clock is known */
#define PENDING_MAX 0.5   /* of all calls, where sleep is to tell anything */
#define PACE_MIN 0.05     /* as far as sleep tells */
#define COVERED 0.05      /* of the callers' time: less has no clock to speak of */
#define UNCOVERED 0.5     /* of what those without a clock take, if they are like the others */
#define SAME 0.5          /* of the callers' time: they are known between windows */
#define KNOWN 0.7         /* what work tells is believed by itself */
#define QUOTIENT_MAX 0.9  /* of a figure is unsure of it at most, as far as its quotient goes */
#define FIRM 0.1          /* of all that is held up, beyond what is measured, where sleep tells */

/*
 * The threads that called in the window before are those that call in this one: also where none of
 * them got to run, as others wanted the processors.
 */
static int are_known(const struct sampler_window *w)
{
	return w->knows_callers && (w->known_run_ns > 0 || w->hits <= 0);
}

double sampler_window_weight(const struct sampler_window *w)
{
	return are_known(w) ? w->known_run_ns : w->called_run_ns > 0 ? w->called_run_ns : w->run_ns;
}

void sampler_pace_add(struct sampler_pace *p, const struct sampler_window *w)
{
	/* they ran for at least as long as the probes took, whatever is thought of their price */
	double times = w->times > 0 ? w->times : 1;
	double run_ns = w->run_ns - (w->own_ticks + w->probe_ticks) * w->tick_ns;
	if (run_ns < w->run_ns / 2)
		run_ns = w->run_ns / 2;
	double beside = w->run_ns > 0 ? run_ns / w->run_ns : 1;
	double called_ns = fmin(w->called_run_ns * beside, run_ns);
	double most_ns = (called_ns > 0 ? called_ns : run_ns) - w->hits * CALL_NS;
	double probes_ns = w->hits * w->price_ns;
	int is_known = are_known(w) && w->off_ns > 0;
	double ticks_ns = (w->own_ticks + w->probe_ticks) * w->tick_ns;
	double ticked = fmax(w->ticked_ns - ticks_ns, w->ticked_ns / 2);
	if (w->sleeps_known && probes_ns > most_ns)
		probes_ns = most_ns > 0 ? most_ns : 0;
	const struct {
		double *sum, value;
	} sums[] = {
		{ &p->on_ns, w->on_ns },
		{ &p->hits, w->hits },
		{ &p->probes_ns, probes_ns },
		{ &p->run_ns, run_ns },
		{ &p->own_ticks, w->own_ticks },
		{ &p->probe_ticks, w->probe_ticks },
		{ &p->called_ns, w->callers * w->on_ns + w->ended_ns },
		{ &p->sleeps, w->sleeps },
		{ &p->pending, w->pending },
		{ &p->pending_ns, w->pending_ns },
		{ &p->waited_ns, w->waited_ns },
		{ &p->unknown_ns, w->sleeps_known ? 0 : w->on_ns },
		{ &p->times, 1 },
		{ &p->times_squares, times },
		{ &p->called_run_ns, called_ns },
		{ &p->covered_ns, w->covered_ns * beside },
		{ &p->ticked_ns, ticked },
		{ &p->known_called_ns, is_known ? w->known_called_ns * beside : 0 },
		{ &p->known_run_ns,
		  is_known ? w->known_run_ns * ticked / fmax(fmax(w->ticked_ns, w->known_run_ns), 1)
			   : 0 },
		{ &p->known_on_ns, is_known ? w->on_ns : 0 },
	};
	for (unsigned i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		*sums[i].sum += times * sums[i].value;
	p->clocked.probes_ns += probes_ns;
	p->clocked.own_ticks += w->own_ticks;
	p->clocked.probe_ticks += w->probe_ticks;
	p->clocked.called_run_ns += called_ns;
	p->clocked.covered_ns += w->covered_ns * beside;
	p->clocked.ticked_ns += ticked;
	/* gaps are what they are */
	p->off_ns += w->off_ns;
	p->off_run_ns += w->off_run_ns;
	p->known_gap_ns += is_known ? w->off_ns : 0;
	p->known_off_ns += is_known ? w->known_off_ns : 0;
	for (unsigned i = 0; i < SAMPLER_SLICES; i++) {
		p->slice[i].hits += times * w->slice[i].hits;
		p->slice[i].run_ns += times * w->slice[i].run_ns;
	}
	unsigned at = p->windows < SAMPLER_WINDOWS ? (unsigned)p->windows : SAMPLER_WINDOWS - 1;
	p->window[at].hits += times * w->hits;
	p->window[at].run_ns += times * fmax(sampler_window_weight(w) - w->run_ns + run_ns, 0);
	p->windows++;
}

/*
 * The same sums as if each window stood for as much: what is drawn in windows, and how many ticks
 * met them, is told by as many of them as tell as much.
 */
static struct sampler_pace evened(const struct sampler_pace *p)
{
	struct sampler_pace to = *p;
	double *const sums[] = {
		&to.on_ns,         &to.hits,        &to.probes_ns, &to.run_ns,
		&to.own_ticks,     &to.probe_ticks, &to.called_ns, &to.sleeps,
		&to.pending,       &to.pending_ns,  &to.waited_ns, &to.unknown_ns,
		&to.called_run_ns, &to.covered_ns,  &to.ticked_ns, &to.known_called_ns,
		&to.known_run_ns,  &to.known_on_ns,
	};
	double even = p->times > 0 ? p->times_squares / p->times : 1;
	for (unsigned i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		*sums[i] /= even;
	to.windows = p->times / even;
	return to;
}

static double clamp(double value, double min, double max)
{
	return value < min ? min : value > max ? max : value;
}

/*
 * The share of a window's calls that was pending when it ended: of what comes from sleep to sleep
 * the half, and no more than comes in the time that it takes. 1: it was never done.
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

/*
 * What the probes took, by the clock and by what they cost elsewhere, each by what it is worth;
 * *@error in ns.
 */
static double probes_of(const struct sampler_pace *all, double *error)
{
	const struct sampler_clocked *p = &all->clocked;
	double elsewhere = p->probes_ns * (all->dearer > 0 ? all->dearer : 1);
	double to_all = p->probes_ns > 0 ? all->probes_ns / p->probes_ns : 1;
	double ticks = p->own_ticks + p->probe_ticks;
	*error = (all->dearer > 0 ? all->dearer_error : PRICE_ERROR) * elsewhere;
	/* callers without a clock are taken to be like those with one, and may be otherwise */
	double covered = p->called_run_ns > 0 ? fmin(p->covered_ns / p->called_run_ns, 1) : 0;
	if (ticks > 0 && p->ticked_ns > 0 && elsewhere > 0 && covered >= COVERED) {
		double prior = fmin(elsewhere * covered / p->ticked_ns, 1);
		double share = clamp((p->probe_ticks + PRIOR_TICKS * prior) / (ticks + PRIOR_TICKS),
				     0.01, 0.995);
		double told = p->ticked_ns * p->probe_ticks / ticks / covered;
		double drawn = p->ticked_ns * sqrt(share * (1 - share) / ticks) / covered;
		double uncovered = UNCOVERED * (1 - covered) * p->called_run_ns;
		double told_error = sqrt(drawn * drawn + uncovered * uncovered);
		told = fmin(told, p->called_run_ns);
		double weight = *error * *error / (*error * *error + told_error * told_error);
		*error = told_error * sqrt(weight);
		elsewhere += weight * (told - elsewhere);
	}
	*error *= to_all;
	return elsewhere * to_all;
}

void sampler_pace_begin(struct sampler_pace *p)
{
	struct sampler_pace all = evened(p);
	double unsure, probes_ns = probes_of(&all, &unsure);
	struct sampler_pace next = { .dearer = p->dearer, .dearer_error = p->dearer_error };
	if (probes_ns > 0 && all.probes_ns > 0) {
		next.dearer = probes_ns / all.probes_ns;
		next.dearer_error = unsure / probes_ns;
	}
	/* what a probe costs changes with who else wants the processors */
	if (next.dearer > 0 && next.dearer_error < DRIFT)
		next.dearer_error = DRIFT;
	*p = next;
}

/* What the sums tell of the time between windows, and of what is the processes' own in windows. */
struct told {
	/* of CPUs, without probes */
	double use;

	/* of the threads that call, as far as they are known: */

	/* in windows, and what probes took of that */
	double run_ns, hits, took_ns;
	/* what they would have run in the windows without probes */
	double whole_ns;
	double probes_ns;
	/* what they got done in windows, of what they would have without probes */
	double work, error;
	/* the same, did they nothing but call the fastest allocator */
	double fastest;
	double undone, held, waits;
};

/*
 * What is left beside the probes is the processes' own, and as slow as the probes make it: they
 * find less in the caches, and what they would have run is the less. By how much was measured on
 * few programs; so both ends of it are taken, and what is in the middle of their quotients. @waits:
 * for what part of their time others had the processors, and their caches. A loop
 * of malloc and free, 22 to 29 ns a pair, took 63 to 110 with a probe in it, the probe apart.
 * Return: ns; *@slower: how far its least is.
 */
static double own_of(double run_ns, double hits, double probes_ns, double waits, double *slower)
{
	double beside_ns = fmax(run_ns - probes_ns, hits * CALL_NS);
	double cold_ns = (COLD - COLD_ERROR) * probes_ns,
	       colder_ns = (COLD + COLD_ERROR + fmin(waits, CROWDED)) * probes_ns;
	double least_ns = fmax(fmax(beside_ns - colder_ns, (beside_ns - cold_ns) / SLOWER),
			       fmax(beside_ns / SLOWEST, hits * CALL_NS / SLOWER));
	double most_ns = fmax(beside_ns - cold_ns, beside_ns / sqrt(SLOWER));
	double work_ns = least_ns > 0 ? 2 / (1 / least_ns + 1 / most_ns) : 0;
	*slower = work_ns - least_ns;
	return work_ns;
}

/* A part of a figure that is unsure, as a part of its quotient: the far side is the longer one. */
static double of_quotient(double part)
{
	return part < QUOTIENT_MAX ? part / (1 - part) : QUOTIENT_MAX / (1 - QUOTIENT_MAX);
}

/*
 * What some threads got done in windows, of what they would have; *@error: of that, in parts. Calls
 * go with the quotient, in which what the clock tells and how much slower they were are apart.
 */
static double work_of(const struct told *t, double unsure_ns, double *error)
{
	double slower, work_ns = own_of(t->run_ns, t->hits, t->took_ns, t->waits, &slower);
	double unsure = unsure_ns / fmax(t->run_ns - t->took_ns, t->hits * CALL_NS);
	double both = hypot(of_quotient(unsure), work_ns > 0 ? of_quotient(slower / work_ns) : 0);
	*error = work_ns * both / (1 + both) / t->whole_ns;
	return work_ns / t->whole_ns;
}

/*
 * Calls are for the work of the threads that make them. Those that called in the last window are
 * known, and what they run between windows is; if they are most of those that call now, they stand
 * for all. Else others are either held up with them or work on as if nothing were: what is told is
 * in the middle, and reaches to both.
 */
static void tell_work(const struct sampler_pace *p, struct told *t)
{
	double unsure, probes_ns = probes_of(p, &unsure);
	/*
	 * where processors are short a probe costs more than elsewhere, if no clock has told how
	 * much
	 */
	if (p->own_ticks + p->probe_ticks <= 0)
		unsure += t->waits * probes_ns;
	t->probes_ns = t->took_ns = probes_ns;
	t->run_ns = p->run_ns;
	t->hits = p->hits;
	t->work = work_of(t, unsure, &t->error);
	if (p->called_run_ns > 0) {
		struct told callers = *t;
		double same = fmin(p->known_called_ns / p->called_run_ns, 1);
		int is_known = same >= SAME && p->known_off_ns > 0 && p->known_gap_ns > 0;
		double others_ns = fmax(p->run_ns - p->called_run_ns, 0);
		callers.run_ns = p->called_run_ns;
		callers.whole_ns = fmax(t->whole_ns - others_ns, t->whole_ns / 100);
		if (is_known) {
			callers.run_ns = p->known_run_ns;
			callers.hits = same * p->hits;
			callers.took_ns = fmin(same * probes_ns, callers.run_ns);
			callers.whole_ns = p->known_off_ns / p->known_gap_ns * p->known_on_ns;
			unsure *= same;
		}
		callers.work = work_of(&callers, unsure, &callers.error);
		double all = fmin(t->work, 1), theirs = fmin(callers.work, 1);
		double apart = theirs > 0 ? (all - theirs) / (all + theirs) : 0;
		if (is_known) {
			apart *= 1 - same;
			callers.work = theirs;
		} else {
			callers.work = theirs * (1 + apart); /* the middle of their quotients */
		}
		callers.error += fabs(apart) * callers.work;
		*t = callers;
	}
	if (p->unknown_ns > 0)
		t->error += CLOCK_TICK_NS * sqrt(p->windows) / 3.5 / t->whole_ns;
	t->fastest = t->hits * CALL_NS / t->whole_ns;
}

/*
 * A process that calls often for a while and seldom for a while is held up in the one and not in
 * the other. Where its work says how long each lasts, calls by work are what they were; where the
 * clock does, it would have called the more in the while in which it calls often. @all: the whiles.
 * Return: how many times as many calls as by its work it makes in the latter case; *@unsure: by how
 * much more these are wrong if all are as slow as they may be, as a part.
 */
static double by_clock(const struct sampler_pace *p, const struct told *t,
		       const struct sampler_slice *all, unsigned count, double *unsure)
{
	double run_ns = 0, hits = 0, calls = 0, most = 0, slower, pooled;
	double work_ns = own_of(t->run_ns, t->hits, t->took_ns, t->waits, &pooled);
	double price_ns = t->probes_ns / p->hits;
	/* the part of what was held up that was not made good */
	double part = t->run_ns > work_ns
			      ? clamp((t->whole_ns - work_ns) / (t->run_ns - work_ns), 0, 1)
			      : 0;
	for (unsigned i = 0; i < count; i++) {
		const struct sampler_slice *s = &all[i];
		if (s->run_ns <= 0 || s->hits <= 0)
			continue;
		double least_ns = s->run_ns * fmin(work_ns / t->run_ns, LEAST_OWN);
		double own_ns = own_of(s->run_ns, s->hits, s->hits * price_ns, t->waits, &slower);
		own_ns = fmax(own_ns, least_ns);
		calls += s->hits * (1 + part * (s->run_ns - own_ns) / own_ns);
		most += s->hits * of_quotient(slower / own_ns);
		hits += s->hits;
	}
	for (unsigned i = 0; i < count; i++)
		run_ns += all[i].run_ns;
	*unsure = 0;
	if (hits <= 0 || run_ns <= 0)
		return 1;
	*unsure = fmax(most / hits - of_quotient(pooled / work_ns), 0);
	return fmax(calls / hits / (1 + part * (t->run_ns - work_ns) / work_ns), 1);
}

static struct sampler_paced by_work(const struct sampler_pace *p, const struct told *t)
{
	struct sampler_paced to = { .pace = clamp(t->work, fmin(t->fastest, 1), 1),
				    .by_work = t->work < 1 };
	if (t->error < KNOWN * t->work) { /* of the quotient, whose far side is the longer one */
		to.error = t->error / (t->work - t->error);
		return to;
	}
	/*
	 * at least so many: as few as its work allows, and up to what the fastest allocator would
	 * answer in its time
	 */
	to.pace = clamp(t->work + 2 * t->error, PACE_MIN, 1);
	to.by_work = to.pace < 1;
	to.error = to.pace > t->fastest ? to.pace / t->fastest - 1 : 0;
	to.is_starved = p->run_ns < 0.6 * p->on_ns * ceil(t->use);
	return to;
}

/*
 * Of threads that are done now and then while a window is open, with what their work tells beside.
 */
static struct sampler_paced by_sleep(const struct sampler_pace *p, const struct told *t)
{
	struct sampler_paced to = { .pace = 1, .is_starved = t->waits > PENDING_MAX / 2 };
	/*
	 * a chain of answers is held up by all of the probes' time that is one thread's, and by
	 * what others ran because of that
	 */
	double threads_ns = p->called_ns > p->on_ns ? p->called_ns : p->on_ns;
	double held_ns = (1 + 2 * FIRM) * t->probes_ns + p->waited_ns + p->pending_ns;
	double open = 1 - t->undone, chain = clamp(1 - held_ns / threads_ns, PACE_MIN, open);
	/* errors are those of the quotient, which the slower pace moves further */
	double spread = (1 / chain - 1) / 2;
	double variance = spread * spread + t->undone * t->undone;
	double weight = variance / (variance + t->error * t->error);
	if (variance > 0) {
		double between = open + weight * (t->work - open);
		to.pace = clamp(between, chain, 1);
		to.by_work = to.pace == between ? fmin(weight * t->work / between, 1) : 0;
		to.error = sqrt(variance * (1 - weight * weight)) / to.pace;
	}
	/*
	 * What probes take of one that sleeps when it is done comes on top of what it runs
	 * else. One that works until the clock says so, and sleeps then, runs no longer: calls
	 * may be as many as its work tells.
	 */
	double due = t->took_ns - (1 - chain) * t->whole_ns;
	if (due > 0 && t->work > 0) {
		double on_top = (t->run_ns - t->whole_ns) / due;
		double refuted = clamp(1.5 - 2 * on_top, 0, 1);
		double apart = fmax(to.pace / fmax(t->work, PACE_MIN) - 1, 0);
		to.error = hypot(to.error, refuted * apart);
	}
	return to;
}

struct sampler_paced sampler_paced(const struct sampler_pace *pace)
{
	const struct sampler_pace all = evened(pace), *p = &all;
	struct sampler_paced to = { .pace = 1 };
	struct told t = { .use = p->off_ns > 0 ? p->off_run_ns / p->off_ns : 0 };
	t.whole_ns = t.use * p->on_ns;
	if (p->hits >= 1 && t.whole_ns > 0) {
		t.undone = pending_of(p, t.use);
		/*
		 * what waits for a processor is behind, however much it catches up with in the end
		 */
		t.held = p->called_ns > 0 ? (p->pending_ns + p->waited_ns) / p->called_ns : 0;
		t.waits = t.held > 0 ? clamp(t.held - p->run_ns / p->called_ns, 0, 1) : 0;
		tell_work(p, &t);
		to = by_work(p, &t);
		if (t.undone <= PENDING_MAX && t.held <= PENDING_MAX) {
			struct sampler_paced other = by_sleep(p, &t);
			to = other.error < to.error ? other : to;
		}
		/*
		 * windows are far apart and what they cost is rare: of whiles that are longer than
		 * they the clock tells how long these last. Of pieces of windows that is not known:
		 * between both, and as wide.
		 */
		double unsure, slower;
		double least = by_clock(p, &t, p->window, SAMPLER_WINDOWS, &slower);
		double most = fmax(by_clock(p, &t, p->slice, SAMPLER_SLICES, &unsure), least);
		to.pace /= (least + most) / 2;
		to.error += (most - least) / (most + least) + to.by_work * slower;
		to.is_starved &= to.error > KNOWN;
	}
	double unsure, probes_ns = probes_of(p, &unsure);
	to.dearer = p->probes_ns > 0 ? probes_ns / p->probes_ns : p->dearer > 0 ? p->dearer : 1;
	return to;
}

double sampler_pace_missed(const struct sampler_pace *p, double span_ns, double past_ns,
			   double past_run_ns)
{
	double by_time = past_ns > 0 ? span_ns / past_ns : 0;
	double by_run = past_run_ns > 0 && p->off_ns > 0 ? p->off_run_ns / past_run_ns : by_time;
	return fmin(by_time, by_run);
}

double sampler_pace_heard(const struct sampler_pace *p)
{
	double off = p->off_ns > 0 ? p->off_run_ns / p->off_ns : 0;
	double on = p->on_ns > 0 ? p->run_ns / p->on_ns : 0;
	return off > 0 ? fmin(on / off, 1) : 1;
}

struct sampler_paced sampler_paced_in(const struct sampler_window *w, double dearer)
{
	struct sampler_paced to = { .pace = 1, .dearer = dearer };
	double probes_ns = w->hits * w->price_ns * dearer, slower;
	double run_ns = fmax(w->run_ns, w->hits * CALL_NS);
	if (w->hits < 1)
		return to;
	double least_ns = own_of(run_ns, w->hits, fmin(probes_ns, run_ns), 0, &slower) - slower;
	double most = run_ns / least_ns; /* as many calls as were seen */
	to.pace = 2 / (1 + most);
	to.error = (most - 1) / (most + 1);
	return to;
}
