/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_govern.c - what the probes cost, and what is done when that is more than it may be. */
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/intern.h"
#include "source/sampler_book.h"

_Static_assert(SAMPLER_SLICES == WIRE_SAMPLE_SLICES, "one list of pieces");

#define LOOK_NS NS_PER_S       /* where nothing is left out */
#define GLANCE_NS 250000000ull /* while probes stay in */
#define STATS_FIRST_NS 300000000ull
#define MEAN_GUESS 200     /* bytes of a call, before any is known */
#define SAMPLES_SHARE 0.05 /* of the calls, where less would be asked for */
#define SAME_BYTES 1.2     /* the chances are not changed for less */
#define FIRST_NS 5e6
#define GIVEN_NS 2e7
#define SURE_NS 100000000ull
#define WATCH_NS 2e6 /* that what is left of the purse lasts where calls become many */
#define WINDOW_MIN_NS 1e6
#define WINDOW_MAX_NS 5e8
#define PRICE_GUESS_NS 300 /* of our own programs, until it is measured */
#define TICKS_SHARE 0.15 /* of what a window may cost: for the clock that tells what probes cost */
#define TICK_MIN_NS 5e4
#define TICKED_NS 5e7  /* as if no window were longer: the first is as long as the purse lasts */
#define SHARED_MAX 40  /* windows that share a scale */
#define LATE 0.93      /* of the sums by which windows are planned, from one to the next */
#define CUT_MAX 4      /* times as long as it was a window stands to have been planned at most */
#define DEARER_MIN 0.5 /* than elsewhere, as that clock tells */
#define DEARER_MAX 6
#define SHORTEST_NS 2e6 /* of windows in which the processes starve */
#define HELD_UP 0.5     /* of what callers run, for probes; and of their time, behind others */

static int is_kept(const struct sampler_governor *g)
{
	return g->budget > 0 && !g->only_measure;
}

static int begin_window(struct sampler_governor *g, uint64_t now_ns, struct err *err);

int sampler_governor_init(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	g->samples->duty = 1;
	g->on = 1;
	g->since_ns = g->epoch_ns = g->looked_ns = g->began_ns = now_ns;
	g->until_ns = now_ns + LOOK_NS;
	g->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	g->stats_until_ns = now_ns + STATS_FIRST_NS;
	g->random = hash_seed() | 1;
	g->run_ns = PRICE_GUESS_NS;
	sampler_purse_begin(&g->purse, g->budget, g->is_started && g->given_ns <= 0, now_ns);
	sampler_purse_give(&g->purse, g->given_ns);
	g->longest_ns = WINDOW_MAX_NS;
	g->dearer = 1;
	int rc = is_kept(g) ? begin_window(g, now_ns, err) : 0;
	if (g->is_started) /* it is held until then, or has not got far */
		g->began_ns = g->epoch_ns = g->since_ns;
	return rc;
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

/*
 * For how long the window that is open was to be, whatever it met; one that is cut shorter than
 * that by far is met by a program that called little when it was planned.
 */
static double plan_of(const struct sampler_governor *g, uint64_t now_ns)
{
	if (now_ns <= g->since_ns)
		return 0;
	double on_ns = (double)(now_ns - g->since_ns);
	double plan_ns = g->cut_ns > g->since_ns ? (double)(g->cut_ns - g->since_ns) : 0;
	return fmax(on_ns, fmin(plan_ns, CUT_MAX * on_ns));
}

/*
 * Of the gap before a window of @on_ns: what is not its own to tell, as both its ends tell of it.
 */
static double first_half(const struct sampler_governor *g, uint64_t now_ns, double on_ns)
{
	double gap_ns = (double)(now_ns - g->epoch_ns) - on_ns;
	return g->onset.on_ns > 0 && gap_ns > 0 ? gap_ns / 2 : 0;
}

/*
 * What a window sees stands for the time since the one before, as if it had been open for as long
 * as it was to be. What all of this epoch's see stands for more by what they were cut short, each
 * for its part of the time, and by the pace that they have then.
 */
static void set_scale(struct sampler_governor *g, uint64_t now_ns)
{
	struct samples *s = g->samples;
	double plan_ns = g->on && g->had_gap ? plan_of(g, now_ns) : 0;
	double open_ns = plan_ns > 0 ? (double)(now_ns - g->since_ns) : 0;
	double since_ns = plan_ns > 0 ? (double)(now_ns - g->epoch_ns) : 0;
	s->times = plan_ns > 0 ? since_ns / plan_ns : 1;
	double on_ns = g->epoch_on_ns + open_ns, span_ns = g->span_ns + since_ns;
	double seen_ns = g->seen_ns + open_ns * s->times;
	s->scale = s->mean = 1;
	s->scale_error = s->missed = 0;
	if (on_ns <= 0)
		return;
	struct sampler_paced paced = g->stays ? g->stay : sampler_paced(&g->pace);
	s->scale_error = paced.error;
	s->by_work = paced.by_work;
	if (span_ns > 0 && seen_ns > 0) {
		s->mean = seen_ns / on_ns;
		s->scale = span_ns / seen_ns / paced.pace;
	}
	double past_ns = (double)(now_ns - g->began_ns) - span_ns;
	s->before = past_ns > on_ns ? on_ns / past_ns : 0;
	s->missed = g->held * sampler_pace_missed(&g->pace, span_ns, past_ns, g->past_run_ns);
	s->heard = sampler_pace_heard(&g->pace);
	/* probes that stayed in held nobody up but at the last, when they had to go */
	if (g->stays && !g->had_gap && g->epoch_hits > 0) {
		double held = g->window.hits / g->epoch_hits;
		s->scale = 1 + held * (1 / paced.pace - 1);
		s->scale_error = paced.error * held / paced.pace / s->scale;
	}
	if (s->scale < 1)
		s->scale = 1;
}

/*
 * One sample for so many bytes: as asked for, or, where that is more, as many of the calls as cost
 * little beside their probes. A window stands for much; and where calls are few enough for probes
 * to stay in, what is asked for may take one of hundreds, which is too few of them to count by.
 */
static int set_bytes(struct sampler_governor *g, struct err *err)
{
	struct samples *s = g->samples;
	double bytes = 0, count = 0, every = (double)g->sample_bytes;
	if (g->sample_bytes <= 1 || s->sample_every || g->of_hook)
		return 0;
	for (size_t i = 0; i < s->row_count; i++) {
		bytes += s->rows[i].now.bytes;
		count += s->rows[i].now.count;
	}
	double share = (count > 0 ? bytes / count : MEAN_GUESS) / SAMPLES_SHARE;
	if (share < every)
		every = share;
	if (every < 2)
		every = 2;
	if (every < g->every * SAME_BYTES && every * SAME_BYTES > g->every)
		return 0;
	g->every = every;
	return sampler_set_bytes(g->sampler, (uint64_t)every, err);
}

/* What ran until now; and how many times as often it called as was told, where nothing tells. */
static void note_past(struct sampler_governor *g)
{
	struct sampler_paced in = sampler_paced_in(&g->window, g->dearer);
	g->past_run_ns = (double)g->cpu_ns(g->cpu_ctx);
	if (g->epoch_hits > 0 || g->held <= 0)
		g->held = g->had_gap || g->stays ? 1 : (1 + in.error) / in.pace;
}

/* What was seen until now keeps its scale; windows from here on have another one. */
static int settle(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	set_scale(g, now_ns);
	int rc = sampler_read(g->sampler, g->samples, err);
	if (rc == 0)
		rc = samples_epoch(g->samples, err);
	note_past(g);
	if (!g->stays)
		sampler_pace_begin(&g->pace);
	g->samples->missed = 0;
	g->samples->scale = g->samples->times = g->samples->mean = 1;
	g->epoch_on_ns = g->epoch_hits = g->span_ns = g->seen_ns = 0;
	return rc;
}

/* The same, and the next epoch begins without a gap. */
static int end_epoch(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = settle(g, now_ns, err);
	g->epoch_ns = now_ns;
	g->had_gap = 0;
	return rc;
}

/*
 * Probes that stay go when calls become many: a gap that follows began when it did because of them,
 * unlike all others. Of @gap_ns of it that beginning tells, as a window does.
 */
static int tell_onset(struct sampler_governor *g, double gap_ns, struct err *err)
{
	double times = gap_ns / g->onset.on_ns;
	int rc = samples_again(g->samples, times * g->onset_part, times * g->onset.run_ns, gap_ns,
			       err);
	g->onset.times = times;
	sampler_pace_add(&g->pace, &g->onset);
	g->span_ns += gap_ns;
	g->seen_ns += gap_ns;
	g->epoch_on_ns += g->onset.on_ns;
	g->onset.on_ns = 0;
	return rc;
}

/*
 * A window ends that stands for the gap before it. Many share a scale: what each tells of the
 * processes' pace is little. They weigh by how long they were, and how long the threads ran that
 * call.
 */
static int close_window(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = sampler_read(g->sampler, g->samples, err);
	if (rc < 0)
		return rc;
	const struct sampler_window *w = &g->window;
	double span_ns = (double)(now_ns - g->epoch_ns);
	if (g->onset.on_ns > 0) {
		double half_ns = first_half(g, now_ns, w->on_ns);
		rc = tell_onset(g, half_ns, err);
		span_ns -= half_ns;
	}
	if (rc < 0)
		return rc;
	g->samples->times = w->times;
	rc = samples_window(g->samples, sampler_window_weight(w), w->on_ns, err);
	if (rc < 0)
		return rc;
	g->span_ns += span_ns;
	g->seen_ns += w->on_ns * g->samples->times;
	g->epoch_ns = now_ns;
	g->told_gaps++;
	return g->samples->windows >= SHARED_MAX ? settle(g, now_ns, err) : 0;
}

/* Calls since the last look, what share of a CPU they took, and what the purse holds. */
static int look(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	double all = sampler_governor_hits(g, &g->price_ns, err);
	if (all < 0)
		return err->code;
	double span = now_ns > g->looked_ns ? (double)(now_ns - g->looked_ns) : 1;
	double cost = (all - g->hits) * g->price_ns + g->ticks * g->tick_ns;
	g->ticked_ns += g->ticks * g->tick_ns;
	g->ticks = 0;
	g->fraction = cost / span;
	sampler_purse_turn(&g->purse, now_ns, cost);
	if (-g->purse.ns > g->samples->overdrawn_ns)
		g->samples->overdrawn_ns = -g->purse.ns;
	g->hits = all;
	g->looked_ns = now_ns;
	return 0;
}

/* The kernel wakes us when the purse is spent, however soon that is. */
static int set_quota(struct sampler_governor *g, struct err *err)
{
	/* before probes that stay have to go there is a look at what comes then */
	double cpus = fmax((double)sysconf(_SC_NPROCESSORS_ONLN), g->lasting ? 2 : 1);
	double may = g->purse.ns - g->floor_ns + sampler_governor_left(g) / 2;
	double calls = g->price_ns > 0 ? may / g->price_ns / (cpus > 1 ? cpus : 1) : 0;
	sampler_woken(g->sampler);
	return sampler_quota(g->sampler, calls > 1 ? (uint64_t)calls : 1, err);
}

/* What probes took of a CPU while they were in, in windows of late. */
static double probes_rate(const struct sampler_governor *g)
{
	return g->late_on_ns > 0 ? g->dearer * g->late_probes_ns / g->late_on_ns : 0;
}

/* The clock's ticks may cost a share of what a window may. */
static uint64_t tick_period(const struct sampler_governor *g, double length_ns)
{
	const struct sampler_pace *p = &g->pace;
	double run_ns =
		p->on_ns > 0 && p->ticked_ns > 0 ? length_ns * p->ticked_ns / p->on_ns : length_ns;
	double ticks = g->tick_ns > 0 ? TICKS_SHARE * sampler_governor_planned(g) / g->tick_ns : 1;
	double period_ns = ticks > 0 ? run_ns / ticks : run_ns;
	if (period_ns < 8 * g->tick_ns)
		period_ns = 8 * g->tick_ns;
	return (uint64_t)(period_ns < TICK_MIN_NS ? TICK_MIN_NS : period_ns);
}

/* How long the next window may be, by what calls cost when the probes were last in. */
static double planned_ns(const struct sampler_governor *g)
{
	double plan = sampler_governor_planned(g) - g->edge_ns;
	if (!g->on_ns)
		return g->given_ns > 0 ? GIVEN_NS
		       : g->is_started ? WINDOW_MAX_NS
				       : fmin(plan, FIRST_NS);
	/*
	 * by the most that windows of late saw: one that calls for a while and not for a while
	 * would be looked at for long in the latter and briefly in the former, as its window ends
	 * when that has cost what it may; and be told to call less than it does
	 */
	double rate = g->dearer * g->late_most;
	double length = rate > 0 ? plan / rate : WINDOW_MAX_NS;
	return length < WINDOW_MIN_NS   ? WINDOW_MIN_NS
	       : length > g->longest_ns ? g->longest_ns
					: length;
}

/* What is known of a gap is for both its ends; those who called when it began are known in it. */
static void share_gap(struct sampler_window *onset, struct sampler_window *w)
{
	onset->off_ns = w->off_ns /= 2;
	onset->off_run_ns = w->off_run_ns /= 2;
	onset->known_off_ns = w->known_off_ns /= 2;
	onset->knows_callers = w->knows_callers;
	onset->known_called_ns = onset->known_run_ns = onset->called_run_ns;
}

static int begin_window(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	double length = planned_ns(g);
	g->window = (struct sampler_window){ 0 };
	g->is_told = 0;
	if (g->had_gap && now_ns > g->gap_ns) {
		g->window.off_ns = (double)(now_ns - g->gap_ns);
		g->window.off_run_ns = (double)g->cpu_ns(g->cpu_ctx) - g->gap_cpu_ns;
		g->window.known_off_ns = sampler_callers_used(g->sampler);
		g->window.knows_callers = g->window.known_off_ns >= 0;
		if (g->onset.on_ns > 0)
			share_gap(&g->onset, &g->window);
	}
	int rc = set_bytes(g, err);
	double before = g->hits;
	if (!rc && g->lasting && g->samples->windows > 0)
		rc = settle(g, now_ns, err);
	g->stays = g->lasting;
	g->stay = (struct sampler_paced){ .pace = 1 };
	if (!rc && !g->lasting && g->tick_ns > 0)
		sampler_ticks_begin(g->sampler, tick_period(g, fmin(length, TICKED_NS)));
	if (!rc)
		rc = sampler_resume(g->sampler, g->lasting, err);
	/* putting probes in takes its time; all are in from here on */
	if (!g->lasting)
		g->window.sleeps_known = sampler_activity_begin(g->sampler) == 0;
	else
		sampler_activity_end(g->sampler);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (!rc)
		rc = look(g, now_ns, err);
	g->floor_ns = sampler_governor_floor(g);
	if (!rc)
		rc = set_quota(g, err);
	if (rc < 0)
		return rc;
	g->entry_ns = (g->hits - before) * g->price_ns;
	sampler_switch(g->sampler, 1);
	g->window_hits = g->hits;
	g->window_cpu_ns = (double)g->cpu_ns(g->cpu_ctx);
	g->on = 1;
	g->since_ns = now_ns;
	g->cut_ns = g->until_ns = now_ns + (uint64_t)length;
	return 0;
}

/* Count the window that ends, or goes on, into its epoch. */
static void note_window(struct sampler_governor *g, uint64_t now_ns)
{
	double cpu = (double)g->cpu_ns(g->cpu_ctx), hits = g->hits - g->window_hits;
	double length = now_ns > g->since_ns ? (double)(now_ns - g->since_ns) : 0;
	g->window.on_ns = length;
	g->window.plan_ns = plan_of(g, now_ns);
	double since_ns = (double)(now_ns - g->epoch_ns) - first_half(g, now_ns, length);
	g->window.times = g->had_gap && g->window.plan_ns > 0 ? since_ns / g->window.plan_ns : 1;
	g->window.hits = hits;
	g->window.price_ns = g->elsewhere_ns;
	if (!g->window.sleeps_known)
		g->window.run_ns = cpu - g->window_cpu_ns;
	g->windows_cpu_ns += cpu - g->window_cpu_ns;
	g->on_ns += now_ns - g->since_ns;
	g->epoch_on_ns += length;
	g->epoch_hits += hits;
	g->since_ns = now_ns;
	g->window_hits = g->hits;
	g->window_cpu_ns = cpu;
}

/*
 * Where the processes are never done while a window is open, for want of processors, the next one
 * is shorter: they begin it with nothing pending, and the less they have fallen behind the more it
 * tells.
 */
static void pace_window(struct sampler_governor *g)
{
	struct sampler_activity did;
	if (g->is_told)
		return;
	g->is_told = 1;
	if (g->window.sleeps_known && sampler_activity_take(g->sampler, &did) == 0) {
		g->window.run_ns = did.run_ns;
		g->window.callers = did.callers;
		g->window.ended_ns = did.ended_ns;
		g->window.sleeps = did.sleeps;
		g->window.pending_ns = did.pending_ns;
		g->window.waited_ns = did.waited_ns;
		g->window.pending = did.pending;
		g->window.own_ticks = did.own_ticks;
		g->window.probe_ticks = did.probe_ticks;
		g->window.tick_ns = g->tick_ns;
		g->window.called_run_ns = did.called_run_ns;
		g->window.covered_ns = did.covered_ns;
		g->window.known_called_ns = did.known_called_ns;
		g->window.ticked_ns = did.ticked_ns;
		g->window.known_run_ns = did.known_run_ns;
		for (unsigned i = 0; i < SAMPLER_SLICES; i++)
			g->window.slice[i] =
				(struct sampler_slice){ did.slice[i].hits, did.slice[i].run_ns };
		g->ticks = did.own_ticks + did.probe_ticks;
	} else {
		g->window.sleeps_known = 0;
	}
}

/* What probes took, by which windows are planned; calls that became many are kept in mind, too. */
static void remember(struct sampler_governor *g, const struct sampler_window *w)
{
	double probes_ns = w->hits * w->price_ns, rate = w->on_ns > 0 ? probes_ns / w->on_ns : 0;
	g->late_on_ns = g->late_on_ns * LATE + w->on_ns;
	g->late_probes_ns = g->late_probes_ns * LATE + probes_ns;
	g->late_most = rate > g->late_most * LATE ? rate : g->late_most * LATE;
}

static void adapt_length(struct sampler_governor *g)
{
	/* probes that stay in hold nobody up, unless they have to go because of that */
	g->stay = (struct sampler_paced){ .pace = 1 };
	if (g->stays && !g->lasting) {
		g->stay = sampler_paced_in(&g->window, g->dearer);
		if (g->watches && g->window.on_ns > 0 && g->window.hits > 0) {
			g->onset = g->window;
			remember(g, &g->onset);
		}
		g->watches = 0;
	}
	if (g->stays)
		return;
	sampler_pace_add(&g->pace, &g->window);
	remember(g, &g->window);
	double length = g->window.on_ns < g->longest_ns ? g->window.on_ns : g->longest_ns;
	struct sampler_paced paced = sampler_paced(&g->pace);
	g->dearer = paced.dearer < DEARER_MIN   ? DEARER_MIN
		    : paced.dearer > DEARER_MAX ? DEARER_MAX
						: paced.dearer;
	if (!paced.is_starved)
		g->longest_ns *= 1.5;
	else if (g->window.hits > 0)
		g->longest_ns = length / 2;
	if (g->longest_ns < SHORTEST_NS)
		g->longest_ns = SHORTEST_NS;
	if (g->longest_ns > WINDOW_MAX_NS)
		g->longest_ns = WINDOW_MAX_NS;
}

static int end_window(struct sampler_governor *g, struct err *err)
{
	sampler_switch(g->sampler, 0);
	sampler_quota(g->sampler, 0, err);
	pace_window(g);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int rc = look(g, now_ns, err);
	if (rc < 0)
		return rc;
	note_window(g, now_ns);
	adapt_length(g);
	g->on = 0;
	double before = g->hits;
	sampler_pause(g->sampler);
	g->samples->keeps_last = g->onset.on_ns > 0 && !g->had_gap;
	if (g->samples->keeps_last)
		g->onset_part = g->onset.hits / g->epoch_hits;
	rc = g->had_gap ? close_window(g, now_ns, err) : end_epoch(g, now_ns, err);
	g->samples->keeps_last = 0;
	/*
	 * until the last probe was out calls went on to cost, the more the more processes there
	 * are: that is waited for, too
	 */
	if (!rc)
		rc = look(g, clock_ns(CLOCK_MONOTONIC), err);
	if (rc < 0)
		return rc;
	g->edge_ns = (g->hits - before) * g->price_ns + g->entry_ns;
	g->had_gap = 1;
	g->gap_ns = clock_ns(CLOCK_MONOTONIC);
	g->gap_cpu_ns = (double)g->cpu_ns(g->cpu_ctx);
	sampler_callers_mark(g->sampler);
	/*
	 * when the purse has recovered, and some time more: nothing that comes in step is always or
	 * never seen
	 */
	double lacks = sampler_governor_planned(g) + sampler_governor_left(g) - g->purse.ns;
	/*
	 * nor is it looked at the more often while it calls little because that costs less: of one
	 * that works in phases the gaps that begin in a dear one would be long and end in a cheap
	 * one. All wait for what a window costs that meets a dear one.
	 */
	lacks = fmax(lacks, g->dearer * g->late_most * planned_ns(g));
	double wait = sampler_governor_wait(g, lacks);
	g->until_ns = g->gap_ns + (uint64_t)(wait * (1 + 0.5 * draw(g)));
	return rc;
}

/* A window whose probes stay in: what was seen in it is told as that of any other. */
static int keep_probes(struct sampler_governor *g, struct err *err)
{
	pace_window(g);
	sampler_activity_end(g->sampler);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int rc = look(g, now_ns, err);
	if (rc < 0)
		return rc;
	note_window(g, now_ns);
	adapt_length(g);
	if (g->had_gap)
		rc = close_window(g, now_ns, err);
	if (rc >= 0)
		rc = end_epoch(g, now_ns, err);
	if (rc < 0)
		return rc;
	g->stays = 1;
	g->is_told = 0;
	g->stay = (struct sampler_paced){ .pace = 1 };
	g->floor_ns = sampler_governor_floor(g);
	g->until_ns = now_ns + GLANCE_NS;
	return set_quota(g, err);
}

/* What probes took of the CPU time of the processes, of late in this window. */
static double probes_share(const struct sampler_governor *g)
{
	double ran_ns = (double)g->cpu_ns(g->cpu_ctx) - g->window_cpu_ns;
	double took_ns = (g->hits - g->window_hits) * g->price_ns;
	return took_ns > 0 ? took_ns / fmax(ran_ns, took_ns) : 0;
}

/*
 * Where others want the processors, what a process gets to run may all go into its probes: that
 * costs little, and it would have called many times as often without. Probes that stay would never
 * tell.
 */
static int are_held_up(struct sampler_governor *g)
{
	const struct sampler_window *w = &g->window;
	if (probes_share(g) < HELD_UP)
		return 0;
	pace_window(g);
	double called_ns =
		w->callers * (double)(clock_ns(CLOCK_MONOTONIC) - g->since_ns) + w->ended_ns;
	return !w->sleeps_known || w->pending_ns + w->waited_ns > HELD_UP * called_ns;
}

/*
 * Probes stay in, and half of what the purse held is spent: if they have to go because of that,
 * what comes until then is known as what a window sees.
 */
static void watch_onset(struct sampler_governor *g, uint64_t now_ns)
{
	if (g->watches || g->had_gap || g->purse.ns > g->floor_ns + sampler_purse_full(&g->purse))
		return;
	note_window(g, now_ns);
	g->window = (struct sampler_window){ 0 };
	if (g->tick_ns > 0)
		sampler_ticks_begin(g->sampler, tick_period(g, WATCH_NS));
	g->window.sleeps_known = sampler_activity_begin(g->sampler) == 0;
	g->is_told = 0;
	g->watches = 1;
}

/* The window that is open goes on, with chances for the sizes that it has seen. */
static int go_on_whole(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = sampler_read(g->sampler, g->samples, err);
	if (!rc)
		rc = set_bytes(g, err);
	g->cut_ns = g->until_ns = now_ns + (uint64_t)WINDOW_MAX_NS;
	return rc < 0 ? rc : set_quota(g, err);
}

/* Probes are in, and a window's time is over or its calls are. */
static int judge_window(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = look(g, now_ns, err);
	if (rc < 0)
		return rc;
	double span = (double)(now_ns - g->since_ns);
	double costs = (g->hits - g->window_hits) * g->price_ns / (span > 1 ? span : 1);
	int spent = g->purse.ns < g->floor_ns;
	double earned = sampler_purse_rate(&g->purse, now_ns);
	/* one in which nothing happened to happen tells nothing by itself */
	double before = probes_rate(g);
	int is_cheap = costs <= earned && before <= 2 * earned;
	if (!spent && now_ns < g->cut_ns) { /* woken early: some CPU's share was used up, not all */
		g->until_ns = g->cut_ns;
		return set_quota(g, err);
	}
	int is_first = sampler_governor_is_first(g);
	if (!spent && is_first && !g->lasting && !is_cheap)
		return go_on_whole(g, now_ns, err);
	/*
	 * before probes stay in for good they are watched for longer than a process may be waiting
	 * for a processor
	 */
	if (!spent && is_cheap && !g->lasting && span < SURE_NS) {
		g->cut_ns = g->until_ns = now_ns + SURE_NS / 2;
		return set_quota(g, err);
	}
	/* they had more time for themselves when probes were let stay: a window tells */
	int are_slow =
		g->lasting && !is_first && probes_share(g) > fmax(HELD_UP, 2 * g->kept_share);
	if (spent || are_slow || (!g->lasting && !is_first && (!is_cheap || are_held_up(g)))) {
		g->lasting = 0;
		return end_window(g, err);
	}
	if (!g->lasting) { /* cheap enough to stay, by links that forked children do not pay for */
		g->kept_share = probes_share(g);
		g->lasting = 1;
		if (sampler_keep(g->sampler) == 0)
			return keep_probes(g, err);
		return end_window(g, err);
	}
	if (now_ns < g->until_ns) {
		watch_onset(g, now_ns);
		return set_quota(g, err);
	}
	if (g->watches) /* it was no more than this */
		sampler_activity_end(g->sampler);
	g->watches = 0;
	note_window(g, now_ns);
	if (g->had_gap)
		rc = close_window(g, now_ns, err);
	if (rc >= 0 && g->epoch_hits > 0)
		rc = end_epoch(g, now_ns, err);
	g->until_ns = now_ns + GLANCE_NS;
	if (rc >= 0)
		rc = set_bytes(g, err);
	return rc < 0 ? rc : set_quota(g, err);
}

int sampler_govern(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int woken = sampler_woken(g->sampler), rc;
	sampler_governor_clock(g, now_ns);
	if (now_ns < g->until_ns && !(woken && g->on))
		return 0;
	if (!is_kept(g)) {
		g->until_ns = now_ns + LOOK_NS;
		return look(g, now_ns, err);
	}
	rc = g->on ? judge_window(g, now_ns, err) : look(g, now_ns, err);
	/* a window that ends where the purse is full begins again at once: links change */
	if (!rc && !g->on && clock_ns(CLOCK_MONOTONIC) >= g->until_ns)
		rc = begin_window(g, now_ns, err);
	sampler_governor_say(g, now_ns);
	return rc;
}

/* The time since the last window was like that before it, or as it began. */
static int go_on(struct sampler_governor *g, uint64_t now_ns, struct err *err)
{
	int rc = 0;
	g->unseen_ns = (double)(now_ns - g->epoch_ns);
	if (g->onset.on_ns > 0) {
		rc = tell_onset(g, g->unseen_ns, err);
		g->epoch_ns = now_ns;
	}
	if (!rc)
		rc = settle(g, now_ns, err);
	g->had_gap = 0;
	sampler_governor_rest(g, now_ns);
	g->epoch_ns = now_ns;
	return rc;
}

static int end_all(struct sampler_governor *g, int gone, uint64_t now_ns, struct err *err)
{
	int rc = 0;
	if (!is_kept(g))
		return 0;
	if (gone) {
		if (g->on) {
			pace_window(g);
			rc = look(g, now_ns, err);
		}
		if (!rc && g->on) {
			note_window(g, now_ns);
			adapt_length(g);
			rc = g->had_gap ? close_window(g, now_ns, err) : 0;
		}
		g->on = g->on && !g->had_gap;
		if (!rc && now_ns > g->epoch_ns && g->had_gap)
			rc = go_on(g, now_ns, err);
		else if (!rc)
			rc = settle(g, now_ns, err);
		sampler_governor_say(g, now_ns);
		return rc;
	}
	now_ns = clock_ns(CLOCK_MONOTONIC);
	rc = look(g, now_ns, err);
	if (rc < 0)
		return rc;
	if (!g->on && g->purse.ns < sampler_governor_left(g)) {
		/* there is nothing left to see it with */
		g->ran_dry = 1;
		rc = go_on(g, now_ns, err);
		sampler_governor_say(g, now_ns);
		return rc;
	}
	if (!g->on) {
		rc = begin_window(g, now_ns, err);
		while (!rc && !sampler_woken(g->sampler) &&
		       (now_ns = clock_ns(CLOCK_MONOTONIC)) < g->cut_ns)
			usleep(500);
	}
	if (!rc)
		rc = end_window(g, err);
	g->last_ns = g->epoch_ns;
	g->had_gap = 0;
	sampler_governor_say(g, now_ns);
	return rc;
}

int sampler_governor_end(struct sampler_governor *g, int gone, uint64_t now_ns, struct err *err)
{
	int rc = end_all(g, gone, now_ns, err);
	if (!rc)
		sampler_governor_doubt(g);
	return rc;
}

void sampler_governor_cost(struct sampler_governor *g, uint64_t now_ns)
{
	struct samples *s = g->samples;
	struct sampler_cost cost;
	struct err err = { 0 };
	double seconds = (double)(now_ns - s->start_ns) / 1e9, price = 0;
	double hits = sampler_governor_hits(g, &price, &err);
	if (is_kept(g))
		set_scale(g, now_ns);
	if (sampler_cost(g->sampler, &cost, &err) == 0)
		s->kernel_bytes = cost.kernel_bytes;
	if (hits < 0 || seconds <= 0)
		return;
	s->hits = (uint64_t)hits;
	s->hits_per_second = hits / seconds;
	s->ns_per_hit = price;
	s->cpu_fraction = (hits * price + g->ticked_ns) / 1e9 / seconds;
}
