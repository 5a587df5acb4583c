/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/memory_live.h"
#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "out/regions.h"
#include "recorder/started.h"
#include "watch/rules.h"

#define GROWTH_ROWS 12

enum {
	OPT_WATCH = 768,
	OPT_HISTORY,
	OPT_ALERT,
	OPT_ON_ALERT,
	OPT_SERVE,
	OPT_DURATION,
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
	  "Watch for 'rss>2G', 'rss>80%', 'rss:CLASS>X', 'rate>X/min for 5m', 'eta<2h', 'new>X', "
	  "'step>X', 'unaccounted>5%', 'pss>X', 'swap>X', 'free>X', 'free/live>200%', 'pss-sum>X', "
	  "'cgroup>80%', 'pagetables>X', 'mappings>80%', 'sockets>X', 'slab>X', 'page-cache>X', "
	  "'pressure>10%', 'oom>90%', 'unmapped>X' (repeatable); exit status 3 once one was met",
	  4 },
	{ "on-alert", OPT_ON_ALERT, "ACTION", 0,
	  "What else to do then: log (default), exit, exec:CMD, post:URL, snapshot (repeatable)",
	  4 },
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Serve /debug/memory, its history and /metrics (default 127.0.0.1:17832)", 5 },
	{ "addresses", OPT_ADDRESSES, "WORD", 0,
	  "on (default) or off: addresses of mappings in what is served", 5 },
	{ 0 },
};

static uint64_t look_period_ns(const struct watch_args *a)
{
	return a->seconds > 0 ? (uint64_t)(a->seconds * 1e9) : WATCH_PERIOD_NS;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const switches[] = { "on", "off" };
	struct watch_args *a = state->input;
	struct err err = { 0 };
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->serving;
		return 0;
	case OPT_WATCH:
		a->seconds = cmd_take_seconds("--watch", arg, 0.1);
		return 0;
	case OPT_DURATION:
		a->duration_ns = cmd_take_duration(arg);
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
		a->serving.wanted = 1;
		a->serving.http.address = arg;
		return 0;
	case OPT_ADDRESSES:
		a->hide_addresses = cmd_take_word("--addresses", arg, switches, 2);
		return 0;
	case ARGP_KEY_END:
		if (a->action_count && !a->rule_count)
			cmd_usage("--on-alert needs an --alert");
		if ((serving_given(&a->serving) || a->hide_addresses) && !a->serving.wanted)
			cmd_usage("--token-file, --no-auth, --host, --cors and --addresses belong "
				  "to --serve");
		if (watch_rules_check(a->rules, a->rule_count, (uint64_t)(a->seconds * 1e9), &err) <
		    0)
			cmd_refuse(&err);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &serving_guard_argp, 0, NULL, 0 }, { 0 } };
const struct argp watch_argp = { .options = options, .parser = parse, .children = children };

int watch_wanted(const struct watch_args *a)
{
	return a->seconds > 0 || a->history || a->rule_count || a->serving.wanted;
}

/* ---- what is heard --------------------------------------------------------------------------- */

struct loop {
	struct watch_args *args;
	struct watchers *watchers;
	struct alert_runner *runner;
	struct serving *serving;
	struct memory_live live;
	struct serving_more more;
	int signals;
	uint64_t alerts;
	int first;
};

static void on_say(void *ctx, const char *text)
{
	if (!((struct loop *)ctx)->args->serving.quiet)
		cmd_say("%s", text);
}

static void on_warn(void *ctx, const struct err *err)
{
	(void)ctx;
	fprintf(stderr, "byteledger: %s\n%s%s%s", err->msg, err->hint[0] ? "hint: " : "", err->hint,
		err->hint[0] ? "\n" : "");
}

/* The breakdown of the moment in a file of its own. */
static int snapshot(struct watched *w, struct err *err)
{
	char *made = NULL;
	struct shot *shot = watched_full(w, err);
	int rc = shot ? out_regions_file(shot->breakdown, w->facts.comm, &made, err) : err->code;
	if (rc == 0)
		cmd_say("snapshot written to '%s'", made);
	free(made);
	shot_put(shot);
	return rc;
}

static void on_met(void *ctx, struct watched *w, const struct alert_event *event)
{
	struct loop *l = ctx;
	CLEANUP(buf_fini) struct buf line = { 0 };
	alert_event_line(&line, event);
	fprintf(stderr, "byteledger: alert: %s\n", buf_cstr(&line));
	l->alerts++;
	memory_live_tell(&l->live, l->serving, event);
	for (size_t i = 0; i < l->args->action_count; i++) {
		const struct alert_action *action = &l->args->actions[i];
		struct err err = { 0 };
		int rc = 0;
		if (action->kind == ALERT_EXIT)
			watchers_stop(l->watchers);
		else if (action->kind == ALERT_SNAPSHOT)
			rc = snapshot(w, &err);
		else if (action->kind != ALERT_LOG)
			rc = alert_run(l->runner, action, event, &err);
		if (rc < 0)
			on_warn(NULL, &err); /* the watch goes on */
	}
}

static int on_looked(void *ctx, struct watched *w, int mappings, struct err *err)
{
	struct loop *l = ctx;
	if (mappings && !l->args->serving.quiet)
		watched_tell_cost(w, look_period_ns(l->args), cmd_say_line);
	if (l->args->seconds <= 0 || !w->quick || !l->args->result->to ||
	    (l->args->json && !(mappings && l->args->jsonl)))
		return 0;
	int rc = watch_show_look(w, l->args, watchers_set(l->watchers)->count > 1, l->first, err);
	l->first = 0;
	if (rc != -EPIPE)
		return rc;
	/* whoever read the lines has gone: what else was asked for goes on without them */
	err_init(err);
	result_let_go(l->args->result);
	if (!l->args->history && !l->args->serving.wanted && !l->args->rule_count)
		watchers_stop(l->watchers);
	return 0;
}

static void on_turned(void *ctx)
{
	struct loop *l = ctx;
	char failure[300];
	if (alert_runner_failed(l->runner, failure, sizeof(failure)))
		fprintf(stderr, "byteledger: %s\n", failure);
}

static int on_signals(void *ctx)
{
	struct loop *l = ctx;
	return started_signals(l->signals, l->args->program);
}

/* ---- watching -------------------------------------------------------------------------------- */

static int serve(struct loop *l, struct err *err)
{
	int rc =
		memory_live_init(&l->live, watchers_set(l->watchers), l->args->hide_addresses, err);
	if (rc < 0)
		return rc;
	l->more = memory_live_more(&l->live);
	struct serving_opt opt = l->args->serving;
	opt.more = &l->more;
	l->serving = serving_new(&opt, l->live.files, l->live.file_count, err);
	if (!l->serving)
		return err->code;
	const char *url = serving_url(l->serving);
	if (!l->args->is_server)
		cmd_say("serving %sdebug/memory and %smetrics; the page: %s", url, url, url);
	else if (!l->args->serving.quiet)
		serving_tell_url(l->serving);
	serving_open_page(&l->args->serving, l->serving);
	if (!l->args->serving.quiet)
		serving_tell_note(l->serving);
	return 0;
}

static int begin(struct loop *l, const struct target_list *list, struct err *err)
{
	/* blocked in every thread that comes; read from a descriptor in this one */
	l->signals = signals_open(l->args->program != 0);
	signal(SIGPIPE, SIG_IGN);
	l->runner = alert_runner_new();
	if (l->signals < 0 || !l->runner)
		return err_set(err, l->signals < 0 ? l->signals : -ENOMEM, "cannot watch");
	const struct watchers_opt opt = {
		.ears = { l, on_say, on_warn, on_looked, on_met, on_turned, on_signals },
		.each = { .seconds = l->args->seconds,
			  .rules = l->args->rules,
			  .rule_count = l->args->rule_count,
			  .names = l->args->names },
		.targets = l->args->targets,
		.history = l->args->history,
		.program = l->args->program,
		.end_ns = l->args->end_ns,
		.signals = l->signals,
	};
	l->watchers = watchers_new(&opt, list, err);
	if (!l->watchers)
		return err->code;
	struct watched_set *set = watchers_set(l->watchers);
	int rc = set->count ? result_for(l->args->result, watch_target(set->all[0].watch)->exe,
					 set->all[0].pid, err)
			    : 0;
	return rc == 0 && l->args->serving.wanted ? serve(l, err) : rc;
}

/* What is printed once it is over. */
static int finish(struct loop *l, struct err *err)
{
	struct watched_set *set = watchers_set(l->watchers);
	int rc = 0;
	if (l->args->seconds <= 0 || !l->args->result->to)
		return 0;
	if (l->args->json && !l->args->jsonl) {
		for (size_t i = 0; i < set->count && rc == 0; i++)
			if (set->all[i].quick)
				rc = watch_show_json(&set->all[i], l->args, err);
	} else if (!l->args->json && set->count == 1 && !l->first) {
		fputc('\n', l->args->result->to);
		rc = watch_show_growth(l->args, set->all[0].history, set->all[0].facts.limit_bytes,
				       GROWTH_ROWS, err);
	}
	return rc;
}

int watch_run(struct watch_args *args, const struct target_list *list, int *stopped)
{
	struct loop l = { .args = args, .signals = -1, .first = 1 };
	struct err err = { 0 };
	int rc = begin(&l, list, &err);
	if (rc == 0)
		rc = watchers_run(l.watchers, &err);
	if (rc == 0)
		rc = finish(&l, &err);
	*stopped = rc == 0 && watchers_stopped(l.watchers);
	serving_freep(&l.serving);
	memory_live_fini(&l.live);
	alert_runner_free(l.runner);
	watchers_freep(&l.watchers);
	if (l.signals >= 0)
		close(l.signals);
	return rc < 0 ? cmd_fail(&err) : l.alerts ? CMD_ALERT : CMD_OK;
}

int watch_history(const struct watch_args *args)
{
	struct history *history = NULL;
	struct err err = { 0 };
	int rc = history_open(args->history, 0, &history, &err);
	if (rc == 0 && history_damaged(history))
		cmd_say("%llu bytes of '%s' are damaged and left out",
			(unsigned long long)history_damaged(history), args->history);
	if (rc == 0)
		rc = result_for(args->result, args->history, getpid(), &err);
	if (rc == 0 && args->result->to) /* with -q: whether it can be read */
		rc = args->json ? memory_history_file(args->result->to, history, &err)
				: watch_show_growth(args, history, 0,
						    args->top ? args->top : GROWTH_ROWS, &err);
	history_close(history);
	if (rc == 0)
		rc = result_end(args->result, &err);
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
