/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads another process goes before ordinary threads during the calls that hold its lock, and only then: a caller that loses its CPU
 * amid such a call keeps the target's mmap() waiting until it has one again.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "proc/numa.h"
#include "proc/smaps.h"
#include "proc/turns.h"

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

/* Whether this user may be raised at all; what follows then holds as well, with nobody raised. */
static int raised(void)
{
	int may = sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
				     &(struct sched_param){ .sched_priority = 1 }) == 0;
	if (may)
		sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK,
				   &(struct sched_param){ 0 });
	return may ? SCHED_RR : SCHED_OTHER;
}

static pid_t make_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static int note_policy(void *ctx, struct region *region)
{
	(void)region;
	*(int *)ctx |= 1 << policy();
	return 0;
}

static void a_reading_of_another_process_goes_before_and_then_no_longer(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct target target = { 0 };
	struct reading reading = { 0 };
	pid_t child = make_child();
	int seen = 0, may = raised();
	assert_int_equal(target_open(&target, child, &err), 0);
	assert_int_equal(smaps_each(&target, note_policy, &seen, &reading, &err), 0);
	assert_true(seen & 1 << may);
	assert_int_equal(policy(), SCHED_OTHER);
	uint64_t rss, pss, stall = 0;
	assert_int_equal(rollup_read(&target, &rss, &pss, &stall, &err), 0);
	assert_int_equal(policy(), SCHED_OTHER);
	assert_true(stall > 0);
	/* a walk of all pages is told, too */
	struct numa numa = { 0 };
	stall = 0;
	if (numa_read(&target, &numa, &stall) == 0)
		assert_true(stall > 0);
	assert_int_equal(policy(), SCHED_OTHER);
	free(numa.rows);
	target_close(&target);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void a_reading_of_this_process_changes_nothing(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct target target = { 0 };
	struct reading reading = { 0 };
	int seen = 0;
	assert_int_equal(target_open(&target, getpid(), &err), 0);
	assert_int_equal(smaps_each(&target, note_policy, &seen, &reading, &err), 0);
	assert_int_equal(seen, 1 << SCHED_OTHER);
	target_close(&target);
}

static void spin(uint64_t ns)
{
	for (uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns; clock_ns(CLOCK_MONOTONIC) < end;)
		;
}

static void it_goes_before_for_some_milliseconds_at_a_time(void **state)
{
	(void)state;
	struct turns turns;
	int may = raised();
	turns_init(&turns, TURNS_RAISED);
	uint64_t stall = 0, before = turns_begin(&turns);
	assert_int_equal(policy(), may);
	turns_end(&turns, before, &stall);
	before = turns_begin(&turns);
	spin(2500000); /* longer than ordinary threads shall wait */
	turns_end(&turns, before, &stall);
	assert_int_equal(policy(), SCHED_OTHER);
	assert_true(stall >= 2500000);
	turns_begin(&turns);
	assert_int_equal(policy(), may);
	turns_over(&turns);
	assert_int_equal(policy(), SCHED_OTHER);
}

static void who_has_a_policy_keeps_it(void **state)
{
	(void)state;
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }), 0);
	struct turns turns;
	turns_init(&turns, TURNS_RAISED);
	turns_end(&turns, turns_begin(&turns), NULL);
	assert_int_equal(policy(), SCHED_BATCH);
	turns_over(&turns);
	assert_int_equal(policy(), SCHED_BATCH);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }), 0);
}

static void calls_without_a_pause_between_are_one_wait(void **state)
{
	(void)state;
	struct turns turns;
	turns_init(&turns, TURNS_PAUSES);
	uint64_t stall = 0;
	for (int i = 0; i < 3; i++) {
		uint64_t before = turns_begin(&turns);
		assert_int_equal(policy(), SCHED_OTHER);
		spin(100000);
		turns_end(&turns, before, &stall);
	}
	/* three of them, or fewer where this thread lost its CPU between two */
	assert_true(stall >= 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reading_of_another_process_goes_before_and_then_no_longer),
		cmocka_unit_test(a_reading_of_this_process_changes_nothing),
		cmocka_unit_test(it_goes_before_for_some_milliseconds_at_a_time),
		cmocka_unit_test(who_has_a_policy_keeps_it),
		cmocka_unit_test(calls_without_a_pause_between_are_one_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
