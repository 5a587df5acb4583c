/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions_last.c - what a process had before it ended. Once it has, nothing can be read any more, and nobody is told before: so
 * it is read again and again, and the last reading is printed with its age.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"

#define PAUSE_MIN_NS 10000000ull
#define PAUSE_MAX_NS 1000000000ull

/* One process. */
struct sample {
	struct target target;
	int pidfd, ended;
	uint64_t opened_ns, due_ns, ended_ns;
	struct breakdown *last; /* NULL: none yet */
	struct err err;         /* then: why */
};

struct samples {
	struct regions *r;
	struct sample all[TARGETS_GIVEN_MAX];
	size_t count;
	int signals, full;
	uint64_t end_ns, more_due_ns;
};

static void add(struct samples *s, pid_t pid)
{
	if (s->count == TARGETS_GIVEN_MAX) {
		if (!s->full++)
			fprintf(stderr,
				"byteledger: more than %d processes: the others are left out\n",
				TARGETS_GIVEN_MAX);
		return;
	}
	struct sample *one = &s->all[s->count++];
	one->opened_ns = one->due_ns = clock_ns(CLOCK_MONOTONIC);
	one->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* -1: its end is asked for */
	one->ended = target_open(&one->target, pid, &one->err) < 0;
}

/*
 * A reading is made when a quarter of the time since the first has passed, so that the last one is never old beside what the
 * program ran; but reading takes a fifth of a CPU at most, and once the watch's share of one earns a reading a second, that.
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
		b = regions_read(s->r, &one->target, &err);
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
		rc = targets_more(&s->r->targets, &list, err);
	for (size_t i = known; i < list.count && rc == 0; i++)
		add(s, list.pids[i]);
	s->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

/* Where no descriptor tells. */
static int has_ended(const struct samples *s, pid_t pid)
{
	if (pid == s->r->program.pid)
		return started_has_ended(pid);
	return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Until something is due or happens. Return: 1 if a signal ends it. */
static int wait_for(struct samples *s, uint64_t until_ns)
{
	struct pollfd fds[TARGETS_GIVEN_MAX + 1] = { { .fd = s->signals, .events = POLLIN } };
	for (size_t i = 0; i < s->count; i++)
		fds[i + 1] = (struct pollfd){ .fd = s->all[i].ended ? -1 : s->all[i].pidfd,
					      .events = POLLIN };
	uint64_t now = clock_ns(CLOCK_MONOTONIC), left = until_ns > now ? until_ns - now : 0;
	struct timespec time = { .tv_sec = (time_t)(left / 1000000000u),
				 .tv_nsec = (long)(left % 1000000000u) };
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
	return came > 0 && fds[0].revents && started_signals(s->signals, s->r->program.pid);
}

/* Return: 1 where a process or the program ended it, 0 the user. */
static int run(struct samples *s, struct err *err)
{
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC), next = s->end_ns ? s->end_ns : UINT64_MAX;
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
		if ((!alive && !s->r->targets.name) || (s->r->program.pid && s->all[0].ended))
			return 1;
		if (s->end_ns && now >= s->end_ns)
			return 0;
		if (targets_follow(&s->r->targets)) {
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

static int print(struct samples *s, struct sample *one, struct err *err)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!one->last && s->r->quiet)
		return 0; /* one that ended at once: nobody asked for its reading */
	if (!one->last) {
		if (!one->err.code)
			err_set(&one->err, -ESRCH, "process %d ended before it was read",
				(int)one->target.pid);
		return *err = one->err, err->code;
	}
	if (!one->ended_ns || one->ended_ns < one->last->end_ns)
		one->ended_ns = now;
	return regions_print(s->r, one->last, one->target.exe, one->ended_ns - one->last->end_ns,
			     one->ended, err);
}

int regions_last(struct regions *r, const struct target_list *list, int *stopped)
{
	struct samples *s = calloc(1, sizeof(*s));
	struct err err = { 0 };
	int status = CMD_OK;
	if (!s) {
		err_set(&err, -ENOMEM, "cannot look");
		return cmd_fail(&err);
	}
	s->r = r;
	s->signals = r->program.pid ? r->program.signals : signals_open(0);
	s->end_ns = r->watch.end_ns;
	for (size_t i = 0; i < list->count; i++)
		add(s, list->pids[i]);
	int ended = run(s, &err);
	*stopped = ended == 0;
	if (ended < 0)
		status = cmd_fail(&err);
	for (size_t i = 0; i < s->count; i++) {
		struct sample *one = &s->all[i];
		if (!one->ended && ended >= 0)
			look(s, one); /* this moment is what --duration and Ctrl-C ask for */
		err_init(&err);
		if (print(s, one, &err) < 0)
			status = cmd_fail(&err);
		breakdown_free(one->last);
		target_close(&one->target);
		if (one->pidfd >= 0)
			close(one->pidfd);
	}
	if (!r->program.pid && s->signals >= 0)
		close(s->signals);
	free(s);
	return status;
}
