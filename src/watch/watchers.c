/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watchers.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

struct watchers {
	struct watchers_opt opt;
	struct watched_opt how;
	struct watched_set set;
	/* of each place */
	struct history *histories[TARGETS_GIVEN_MAX];
	int stop;
	/* when to look for restarts and children */
	uint64_t more_due_ns;
	/* said so */
	int full, waiting;
	/* one of them could be read, once at least */
	int looked;
	/* the last one that could not: why, until it is told */
	struct err refused;
};

static void PRINTF(2, 3) say(const struct watchers *l, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (l->opt.ears.say)
		l->opt.ears.say(l->opt.ears.ctx, text);
}

static void warn(const struct watchers *l, const struct err *what)
{
	if (l->opt.ears.warn)
		l->opt.ears.warn(l->opt.ears.ctx, what);
}

static int alive(const struct watchers *l)
{
	int count = 0;
	for (size_t i = 0; i < l->set.count; i++)
		count += !l->set.all[i].facts.ended;
	return count;
}

/* Until the next look is due, a signal comes or a process ends. */
static void wait_for(struct watchers *l, uint64_t until_ns)
{
	struct pollfd fds[TARGETS_GIVEN_MAX + 1] = { { .fd = l->opt.signals, .events = POLLIN } };
	struct watched *polled[TARGETS_GIVEN_MAX + 1];
	nfds_t count = 1;
	for (size_t i = 0; i < l->set.count && count <= TARGETS_GIVEN_MAX; i++) {
		struct watched *w = &l->set.all[i];
		if (w->facts.ended || w->exited || w->pidfd < 0)
			continue;
		polled[count] = w;
		fds[count++] = (struct pollfd){ .fd = w->pidfd, .events = POLLIN };
	}
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec time = clock_time(left);
	if (ppoll(fds, count, &time, NULL) <= 0)
		return;
	if (fds[0].revents && l->opt.ears.signalled && l->opt.ears.signalled(l->opt.ears.ctx))
		l->stop = 1;
	for (nfds_t i = 1; i < count; i++)
		polled[i]->exited |= fds[i].revents != 0;
}

/* What the others have, told by one of them: the first that lives. */
static void sum_others(struct watchers *l, struct watched *w)
{
	uint64_t rss = 0, pss = 0;
	const struct watched *first = NULL;
	for (size_t i = 0; i < l->set.count; i++) {
		const struct watched *other = &l->set.all[i];
		if (other->facts.ended)
			continue;
		first = first ? first : other;
		if (other == w)
			continue;
		rss += other->facts.time_ns ? other->facts.totals.rss_bytes : 0;
		if (pss != UINT64_MAX && other->facts.time_ns)
			pss = watched_pss(other) == UINT64_MAX ? UINT64_MAX
							       : pss + watched_pss(other);
	}
	w->others_rss_bytes = first == w ? rss : UINT64_MAX;
	w->others_pss_bytes = first == w ? pss : UINT64_MAX;
}

/*
 * A process that may not be read is no reason to end for the others; where there are none, the
 * watch fails by it (watchers_run()) and it is not told twice.
 */
static void tell_refused(struct watchers *l)
{
	if (l->refused.code)
		warn(l, &l->refused);
	l->refused.code = 0;
}

static void refuse(struct watchers *l, const struct err *why)
{
	tell_refused(l);
	l->refused = *why;
}

/* Return: negative errno where going on makes no sense. */
static int look(struct watchers *l, struct watched *w, struct err *err)
{
	struct alert_event events[ALERT_RULES_MAX];
	int met;
	sum_others(l, w);
	int rc = watched_look(w, events, &met, err);
	if (rc == -ESRCH || rc == -ENODATA || rc == -EPERM || rc == -EACCES) {
		pthread_mutex_lock(&w->lock);
		w->facts.ended = 1;
		pthread_mutex_unlock(&w->lock);
		if (rc == -ESRCH || rc == -ENODATA)
			say(l, "process %d has ended", (int)w->pid);
		else
			refuse(l, err);
		return 0;
	}
	l->looked = 1;
	if (rc < 0) {
		warn(l, err); /* a full disk, say: the watch goes on without */
		rc = 0;
	}
	for (int i = 0; i < met && l->opt.ears.met; i++)
		l->opt.ears.met(l->opt.ears.ctx, w, &events[i]);
	return l->opt.ears.looked ? l->opt.ears.looked(l->opt.ears.ctx, w, rc == 1, err) : 0;
}

/* ---- restarts, children ---------------------------------------------------------------------- */

static void say_damaged(const struct watchers *l, const struct history *history)
{
	if (history_damaged(history))
		say(l, "%llu bytes of '%s' were damaged and are left out",
		    (unsigned long long)history_damaged(history), l->opt.history);
	if (history_aside(history))
		say(l, "the file as it was is kept as '%s'", history_aside(history));
}

/* Place @at becomes @pid's; the history of who had it before goes on. */
static int give_place(struct watchers *l, size_t at, pid_t pid, struct err *err)
{
	struct watched *w = &l->set.all[at];
	int rc = 0;
	if (!l->histories[at]) {
		rc = history_open(l->opt.history, 1, &l->histories[at], err);
		if (rc < 0)
			return rc;
		say_damaged(l, l->histories[at]);
	}
	pthread_rwlock_wrlock(&l->set.lock);
	if (at < l->set.count)
		watched_close(w);
	rc = watched_open(w, pid, &l->how, l->histories[at], err);
	if (rc < 0) /* looked at no more, and not again */
		w->facts.ended = 1;
	if (at == l->set.count)
		l->set.count++;
	pthread_rwlock_unlock(&l->set.lock);
	if (rc == 0 && l->how.names)
		mapnames_add(l->how.names, pid, err);
	return rc;
}

/* A place for one more: that of a process that ended, else the next. SIZE_MAX: none is left. */
static size_t find_place(struct watchers *l, pid_t pid)
{
	size_t most = l->opt.history ? 1 : TARGETS_GIVEN_MAX, place = SIZE_MAX;
	for (size_t i = 0; i < l->set.count; i++) {
		struct watched *w = &l->set.all[i];
		if (!w->facts.ended)
			continue;
		/* one that may not be read is still there: it is not tried again and again */
		if (w->pid == pid && w->pidfd >= 0 &&
		    poll(&(struct pollfd){ .fd = w->pidfd, .events = POLLIN }, 1, 0) == 0)
			return SIZE_MAX;
		/* a program that was started is what the place of its name is about */
		if (place == SIZE_MAX && !(l->opt.program && i == 0))
			place = i;
	}
	if (place == SIZE_MAX && l->set.count < most)
		place = l->set.count;
	if (place == SIZE_MAX && !l->full++)
		say(l,
		    l->opt.history ? "process %d is left out: a history is of one process"
				   : "process %d and those to come are left out: too many to watch",
		    (int)pid);
	return place;
}

static int look_for_more(struct watchers *l, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = 0;
	for (size_t i = 0; i < l->set.count && rc == 0; i++)
		if (!l->set.all[i].facts.ended)
			rc = target_list_add(&list, l->set.all[i].pid, err);
	size_t known = list.count;
	if (rc == 0)
		rc = targets_more(l->opt.targets, &list, err);
	for (size_t i = known; i < list.count && rc == 0; i++) {
		size_t at = find_place(l, list.pids[i]);
		if (at == SIZE_MAX)
			continue;
		struct err failed = { 0 };
		if (give_place(l, at, list.pids[i], &failed) == 0)
			say(l, "watching process %d, too", (int)list.pids[i]);
		else if (failed.code != -ESRCH) /* ended meanwhile */
			warn(l, &failed);
		l->waiting = 0;
	}
	l->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

/* Whether anybody is left, or may come. */
static int goes_on(struct watchers *l, struct err *err)
{
	const struct targets *targets = l->opt.targets;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (l->stop || (l->opt.program && l->set.all[0].facts.ended))
		return 0;
	int left = alive(l);
	if (targets_follow(targets) && (!left || now >= l->more_due_ns)) {
		if (left || now >= l->more_due_ns || !targets->name) {
			int rc = look_for_more(l, err);
			if (rc < 0)
				return rc;
		}
		left = alive(l);
	}
	if (!left && targets->name && !l->waiting++)
		say(l, "waiting for a program called '%s'", targets->name);
	return left || targets->name;
}

/* Those that are due at @now; *@next: when the next one is, unless that is sooner already. */
static int look_at_due(struct watchers *l, uint64_t now, uint64_t *next, struct err *err)
{
	for (size_t i = 0; i < l->set.count && !l->stop; i++) {
		struct watched *w = &l->set.all[i];
		if (w->facts.ended)
			continue;
		/* at its end at once: its last look is what says that it has ended */
		if (watch_due_ns(w->watch) <= now || w->exited) {
			err_init(err);
			int rc = look(l, w, err);
			if (rc < 0)
				return rc;
		}
		if (watch_due_ns(w->watch) < *next)
			*next = watch_due_ns(w->watch);
	}
	return 0;
}

int watchers_run(struct watchers *l, struct err *err)
{
	int on;
	while ((on = goes_on(l, err)) > 0) {
		uint64_t next = l->opt.end_ns ? l->opt.end_ns : UINT64_MAX,
			 now = clock_ns(CLOCK_MONOTONIC);
		if (targets_follow(l->opt.targets) && l->more_due_ns < next)
			next = l->more_due_ns;
		int rc = look_at_due(l, now, &next, err);
		if (rc < 0)
			return rc;
		if (l->looked || alive(l) || l->opt.targets->name)
			tell_refused(l);
		if (l->opt.ears.turned)
			l->opt.ears.turned(l->opt.ears.ctx);
		if (l->opt.end_ns && clock_ns(CLOCK_MONOTONIC) >= l->opt.end_ns) {
			l->stop = 1;
			break;
		}
		if (!l->stop && (alive(l) || l->opt.targets->name))
			wait_for(l, next);
	}
	if (on == 0 && l->refused.code && !l->looked && !l->stop) {
		*err = l->refused;
		return err->code;
	}
	tell_refused(l);
	return on < 0 ? on : 0;
}

static int begin(struct watchers *l, const struct target_list *list, struct err *err)
{
	if (list->count > TARGETS_GIVEN_MAX)
		return err_set(err, -EINVAL, "%zu processes are too many to watch: at most %d",
			       list->count, TARGETS_GIVEN_MAX);
	if (l->opt.history && list->count > 1) {
		err_set(err, -EINVAL, "a history is of one process, and these are %zu",
			list->count);
		return err_hint(err, "watch each by a command of its own, with its own file");
	}
	l->more_due_ns = targets_more_due(0);
	for (size_t i = 0; i < list->count; i++) {
		int rc = give_place(l, i, list->pids[i], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

struct watchers *watchers_new(const struct watchers_opt *opt, const struct target_list *list,
			      struct err *err)
{
	struct watchers *l = calloc(1, sizeof(*l));
	struct watched *all = calloc(TARGETS_GIVEN_MAX, sizeof(*all));
	if (!l || !all) {
		free(l);
		free(all);
		err_set(err, -ENOMEM, "cannot watch");
		return NULL;
	}
	pthread_rwlockattr_t fair;
	pthread_rwlockattr_init(&fair);
	/* many askers do not keep a restarted process out */
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&l->set.lock, &fair);
	pthread_rwlockattr_destroy(&fair);
	l->set.all = all;
	l->opt = *opt;
	l->how = opt->each;
	if (begin(l, list, err) < 0)
		watchers_freep(&l);
	return l;
}

void watchers_stop(struct watchers *l)
{
	l->stop = 1;
}

int watchers_stopped(const struct watchers *l)
{
	return l->stop;
}

struct watched_set *watchers_set(struct watchers *l)
{
	return &l->set;
}

void watchers_freep(struct watchers **watchers)
{
	struct watchers *l = *watchers;
	*watchers = NULL;
	if (!l)
		return;
	for (size_t i = 0; i < l->set.count; i++)
		watched_close(&l->set.all[i]);
	for (size_t i = 0; i < TARGETS_GIVEN_MAX; i++)
		history_close(l->histories[i]);
	free(l->set.all);
	pthread_rwlock_destroy(&l->set.lock);
	free(l);
}
