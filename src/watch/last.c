/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/last.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/watch.h"

#define PAUSE_MIN_NS 10000000ull
#define PAUSE_MAX_NS NS_PER_S

/* One process. */
struct sample {
	struct target target;
	int pidfd, ended;
	uint64_t opened_ns, due_ns, ended_ns;
	/* NULL: none yet */
	struct breakdown *last;
	/* then: why */
	struct err err;
};

struct samples {
	const struct last_opt *opt;
	struct sample all[TARGETS_GIVEN_MAX];
	size_t count;
	int full;
	uint64_t more_due_ns;
};

static void add(struct samples *s, pid_t pid)
{
	if (s->count == TARGETS_GIVEN_MAX) {
		if (!s->full++)
			s->opt->full(s->opt->ctx, TARGETS_GIVEN_MAX);
		return;
	}
	struct sample *one = &s->all[s->count++];
	one->opened_ns = one->due_ns = clock_ns(CLOCK_MONOTONIC);
	one->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* -1: its end is asked for */
	one->ended = target_open(&one->target, pid, &one->err) < 0;
}

/*
 * A reading is made when a quarter of the time since the first has passed, so that the last one is
 * never old beside what the program ran; but reading takes a fifth of a CPU at most, and once the
 * watch's share of one earns a reading a second, that.
 */
static void look(struct samples *s, struct sample *one)
{
	struct err err = { 0 };
	uint64_t began = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct target now_runs = { 0 };
	struct breakdown *b = NULL;
	if (target_open(&now_runs, one->target.pid, &err) == 0) {
		/* a shell or a wrapper may have become another program */
		target_close(&one->target);
		one->target = now_runs;
		b = s->opt->read(s->opt->ctx, &one->target, &err);
	}
	if (b && b->virtual_bytes) { /* a zombie has no memory: what it had before counts */
		breakdown_free(one->last);
		one->last = b;
	} else {
		/* between two programs, at an exec, or at the end: the next look tells */
		breakdown_free(b);
		if (!one->last)
			one->err = err;
	}
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	uint64_t earned = (uint64_t)((double)cpu / WATCH_BUDGET);
	uint64_t most = earned > PAUSE_MAX_NS ? earned : PAUSE_MAX_NS;
	uint64_t pause = (now - one->opened_ns) / 4;
	pause = pause < most ? pause : most;
	pause = pause > 4 * (now - began) ? pause : 4 * (now - began);
	one->due_ns = now + (pause > PAUSE_MIN_NS ? pause : PAUSE_MIN_NS);
}

/* What came meanwhile: children, others of that name. */
static int look_for_more(struct samples *s, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	int rc = 0;
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; i < s->count && rc == 0; i++)
		if (!s->all[i].ended)
			rc = target_list_add(&list, s->all[i].target.pid, err);
	size_t known = list.count;
	if (rc == 0)
		rc = targets_more(s->opt->targets, &list, err);
	for (size_t i = known; i < list.count && rc == 0; i++)
		add(s, list.pids[i]);
	s->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

/* Where no descriptor tells. */
static int has_ended(const struct samples *s, pid_t pid)
{
	siginfo_t info = { 0 };
	/* a child of ours stays until its status is taken, which is not for us to do */
	if (pid == s->opt->program)
		return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		       info.si_pid;
	return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Until something is due or happens. Return: 1 if a signal ends it. */
static int wait_for(struct samples *s, uint64_t until_ns)
{
	struct pollfd fds[TARGETS_GIVEN_MAX + 1] = { { .fd = s->opt->signals, .events = POLLIN } };
	for (size_t i = 0; i < s->count; i++)
		fds[i + 1] = (struct pollfd){ .fd = s->all[i].ended ? -1 : s->all[i].pidfd,
					      .events = POLLIN };
	uint64_t now = clock_ns(CLOCK_MONOTONIC), left = until_ns > now ? until_ns - now : 0;
	struct timespec time = clock_time(left);
	int came = ppoll(fds, s->count + 1, &time, NULL);
	now = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < s->count; i++) {
		struct sample *one = &s->all[i];
		if (!one->ended && (one->pidfd < 0 ? has_ended(s, one->target.pid)
						   : came > 0 && fds[i + 1].revents)) {
			one->ended = 1;
			one->ended_ns = now;
		}
	}
	return came > 0 && fds[0].revents && s->opt->signalled(s->opt->ctx);
}

/* Return: 1 where a process or the program ended it, 0 the user. */
/* What may have happened, case by case. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
static int run(struct samples *s, struct err *err)
{
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC),
			 next = s->opt->end_ns ? s->opt->end_ns : UINT64_MAX;
		size_t alive = 0;
		for (size_t i = 0; i < s->count; i++) {
			struct sample *one = &s->all[i];
			if (one->ended)
				continue;
			alive++;
			if (one->due_ns <= now)
				look(s, one);
			next = one->due_ns < next ? one->due_ns : next;
		}
		/* of a name the next one is waited for */
		if ((!alive && !s->opt->targets->name) || (s->opt->program && s->all[0].ended))
			return 1;
		if (s->opt->end_ns && now >= s->opt->end_ns)
			return 0;
		if (targets_follow(s->opt->targets)) {
			size_t known = s->count;
			if (s->more_due_ns <= now && look_for_more(s, err) < 0)
				return err->code;
			if (s->count > known)
				continue;
			next = s->more_due_ns < next ? s->more_due_ns : next;
		}
		if (wait_for(s, next))
			return 0;
	}
}

static int tell(struct samples *s, struct sample *one, struct err *err)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!one->last) {
		if (!one->err.code)
			err_set(&one->err, -ESRCH, "process %d ended before it was read",
				(int)one->target.pid);
		*err = one->err;
		s->opt->unread(s->opt->ctx, err);
		return err->code;
	}
	if (!one->ended_ns || one->ended_ns < one->last->end_ns)
		one->ended_ns = now;
	return s->opt->tell(s->opt->ctx, one->last, one->target.exe,
			    one->ended_ns - one->last->end_ns, one->ended, err);
}

int watch_last(const struct last_opt *opt, const struct target_list *list, int *stopped,
	       struct err *err)
{
	struct samples *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "cannot look");
	s->opt = opt;
	for (size_t i = 0; i < list->count; i++)
		add(s, list->pids[i]);
	int ended = run(s, err);
	*stopped = ended == 0;
	for (size_t i = 0; i < s->count; i++) {
		struct sample *one = &s->all[i];
		struct err why = { 0 };
		if (!one->ended && ended >= 0)
			look(s,
			     one); /* this moment is what the end of the time and Ctrl-C ask for */
		tell(s, one, &why);
		breakdown_free(one->last);
		target_close(&one->target);
		if (one->pidfd >= 0)
			close(one->pidfd);
	}
	free(s);
	return ended < 0 ? ended : 0;
}
