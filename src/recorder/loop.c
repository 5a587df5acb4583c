/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - a recording from step to step, until something ends it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/attach.h"
#include "recorder/record.h"
#include "recorder/started.h"

#define MS 1000000
#define LOOK_NS (50ll * MS) /* for libraries that came, where nobody tells */

/* What a signal means while the program runs. */
void record_take_signals(struct record *rec, int fd, pid_t forward_to)
{
	struct signalfd_siginfo info;
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		rec->interrupted |= info.ssi_signo == SIGINT;
		rec->is_over |= rec->attach && info.ssi_signo != SIGCHLD;
		/* it comes when the program stops or goes on, too */
		if (rec->is_child && info.ssi_signo == SIGCHLD)
			rec->gone = started_has_ended(rec->pid);
		/*
		 * SIGINT and SIGQUIT of the terminal reached the program, too: they are its own
		 * affair
		 */
		if (forward_to > 0 && (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP))
			kill(forward_to, (int)info.ssi_signo);
	}
}

/* The file says why it ends here: who reads it later has not seen what was said to the terminal. */
static void tell_no_memory(struct record *rec)
{
	struct event lost = { .kind = EVENT_LOST,
			      .time_ns = source_heap_now_ns(rec->heap),
			      .value = LOSS_NO_MEMORY };
	struct err ignored = { 0 };
	rec->tee.sink.put(&rec->tee.sink, &lost, 1, &ignored);
}

/*
 * A step failed. A file that cannot grow goes on counting what it lacks, for which its writer has
 * kept room, until there is some for another one; whatever else fails ends the recording. The
 * program goes on. Return: in how many nanoseconds to look again.
 */
static int64_t bear_failure(struct record *rec)
{
	int counts = !rec->failed && rec->writer && trace_writer_flush(rec->writer, NULL) < 0;
	int full = rec->err.code == -ENOSPC || rec->err.code == -EDQUOT;
	if (!rec->failed) {
		if (!rec->err.hint[0])
			err_hint(&rec->err,
				 "what was recorded before can be read; the program goes on, %s",
				 !counts ? "unrecorded"
				 : full  ? "and what it does is only counted until there is room "
					   "again"
					 : "and what it does is only counted");
		record_fail(rec, &rec->err);
	}
	rec->failed = 1;
	record_await_room(rec);
	if (counts)
		return 0;
	rec->given_up = 1;
	if (rec->err.code == -ENOMEM && rec->writer)
		tell_no_memory(rec);
	source_heap_detach(rec->heap);
	return 10 * MS;
}

/*
 * The kernel's own grace for a sleep, and ours: then the beat's timer, which comes before, wakes
 * this thread too.
 */
#define SLACK_USUAL_NS 50000ul
#define SLACK_LONG_NS 2000000ul
#define LONG_PAUSE_NS (8 * MS)

/*
 * To wake an idle processor costs ten times what is done then. A long pause may be a little longer,
 * so that this thread and the beat are woken at once. @slack_ns: as it is now.
 */
static void fit_slack(int64_t pause_ns, unsigned long *slack_ns)
{
	unsigned long want = pause_ns >= LONG_PAUSE_NS ? SLACK_LONG_NS : SLACK_USUAL_NS;
	if (want != *slack_ns)
		prctl(PR_SET_TIMERSLACK, want);
	*slack_ns = want;
}

/* What may have happened, case by case. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
enum recorder_end record_loop(struct record *rec, int signals, int stop, uint64_t duration_ns,
			      pid_t forward_to)
{
	struct pollfd fds[5] = { { .fd = signals, .events = POLLIN },
				 { .fd = rec->pidfd, .events = POLLIN },
				 { .fd = rec->heart.ends, .events = POLLIN },
				 { .fd = stop, .events = POLLIN },
				 { .fd = rec->pages.asks_path ? rec->pages.asks : -1,
				   .events = POLLIN } };
	eventfd_t ends;
	unsigned long slack_ns = SLACK_USUAL_NS;
	for (;;) {
		int64_t pause = 10 * MS;
		if (!rec->given_up && !rec->replaced) {
			pause = record_step(rec);
			if (pause < 0)
				pause = bear_failure(rec);
			if (rec->attach) {
				attach_look(rec->attach, clock_ns(CLOCK_MONOTONIC));
				pause = MIN(pause, LOOK_NS);
			}
		} else if (rec->replaced) {
			record_note_successor(rec);
			if (forward_to == 0)
				/* the successor has a recorder of its own, or none */
				return RECORDER_ENDED;
			record_look_around(rec);
			pause = record_pages_after(rec);
		} else if (duration_ns == 0) {
			pause = 1000 * (int64_t)MS;
		}
		if (rec->gone)
			return RECORDER_ENDED;
		if (duration_ns && source_heap_now_ns(rec->heap) >= duration_ns)
			return RECORDER_TIME_OVER;
		if (duration_ns) {
			int64_t left = (int64_t)(duration_ns - source_heap_now_ns(rec->heap));
			if (left < pause)
				pause = left > 0 ? left : 0;
		}
		const struct timespec ts = clock_time((uint64_t)pause);
		fit_slack(pause, &slack_ns);
		if (ppoll(fds, 5, &ts, NULL) <= 0)
			continue;
		if (fds[2].revents)
			eventfd_read(rec->heart.ends, &ends);
		if (fds[0].revents)
			record_take_signals(rec, signals, forward_to);
		if (fds[4].revents)
			record_pages_answer(rec);
		if (fds[3].revents || rec->is_over)
			return RECORDER_STOPPED;
		if (fds[1].revents || rec->gone)
			return RECORDER_ENDED;
	}
}

int record_block_signals(int how, sigset_t *before)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(how, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
