/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - `regions` over time: --watch, --history, --alert, --serve. watch.c has the options and
 * what is done with what watch/watchers.h tells, watch_show.c what is printed.
 */
#ifndef CMD_WATCH_H
#define CMD_WATCH_H

#include <argp.h>
#include <stdint.h>

#include "alert/alert.h"
#include "api/memory.h"
#include "base/err.h"
#include "cmd/serving.h"
#include "cmd/targets.h"
#include "proc/text.h"
#include "recorder/result.h"
#include "watch/watchers.h"

#define WATCH_ACTIONS_MAX 16

/**
 * struct watch_args - what the command line said; zero-initialised, the child parser's input. Texts
 * are argv's.
 */
struct watch_args {
	/* --watch; 0 = not given */
	double seconds;
	uint64_t duration_ns;
	/* of CLOCK_MONOTONIC: counted from the command's start; 0 = none */
	uint64_t end_ns;
	const char *history;
	struct alert_rule rules[ALERT_RULES_MAX];
	size_t rule_count;
	struct alert_action actions[WATCH_ACTIONS_MAX];
	size_t action_count;
	/* quiet: as `serve -q` has it */
	struct serving_opt serving;
	/* `serve`: the address is its result */
	int is_server;
	int hide_addresses;
	/* set by the command, as what follows: --duration is then enough */
	int probe;
	/* lent; may be NULL */
	struct mapnames *names;
	/* set by the command: an object at the end, or for each reading */
	int json, jsonl;
	size_t top;
	int all;
	/* of objects */
	enum regions_sort sort;
	/* the order of what is printed at the end; else growth */
	int by_rss;
	/* lent; where lines and objects go */
	struct result *result;
	/* lent; who else is looked for meanwhile */
	const struct targets *targets;
	/* that was started for this: signals are forwarded, its end is ours; 0: none */
	pid_t program;
};
extern const struct argp watch_argp;

/** watch_wanted() - 1 if anything of this was asked for. */
int watch_wanted(const struct watch_args *args);

/**
 * watch_run() - watch these processes, and who comes to them, until they end, --duration is over or
 * a signal comes; a name is watched on through restarts. *@stopped: ended by time, signal or rule,
 * not by an end. Return: the exit status.
 */
int watch_run(struct watch_args *args, const struct target_list *list, int *stopped);
/** watch_history() - print what a history file holds; the exit status. */
int watch_history(const struct watch_args *args);

/* ---- watch_show.c ---------------------------------------------------------------------------- */

/** watch_show_look() - a line (or JSON object) on stdout for the look just made. */
int watch_show_look(struct watched *w, const struct watch_args *args, int several, int first,
		    struct err *err);
/** watch_show_growth() - what grew: the table at the end, and of a history file. */
int watch_show_growth(const struct watch_args *args, const struct history *history,
		      uint64_t limit_bytes, size_t rows, struct err *err);
/** watch_show_json() - one object for the last reading. */
int watch_show_json(struct watched *w, const struct watch_args *args, struct err *err);

#endif
