/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_pace.h - how many of its calls a process gets to make while probes hold it up, of those
 * that it would make without. Pure.
 *
 * A probe costs fifty times what a call does, so a window sees a process that is slower than it is
 * else; how much slower depends on what it waits for, which nobody tells. What is known bounds it:
 *
 *   - its own work. CPU time beside the probes, per time, beside the same outside of windows:
 *     right whatever it waits for, if it is that of the threads that call: others work on. How much
 *     of it the probes take a clock tells, whose ticks meet the processes there or not; before it
 *     has ticked often enough, what a probe cost on a function of ours, which is known to be wrong
 *     by the half of it where processors are short.
 *   - its sleep. A thread that sleeps of its own will has done what there was to do. If that
 *     comes at an even pace, all that a window
 *     misses is what was pending when it ended; if it comes as answers to what the thread does, up
 *     to all of the probes' time.
 *   - the fastest that any allocator answers.
 */
#ifndef SOURCE_SAMPLER_PACE_H
#define SOURCE_SAMPLER_PACE_H

/** struct sampler_slice - pieces of time in which the processes call about as often. */
struct sampler_slice {
	double hits, run_ns;
};
#define SAMPLER_SLICES 16
#define SAMPLER_WINDOWS 48 /* whose calls are known one by one; of more, those are together */

/**
 * struct sampler_window - one window, and the time without probes before it. Where nothing is known
 * of sleep, sleeps_known is 0.
 */
struct sampler_window {
	double on_ns, hits, price_ns;
	/* for how long it was to be open, and how many times as much it stands for; 0: once */
	double plan_ns, times;
	/* CPU time of the processes in it, probes included */
	double run_ns;
	/* as struct sampler_activity */
	double callers, ended_ns, sleeps, pending, pending_ns, waited_ns;
	int sleeps_known;
	/* of the clock that looked where they were, and what one of its ticks takes */
	double own_ticks, probe_ticks, tick_ns;
	/* as struct sampler_activity; 0: nobody told */
	double called_run_ns, covered_ns, known_called_ns, ticked_ns, known_run_ns;
	double off_ns, off_run_ns;
	int knows_callers;
	/* CPU time between windows of threads that called in the last one */
	double known_off_ns;
	struct sampler_slice slice[SAMPLER_SLICES];
};

/**
 * struct sampler_pace - sums over windows, each for what it stands for, as its calls are: one in
 * which the processes did not get to run is one without calls and without work, and where it stands
 * for long both count. All zero: no window yet.
 */
struct sampler_pace {
	double on_ns, hits, probes_ns, run_ns, called_ns, sleeps, pending, pending_ns, waited_ns,
		unknown_ns;
	double off_ns, off_run_ns, windows, own_ticks, probe_ticks;
	double times, times_squares;
	double called_run_ns, covered_ns, known_called_ns, ticked_ns, known_run_ns;
	double known_on_ns, known_gap_ns, known_off_ns;
	struct sampler_slice slice[SAMPLER_SLICES];
	/* each window once: what a probe costs does not go with how long that stands for */
	struct sampler_clocked {
		double probes_ns, own_ticks, probe_ticks, called_run_ns, covered_ns, ticked_ns;
	} clocked;
	/* each window's, by its weight; unlike pieces they are far apart */
	struct sampler_slice window[SAMPLER_WINDOWS];
	/* than elsewhere a probe was, by sums before; 0: nothing is known */
	double dearer, dearer_error;
};
/** sampler_pace_begin() - new sums, which know of those before what a probe cost. */
void sampler_pace_begin(struct sampler_pace *pace);
void sampler_pace_add(struct sampler_pace *pace, const struct sampler_window *window);
/**
 * sampler_window_weight() - what calls in a window go with, as far as work tells them: how long the
 * threads ran that call.
 */
double sampler_window_weight(const struct sampler_window *window);

/**
 * struct sampler_paced - what is seen in windows is to be divided by @pace; @error: of the
 * quotient, relative, a standard error.
 */
struct sampler_paced {
	double pace, error;
	/*
	 * How far @pace goes with the work in windows: 1 as that does, so that a window without any
	 * is none; 0 not at all, as sleep tells it, and such a window is one without calls.
	 */
	double by_work;
	/* how many times as much as elsewhere a probe costs there */
	double dearer;
	/* it was never done while a window was open, and not for want of processors of its own */
	int is_starved;
};
struct sampler_paced sampler_paced(const struct sampler_pace *pace);
/**
 * sampler_pace_missed() - of windows that met no call in @span_ns: how many times as many as in
 * @past_ns before there may have been, of processes that ran for @past_run_ns then (0: who knows).
 * None is made by one that does not run.
 */
double sampler_pace_missed(const struct sampler_pace *pace, double span_ns, double past_ns,
			   double past_run_ns);
/**
 * sampler_pace_heard() - the part of the windows that tells something: that in which the processes
 * got to run as they do between windows.
 */
double sampler_pace_heard(const struct sampler_pace *pace);
/**
 * sampler_paced_in() - of a time in which probes stayed in: from all that was held up by them to
 * nothing. @dearer: than elsewhere a probe is.
 */
struct sampler_paced sampler_paced_in(const struct sampler_window *window, double dearer);

#endif
