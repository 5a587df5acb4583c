/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_book.h - from the sampler's tables in the kernel to a book of samples. */
#ifndef SOURCE_SAMPLER_BOOK_H
#define SOURCE_SAMPLER_BOOK_H

#include "model/samples.h"
#include "source/sampler.h"
#include "source/sampler_pace.h"
#include "source/sampler_purse.h"

/**
 * sampler_read() - every row, what is live, losses and calls as they are now. O(rows + live
 * blocks), milliseconds.
 */
int sampler_read(struct sampler *sampler, struct samples *samples, struct err *err);
/** sampler_row() - the row of a stack, made where it is not known yet; NULL without memory. */
struct sample_row *sampler_row(struct sampler *sampler, struct samples *samples, uint32_t pid,
			       uint64_t stack);
/** sampler_note_functions() - those that are attached now. */
int sampler_note_functions(struct sampler *sampler, struct samples *samples, struct err *err);

/*
 * The governor: keeps what the probes cost below a budget over any five seconds. It begins with a
 * window of some milliseconds and a quota of calls, at whose end the kernel wakes us. While calls
 * cost less than the budget the probes stay in; else they are put in for windows at random moments,
 * as far as the budget has recovered, and what is seen there is multiplied. Each window stands for
 * the time since the one before; what windows differ by widens the errors.
 */
struct sampler_governor {
	struct sampler *sampler;
	struct samples *samples;
	/* of a CPU; 0 = no limit */
	double budget;
	/* of sampler_calibrate() */
	double tick_ns;
	/* nothing is ever left out: frees have to be seen */
	int only_measure;
	/* tracepoints, whose price is our programs' alone */
	int of_kernel;
	/* the first process was begun to be sampled: what it begins with is seen whole */
	int is_started;
	/* CPU time that probes may take of it beside the budget, once */
	double given_ns;
	uint64_t sample_bytes;
	/* it is what an allocator itself keeps to */
	int of_hook;
	/* what the processes have used so far */
	uint64_t (*cpu_ns)(void *ctx);
	void *cpu_ctx;
	/* of a CPU, at the last look */
	double fraction;
	/* when the last window ended, after sampler_governor_end() */
	uint64_t last_ns;
	/* when to be called again, or when sampler_woken() */
	uint64_t until_ns;

	/* private */

	/* probes are in, to stay, and were out before in this epoch */
	int on, lasting, had_gap;
	struct sampler_purse purse;
	/* of a hit, at the last look */
	double price_ns;
	/* what it costs on functions of ours, and how many times as much here */
	double elsewhere_ns, dearer;
	/* of the clock in windows: not counted yet, and what they cost so far */
	double ticks, ticked_ns;
	/* bytes a sample, of late */
	double every;
	/* the window that is open was begun to stay */
	int stays;
	/* what the processes did in it was taken */
	int is_told;
	/* of what they ran, for probes, when these were let stay */
	double kept_share;
	/* what the last window cost while its probes went in; and out, too */
	double entry_ns, edge_ns;
	uint64_t began_ns, looked_ns, since_ns, cut_ns, epoch_ns, gap_ns;
	/* what the purse is to hold when the window is over */
	double floor_ns;
	/* CPU time of the processes with probes */
	double windows_cpu_ns;
	double hits, window_hits, window_cpu_ns, gap_cpu_ns, epoch_on_ns, epoch_hits;
	/* that is open, or comes next */
	struct sampler_window window;
	struct sampler_pace pace;
	/* until this epoch: what ran, and how many times as often as is told it may have called */
	double past_run_ns, held;
	/* of probes that stay in */
	struct sampler_paced stay;
	/* calls have become many while they do: what follows is watched as a window is */
	int watches;
	/*
	 * With what the last stay had to end, and its part of what was seen since the glance
	 * before: the gap that follows begins with it
	 */
	struct sampler_window onset;
	double onset_part;
	/* of this epoch's windows and the gaps before them; and of that, what they saw all of */
	double span_ns, seen_ns;
	/* of windows of late: sums, and what probes took of a CPU at most in one of them */
	double late_on_ns, late_probes_ns, late_most;
	/* that a window may be */
	double longest_ns;
	/* by the windows behind them */
	unsigned told_gaps;
	/* at the end, after sampler_governor_end() */
	double unseen_ns;
	int ran_dry, doubts;
	/* with probes, so far */
	uint64_t on_ns;
	int stats_fd;
	uint64_t stats_until_ns, stats_next_ns;
	/* of the programs, a hit */
	double run_ns;
	uint64_t random;
};
/** sampler_governor_hits() - calls so far, and the mean price of one; negative with @err. */
double sampler_governor_hits(struct sampler_governor *governor, double *price_ns, struct err *err);
/** sampler_governor_clock() - what our programs take is measured now and then. */
void sampler_governor_clock(struct sampler_governor *governor, uint64_t now_ns);

/**
 * sampler_governor_planned() - what a window is to cost; sampler_governor_left() - and to leave.
 */
double sampler_governor_planned(const struct sampler_governor *governor);
double sampler_governor_left(const struct sampler_governor *governor);
/**
 * sampler_governor_is_first() - what a program begins with is still seen whole, as far as what is
 * given for that goes.
 */
int sampler_governor_is_first(const struct sampler_governor *governor);
/** sampler_governor_floor() - what the purse is to hold when the window that begins is over. */
double sampler_governor_floor(const struct sampler_governor *governor);
/** sampler_governor_wait() - until the next one, as the purse @lacks_ns for it; ns. */
double sampler_governor_wait(const struct sampler_governor *governor, double lacks_ns);
/** sampler_governor_rest() - what follows the last window until @now_ns was as what was before. */
void sampler_governor_rest(struct sampler_governor *governor, uint64_t now_ns);
/**
 * sampler_governor_doubt() - what no window has looked into may be anything: as many calls as an
 * allocator answers in its time. So may it where too few have, of a program that was started or
 * where the purse ran dry. At each reading, and at the end.
 */
void sampler_governor_doubt(struct sampler_governor *governor);

/** sampler_governor_init() - the probes are in, or, where there is a budget to keep to, held. */
int sampler_governor_init(struct sampler_governor *governor, uint64_t now_ns, struct err *err);
void sampler_governor_fini(struct sampler_governor *governor);
/**
 * sampler_govern() - look, and act. Wants to be called at @governor->until_ns, or when the sampler
 * has woken us.
 */
int sampler_govern(struct sampler_governor *governor, uint64_t now_ns, struct err *err);
/**
 * sampler_governor_hurries() - a short window is open that ends soon: nothing that takes long
 * is to be done before that.
 */
int sampler_governor_hurries(const struct sampler_governor *governor, uint64_t now_ns);
/**
 * sampler_governor_end() - one more window, for the time since the last one; before the probes go.
 * Some ms. @gone: the processes have ended, at @now_ns: what they did since is taken to be as
 * before.
 */
int sampler_governor_end(struct sampler_governor *governor, int gone, uint64_t now_ns,
			 struct err *err);
/** sampler_governor_say() - the text for people, as of now. Of the governor's own. */
void sampler_governor_say(struct sampler_governor *governor, uint64_t now_ns);
/** sampler_governor_cost() - fill in what the samples say of cost. */
void sampler_governor_cost(struct sampler_governor *governor, uint64_t now_ns);

#endif
