/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/turns.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"

#define PAUSE_NS 60000  /* and the kernel's slack, 50 us: long enough for a thread to wake up */
#define TURN_NS 500000u /* of calls without a pause */
#define SHORT_TURN_NS 250000u
#define LONG_PAUSE_NS 500000u
#define LONGEST_PAUSE_NS 20000000u /* whoever is asked has to answer at some time */
#define RAISED_NS 2000000u /* then ordinary threads of this CPU have had to wait for long enough */

void turns_init(struct turns *turns, enum turns_how how, pid_t pid)
{
	*turns = (struct turns){ .how = how, .pid = pid };
}

void turns_expect(struct turns *turns, uint64_t ns)
{
	turns->too_long = ns > RAISED_NS;
	if (turns->too_long)
		turns_over(turns);
}

/* It would be in the target's way: nobody else can take one of the two elsewhere. */
static int has_one_cpu(pid_t pid)
{
	cpu_set_t cpus;
	/* refused with more CPUs than the set has bits, or by the one that is gone */
	return sched_getaffinity(pid, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1;
}

static void raise_thread(struct turns *turns, uint64_t now)
{
	/* a policy that somebody chose is left alone */
	int policy = sched_getscheduler(0);
	if (!turns->asked)
		turns->may = policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
			     !has_one_cpu(0) && !has_one_cpu(turns->pid);
	turns->asked = 1;
	if (!turns->may)
		return;
	turns->had_flag = (policy & SCHED_RESET_ON_FORK) != 0;
	/* the flag: what this thread forks or starts meanwhile is an ordinary one */
	turns->raised = sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
					   &(struct sched_param){ .sched_priority = 1 }) == 0;
	turns->may = turns->raised; /* who may not is not asked again */
	turns->raised_ns = now;
	if (turns->raised && turns->how == TURNS_GENTLY)
		turns->raised_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void turns_over(struct turns *turns)
{
	struct sched_param none = { 0 };
	if (!turns->raised)
		return;
	turns->raised = 0;
	/*
	 * With the flag children get nice 0 where their parent had less, so it goes as well. Only
	 * CAP_SYS_NICE may do that: who was raised by RLIMIT_RTPRIO alone keeps it, as the kernel
	 * wants it, and such a one may not have a nice below 0 either, but by RLIMIT_NICE.
	 */
	if (turns->had_flag || sched_setscheduler(0, SCHED_OTHER, &none) < 0)
		sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
}

uint64_t turns_begin(struct turns *turns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (turns->how >= TURNS_RAISED && !turns->raised && !turns->too_long &&
	    (turns->may || !turns->asked)) {
		raise_thread(turns, now);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	return now;
}

static void make_pause(struct turns *turns)
{
	uint64_t ns = turns->how == TURNS_GENTLY ? LONG_PAUSE_NS : PAUSE_NS;
	if (turns->how == TURNS_GENTLY && turns->raised) {
		uint64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - turns->raised_cpu_ns;
		if (2 * used > ns)
			ns = 2 * used < LONGEST_PAUSE_NS ? 2 * used : LONGEST_PAUSE_NS;
		turns_over(turns);
	}
	nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
	turns->since_ns = 0;
}

void turns_end(struct turns *turns, uint64_t before_ns, uint64_t *stall_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int gently = turns->how == TURNS_GENTLY, due = 0;
	if (turns->how == TURNS_NONE || !turns->since_ns || before_ns - turns->until_ns > PAUSE_NS)
		turns->since_ns = before_ns;
	turns->until_ns = now;
	uint64_t stretch = now - turns->since_ns;
	if (stall_ns && stretch > *stall_ns)
		*stall_ns = stretch;
	if (turns->how == TURNS_NONE)
		return;
	/* What lies between two calls is a pause for the target's lock, but none for this CPU. */
	if (turns->raised && now - turns->raised_ns >= (gently ? SHORT_TURN_NS : RAISED_NS)) {
		due = 1;
		if (!gently)
			turns_over(turns);
	}
	if (due || stretch >= (gently ? SHORT_TURN_NS : TURN_NS))
		make_pause(turns);
}
