/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_run.c - the life of `byteledger pages`: load, attach, take up targets, count again and again, print. Counting takes a
 * fiftieth of a CPU at most; a program that was just started is counted soon, so that a short one is counted at all.
 */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/tree.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "cmd/cmd.h"
#include "cmd/pages.h"
#include "cmd/serving.h"
#include "cmd/terminal.h"
#include "out/pages.h"
#include "proc/proc.h"
#include "recorder/pages_record.h"
#include "source/pageown.h"

#define POLL_MS 10000u /* all that may come in between has a descriptor */
#define WALK_FIRST_NS 10000000ull
#define WALK_LIVE_NS 1000000000ull /* on a terminal, or where somebody asks by HTTP */
#define WALK_ELSE_NS 5000000000ull
#define HISTORY_MAX 64
#define HISTORY_EVERY_NS 1000000000ull
#define RECENT_MAX 40   /* readings for --since */
#define RECENT_PARTS 32 /* so finely its time is met */
#define WALK_SHARE 50   /* of the time, one part at most goes into counting where somebody looks */
#define WALK_ELSE_SHARE 100
#define WALK_ASKED_SHARE 4          /* where somebody asks by HTTP: a fifth of the time at most */
#define ASKED_WAIT_NS 2000000000ull /* then the last reading is the answer; it says how old it is */
#define AGAIN_MAX 6
#define AGAIN_PARTS 256 /* counted again where more than such a part changed meanwhile */
#define AGAIN_LEAST (32u << 10)

struct life {
	struct pages_job *job;
	struct pageown *pages;
	struct started program;
	int signals, stop;
	uint64_t began_ns, due_ns, more_due_ns;
	uint64_t rested_ns;     /* no counting before: its share of the time is used up */
	int waited;             /* for a name, which was said */
	struct page_shot *shot; /* the last one; under lock for the threads of the server */
	pthread_mutex_t lock;
	/* whoever asks by HTTP is answered with what was counted from then on; under lock */
	pthread_cond_t answer;
	uint64_t asked, answered; /* counts; answered has reached asked: nobody waits */
	uint64_t asked_due_ns;    /* not before */
	int wake;                 /* eventfd: to the loop, that somebody asks */
	int over;                 /* nothing is counted any more */
	struct serving *serving;
	struct http_route routes[4];
	struct v1_live lives[16];
	char names[16][64];
	struct serving_more more;
	struct tree_source source;
	struct page_shot *kept[HISTORY_MAX]; /* earlier ones, thinned out; under lock */
	size_t kept_count;
	uint64_t kept_every_ns;
	struct page_shot *recent[RECENT_MAX]; /* for --since: one of before, then those of within */
	size_t recent_count;
	struct pages_record *record; /* NULL: none asked for */
	int live, drawn;
	struct err err;
};

/* ---- printing ------------------------------------------------------------------------------------------------------- */

static int print_json(struct life *l, struct err *err)
{
	struct pages_job *job = l->job;
	struct jsonw json;
	const struct page_process *first = page_shot_find(l->shot, 0);
	if (result_for(&job->result, first ? first->exe : "", first ? first->pid : 0, err) < 0)
		return err->code;
	if (!job->result.to)
		return 0;
	jsonw_init(&json, job->result.to);
	out_pages_json(&json, l->shot, clock_ns(CLOCK_MONOTONIC));
	jsonw_line(&json);
	if (job->jsonl)
		fflush(job->result.to);
	return 0;
}

/* Most stacks are of little: what stands in the text alone is looked up. */
static void name_frames(void *ctx, const struct page_frame *const *frames, size_t count)
{
	struct life *l = ctx;
	pageown_name(l->pages, frames, count);
}

static void fit(struct life *l, struct out_pages_opt *opt, FILE *to)
{
	struct out_opt terminal = { 0 };
	terminal_fit(to, &terminal);
	*opt = (struct out_pages_opt){ .tree = l->job->tree,
				       .width = terminal.width,
				       .ascii = terminal.ascii,
				       .now_ns = clock_ns(CLOCK_MONOTONIC) };
	opt->tree.name = name_frames;
	opt->tree.name_ctx = l;
}

/* What @process is compared with: the youngest reading that is old enough, else the oldest. */
static void compare(const struct life *l, const struct page_process *process,
		    struct out_pages_opt *opt)
{
	const struct page_shot *then = l->recent_count ? l->recent[0] : NULL;
	if (!l->job->since_ns)
		return;
	opt->since = 1;
	opt->since_ns =
		then && l->shot->time_ns > then->time_ns ? l->shot->time_ns - then->time_ns : 0;
	opt->then = then ? page_shot_find(then, process->pid) : NULL;
}

/* The reading that was just made joins them. */
static void keep_recent(struct life *l)
{
	struct page_shot **all = l->recent;
	size_t drop = 0, count = l->recent_count;
	uint64_t now = l->shot->time_ns;
	if (count && now - all[count - 1]->time_ns < l->job->since_ns / RECENT_PARTS)
		return;
	while (drop + 1 < count && now - all[drop + 1]->time_ns >= l->job->since_ns)
		drop++;
	drop += !drop && count == RECENT_MAX;
	for (size_t i = 0; i < drop; i++)
		page_shot_put(all[i]);
	memmove(all, all + drop, (count - drop) * sizeof(*all));
	l->recent_count = count - drop;
	all[l->recent_count++] = page_shot_get(l->shot);
}

/* Those that end are told behind those that live; of many that ended, the last. */
static int print_text(struct life *l, struct err *err)
{
	struct pages_job *job = l->job;
	struct out_pages_opt opt;
	for (int ended = 0; ended < 2; ended++) {
		for (size_t i = 0; i < l->shot->count; i++) {
			const struct page_process *process = l->shot->processes[i];
			CLEANUP(buf_fini) struct buf text = { 0 };
			if (process->ended != ended)
				continue;
			if (result_for(&job->result, process->exe, process->pid, err) < 0)
				return err->code;
			if (!job->result.to)
				return 0;
			fit(l, &opt, job->result.to);
			compare(l, process, &opt);
			int rc = out_pages_text(&text, l->shot, process, &opt, err);
			if (rc < 0)
				return rc;
			buf_putc(&text, '\n');
			fputs(buf_cstr(&text), job->result.to);
		}
	}
	return 0;
}

static int rows_of_terminal(void)
{
	struct winsize size;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 ? size.ws_row : 24;
}

/* The screen: the first processes as far as they fit. */
static int draw(struct life *l, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct out_pages_opt opt;
	size_t living = 0, rows = (size_t)rows_of_terminal() - 2;
	fit(l, &opt, stdout);
	for (size_t i = 0; i < l->shot->count; i++)
		living += !l->shot->processes[i]->ended;
	buf_puts(&text, "\033[H\033[J");
	for (size_t i = 0, shown = 0; i < l->shot->count && shown < 4; i++) {
		if (l->shot->processes[i]->ended && living)
			continue;
		opt.lines = rows / (living > 3 ? 4 : living ? living : 1);
		opt.lines = opt.lines > 6 ? opt.lines - 1 : 6;
		compare(l, l->shot->processes[i], &opt);
		if (out_pages_text(&text, l->shot, l->shot->processes[i], &opt, err) < 0)
			return err->code;
		shown++;
	}
	if (living > 4)
		buf_printf(&text, "%zu more processes\n", living - 4);
	fputs(buf_cstr(&text), stdout);
	fflush(stdout);
	l->drawn = 1;
	return 0;
}

/* ---- counting ------------------------------------------------------------------------------------------------------- */

static struct page_shot *lend(void *ctx)
{
	struct life *l = ctx;
	pthread_mutex_lock(&l->lock);
	struct page_shot *shot = page_shot_get(l->shot);
	pthread_mutex_unlock(&l->lock);
	return shot;
}

/* What the processes have now. With --watch it was said how often they are counted. */
static struct page_shot *lend_fresh(void *ctx)
{
	struct life *l = ctx;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + ASKED_WAIT_NS;
	const struct timespec end = { .tv_sec = (time_t)(until / 1000000000u),
				      .tv_nsec = (long)(until % 1000000000u) };
	pthread_mutex_lock(&l->lock);
	if (!l->job->watch_ns && !l->over) {
		uint64_t mine = ++l->asked;
		eventfd_write(l->wake, 1);
		while (l->answered < mine && !l->over &&
		       pthread_cond_timedwait(&l->answer, &l->lock, &end) == 0)
			;
	}
	struct page_shot *shot = page_shot_get(l->shot);
	pthread_mutex_unlock(&l->lock);
	return shot;
}

/* Up to that question all are answered. */
static void answer_up_to(struct life *l, uint64_t asked)
{
	pthread_mutex_lock(&l->lock);
	l->answered = asked;
	pthread_cond_broadcast(&l->answer);
	pthread_mutex_unlock(&l->lock);
}

static uint64_t asked_so_far(struct life *l)
{
	pthread_mutex_lock(&l->lock);
	uint64_t asked = l->asked;
	pthread_mutex_unlock(&l->lock);
	return asked;
}

static void nothing_more(struct life *l)
{
	pthread_mutex_lock(&l->lock);
	l->over = 1;
	pthread_cond_broadcast(&l->answer);
	pthread_mutex_unlock(&l->lock);
}

static struct page_shot *lend_past(void *ctx, uint64_t ago_ns)
{
	struct life *l = ctx;
	struct page_shot *found = NULL;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->kept_count; i++)
		if (now - l->kept[i]->time_ns >= ago_ns)
			found = l->kept[i];
	page_shot_get(found);
	pthread_mutex_unlock(&l->lock);
	return found;
}

/* Earlier readings for whoever asks by HTTP: when there is no more room every second one goes. */
static void keep(struct life *l)
{
	if (!l->kept_every_ns)
		l->kept_every_ns = HISTORY_EVERY_NS;
	if (l->kept_count &&
	    l->shot->time_ns - l->kept[l->kept_count - 1]->time_ns < l->kept_every_ns)
		return;
	if (l->kept_count == HISTORY_MAX) {
		for (size_t i = 0; i < HISTORY_MAX; i++) {
			if (i % 2)
				page_shot_put(l->kept[i]);
			else
				l->kept[i / 2] = l->kept[i];
		}
		l->kept_count = HISTORY_MAX / 2;
		l->kept_every_ns *= 2;
	}
	l->kept[l->kept_count++] = page_shot_get(l->shot);
}

/* How much more or less anonymous memory was found than the kernel said behind it, beyond what is allowed. */
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
static int read_pages(struct life *l, int asked, struct page_shot **out, struct err *err)
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

static int count(struct life *l, struct err *err)
{
	struct page_shot *shot = NULL, *old;
	uint64_t asked = asked_so_far(l);
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = read_pages(l, asked > l->answered, &shot, err);
	if (rc < 0)
		return rc;
	/* names are looked up once each, and are no reason to count less often */
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (l->serving || l->job->jsonl)
		pageown_resolve(l->pages, shot, l->serving != NULL);
	pthread_mutex_lock(&l->lock);
	old = l->shot;
	l->shot = shot;
	if (l->serving && shot->count)
		keep(l);
	pthread_mutex_unlock(&l->lock);
	page_shot_put(old);
	if (l->job->since_ns && shot->count)
		keep_recent(l);
	l->asked_due_ns = clock_ns(CLOCK_MONOTONIC) + cpu * WALK_ASKED_SHARE;
	answer_up_to(l, asked);
	if (l->record && (rc = pages_record_put(l->record, l->shot, err)) < 0)
		return rc;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t pause = (now - l->began_ns) / 4;
	int looks = l->live || l->serving || l->job->jsonl;
	uint64_t most = looks ? WALK_LIVE_NS : WALK_ELSE_NS;
	pause = pause < WALK_FIRST_NS ? WALK_FIRST_NS : pause > most ? most : pause;
	l->rested_ns = now + cpu * (looks ? WALK_SHARE : WALK_ELSE_SHARE);
	l->due_ns = l->rested_ns > now + pause ? l->rested_ns : now + pause;
	if (l->job->watch_ns)
		l->due_ns = now + l->job->watch_ns;
	if (l->live && draw(l, err) < 0)
		return err->code;
	return l->job->jsonl && l->shot->count ? print_json(l, err) : 0;
}

/* ---- targets -------------------------------------------------------------------------------------------------------- */

static int takes_children(const struct pages_job *job)
{
	/* who starts in a container or a cgroup stays there */
	return job->targets.follow_children || job->targets.container || job->targets.cgroup;
}

static int take_up(struct life *l, pid_t pid, struct err *err)
{
	if (pageown_follows(l->pages, pid))
		return 0;
	int rc = pageown_follow(l->pages, pid, takes_children(l->job), err);
	if (!rc)
		l->due_ns = 0;
	return rc;
}

/* Those that are there now. One that is gone by now is no error among others. */
static int take_list(struct life *l, const struct target_list *list, int given, struct err *err)
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
			cmd_fail(&one);
		}
	}
	return given && list->count && !good ? err->code : 0;
}

static int is_glob(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

static int look_for_more(struct life *l, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = targets_more(&l->job->targets, &list, err);
	if (!rc)
		rc = take_list(l, &list, 0, err);
	l->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

static void on_event(void *ctx, const struct pageown_event *event)
{
	struct life *l = ctx;
	char exe[4096];
	if (event->kind == PAGES_EXECED && !event->followed && l->job->targets.name &&
	    proc_exe(event->pid, exe, sizeof(exe)) == 0) {
		const char *base = strrchr(exe, '/');
		struct err gone = { 0 };
		if (fnmatch(l->job->targets.name, base ? base + 1 : exe, 0) == 0)
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

/* ---- the loop ------------------------------------------------------------------------------------------------------- */

/* Until something comes, or @until_ns. Return: 1 where the command is to end. */
static int wait_for(struct life *l, uint64_t until_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t ms = until_ns <= now ? 0 : (until_ns - now) / 1000000 + 1;
	struct pollfd fds[] = { { .fd = l->signals, .events = POLLIN },
				{ .fd = pageown_fd(l->pages), .events = POLLIN },
				{ .fd = l->wake, .events = POLLIN } };
	int found = poll(fds, 3, (int)(ms < POLL_MS ? ms : POLL_MS));
	eventfd_t ignored;
	if (found > 0 && fds[2].revents)
		eventfd_read(l->wake, &ignored);
	return found > 0 && fds[0].revents ? started_signals(l->signals, l->program.pid) : 0;
}

static int loop(struct life *l, struct err *err)
{
	int rc = 0;
	for (;;) {
		rc = pageown_poll(l->pages, on_event, l, err);
		if (rc < 0)
			return rc;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (l->more_due_ns <= now && targets_follow(&l->job->targets) &&
		    (rc = look_for_more(l, err)) < 0)
			return rc;
		size_t living = pageown_count(l->pages);
		uint64_t asked = asked_so_far(l);
		if (!living)
			answer_up_to(l, asked);
		else if (asked > l->answered && l->asked_due_ns < l->due_ns)
			l->due_ns = l->asked_due_ns;
		if (living && l->due_ns <= now && (rc = count(l, err)) < 0)
			return rc;
		if (l->program.pid ? started_has_ended(l->program.pid)
				   : !living && !l->job->targets.name)
			return 0;
		if (!living && !l->waited++ && l->job->targets.name)
			cmd_say("waiting for a program called '%s'", l->job->targets.name);
		now = clock_ns(CLOCK_MONOTONIC);
		if (l->job->end_ns && now >= l->job->end_ns) {
			l->stop = 1;
			return 0;
		}
		uint64_t next = living ? l->due_ns : UINT64_MAX;
		if (l->job->end_ns && l->job->end_ns < next)
			next = l->job->end_ns;
		if (targets_follow(&l->job->targets) && l->more_due_ns < next)
			next = l->more_due_ns;
		if (wait_for(l, next)) {
			l->stop = 1;
			return 0;
		}
	}
}

/* The last reading as `pages --format json` prints it. */
static void pages_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	struct life *l = ctx;
	char *text = NULL;
	size_t len = 0;
	if (http_request_only(request, none, reply) < 0)
		return;
	struct page_shot *shot = lend_fresh(l);
	FILE *to = shot ? open_memstream(&text, &len) : NULL;
	if (to) {
		struct jsonw json;
		jsonw_init(&json, to);
		out_pages_json(&json, shot, clock_ns(CLOCK_MONOTONIC));
		if (fclose(to) == 0)
			buf_put(&reply->body, text, len);
	}
	if (!shot)
		http_reply_error(reply, 503, "no page was counted yet");
	else if (!to)
		http_reply_error(reply, 500, "no memory for the answer");
	page_shot_put(shot);
	free(text);
}

/* What the page shows of each process that is there when serving begins; all of them are in every answer. */
static void take_lives(struct life *l)
{
	static const char *const has[] = { "pages", NULL };
	size_t count = 0;
	struct page_shot *shot = lend(l);
	for (size_t i = 0; shot && i < shot->count && count < ARRAY_LEN(l->lives); i++) {
		const struct page_process *p = shot->processes[i];
		const char *slash = strrchr(p->exe, '/');
		l->lives[count] =
			(struct v1_live){ .kind = "process", .pid = (int32_t)p->pid, .has = has };
		snprintf(l->names[count], sizeof(l->names[0]), "%s", slash ? slash + 1 : p->exe);
		l->lives[count].name = l->names[count];
		count++;
	}
	page_shot_put(shot);
	if (!count)
		l->lives[count++] =
			(struct v1_live){ .name = "process", .kind = "process", .has = has };
	l->more = (struct serving_more){ .lives = l->lives, .live_count = count };
}

static int serve(struct life *l, struct err *err)
{
	struct serving_opt opt = { .http = l->job->http, .more = &l->more, .quiet = 1 };
	l->source = (struct tree_source){ .ctx = l, .lend = lend_fresh, .lend_past = lend_past };
	size_t count = tree_routes(&l->source, l->routes);
	l->routes[count++] = (struct http_route){ "/api/v1/pages", pages_route, l };
	take_lives(l);
	l->more.routes = l->routes;
	l->more.route_count = count;
	for (; l->job->hosts[opt.host_count] && opt.host_count < SERVING_HOSTS_MAX;
	     opt.host_count++)
		opt.hosts[opt.host_count] = l->job->hosts[opt.host_count];
	l->serving = serving_new(&opt, NULL, 0, err);
	if (!l->serving)
		return err->code;
	const char *note = serving_note(l->serving);
	fprintf(stderr, "byteledger: serving %sv1/tree; the page: %s\n", serving_url(l->serving),
		serving_url(l->serving));
	if (note)
		fprintf(stderr, "byteledger: %s\n", note);
	return 0;
}

static int open_pages(struct life *l, struct err *err)
{
	const struct pages_job *job = l->job;
	const struct pageown_opt opt = {
		.stacks_max = job->stacks,
		.table_bytes = job->tables_bytes > 1u << 30 ? 1u << 30 : job->tables_bytes,
		.take_name =
			job->targets.name && !is_glob(job->targets.name) ? job->targets.name : NULL,
		.take_children = job->targets.follow_children,
		.tell_execs = job->targets.name && is_glob(job->targets.name),
	};
	l->pages = pageown_new(&opt, err);
	int rc = l->pages ? pageown_load(l->pages, err) : err->code;
	return rc ? rc : pageown_attach(l->pages, err);
}

static int take_targets(struct life *l, char **program, struct err *err)
{
	struct pages_job *job = l->job;
	if (program) {
		pageown_expect(l->pages, program[0]);
		int rc = pageown_launch(l->pages, 1, 0, 0, err);
		if (rc < 0)
			return rc;
		rc = started_begin(&l->program, program, err);
		l->signals = l->program.signals;
		struct err more = { 0 };
		int end = pageown_launch(l->pages, 0, rc < 0 ? 0 : l->program.pid,
					 job->targets.follow_children, &more);
		/* one that has ended by now had no time to be looked at */
		if (!rc && end < 0 && end != -ESRCH)
			cmd_fail(&more);
		return rc;
	}
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	/* a name is not waited for here: the kernel tells */
	struct targets now = job->targets;
	now.name = NULL;
	int rc = targets_find(&now, 0, &list, err);
	memcpy(job->targets.container_id, now.container_id, sizeof(now.container_id));
	if (!rc)
		rc = take_list(l, &list, 1, err);
	return !rc && job->targets.name ? look_for_more(l, err) : rc;
}

static int run(struct life *l, char **program, struct err *err)
{
	int rc = open_pages(l, err);
	if (!rc && !program && (l->signals = signals_open(0)) < 0)
		rc = err_set(err, l->signals, "cannot take signals");
	if (!rc)
		rc = pageown_start(l->pages, err);
	if (!rc)
		rc = take_targets(l, program, err);
	if (!rc)
		rc = pageown_drop_privileges(l->pages, err);
	if (!rc && l->job->serve)
		rc = serve(l, err);
	if (!rc)
		rc = loop(l, err);
	nothing_more(l);
	/* this moment is what --duration and Ctrl-C ask for */
	if (!rc && l->stop)
		rc = pageown_poll(l->pages, NULL, NULL, err);
	if (!rc && (l->stop || !l->shot))
		rc = count(l, err);
	return rc;
}

/* Stacks that end in code for which there was no room are no fact about that code. */
static void tell_tables(struct life *l)
{
	struct pageown_info info;
	struct err ignored = { 0 };
	if (l->job->quiet || !l->pages || pageown_info(l->pages, &info, &ignored) < 0 ||
	    !info.tables_left_out)
		return;
	cmd_say("%u files with code found no room for their unwind tables (%llu MiB): stacks may "
		"end in them",
		info.tables_left_out, (unsigned long long)(info.table_room >> 20));
	fprintf(stderr, "hint: --tables %llu\n", (unsigned long long)(info.table_room >> 18));
}

/* Pages of further stacks are counted, and nobody's. */
static void tell_full(struct life *l)
{
	if (l->job->quiet || !l->shot ||
	    (!l->shot->lost[PAGES_LOST_STACKS] && !l->shot->lost[PAGES_LOST_FRAMES]))
		return;
	cmd_say("the kernel's table of %u stacks was full: pages of further ones have none",
		l->shot->stacks_max);
	fprintf(stderr, "hint: --stacks %llu\n", l->shot->stacks_max * 4ull);
}

static int finish(struct life *l, struct err *err)
{
	tell_tables(l);
	tell_full(l);
	if (l->shot && !l->shot->count && !l->job->quiet && !l->program.pid)
		cmd_say("no process was there to be counted");
	if (!l->shot || l->job->quiet || l->job->jsonl)
		return 0;
	if (l->job->json)
		pageown_resolve(l->pages, l->shot, 0);
	if (l->drawn)
		fputs("\033[H\033[J", stdout);
	return l->job->json ? print_json(l, err) : print_text(l, err);
}

int pages_run(struct pages_job *job, char **program)
{
	struct life l = { .job = job,
			  .signals = -1,
			  .program = { .signals = -1, .status = CMD_FAILED } };
	struct err err = { 0 };
	pthread_condattr_t clock;
	pthread_mutex_init(&l.lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&l.answer, &clock);
	pthread_condattr_destroy(&clock);
	l.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l.began_ns = clock_ns(CLOCK_MONOTONIC);
	l.live = !program && !job->json && !job->quiet && !job->report && isatty(STDOUT_FILENO);
	if (program)
		cmd_status_is_programs();
	int status = CMD_OK, rc = 0;
	if (job->output && !(l.record = pages_record_new(job->output, cmd_say_line, &err)))
		rc = err.code;
	if (!rc)
		rc = run(&l, program, &err);
	if (!rc)
		rc = finish(&l, &err);
	serving_freep(&l.serving);
	if (l.record && l.shot) {
		struct err other = { 0 };
		pageown_resolve(l.pages, l.shot, 0);
		siginfo_t how = { 0 };
		if (l.program.pid)
			waitid(P_PID, (id_t)l.program.pid, &how, WEXITED | WNOHANG | WNOWAIT);
		int wait_status = !how.si_pid                 ? -1
				  : how.si_code == CLD_EXITED ? how.si_status << 8
							      : how.si_status;
		if (pages_record_end(l.record, l.shot, l.program.pid, wait_status, job->quiet,
				     &other) < 0 &&
		    !rc) {
			rc = other.code;
			err = other;
		}
	}
	pages_record_free(l.record);
	if (result_end(&job->result, rc < 0 ? NULL : &err) < 0 && !rc)
		rc = err.code ? err.code : -EIO;
	if (rc < 0)
		status = cmd_fail(&err);
	page_shot_put(l.shot);
	for (size_t i = 0; i < l.kept_count; i++)
		page_shot_put(l.kept[i]);
	for (size_t i = 0; i < l.recent_count; i++)
		page_shot_put(l.recent[i]);
	if (l.pages)
		pageown_detach(l.pages);
	if (program)
		status = !l.program.pid ? l.program.status
			 : l.stop       ? status
					: started_wait(&l.program);
	pageown_free(l.pages);
	if (l.signals >= 0)
		close(l.signals);
	if (l.wake >= 0)
		close(l.wake);
	pthread_cond_destroy(&l.answer);
	pthread_mutex_destroy(&l.lock);
	return status;
}
