/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting takes a fiftieth of a CPU at most; a program that was just started is counted soon, so
 * that a short one is counted at all.
 */
#include "probe/pages_life.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/desk.h"
#include "probe/pages_kept.h"
#include "proc/proc.h"
#include "recorder/pages_record.h"

#define POLL_MS 10000u /* all that may come in between has a descriptor */
#define WALK_FIRST_NS 10000000ull
#define WALK_LIVE_NS NS_PER_S /* on a terminal, or where somebody asks by HTTP */
#define WALK_ELSE_NS 5000000000ull
#define WALK_SHARE 50 /* of the time, one part at most goes into counting where somebody looks */
#define WALK_ELSE_SHARE 100
#define WALK_ASKED_SHARE 4          /* where somebody asks by HTTP: a fifth of the time at most */
#define ASKED_WAIT_NS 2000000000ull /* then the last reading is the answer; it says how old it is */
#define AGAIN_MAX 6
#define AGAIN_PARTS 256 /* counted again where more than such a part changed meanwhile */
#define AGAIN_LEAST (32u << 10)

struct pages_life {
	struct pages_life_opt opt;
	struct pageown *pages;
	struct started program;
	int signals, stop;
	uint64_t began_ns, due_ns, more_due_ns;
	/* no counting before: its share of the time is used up */
	uint64_t rested_ns;
	/* when it had run */
	uint64_t over_ns;
	/* for a name, which was said */
	int waited;
	/* the last one; under lock for the threads of the server */
	struct page_shot *shot;
	pthread_mutex_t lock;
	/* whoever asks is answered with what was counted from then on */
	struct desk desk;
	/* not before */
	uint64_t asked_due_ns;
	/* what is for HTTP: under lock */
	struct pages_kept kept;
	/* NULL: none asked for */
	struct pages_record *record;
};

/* ---- readings -------------------------------------------------------------------------------- */

struct page_shot *pages_life_shot(void *life)
{
	struct pages_life *l = life;
	pthread_mutex_lock(&l->lock);
	struct page_shot *shot = page_shot_get(l->shot);
	pthread_mutex_unlock(&l->lock);
	return shot;
}

struct page_shot *pages_life_fresh(void *life)
{
	struct pages_life *l = life;
	/* with --watch it was said how often they are counted */
	if (!l->opt.watch_ns)
		desk_ask(&l->desk, ASKED_WAIT_NS);
	return pages_life_shot(l);
}

struct page_shot *pages_life_past(void *life, uint64_t ago_ns)
{
	struct pages_life *l = life;
	pthread_mutex_lock(&l->lock);
	struct page_shot *found = pages_kept_past(&l->kept, clock_ns(CLOCK_MONOTONIC), ago_ns);
	pthread_mutex_unlock(&l->lock);
	return found;
}

const struct page_shot *pages_life_then(const struct pages_life *l)
{
	return pages_kept_then(&l->kept);
}

struct pageown *pages_life_pages(struct pages_life *l)
{
	return l->pages;
}

/*
 * How much more or less anonymous memory was found than the kernel said behind it, beyond what is
 * allowed.
 */
static uint64_t changed_meanwhile(const struct page_shot *shot)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < shot->count; i++) {
		const struct page_process *p = shot->processes[i];
		if (p->ended || p->rss_anon_bytes == PAGES_UNKNOWN)
			continue;
		uint64_t counted = p->kinds[PAGES_ANON], said = p->rss_anon_bytes,
			 by = counted > said ? counted - said : said - counted;
		sum += by > said / AGAIN_PARTS + AGAIN_LEAST ? by : 0;
	}
	return sum;
}

/* Page tables change while they are read: somebody who waits gets the best of a few readings. */
static int read_pages(struct pages_life *l, int asked, struct page_shot **out, struct err *err)
{
	CLEANUP(page_shot_putp) struct page_shot *best = NULL;
	uint64_t least = UINT64_MAX;
	for (int i = 0; least && i < (asked ? AGAIN_MAX : 1); i++) {
		CLEANUP(page_shot_putp) struct page_shot *shot = NULL;
		int rc = pageown_read(l->pages, &shot, err);
		if (rc < 0)
			return rc;
		uint64_t by = changed_meanwhile(shot);
		if (by >= least)
			continue;
		least = by;
		page_shot_put(best);
		best = STEAL(shot);
	}
	*out = STEAL(best);
	return 0;
}

static int count(struct pages_life *l, struct err *err)
{
	struct page_shot *shot = NULL, *old;
	uint64_t asked = desk_asked(&l->desk);
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = read_pages(l, desk_waits(&l->desk), &shot, err);
	if (rc < 0)
		return rc;
	/* names are looked up once each, and are no reason to count less often */
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (l->opt.is_served || l->opt.is_streamed)
		pageown_resolve(l->pages, shot, l->opt.is_served);
	pthread_mutex_lock(&l->lock);
	old = l->shot;
	l->shot = shot;
	if (l->opt.is_served && shot->count)
		pages_kept_put(&l->kept, shot);
	pthread_mutex_unlock(&l->lock);
	page_shot_put(old);
	if (l->opt.since_ns && shot->count)
		pages_kept_since(&l->kept, shot, l->opt.since_ns);
	l->asked_due_ns = clock_ns(CLOCK_MONOTONIC) + cpu * WALK_ASKED_SHARE;
	desk_answer(&l->desk, asked);
	if (l->record && (rc = pages_record_put(l->record, l->shot, err)) < 0)
		return rc;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t pause = (now - l->began_ns) / 4;
	int looks = l->opt.is_drawn || l->opt.is_served || l->opt.is_streamed;
	uint64_t most = looks ? WALK_LIVE_NS : WALK_ELSE_NS;
	pause = pause < WALK_FIRST_NS ? WALK_FIRST_NS : pause > most ? most : pause;
	l->rested_ns = now + cpu * (looks ? WALK_SHARE : WALK_ELSE_SHARE);
	l->due_ns = l->rested_ns > now + pause ? l->rested_ns : now + pause;
	if (l->opt.watch_ns)
		l->due_ns = now + l->opt.watch_ns;
	return l->opt.ears.counted ? l->opt.ears.counted(l->opt.ears.ctx, err) : 0;
}

/* ---- targets --------------------------------------------------------------------------------- */

static int takes_children(const struct pages_life_opt *job)
{
	/* who starts in a container or a cgroup stays there */
	return job->targets->follow_children || job->targets->container || job->targets->cgroup;
}

static int take_up(struct pages_life *l, pid_t pid, struct err *err)
{
	if (pageown_follows(l->pages, pid))
		return 0;
	int rc = pageown_follow(l->pages, pid, takes_children(&l->opt), err);
	if (!rc)
		l->due_ns = 0;
	return rc;
}

/* Those that are there now. One that is gone by now is no error among others. */
static int take_list(struct pages_life *l, const struct target_list *list, int given,
		     struct err *err)
{
	size_t good = 0;
	for (size_t i = 0; i < list->count; i++) {
		struct err one = { 0 };
		if (take_up(l, list->pids[i], &one) == 0) {
			good++;
		} else if (given) {
			*err = one;
			if (list->count == 1)
				return one.code;
			l->opt.ears.fail(&one);
		}
	}
	return given && list->count && !good ? err->code : 0;
}

static int is_glob(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

static int look_for_more(struct pages_life *l, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = targets_more(l->opt.targets, &list, err);
	if (!rc)
		rc = take_list(l, &list, 0, err);
	l->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

static void on_event(void *ctx, const struct pageown_event *event)
{
	struct pages_life *l = ctx;
	char exe[4096];
	if (event->kind == PAGES_EXECED && !event->followed && l->opt.targets->name &&
	    proc_exe(event->pid, exe, sizeof(exe)) == 0) {
		const char *base = strrchr(exe, '/');
		struct err gone = { 0 };
		if (fnmatch(l->opt.targets->name, base ? base + 1 : exe, 0) == 0)
			take_up(l, event->pid, &gone);
	}
	/* one that ends before it was counted is not told */
	if (event->kind == PAGES_FORKED && event->followed) {
		uint64_t soon = clock_ns(CLOCK_MONOTONIC) + WALK_FIRST_NS;
		soon = soon < l->rested_ns ? l->rested_ns : soon;
		l->due_ns = soon < l->due_ns ? soon : l->due_ns;
	}
	/* of what begins, the first pages are counted soon */
	if (event->kind == PAGES_EXECED && event->followed) {
		l->began_ns = clock_ns(CLOCK_MONOTONIC);
		l->due_ns = l->began_ns + WALK_FIRST_NS;
		if (l->due_ns < l->rested_ns)
			l->due_ns = l->rested_ns;
	}
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Until something comes, or @until_ns. Return: 1 where the command is to end. */
static int wait_for(struct pages_life *l, uint64_t until_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t ms = until_ns <= now ? 0 : (until_ns - now) / 1000000 + 1;
	struct pollfd fds[] = { { .fd = l->signals, .events = POLLIN },
				{ .fd = pageown_fd(l->pages), .events = POLLIN },
				{ .fd = desk_fd(&l->desk), .events = POLLIN } };
	int found = poll(fds, 3, (int)(ms < POLL_MS ? ms : POLL_MS));
	return found > 0 && fds[0].revents ? started_signals(l->signals, l->program.pid) : 0;
}

static int loop(struct pages_life *l, struct err *err)
{
	int rc = 0;
	for (;;) {
		rc = pageown_poll(l->pages, on_event, l, err);
		if (rc < 0)
			return rc;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (l->more_due_ns <= now && targets_follow(l->opt.targets) &&
		    (rc = look_for_more(l, err)) < 0)
			return rc;
		size_t living = pageown_count(l->pages);
		uint64_t asked = desk_asked(&l->desk);
		if (!living)
			desk_answer(&l->desk, asked);
		else if (desk_waits(&l->desk) && l->asked_due_ns < l->due_ns)
			l->due_ns = l->asked_due_ns;
		if (living && l->due_ns <= now && (rc = count(l, err)) < 0)
			return rc;
		if (l->program.pid ? started_has_ended(l->program.pid)
				   : !living && !l->opt.targets->name)
			return 0;
		if (!living && !l->waited++ && l->opt.targets->name)
			l->opt.targets->waiting(l->opt.targets->name);
		now = clock_ns(CLOCK_MONOTONIC);
		if (l->opt.end_ns && now >= l->opt.end_ns) {
			l->stop = 1;
			return 0;
		}
		uint64_t next = living ? l->due_ns : UINT64_MAX;
		if (l->opt.end_ns && l->opt.end_ns < next)
			next = l->opt.end_ns;
		if (targets_follow(l->opt.targets) && l->more_due_ns < next)
			next = l->more_due_ns;
		if (wait_for(l, next)) {
			l->stop = 1;
			return 0;
		}
	}
}

static int open_pages(struct pages_life *l, struct err *err)
{
	const struct pages_life_opt *job = &l->opt;
	const struct pageown_opt opt = {
		.stacks_max = job->stacks,
		.table_bytes = job->tables_bytes > 1u << 30 ? 1u << 30 : job->tables_bytes,
		.take_name = job->targets->name && !is_glob(job->targets->name) ? job->targets->name
										: NULL,
		.take_children = job->targets->follow_children,
		.tell_execs = job->targets->name && is_glob(job->targets->name),
	};
	l->pages = pageown_new(&opt, err);
	int rc = l->pages ? pageown_load(l->pages, err) : err->code;
	return rc ? rc : pageown_attach(l->pages, err);
}

static int take_targets(struct pages_life *l, struct err *err)
{
	const struct pages_life_opt *job = &l->opt;
	char **program = job->program;
	if (program) {
		pageown_expect(l->pages, program[0]);
		int rc = pageown_launch(l->pages, 1, 0, 0, err);
		if (rc < 0)
			return rc;
		rc = started_begin(&l->program, program, 0, err);
		l->signals = l->program.signals;
		struct err more = { 0 };
		int end = pageown_launch(l->pages, 0, rc < 0 ? 0 : l->program.pid,
					 job->targets->follow_children, &more);
		/* one that has ended by now had no time to be looked at */
		if (!rc && end < 0 && end != -ESRCH)
			l->opt.ears.fail(&more);
		return rc;
	}
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	/* a name is not waited for here: the kernel tells */
	struct targets now = *job->targets;
	now.name = NULL;
	int rc = targets_find(&now, 0, &list, err);
	memcpy(job->targets->container_id, now.container_id, sizeof(now.container_id));
	if (!rc)
		rc = take_list(l, &list, 1, err);
	return !rc && job->targets->name ? look_for_more(l, err) : rc;
}

int pages_life_run(struct pages_life *l, struct err *err)
{
	int rc = open_pages(l, err);
	if (!rc && !l->opt.program && (l->signals = signals_open(0)) < 0)
		rc = err_set(err, l->signals, "cannot take signals");
	if (!rc)
		rc = pageown_start(l->pages, err);
	if (!rc)
		rc = take_targets(l, err);
	if (!rc)
		rc = pageown_drop_privileges(l->pages, err);
	if (!rc && l->opt.ears.ready)
		rc = l->opt.ears.ready(l->opt.ears.ctx, err);
	if (!rc)
		rc = loop(l, err);
	l->over_ns = clock_ns(CLOCK_MONOTONIC);
	desk_close(&l->desk);
	/* this moment is what --duration and Ctrl-C ask for */
	if (!rc && l->stop)
		rc = pageown_poll(l->pages, NULL, NULL, err);
	if (!rc && (l->stop || !l->shot))
		rc = count(l, err);
	return rc;
}

struct pages_life *pages_life_new(const struct pages_life_opt *opt, struct err *err)
{
	struct pages_life *l = calloc(1, sizeof(*l));
	if (!l) {
		err_set(err, -ENOMEM, "cannot count pages");
		return NULL;
	}
	l->opt = *opt;
	l->signals = -1;
	l->program = (struct started){ .signals = -1, .status = 1 };
	l->began_ns = clock_ns(CLOCK_MONOTONIC);
	if (desk_init(&l->desk, err) < 0) {
		free(l);
		return NULL;
	}
	pthread_mutex_init(&l->lock, NULL);
	if (opt->record && !(l->record = pages_record_new(opt->record, opt->ears.say, err))) {
		pages_life_free(l);
		return NULL;
	}
	return l;
}

int pages_life_record(struct pages_life *l, int quiet, struct err *err)
{
	siginfo_t how = { 0 };
	if (!l->record || !l->shot)
		return 0;
	pageown_resolve(l->pages, l->shot, 0);
	if (l->program.pid)
		waitid(P_PID, (id_t)l->program.pid, &how, WEXITED | WNOHANG | WNOWAIT);
	int wait_status = !how.si_pid                 ? -1
			  : how.si_code == CLD_EXITED ? how.si_status << 8
						      : how.si_status;
	return pages_record_end(l->record, l->shot, l->program.pid, wait_status, quiet, err);
}

pid_t pages_life_program(const struct pages_life *l)
{
	return l->program.pid;
}

uint64_t pages_life_ended(const struct pages_life *l, pid_t pid)
{
	/* the program's end may be known before the kernel side has told of it */
	int gone = !pageown_follows(l->pages, pid) ||
		   (pid == l->program.pid && started_has_ended(pid));
	return gone ? l->over_ns : 0;
}

int pages_life_wait(struct pages_life *l, int status)
{
	if (l->pages)
		pageown_detach(l->pages);
	if (!l->opt.program)
		return status;
	return !l->program.pid ? l->program.status : l->stop ? status : started_wait(&l->program);
}

void pages_life_free(struct pages_life *l)
{
	if (!l)
		return;
	pages_record_free(l->record);
	page_shot_put(l->shot);
	pages_kept_fini(&l->kept);
	pageown_free(l->pages);
	if (l->signals >= 0)
		close(l->signals);
	desk_fini(&l->desk);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void pages_life_tell_full(struct pages_life *l)
{
	struct pageown_info info;
	struct err what = { 0 };
	struct page_shot *shot = pages_life_shot(l);
	/* stacks that end in code for which there was no room are no fact about that code */
	if (l->pages && pageown_info(l->pages, &info, &what) == 0 && info.tables_left_out) {
		err_set(&what, -ENOSPC,
			"%u files with code found no room for their unwind tables (%llu MiB): "
			"stacks may end in them",
			info.tables_left_out, (unsigned long long)(info.table_room >> 20));
		err_hint(&what, "--tables %llu", (unsigned long long)(info.table_room >> 18));
		l->opt.ears.fail(&what);
	}
	/* pages of further stacks are counted, and nobody's */
	if (shot && (shot->lost[PAGES_LOST_STACKS] || shot->lost[PAGES_LOST_FRAMES])) {
		err_init(&what);
		err_set(&what, -ENOSPC,
			"the kernel's table of %u stacks was full: pages of further ones have none",
			shot->stacks_max);
		err_hint(&what, "--stacks %llu", shot->stacks_max * 4ull);
		l->opt.ears.fail(&what);
	}
	page_shot_put(shot);
}
