/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "out/regions.h"
#include "recorder/started.h"

#define GROWTH_ROWS 12
#define SECONDS_MAX 86400.0

enum {
	OPT_WATCH = 768,
	OPT_HISTORY,
	OPT_ALERT,
	OPT_ON_ALERT,
	OPT_SERVE,
	OPT_DURATION,
	OPT_TOKEN,
	OPT_NO_AUTH,
	OPT_HOST,
	OPT_CORS,
	OPT_ADDRESSES
};

static const struct argp_option options[] = {
	{ "watch", OPT_WATCH, "SEC", 0,
	  "Look every SEC seconds and print a line each time; the mappings as often as 0.5 % of a "
	  "CPU allows",
	  4 },
	{ "duration", OPT_DURATION, "TIME", 0,
	  "End after 10s, 5m, 1h30m; a program that was started goes on", 4 },
	{ "history", OPT_HISTORY, "FILE", 0,
	  "Keep what is seen in FILE, and go on there next time; without a process: show what it "
	  "holds",
	  4 },
	{ "alert", OPT_ALERT, "RULE", 0,
	  "Watch for 'rss>2G', 'rss:CLASS>X', 'rate>X/min for 5m', 'eta<2h', 'new>X', 'step>X', "
	  "'unaccounted>5%' "
	  "(repeatable); exit status 3 once one was met",
	  4 },
	{ "on-alert", OPT_ON_ALERT, "ACTION", 0,
	  "What else to do then: log (default), exit, exec:CMD, post:URL, snapshot (repeatable)",
	  4 },
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Serve /debug/memory, its history and /metrics (default 127.0.0.1:17832)", 5 },
	{ "token-file", OPT_TOKEN, "FILE", 0, "Ask clients for the token in FILE", 5 },
	{ "no-auth", OPT_NO_AUTH, NULL, 0, "Serve an address beyond loopback without a token", 5 },
	{ "host", OPT_HOST, "NAME", 0, "A name that clients may use for this host (repeatable)",
	  5 },
	{ "cors", OPT_CORS, "ORIGIN", 0, "Another web origin that may read what is served, or '*'",
	  5 },
	{ "addresses", OPT_ADDRESSES, "WORD", 0,
	  "on (default) or off: addresses of mappings in what is served", 5 },
	{ 0 },
};

static int parse_duration(const char *text, uint64_t *ns)
{
	double sum = 0;
	const char *at = text;
	while (*at >= '0' && *at <= '9') {
		char *end;
		double n = (double)strtoull(at, &end, 10);
		double unit = *end == 's'   ? 1
			      : *end == 'm' ? 60
			      : *end == 'h' ? 3600
			      : *end == 'd' ? 86400
					    : 0;
		if (unit <= 0)
			return -EINVAL;
		sum += n * unit;
		at = end + 1;
	}
	if (at == text || *at || sum <= 0 || sum > 1e9)
		return -EINVAL;
	*ns = (uint64_t)(sum * 1e9);
	return 0;
}

static uint64_t look_period_ns(const struct watch_args *a)
{
	return a->seconds > 0 ? (uint64_t)(a->seconds * 1e9) : WATCH_PERIOD_NS;
}

/* A rule that never can be met would look like a process that does not grow. */
static void refuse_hasty_rules(const struct watch_args *a)
{
	uint64_t period_ns = look_period_ns(a);
	for (size_t i = 0; i < a->rule_count; i++) {
		const struct alert_rule *rule = &a->rules[i];
		struct err err = { 0 };
		char period[TEXT_NUMBER_MAX], most[TEXT_NUMBER_MAX];
		if (period_ns <= alert_longest_period_ns(rule))
			continue;
		err_set(&err, -EINVAL,
			"the alert rule '%s' would never be met: a trend takes more looks than one "
			"every %s",
			rule->text, text_duration(period, period_ns));
		err_hint(&err, "look every %s or more often (--watch), or give it a longer time",
			 text_duration(most, alert_longest_period_ns(rule)));
		cmd_refuse(&err);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct watch_args *a = state->input;
	struct err err = { 0 };
	char *end;
	switch (key) {
	case OPT_WATCH:
		a->seconds = strtod(arg, &end);
		if (end == arg || *end || !(a->seconds >= 0.1 && a->seconds <= SECONDS_MAX))
			cmd_usage("--watch '%s': seconds from 0.1 to %.0f", arg, SECONDS_MAX);
		return 0;
	case OPT_DURATION:
		if (parse_duration(arg, &a->duration_ns) < 0)
			cmd_usage("'%s' is not a duration like 10s, 5m, 1h30m", arg);
		return 0;
	case OPT_HISTORY:
		a->history = arg;
		return 0;
	case OPT_ALERT:
		if (a->rule_count == ALERT_RULES_MAX)
			cmd_usage("at most %d alert rules", ALERT_RULES_MAX);
		if (alert_parse(arg, &a->rules[a->rule_count++], &err) < 0)
			cmd_refuse(&err);
		return 0;
	case OPT_ON_ALERT:
		if (a->action_count == WATCH_ACTIONS_MAX)
			cmd_usage("at most %d actions", WATCH_ACTIONS_MAX);
		if (alert_action_parse(arg, &a->actions[a->action_count++], &err) < 0)
			cmd_refuse(&err);
		return 0;
	case OPT_SERVE:
		a->serve = 1;
		a->http.address = arg;
		return 0;
	case OPT_TOKEN:
		a->http.token_file = arg;
		return 0;
	case OPT_NO_AUTH:
		a->http.no_auth = 1;
		return 0;
	case OPT_HOST:
		if (a->host_count == WATCH_HOSTS_MAX)
			cmd_usage("at most %d host names", WATCH_HOSTS_MAX);
		a->hosts[a->host_count++] = arg;
		return 0;
	case OPT_CORS:
		a->http.cors = arg;
		return 0;
	case OPT_ADDRESSES:
		if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0)
			cmd_usage("--addresses is on or off, not '%s'", arg);
		a->hide_addresses = arg[1] == 'f';
		return 0;
	case ARGP_KEY_END:
		if (a->action_count && !a->rule_count)
			cmd_usage("--on-alert needs an --alert");
		if ((a->http.token_file || a->http.no_auth || a->host_count || a->http.cors ||
		     a->hide_addresses) &&
		    !a->serve)
			cmd_usage("--token-file, --no-auth, --host, --cors and --addresses "
				  "belong to --serve");
		refuse_hasty_rules(a);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp watch_argp = { .options = options, .parser = parse };

int watch_wanted(const struct watch_args *a)
{
	return a->seconds > 0 || a->history || a->rule_count || a->serve;
}

int watch_takes(struct watch_args *a, const char *text)
{
	if (!a->serve || a->http.address || !strpbrk(text, ":0123456789"))
		return 0;
	a->http.address = text;
	return 1;
}

/* ---- alerts --------------------------------------------------------------------------------------------------------- */

struct loop {
	struct watch_args *args;
	struct watched_set set;
	struct alert_runner *runner;
	struct http_server *server;
	struct memory_source source;
	struct http_route routes[4];
	struct history *histories[TARGETS_GIVEN_MAX]; /* of each place */
	int signals;
	uint64_t end_ns; /* CLOCK_MONOTONIC; 0 = none */
	uint64_t alerts;
	int stop, first;
	uint64_t more_due_ns; /* when to look for restarts and children */
	int full, waiting;    /* said so */
};

static void warn(const struct err *err)
{
	fprintf(stderr, "byteledger: %s\n", err->msg);
	if (err->hint[0])
		fprintf(stderr, "hint: %s\n", err->hint);
}

/* The breakdown of the moment in a file of its own; an existing one is never overwritten. */
static int snapshot(struct watched *w, struct err *err)
{
	char path[160], comm[32];
	char *made = NULL;
	struct shot *shot = watched_full(w, err);
	if (!shot)
		return err->code;
	snprintf(comm, sizeof(comm), "%s", w->facts.comm);
	for (char *c = comm; *c; c++)
		*c = *c == '/' || (unsigned char)*c < 32 || *c == 127 ? '_' : *c;
	snprintf(path, sizeof(path), "byteledger_%s_%d.json", comm, (int)w->pid);
	FILE *to = result_create(path, &made, err);
	int rc = to ? 0 : err->code;
	if (to) {
		struct out_regions_opt opt = { .all = 1 };
		struct jsonw json;
		jsonw_init(&json, to);
		rc = out_regions_json(&json, NULL, shot->breakdown, &opt, 0, err);
		jsonw_line(&json);
		if (fclose(to) != 0 && rc == 0)
			rc = err_set(err, -errno, "cannot write '%s'", made);
		if (rc == 0)
			cmd_say("snapshot written to '%s'", made);
	}
	free(made);
	shot_put(shot);
	return rc;
}

static void act(struct loop *l, struct watched *w, const struct alert_event *event)
{
	CLEANUP(buf_fini) struct buf words = { 0 };
	buf_printf(&words, "%s: %s", event->rule->text, event->words);
	CLEANUP(buf_fini) struct buf safe = { 0 };
	text_escape(&safe, buf_cstr(&words), 0);
	buf_puts(&safe, " (process ");
	buf_printf(&safe, "%d, ", (int)event->pid);
	text_escape(&safe, event->comm, 0);
	fprintf(stderr, "byteledger: alert: %s)\n", buf_cstr(&safe));
	l->alerts++;
	for (size_t i = 0; i < l->args->action_count; i++) {
		const struct alert_action *action = &l->args->actions[i];
		struct err err = { 0 };
		int rc = 0;
		if (action->kind == ALERT_EXIT)
			l->stop = 1;
		else if (action->kind == ALERT_SNAPSHOT)
			rc = snapshot(w, &err);
		else if (action->kind != ALERT_LOG)
			rc = alert_run(l->runner, action, event, &err);
		if (rc < 0)
			warn(&err); /* the watch goes on */
	}
}

/* ---- the loop -------------------------------------------------------------------------------------------------------- */

static int alive(const struct loop *l)
{
	int count = 0;
	for (size_t i = 0; i < l->set.count; i++)
		count += !l->set.all[i].facts.ended;
	return count;
}

/* Until the next look is due, a signal comes or a process ends. */
static void wait_for(struct loop *l, uint64_t until_ns)
{
	struct pollfd fds[TARGETS_GIVEN_MAX + 1] = { { .fd = l->signals, .events = POLLIN } };
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
	struct timespec time = { .tv_sec = (time_t)(left / 1000000000u),
				 .tv_nsec = (long)(left % 1000000000u) };
	if (ppoll(fds, count, &time, NULL) <= 0)
		return;
	if (fds[0].revents && started_signals(l->signals, l->args->program))
		l->stop = 1;
	for (nfds_t i = 1; i < count; i++)
		polled[i]->exited |= fds[i].revents != 0;
}

/* Return: negative errno where going on makes no sense. */
static int look(struct loop *l, struct watched *w, struct err *err)
{
	struct alert_event events[ALERT_RULES_MAX];
	int met;
	int rc = watched_look(w, events, &met, err);
	if (rc == -ESRCH || rc == -ENODATA || rc == -EPERM || rc == -EACCES) {
		pthread_mutex_lock(&w->lock);
		w->facts.ended = 1;
		pthread_mutex_unlock(&w->lock);
		if (rc == -ESRCH || rc == -ENODATA)
			fprintf(stderr, "byteledger: process %d has ended\n", (int)w->pid);
		else
			warn(err);
		return 0;
	}
	if (rc < 0) {
		warn(err); /* a full disk, say: the watch goes on without */
		rc = 0;
	}
	for (int i = 0; i < met; i++)
		act(l, w, &events[i]);
	if (rc == 1)
		watch_show_cost(w, look_period_ns(l->args));
	if (l->args->seconds > 0 && w->quick && l->args->result->to &&
	    (l->args->json ? rc == 1 && l->args->jsonl : 1)) {
		rc = watch_show_look(w, l->args, l->set.count > 1, l->first, err);
		l->first = 0;
		return rc;
	}
	return 0;
}

/* ---- restarts, children ---------------------------------------------------------------------------------------------- */

static void say_damaged(const struct loop *l, const struct history *history)
{
	if (history_damaged(history))
		cmd_say("%llu bytes of '%s' were damaged and are left out",
			(unsigned long long)history_damaged(history), l->args->history);
	if (history_aside(history))
		cmd_say("the file as it was is kept as '%s'", history_aside(history));
}

/* Place @at becomes @pid's; the history of who had it before goes on. */
static int give_place(struct loop *l, size_t at, pid_t pid, struct err *err)
{
	struct watched *w = &l->set.all[at];
	int rc = 0;
	if (!l->histories[at]) {
		rc = history_open(l->args->history, 1, &l->histories[at], err);
		if (rc < 0)
			return rc;
		say_damaged(l, l->histories[at]);
	}
	pthread_rwlock_wrlock(&l->set.lock);
	if (at < l->set.count)
		watched_close(w);
	rc = watched_open(w, pid, l->args, l->histories[at], err);
	if (rc < 0) /* looked at no more, and not again */
		w->facts.ended = 1;
	if (at == l->set.count)
		l->set.count++;
	pthread_rwlock_unlock(&l->set.lock);
	if (rc == 0 && l->args->names)
		mapnames_add(l->args->names, pid, err);
	return rc;
}

/* A place for one more: that of a process that ended, else the next. SIZE_MAX: none is left. */
static size_t find_place(struct loop *l, pid_t pid)
{
	size_t most = l->args->history ? 1 : TARGETS_GIVEN_MAX, place = SIZE_MAX;
	for (size_t i = 0; i < l->set.count; i++) {
		struct watched *w = &l->set.all[i];
		if (!w->facts.ended)
			continue;
		/* one that may not be read is still there: it is not tried again and again */
		if (w->pid == pid && w->pidfd >= 0 &&
		    poll(&(struct pollfd){ .fd = w->pidfd, .events = POLLIN }, 1, 0) == 0)
			return SIZE_MAX;
		/* a program that was started is what the place of its name is about */
		if (place == SIZE_MAX && !(l->args->program && i == 0))
			place = i;
	}
	if (place == SIZE_MAX && l->set.count < most)
		place = l->set.count;
	if (place == SIZE_MAX && !l->full++)
		fprintf(stderr,
			l->args->history
				? "byteledger: process %d is left out: a history is of one "
				  "process\n"
				: "byteledger: process %d and those to come are left out: "
				  "too many to watch\n",
			(int)pid);
	return place;
}

static int look_for_more(struct loop *l, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = 0;
	for (size_t i = 0; i < l->set.count && rc == 0; i++)
		if (!l->set.all[i].facts.ended)
			rc = target_list_add(&list, l->set.all[i].pid, err);
	size_t known = list.count;
	if (rc == 0)
		rc = targets_more(l->args->targets, &list, err);
	for (size_t i = known; i < list.count && rc == 0; i++) {
		size_t at = find_place(l, list.pids[i]);
		if (at == SIZE_MAX)
			continue;
		struct err failed = { 0 };
		if (give_place(l, at, list.pids[i], &failed) == 0)
			fprintf(stderr, "byteledger: watching process %d, too\n",
				(int)list.pids[i]);
		else if (failed.code != -ESRCH) /* ended meanwhile */
			warn(&failed);
		l->waiting = 0;
	}
	l->more_due_ns = targets_more_due(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	return rc;
}

/* Whether anybody is left, or may come. */
static int goes_on(struct loop *l, struct err *err)
{
	const struct targets *targets = l->args->targets;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (l->stop || (l->args->program && l->set.all[0].facts.ended))
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
		cmd_say("waiting for a program called '%s'", targets->name);
	return left || targets->name;
}

static int run(struct loop *l, struct err *err)
{
	char failure[300];
	int on;
	while ((on = goes_on(l, err)) > 0) {
		uint64_t next = l->end_ns ? l->end_ns : UINT64_MAX, now = clock_ns(CLOCK_MONOTONIC);
		if (targets_follow(l->args->targets) && l->more_due_ns < next)
			next = l->more_due_ns;
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
			if (watch_due_ns(w->watch) < next)
				next = watch_due_ns(w->watch);
		}
		if (alert_runner_failed(l->runner, failure, sizeof(failure)))
			fprintf(stderr, "byteledger: %s\n", failure);
		if (l->end_ns && clock_ns(CLOCK_MONOTONIC) >= l->end_ns) {
			l->stop = 1;
			break;
		}
		if (!l->stop && (alive(l) || l->args->targets->name))
			wait_for(l, next);
	}
	return on < 0 ? on : 0;
}

static int serve(struct loop *l, struct err *err)
{
	watched_source(&l->source, &l->set);
	l->source.hide_addresses = l->args->hide_addresses;
	l->source.cache = memory_cache_new();
	if (!l->source.cache)
		return err_set(err, -ENOMEM, "cannot serve");
	const struct http_route routes[] = { { "/debug/memory", memory_debug, &l->source },
					     { "/debug/memory/history", memory_history,
					       &l->source },
					     { "/debug/memory/diff", memory_diff, &l->source },
					     { "/metrics", memory_metrics, &l->source } };
	memcpy(l->routes, routes, sizeof(routes));
	l->args->http.routes = l->routes;
	l->args->http.route_count = ARRAY_LEN(routes);
	l->args->http.hosts = l->args->hosts;
	int rc = http_server_start(&l->args->http, &l->server, err);
	if (rc < 0)
		return rc;
	const char *note = http_server_note(l->server);
	fprintf(stderr, "byteledger: serving %sdebug/memory and %smetrics\n",
		http_server_url(l->server), http_server_url(l->server));
	if (note)
		fprintf(stderr, "byteledger: %s\n", note);
	return 0;
}

static int begin(struct loop *l, const struct target_list *list, struct err *err)
{
	if (list->count > TARGETS_GIVEN_MAX)
		return err_set(err, -EINVAL, "%zu processes are too many to watch: at most %d",
			       list->count, TARGETS_GIVEN_MAX);
	if (l->args->history && list->count > 1) {
		err_set(err, -EINVAL, "a history is of one process, and these are %zu",
			list->count);
		return err_hint(err, "watch each by a command of its own, with its own file");
	}
	/* blocked in every thread that comes; read from a descriptor in this one */
	l->signals = signals_open(l->args->program != 0);
	signal(SIGPIPE, SIG_IGN);
	l->runner = alert_runner_new();
	if (l->signals < 0 || !l->runner)
		return err_set(err, l->signals < 0 ? l->signals : -ENOMEM, "cannot watch");
	l->more_due_ns = targets_more_due(0);
	for (size_t i = 0; i < list->count; i++) {
		int rc = give_place(l, i, list->pids[i], err);
		if (rc < 0)
			return rc;
		const char *exe = watch_target(l->set.all[i].watch)->exe;
		rc = i == 0 ? result_for(l->args->result, exe, list->pids[i], err) : 0;
		if (rc < 0)
			return rc;
	}
	return l->args->serve ? serve(l, err) : 0;
}

/* What is printed once it is over. */
static int finish(struct loop *l, struct err *err)
{
	int rc = 0;
	if (l->args->seconds <= 0 || !l->args->result->to)
		return 0;
	if (l->args->json && !l->args->jsonl) {
		for (size_t i = 0; i < l->set.count && rc == 0; i++)
			if (l->set.all[i].quick)
				rc = watch_show_json(&l->set.all[i], l->args, err);
	} else if (!l->args->json && l->set.count == 1 && !l->first) {
		fputc('\n', l->args->result->to);
		rc = watch_show_growth(l->args, l->histories[0], l->set.all[0].facts.limit_bytes,
				       GROWTH_ROWS, err);
	}
	return rc;
}

int watch_run(struct watch_args *args, const struct target_list *list, int *stopped)
{
	struct loop l = { .args = args, .signals = -1, .first = 1 };
	struct err err = { 0 };
	pthread_rwlockattr_t fair;
	pthread_rwlockattr_init(&fair);
	/* many askers do not keep a restarted process out */
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&l.set.lock, &fair);
	pthread_rwlockattr_destroy(&fair);
	l.set.all = calloc(TARGETS_GIVEN_MAX, sizeof(*l.set.all));
	int rc = l.set.all ? 0 : err_set(&err, -ENOMEM, "cannot watch");
	l.end_ns = args->end_ns;
	if (rc == 0)
		rc = begin(&l, list, &err);
	if (rc == 0)
		rc = run(&l, &err);
	if (rc == 0)
		rc = finish(&l, &err);
	*stopped = rc == 0 && l.stop;
	http_server_stop(l.server);
	memory_cache_free(l.source.cache);
	alert_runner_free(l.runner);
	for (size_t i = 0; i < l.set.count; i++)
		watched_close(&l.set.all[i]);
	for (size_t i = 0; i < TARGETS_GIVEN_MAX; i++)
		history_close(l.histories[i]);
	free(l.set.all);
	pthread_rwlock_destroy(&l.set.lock);
	if (l.signals >= 0)
		close(l.signals);
	return rc < 0 ? cmd_fail(&err) : l.alerts ? CMD_ALERT : CMD_OK;
}

int watch_history(const struct watch_args *args)
{
	struct history *history = NULL;
	struct history_run *runs = NULL;
	struct err err = { 0 };
	size_t count = 0;
	int rc = history_open(args->history, 0, &history, &err);
	if (rc == 0 && (rc = history_runs(history, &runs, &count)) < 0)
		err_set(&err, rc, "cannot read '%s'", args->history);
	if (rc == 0 && history_damaged(history))
		cmd_say("%llu bytes of '%s' are damaged and left out",
			(unsigned long long)history_damaged(history), args->history);
	if (rc == 0)
		rc = result_for(args->result, args->history, getpid(), &err);
	if (rc == 0 && !args->result->to) {
		rc = 0; /* -q: whether it can be read */
	} else if (rc == 0 && args->json) {
		struct memory_facts facts = { .history = history };
		struct memory_history_ask ask = { .to_ns = UINT64_MAX,
						  .points = 1,
						  .points_max = SIZE_MAX };
		if (count) {
			facts.pid = runs[count - 1].pid;
			memcpy(facts.comm, runs[count - 1].comm, sizeof(facts.comm));
		}
		rc = memory_history_put(args->result->to, &facts, &ask);
		if (rc < 0 || fflush(args->result->to) != 0)
			rc = err_set(&err, rc < 0 ? rc : -EIO, "cannot write the history");
	} else if (rc == 0) {
		rc = watch_show_growth(args, history, 0, args->top ? args->top : GROWTH_ROWS, &err);
	}
	free(runs);
	history_close(history);
	if (rc == 0)
		rc = result_end(args->result, &err);
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
