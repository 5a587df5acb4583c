/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/turns.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"

#define PAUSE_NS 60000  /* and the kernel's slack, 50 us: long enough for a thread to wake up */
#define TURN_NS 500000u /* of calls without a pause */
#define SHORT_TURN_NS 250000u
#define LONG_PAUSE_NS 500000
#define RAISED_NS 2000000u /* then ordinary threads of this CPU have had to wait for long enough */

void turns_init(struct turns *turns, enum turns_how how)
{
	*turns = (struct turns){ .pauses = how != TURNS_NONE, .raise = how == TURNS_RAISED };
}

void turns_gently(struct turns *turns)
{
	turns->raise = turns->pauses = turns->long_pauses = 1;
}

static void raise_thread(struct turns *turns, uint64_t now)
{
	/* as after an earlier time: the flag stays. A policy that somebody chose is left alone */
	turns->raised = (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
			sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
					   &(struct sched_param){ .sched_priority = 1 }) == 0;
	turns->raise = turns->raised; /* who may not is not asked again */
	turns->raised_ns = now;
}

void turns_over(struct turns *turns)
{
	if (turns->raised)
		sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK,
				   &(struct sched_param){ 0 });
	turns->raised = 0;
}

uint64_t turns_begin(struct turns *turns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (turns->raise && !turns->raised) {
		raise_thread(turns, now);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	return now;
}

void turns_end(struct turns *turns, uint64_t before_ns, uint64_t *stall_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!turns->pauses || !turns->since_ns || before_ns - turns->until_ns > PAUSE_NS)
		turns->since_ns = before_ns;
	turns->until_ns = now;
	uint64_t stretch = now - turns->since_ns;
	if (stall_ns && stretch > *stall_ns)
		*stall_ns = stretch;
	/* with long pauses two thirds of the time are theirs anyway */
	if (turns->raised && !turns->long_pauses && now - turns->raised_ns > RAISED_NS)
		turns_over(turns);
	if (!turns->pauses || stretch < (turns->long_pauses ? SHORT_TURN_NS : TURN_NS))
		return;
	nanosleep(&(struct timespec){ .tv_nsec = turns->long_pauses ? LONG_PAUSE_NS : PAUSE_NS },
		  NULL);
	turns->since_ns = 0;
}
