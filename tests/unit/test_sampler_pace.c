/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls a process makes, by what windows see of it: its pace in them, what they stand for, what they differ by. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/samples.h"
#include "source/sampler_pace.h"

static struct sample_row *row_of(struct samples *s)
{
	const uint32_t frames[] = { samples_frame(s, 0, 1, 1), samples_frame(s, 0, 2, 2) };
	return samples_add_row(s, 1, 77, frames, 2, 0);
}

/*
 * A process of one thread, simulated: what a second of it calls, and what windows of it are told. @call_ns and @rest_ns of work go with a
 * call, probed ones take @probe_ns
 * more, and @cold_ns, as they find less in the caches. It waits for @wait_ns after every @burst calls: for an answer (@chain), or until the next
 * burst is due. @share: of a processor, that others leave to it; of what it took beyond, the rest is waited for.
 */
struct simulated {
	double call_ns, wait_ns, probe_ns, cold_ns, share;
	/* not 0: a burst lasts so long by the clock, however many calls that are */
	double until_ns;
	unsigned burst;
	int chain;
	/* found */
	double time_ns, due_ns, end_ns, run_ns, probes_ns, credit_ns, waited_ns;
	unsigned left;
	uint64_t calls;
};

/* One call, or one sleep, or one wait for a processor. Return: 1 it called, 2 it slept. */
static int simulate(struct simulated *m, int probed)
{
	if (m->until_ns > 0)
		m->left = m->time_ns < m->end_ns
				  ? (unsigned)ceil((m->end_ns - m->time_ns) / m->call_ns)
				  : 0;
	if (!m->left && m->wait_ns > 0) {
		m->due_ns = m->chain || m->due_ns == 0 ? m->time_ns + m->wait_ns
						       : m->due_ns + m->wait_ns;
		m->left = m->burst;
		if (m->due_ns > m->time_ns) { /* what others leave to it is saved up for a while */
			m->credit_ns += (m->due_ns - m->time_ns) * m->share;
			m->time_ns = m->due_ns;
			m->end_ns = m->time_ns + m->until_ns;
			return 2;
		}
		return 0;
	}
	if (!m->left)
		m->left = m->burst;
	/* without probes a burst is over before anybody looks */
	unsigned calls = probed ? 1 : m->left;
	double took = calls * (m->call_ns + (probed ? m->probe_ns + m->cold_ns : 0));
	if (m->credit_ns > 1e6)
		m->credit_ns = 1e6;
	if (m->share < 1 && m->credit_ns < took) {
		m->time_ns += 3e6 / m->share - 3e6;
		m->waited_ns += 3e6 / m->share - 3e6;
		m->credit_ns += 3e6;
	}
	m->credit_ns -= took * (1 - m->share);
	m->time_ns += took;
	m->run_ns += took;
	m->probes_ns += probed ? calls * m->probe_ns : 0;
	m->left -= calls;
	m->calls += calls;
	return 1;
}

#define TICK_NS 60e3 /* of the clock that tells what probes cost */

/* Windows of @on_ns each after gaps of 0.3 s and some; by how many of its errors the estimate is off, and how far. */
static struct sampler_paced simulate_windows(struct simulated *m, double on_ns, double price_ns,
					     double *off_by)
{
	struct sampler_pace pace = { 0 };
	struct sampler_paced paced = { 0 };
	double hits = 0, on = 0, begun_ns = m->time_ns, epoch_ns = m->time_ns;
	struct simulated bare = *m;
	uint64_t before = m->calls;
	uint32_t random = 1;
	for (unsigned i = 0; i < 30; i++) {
		double run_ns = m->run_ns, until_ns = epoch_ns + 3e8;
		random = random * 1103515245 + 12345;
		until_ns += random / 43.0;
		struct sampler_window w = { .price_ns = price_ns, .callers = 1, .sleeps_known = 1 };
		while (m->time_ns < until_ns)
			simulate(m, 0);
		w.off_ns = until_ns - epoch_ns;
		w.off_run_ns = m->run_ns - run_ns;
		double begin_ns = until_ns, awake_ns = m->time_ns;
		uint64_t calls = m->calls;
		double waited_ns = m->waited_ns;
		double probes_ns = m->probes_ns;
		run_ns = m->run_ns;
		while (m->time_ns < begin_ns + on_ns) {
			double before_ns = m->time_ns;
			w.waited_ns = m->waited_ns - waited_ns; /* one that lasts is pending */
			if (simulate(m, 1) != 2)
				continue;
			w.sleeps++;
			awake_ns = m->time_ns;
			if (before_ns < begin_ns + on_ns && m->time_ns > begin_ns + on_ns)
				awake_ns = 0; /* asleep at the end */
		}
		w.on_ns = on_ns;
		w.hits = (double)(m->calls - calls);
		w.run_ns = m->run_ns - run_ns;
		w.probe_ticks = (m->probes_ns - probes_ns) / TICK_NS;
		w.own_ticks = w.run_ns / TICK_NS - w.probe_ticks;
		w.called_run_ns = w.covered_ns = w.ticked_ns = w.run_ns;
		w.known_called_ns = w.known_run_ns = w.run_ns;
		w.known_off_ns = w.off_run_ns;
		w.knows_callers = 1;
		w.pending = awake_ns > 0;
		w.pending_ns = awake_ns > 0 ? begin_ns + on_ns - awake_ns : 0;
		sampler_pace_add(&pace, &w);
		hits += w.hits;
		on += on_ns;
		epoch_ns = until_ns + on_ns;
	}
	paced = sampler_paced(&pace);
	double estimate = hits * (epoch_ns - begun_ns) / on / paced.pace;
	double told_unsure = estimate * paced.error;
	while (bare.time_ns < epoch_ns)
		simulate(&bare, 0);
	double truth = (double)(bare.calls - before);
	*off_by = (estimate - truth) / truth;
	print_message("true %.0f, told %.0f +- %.0f (pace %.3f)\n", truth, estimate, told_unsure,
		      paced.pace);
	paced.error = told_unsure / truth;
	return paced;
}

/* The truth lies within twice what is told, with a price that is known to be wrong by a tenth. */
static void judge(const struct simulated *like, double on_ns, double error_max)
{
	static const double cold[] = { 0.04, 0.15, 0.25 }; /* of a probe: loops, perl and python3 */
	for (int i = 0; i < 9; i++) {
		struct simulated m = *like;
		double off_by, wrong = i / 3 - 1;
		m.cold_ns = fmin(cold[i % 3] * m.probe_ns, 2 * m.call_ns);
		struct sampler_paced p =
			simulate_windows(&m, on_ns, m.probe_ns * (1 + 0.1 * wrong), &off_by);
		assert_true(fabs(off_by) < 2 * p.error + 0.05);
		if (error_max > 0)
			assert_true(p.error < error_max);
	}
}

static void calls_at_an_even_pace_are_told_as_many(void **state)
{
	(void)state;
	for (unsigned burst = 30; burst <= 480; burst *= 2) {
		struct simulated m = {
			.call_ns = 20, .wait_ns = 1e6, .probe_ns = 1000, .share = 1, .burst = burst
		};
		judge(&m, 5e6, burst > 240 ? 0 : 0.3);
	}
}

static void calls_in_a_chain_of_answers_are_told_as_many(void **state)
{
	(void)state;
	for (unsigned burst = 10; burst <= 160; burst *= 2) {
		struct simulated m = { .call_ns = 100,
				       .wait_ns = 1e5,
				       .probe_ns = 1000,
				       .share = 1,
				       .burst = burst,
				       .chain = 1 };
		judge(&m, 5e6, burst > 40 ? 0 : 0.4);
	}
}

static void calls_of_one_that_never_waits_are_told_by_its_work(void **state)
{
	(void)state;
	struct simulated m = {
		.call_ns = 2000, .probe_ns = 1000, .cold_ns = 150, .share = 1, .burst = 10
	};
	double off_by;
	struct sampler_paced p = simulate_windows(&m, 5e6, 1000, &off_by);
	assert_true(fabs(off_by) < 0.02 && p.error < 0.1);
	judge(&m, 5e6, 0.1);
	/* nothing but calls: what is left beside the probes is slow, and by how much is not known */
	m.call_ns = 20;
	m.cold_ns = 30;
	judge(&m, 5e6, 0);
	p = simulate_windows(&m, 5e6, 1000, &off_by);
	assert_true(p.error > 2 * 0.05);
}

/*
 * It calls for 2 ms by the clock, 100 to 400 ns a call, and sleeps for 20: done whenever anybody looks, with a tenth of its calls made. Its sleep
 * alone told 0.14 of them, 18 errors off.
 */
static void calls_until_the_clock_says_so_are_not_told_by_sleep(void **state)
{
	(void)state;
	for (double call_ns = 100; call_ns <= 400; call_ns *= 2) {
		struct simulated m = { .call_ns = call_ns,
				       .wait_ns = 20e6,
				       .until_ns = 2e6,
				       .probe_ns = 1000,
				       .share = 1,
				       .burst = 1,
				       .chain = 1 };
		judge(&m, 44e6, 0);
	}
}

static void calls_of_one_that_others_keep_from_running_are_told_as_too_few(void **state)
{
	(void)state;
	for (int chain = 0; chain <= 1; chain++)
		for (double on_ns = 2e6; on_ns < 2e8; on_ns *= 5) {
			struct simulated m = { .call_ns = 20,
					       .wait_ns = 1e6,
					       .probe_ns = 1000,
					       .share = 0.1,
					       .burst = 300,
					       .chain = chain };
			judge(&m, on_ns, 0);
		}
}

/*
 * A process that calls every 500 ns for a quarter of the time and never else, where a probe takes 2,000: in a window it makes a fifth of the
 * calls of its quarter. By its work alone it were told to make 0.3 of them.
 */
static void calls_now_and_then_are_told_with_an_error_that_holds_both_readings(void **state)
{
	struct sampler_pace pace = { 0 };
	(void)state;
	const struct sampler_window w = { .on_ns = 400e6,
					  .hits = 40000,
					  .price_ns = 2000,
					  .run_ns = 400e6,
					  .callers = 1,
					  .pending = 1,
					  .pending_ns = 400e6,
					  .sleeps_known = 1,
					  .own_ticks = 4000,
					  .probe_ticks = 1000,
					  .off_ns = 4e9,
					  .off_run_ns = 4e9,
					  .slice = { { 0, 300e6 }, { 40000, 100e6 } } };
	sampler_pace_add(&pace, &w);
	struct sampler_paced p = sampler_paced(&pace);
	double truth = 100e6 / 500, told = w.hits / p.pace;
	print_message("true %.0f, told %.0f +- %.0f\n", truth, told, told * p.error);
	assert_true(told > 1.5 * w.hits && fabs(told - truth) < 2 * p.error * told);
	/* all of the same in one piece: nothing beside its work is said */
	struct sampler_pace even = { 0 };
	struct sampler_window one = w;
	one.slice[0] = (struct sampler_slice){ 0 };
	one.slice[1] = (struct sampler_slice){ 40000, 400e6 };
	sampler_pace_add(&even, &one);
	assert_true(sampler_paced(&even).error < p.error / 2);
}

/*
 * Half of the windows meet it filling a table, where a call comes for every 350 ns of work, of which a probe of 1,000 makes 500, the others freeing
 * it: it is held up in the former alone, and how long these last is the clock's, as windows are rare.
 */
static void phases_longer_than_windows_are_told_by_what_each_window_was_held_up(void **state)
{
	(void)state;
	struct sampler_window w = { .on_ns = 15e6,
				    .hits = 10000,
				    .price_ns = 1000,
				    .run_ns = 15e6,
				    .callers = 1,
				    .pending = 1,
				    .pending_ns = 15e6,
				    .sleeps_known = 1,
				    .own_ticks = 50,
				    .probe_ticks = 100,
				    .called_run_ns = 15e6,
				    .covered_ns = 15e6,
				    .ticked_ns = 15e6,
				    .knows_callers = 1,
				    .known_called_ns = 15e6,
				    .known_run_ns = 15e6,
				    .off_ns = 285e6,
				    .off_run_ns = 285e6,
				    .known_off_ns = 285e6,
				    .slice = { [10] = { 10000, 15e6 } } };
	struct sampler_window frees = w, both = w;
	frees.hits = frees.probe_ticks = frees.callers = frees.pending = frees.pending_ns = 0;
	frees.called_run_ns = frees.covered_ns = frees.known_called_ns = 0;
	frees.own_ticks = 150;
	frees.slice[10] = (struct sampler_slice){ 0 };
	frees.slice[0] = (struct sampler_slice){ 0, 15e6 };
	both.hits /= 2;
	both.own_ticks = 100;
	both.probe_ticks = 50;
	both.slice[10] = (struct sampler_slice){ 5000, 7.5e6 };
	both.slice[0] = (struct sampler_slice){ 0, 7.5e6 };
	struct sampler_pace apart = { 0 }, alike = { 0 };
	for (unsigned i = 0; i < 20; i++) {
		sampler_pace_add(&apart, i % 5 < 3 ? &frees : &w);
		sampler_pace_add(&alike, &both);
	}
	struct sampler_paced p = sampler_paced(&apart), q = sampler_paced(&alike);
	double truth = 8 * 15e6 / 350, told = 8 * 10000 / p.pace;
	print_message("true %.0f, told %.0f +- %.0f\n", truth, told, told * p.error);
	assert_true(fabs(told - truth) < 0.25 * truth && fabs(told - truth) < 2 * p.error * told);
	assert_true(p.error < 0.5);
	/* where each window meets both, nobody knows how long they would be */
	truth = 20 * 7.5e6 / 350;
	told = 20 * 5000 / q.pace;
	print_message("true %.0f, told %.0f +- %.0f\n", truth, told, told * q.error);
	assert_true(told < 0.9 * truth && fabs(told - truth) < 2 * q.error * told);
	assert_true(q.error > p.error);
}

/*
 * It never sleeps, and others leave it the half of the processors. The window after a long gap does not meet it running: as that stands for
 * much of the time, it does for much of the work, too, that windows did not see.
 */
static void windows_tell_work_for_as_long_as_they_tell_calls(void **state)
{
	(void)state;
	struct sampler_window ran = { .on_ns = 10e6,
				      .hits = 5000,
				      .price_ns = 1000,
				      .times = 10,
				      .run_ns = 10e6,
				      .callers = 1,
				      .pending = 1,
				      .pending_ns = 10e6,
				      .sleeps_known = 1,
				      .own_ticks = 100,
				      .probe_ticks = 100,
				      .called_run_ns = 10e6,
				      .covered_ns = 10e6,
				      .ticked_ns = 10e6,
				      .knows_callers = 1,
				      .known_called_ns = 10e6,
				      .known_run_ns = 10e6,
				      .off_ns = 90e6,
				      .off_run_ns = 45e6,
				      .known_off_ns = 45e6 };
	struct sampler_window starved = { .on_ns = 10e6,
					  .price_ns = 1000,
					  .times = 200,
					  .sleeps_known = 1,
					  .knows_callers = 1,
					  .off_ns = 1990e6,
					  .off_run_ns = 995e6,
					  .known_off_ns = 995e6 };
	struct sampler_pace pace = { 0 };
	for (unsigned i = 0; i < 10; i++)
		sampler_pace_add(&pace, &ran);
	sampler_pace_add(&pace, &starved);
	struct sampler_paced p = sampler_paced(&pace);
	/* a call for every 850 ns of work that it does beside probes, and what is colder there */
	double truth = (10 * 50e6 + 1000e6) / 850, told = 10 * 10 * 5000 / p.pace;
	print_message("true %.0f, told %.0f +- %.0f\n", truth, told, told * p.error);
	assert_true(fabs(told / truth - 1) < 0.1 && p.error < 0.3);
}

/* Probes that stayed went because of what came last: of the gap that follows as much is told by that as by the window at its other end. */
static void a_gap_that_begins_with_many_calls_is_told_by_both_its_ends(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	row->raw.count = 7;
	assert_int_equal(samples_epoch(s, &err), 0);
	row->raw.count = 1007;
	row->raw.bytes = 5000;
	s->keeps_last = 1;
	assert_int_equal(samples_epoch(s, &err), 0);
	s->keeps_last = 0;
	samples_scale(s, row);
	assert_true(fabs(row->now.count - 1007) < 1e-6);
	/* all of it came in 2 ms; half of 1 s is told by that, half by a window that saw nothing */
	assert_int_equal(samples_again(s, 250, 2e6 * 250, 5e8, &err), 0);
	s->times = 100;
	assert_int_equal(samples_window(s, 5e6, 5e6, &err), 0);
	s->times = 1;
	s->mean = 150;
	s->by_work = 0;
	samples_scale(s, row);
	assert_true(fabs(row->now.count - 251007) < 1e-6 && fabs(row->now.bytes - 1255000) < 1e-3);
	assert_true(row->now.error_count > 125000); /* from none to as many again */
	assert_null(row->last);
	assert_int_equal(samples_again(s, 250, 2e6, 5e8, &err), 0); /* once */
	samples_scale(s, row);
	assert_true(fabs(row->now.count - 251007) < 1e-6);
	samples_free(s);
}

/*
 * Two processors, eight threads: one calls, and is in probes for the half of its time, seven compute, one of which is the main
 * thread and has a clock, too.
 */
static const struct sampler_window one_of_eight = { .on_ns = 500e6,
						    .hits = 62500,
						    .price_ns = 1000,
						    .run_ns = 1000e6,
						    .callers = 1,
						    .pending = 1,
						    .pending_ns = 500e6,
						    .sleeps_known = 1,
						    .own_ticks = 3000,
						    .probe_ticks = 1000,
						    .called_run_ns = 125e6,
						    .covered_ns = 125e6,
						    .ticked_ns = 250e6,
						    .knows_callers = 1,
						    .known_called_ns = 125e6,
						    .known_run_ns = 125e6,
						    .known_off_ns = 1000e6,
						    .off_ns = 4e9,
						    .off_run_ns = 8e9,
						    .slice = { [9] = { 62500, 125e6 } } };

static void one_that_calls_beside_others_that_compute_is_told_by_its_own_time(void **state)
{
	struct sampler_pace pace = { 0 };
	(void)state;
	sampler_pace_add(&pace, &one_of_eight);
	struct sampler_paced p = sampler_paced(&pace);
	print_message("pace %.3f +- %.3f, dearer %.2f\n", p.pace, p.error, p.dearer);
	assert_true(fabs(p.dearer - 1) < 0.05); /* a clock that sees it tells what a probe costs */
	assert_true(fabs(0.5 / p.pace - 1) < p.error + 0.2 && p.error < 0.3);
	/* it was held up in windows, and all others with it: they waited for what it makes */
	struct sampler_pace held = { 0 };
	struct sampler_window w = one_of_eight;
	w.run_ns = 562.5e6;
	sampler_pace_add(&held, &w);
	assert_true(fabs(sampler_paced(&held).pace / p.pace - 1) < 0.05);
}

/* A window in which it did not get to run at all is one in which it made nothing, like those in which it did half. */
static void one_that_others_keep_from_running_in_a_window_made_nothing_in_it(void **state)
{
	struct sampler_pace pace = { 0 };
	(void)state;
	sampler_pace_add(&pace, &one_of_eight);
	double before = sampler_paced(&pace).pace;
	struct sampler_window w = one_of_eight;
	w.hits = w.called_run_ns = w.covered_ns = w.known_called_ns = w.known_run_ns = 0;
	w.ticked_ns = w.own_ticks = w.probe_ticks = w.pending = w.pending_ns = w.callers = 0;
	w.slice[9] = (struct sampler_slice){ 0 };
	sampler_pace_add(&pace, &w);
	struct sampler_paced p = sampler_paced(&pace);
	print_message("pace %.3f, then %.3f +- %.3f\n", before, p.pace, p.error);
	assert_true(fabs(p.pace / before - 0.5) < 0.05);
	assert_true(sampler_window_weight(&one_of_eight) == 125e6);
	assert_true(sampler_window_weight(&w) == 0);
	w.knows_callers = 0;
	assert_true(sampler_window_weight(&w) == w.run_ns);
}

static void callers_that_nobody_has_a_clock_for_are_not_taken_to_have_no_probes(void **state)
{
	struct sampler_pace pace = { 0 };
	struct sampler_window w = one_of_eight;
	(void)state;
	w.own_ticks = 2000;
	w.probe_ticks = w.covered_ns = w.known_called_ns = w.known_run_ns = w.known_off_ns = 0;
	w.knows_callers = 0;
	w.ticked_ns = 125e6;
	sampler_pace_add(&pace, &w);
	struct sampler_paced p = sampler_paced(&pace);
	print_message("pace %.3f +- %.3f, dearer %.2f\n", p.pace, p.error, p.dearer);
	assert_true(fabs(p.dearer - 1) < 0.05);
	assert_true(fabs(0.5 / p.pace - 1) < 2 * p.error);
	/* a clock for a fifth of them: the others may be otherwise */
	struct sampler_pace some = { 0 }, all = { 0 };
	w = one_of_eight;
	w.covered_ns = w.known_called_ns = w.known_run_ns = 25e6;
	w.ticked_ns = 150e6;
	w.own_ticks = 2200;
	w.probe_ticks = 200;
	w.known_off_ns = 200e6;
	sampler_pace_add(&some, &w);
	sampler_pace_add(&all, &one_of_eight);
	struct sampler_paced unsure = sampler_paced(&some);
	assert_true(fabs(unsure.dearer - 1) < 0.3);
	assert_true(unsure.error > 2 * sampler_paced(&all).error);
	assert_true(fabs(0.5 / unsure.pace - 1) < 2 * unsure.error);
}

static void a_process_that_makes_no_calls_is_at_its_pace(void **state)
{
	struct sampler_pace pace = { 0 };
	(void)state;
	struct sampler_paced p = sampler_paced(&pace);
	assert_true(p.pace == 1 && p.error == 0 && !p.is_starved);
	const struct sampler_window w = {
		.on_ns = 5e6, .off_ns = 3e8, .off_run_ns = 3e8, .run_ns = 5e6, .sleeps_known = 1
	};
	sampler_pace_add(&pace, &w);
	p = sampler_paced(&pace);
	assert_true(p.pace == 1 && p.error == 0);
}

static void what_was_not_seen_to_its_end_goes_on_as_before(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	s->scale = 100;
	s->scale_error = 0.1;
	row->raw.count = 10;
	row->raw.bytes = 1000;
	samples_scale(s, row);
	assert_int_equal(samples_window(s, 1, 1, &err), 0);
	assert_int_equal(samples_epoch(s, &err), 0);
	s->scale = 1;
	samples_go_on(s, 2e9, 1e9, 0.2);
	assert_true(fabs(row->now.count - 1500) < 1e-6 && fabs(row->now.bytes - 150000) < 1e-6);
	assert_true(row->now.error_count > 0.1 * 1500);
	assert_false(samples_are_least(s));
	/* an epoch keeps what was unsure of it */
	s->scale = 100;
	s->scale_error = 9;
	row->raw.count = 20;
	samples_scale(s, row);
	assert_int_equal(samples_window(s, 1, 1, &err), 0);
	assert_int_equal(samples_epoch(s, &err), 0);
	s->scale = 1;
	s->scale_error = 0;
	samples_scale(s, row);
	assert_true(row->now.error_count > 9 * 1000);
	assert_true(samples_are_least(s));
	samples_free(s);
}

/* One window in which a stack did not call stands for a long time: what it called before may have gone on. */
static void a_window_that_saw_none_does_not_say_that_there_were_none(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	s->scale = 1;
	row->raw.count = 50;
	samples_scale(s, row);
	assert_int_equal(samples_epoch(s, &err), 0);
	s->scale = 30; /* 100 ms of 3 s, after 100 ms that were seen */
	s->before = 1;
	assert_int_equal(samples_window(s, 1, 1, &err), 0);
	samples_scale(s, row);
	assert_true(fabs(row->now.count - 50) < 1e-6);
	assert_true(fabs(row->now.error_count - 50 * 29) < 1);
	assert_int_equal(samples_epoch(s, &err), 0);
	assert_true(fabs(s->rows[0].now.error_count - 50 * 29) < 1);
	/* of many windows that see as much each that is no matter */
	s->scale = 2;
	for (int i = 1; i <= 40; i++) {
		row->raw.count = 50 + 10 * i;
		assert_int_equal(samples_window(s, 1, 1, &err), 0);
	}
	samples_scale(s, row);
	double error = row->now.error_count;
	assert_true(fabs(row->now.count - 850) < 1e-6 && fabs(error - 50 * 29) < 1);
	samples_free(s);
}

/* Windows of one length, of which those that see calls come seldom: each is for its own time. */
static void windows_stand_for_the_time_since_the_one_before(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	for (int i = 0; i < 40; i++) {
		s->times = i % 5 ? 25 : 100; /* half of the time each */
		row->raw.count += i % 5 ? 0 : 10;
		row->raw.freed_count += i % 5 ? 0 : 5;
		assert_int_equal(samples_window(s, 1, 1, &err), 0);
	}
	s->mean = 40;
	s->scale = 2; /* what they saw was held up by their probes */
	s->times = 1;
	samples_scale(s, row);
	double error = row->now.error_count;
	assert_true(fabs(row->now.count - 2 * 8 * 10 * 100) < 1e-6);
	assert_true(error > 0.15 * row->now.count && error < 0.3 * row->now.count);
	assert_int_equal(samples_epoch(s, &err), 0);
	s->scale = s->mean = 1;
	samples_scale(s, row);
	assert_true(fabs(row->now.count - 16000) < 1e-6 &&
		    fabs(row->now.freed_count - 8000) < 1e-6);
	assert_true(fabs(row->now.error_count - error) < 1e-6);
	samples_free(s);
}

/*
 * It sleeps between bursts that come at an even pace. In windows in which others have the processors it does not get to run at all: by its work
 * such a window were none, and the error what the others differ by.
 */
static void
one_that_sleeps_and_does_not_get_to_run_in_some_windows_is_told_with_their_difference(void **state)
{
	struct err err = { 0 };
	(void)state;
	const struct sampler_window ran = { .on_ns = 5e6,
					    .hits = 1500,
					    .price_ns = 1000,
					    .run_ns = 1.7e6,
					    .callers = 1,
					    .sleeps = 5,
					    .waited_ns = 0.5e6,
					    .sleeps_known = 1,
					    .called_run_ns = 1.7e6,
					    .covered_ns = 1.7e6,
					    .ticked_ns = 1.7e6,
					    .knows_callers = 1,
					    .known_called_ns = 1.7e6,
					    .known_run_ns = 1.7e6,
					    .off_ns = 295e6,
					    .off_run_ns = 3e6,
					    .known_off_ns = 3e6 };
	struct sampler_window starved = ran;
	starved.hits = starved.run_ns = starved.callers = starved.sleeps = starved.waited_ns = 0;
	starved.called_run_ns = starved.covered_ns = starved.ticked_ns = 0;
	starved.known_called_ns = starved.known_run_ns = 0;
	double error[2];
	for (unsigned some = 0; some < 2; some++) {
		struct samples *s = samples_new(&err);
		struct sample_row *row = row_of(s);
		struct sampler_pace pace = { 0 };
		s->times = 60;
		for (unsigned i = 0; i < 10; i++) {
			const struct sampler_window *w = some && i % 2 ? &starved : &ran;
			sampler_pace_add(&pace, w);
			row->raw.count += w->hits + (double)(i % 3) * 10;
			assert_int_equal(
				samples_window(s, sampler_window_weight(w), w->on_ns, &err), 0);
		}
		struct sampler_paced p = sampler_paced(&pace);
		s->mean = 60;
		s->scale = 1 / p.pace;
		s->scale_error = p.error;
		s->by_work = p.by_work;
		samples_scale(s, row);
		double told = row->now.count, truth = 10 * 300e6 * 0.3e-3;
		error[some] = row->now.error_count;
		print_message("true %.0f, told %.0f +- %.0f (pace %.3f +- %.3f, %.2f by work)\n",
			      truth, told, error[some], p.pace, p.error, p.by_work);
		assert_true(fabs(told - truth) < 3 * error[some] && error[some] < told);
		samples_free(s);
	}
	assert_true(error[1] > 0.2 * 5 * 300e6 * 0.3e-3);
}

/* A loop that never waits calls as it runs: a window in which it did not says nothing. */
static void one_that_never_sleeps_is_told_by_the_windows_in_which_it_ran(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	s->times = 10;
	for (unsigned i = 0; i < 20; i++) {
		row->raw.count += i % 2 ? 0 : 100;
		assert_int_equal(samples_window(s, i % 2 ? 0 : 1e6, 5e6, &err), 0);
	}
	s->mean = 10;
	s->times = 1;
	samples_scale(s, row);
	double by_work = row->now.error_count;
	s->by_work = 0;
	samples_scale(s, row);
	double by_time = row->now.error_count;
	s->by_work = 0.5;
	samples_scale(s, row);
	assert_true(by_work < 1 && by_time > 0.2 * row->now.count &&
		    by_time < 0.3 * row->now.count);
	assert_true(fabs(row->now.error_count / (by_time / 2) - 1) < 0.02);
	samples_free(s);
}

/* A loop of malloc and free: what it does itself takes several times as long behind a probe, on one machine four and on another seven. */
static void a_loop_that_does_little_else_is_told_with_an_error_that_holds_it(void **state)
{
	(void)state;
	const struct {
		double call_ns, behind_ns, probe_ns;
	} of[] = { { 24, 63, 1850 }, { 22, 93, 1500 }, { 22, 150, 2000 } };
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		double hits = 20000, run_ns = hits * (of[i].probe_ns + of[i].behind_ns),
		       ticks = 1000;
		struct sampler_pace pace = { 0 };
		struct sampler_window w = { .on_ns = run_ns,
					    .hits = hits,
					    .price_ns = of[i].probe_ns,
					    .run_ns = run_ns,
					    .callers = 1,
					    .sleeps_known = 1,
					    .pending = 1,
					    .pending_ns = run_ns,
					    .called_run_ns = run_ns,
					    .covered_ns = run_ns,
					    .ticked_ns = run_ns,
					    .off_ns = 1e9,
					    .off_run_ns = 1e9 };
		w.own_ticks = ticks * of[i].behind_ns * hits / run_ns;
		w.probe_ticks = ticks - w.own_ticks;
		sampler_pace_add(&pace, &w);
		struct sampler_paced p = sampler_paced(&pace);
		double truth = run_ns / of[i].call_ns, told = hits / p.pace;
		print_message("true %.0f, told %.0f +- %.0f\n", truth, told, told * p.error);
		assert_true(fabs(told - truth) < 2.3 * told * p.error && p.error < 0.7);
	}
}

static void probes_that_stayed_held_up_no_more_than_they_took(void **state)
{
	(void)state;
	/* a tenth of what it ran: between as many calls as were seen and a ninth more, or a bit */
	struct sampler_window w = { .on_ns = 1e8, .hits = 500, .price_ns = 1000, .run_ns = 5e6 };
	struct sampler_paced p = sampler_paced_in(&w, 1);
	double most = (1 + p.error) / p.pace, least = (1 - p.error) / p.pace;
	assert_true(fabs(least - 1) < 1e-9 && most > 1.11 && most < 1.2);
	/* all of it: no more than the fastest allocator gives */
	w.hits = 5000;
	p = sampler_paced_in(&w, 2);
	assert_true(p.error < 1 && (1 + p.error) / p.pace > 20 &&
		    (1 + p.error) / p.pace <= 5e6 / (5000 * 2.0));
	w.hits = 0;
	assert_true(sampler_paced_in(&w, 1).pace == 1 && sampler_paced_in(&w, 1).error == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_at_an_even_pace_are_told_as_many),
		cmocka_unit_test(calls_in_a_chain_of_answers_are_told_as_many),
		cmocka_unit_test(calls_of_one_that_never_waits_are_told_by_its_work),
		cmocka_unit_test(calls_of_one_that_others_keep_from_running_are_told_as_too_few),
		cmocka_unit_test(
			calls_now_and_then_are_told_with_an_error_that_holds_both_readings),
		cmocka_unit_test(
			phases_longer_than_windows_are_told_by_what_each_window_was_held_up),
		cmocka_unit_test(calls_until_the_clock_says_so_are_not_told_by_sleep),
		cmocka_unit_test(windows_tell_work_for_as_long_as_they_tell_calls),
		cmocka_unit_test(a_gap_that_begins_with_many_calls_is_told_by_both_its_ends),
		cmocka_unit_test(one_that_calls_beside_others_that_compute_is_told_by_its_own_time),
		cmocka_unit_test(one_that_others_keep_from_running_in_a_window_made_nothing_in_it),
		cmocka_unit_test(
			callers_that_nobody_has_a_clock_for_are_not_taken_to_have_no_probes),
		cmocka_unit_test(a_process_that_makes_no_calls_is_at_its_pace),
		cmocka_unit_test(what_was_not_seen_to_its_end_goes_on_as_before),
		cmocka_unit_test(a_window_that_saw_none_does_not_say_that_there_were_none),
		cmocka_unit_test(windows_stand_for_the_time_since_the_one_before),
		cmocka_unit_test(
			one_that_sleeps_and_does_not_get_to_run_in_some_windows_is_told_with_their_difference),
		cmocka_unit_test(one_that_never_sleeps_is_told_by_the_windows_in_which_it_ran),
		cmocka_unit_test(a_loop_that_does_little_else_is_told_with_an_error_that_holds_it),
		cmocka_unit_test(probes_that_stayed_held_up_no_more_than_they_took),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
