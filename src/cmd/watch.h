/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - `regions` over time: --watch, --history, --alert, --serve. watch.c has the options and the loop, watch_target.c
 * one process with its readings, watch_show.c what is printed.
 */
#ifndef CMD_WATCH_H
#define CMD_WATCH_H

#include <argp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "alert/alert.h"
#include "api/http.h"
#include "api/memory.h"
#include "base/err.h"
#include "cmd/result.h"
#include "cmd/targets.h"
#include "model/history.h"
#include "proc/text.h"
#include "source/mapnames.h"
#include "source/watch.h"

#define WATCH_ACTIONS_MAX 16
#define WATCH_HOSTS_MAX 16

/** struct watch_args - what the command line said; zero-initialised, the child parser's input. Texts are argv's. */
struct watch_args {
	double seconds; /* --watch; 0 = not given */
	uint64_t duration_ns;
	uint64_t end_ns; /* of CLOCK_MONOTONIC: counted from the command's start; 0 = none */
	const char *history;
	struct alert_rule rules[ALERT_RULES_MAX];
	size_t rule_count;
	struct alert_action actions[WATCH_ACTIONS_MAX];
	size_t action_count;
	int serve;
	struct http_opt http;
	const char *hosts[WATCH_HOSTS_MAX + 1];
	size_t host_count;
	int hide_addresses;
	int probe;              /* set by the command, as what follows: --duration is then enough */
	struct mapnames *names; /* lent; may be NULL */
	int json, jsonl;        /* set by the command: an object at the end, or for each reading */
	size_t top;
	int all;
	enum regions_sort sort;        /* of objects */
	int by_rss;                    /* the order of what is printed at the end; else growth */
	struct result *result;         /* lent; where lines and objects go */
	const struct targets *targets; /* lent; who else is looked for meanwhile */
	pid_t program; /* that was started for this: signals are forwarded, its end is ours; 0: none */
};
extern const struct argp watch_argp;

/** watch_wanted() - 1 if anything of this was asked for. */
int watch_wanted(const struct watch_args *args);
/** watch_takes() - a bare argument behind --serve is its address: 1 if @text was taken. */
int watch_takes(struct watch_args *args, const char *text);

/**
 * watch_run() - watch these processes, and who comes to them, until they end, --duration is over or a signal comes; a name is
 * watched on through restarts. *@stopped: ended by time, signal or rule, not by an end. Return: the exit status.
 */
int watch_run(struct watch_args *args, const struct target_list *list, int *stopped);
/** watch_history() - print what a history file holds; the exit status. */
int watch_history(const struct watch_args *args);

/* ---- watch_target.c ------------------------------------------------------------------------------------------------- */

/** struct shot - a reading that several threads look at; the last one frees it. */
struct shot {
	atomic_int refs;
	struct breakdown *breakdown;
};

/** struct watched - one process. The loop's thread writes; HTTP threads read under the lock. */
struct watched {
	pid_t pid;
	int pidfd;
	int exited;        /* pidfd told so; it is not asked again */
	uint64_t since_ns; /* of the first look: what grew is counted from there */
	struct watch *watch;
	struct history *history;
	struct alert_set *rules;
	struct mapnames *names; /* lent; may be NULL */
	uint64_t rss_before;    /* of the line printed last */
	uint64_t said_period_ns, said_rules_period_ns;
	/* the rules on growth: what they took last, when they may be judged again (CLOCK_MONOTONIC), and after what time */
	uint64_t rules_cpu_ns, rules_due_ns, rules_period_ns;

	pthread_mutex_t lock;
	struct shot *quick, *full;
	struct memory_facts facts;

	pthread_mutex_t full_lock; /* one full reading at a time; taken before lock */
};

/** watched_open() - start watching @pid; @history stays the caller's. */
int watched_open(struct watched *w, pid_t pid, const struct watch_args *args,
		 struct history *history, struct err *err);
void watched_close(struct watched *w);
/**
 * watched_look() - look, keep the sample, check the rules. 1 mappings were read, 0 only sums, -ESRCH ended, or another error.
 * @events receives the *@count rules met anew.
 */
int watched_look(struct watched *w, struct alert_event *events, int *count, struct err *err);
/** watched_full() - a full reading at most MEMORY_FULL_SECONDS old, made here if need be; NULL with @err. */
struct shot *watched_full(struct watched *w, struct err *err);
/** watched_shot() - the last quick (or @full) reading with a reference more, or NULL. */
struct shot *watched_shot(struct watched *w, int full);
void shot_put(struct shot *shot);
/** watched_source() - fill @source for the HTTP routes; @set must outlive it. */
struct watched_set {
	pthread_rwlock_t
		lock; /* HTTP threads read under it; the loop writes where a place is given to another process */
	struct watched *all; /* TARGETS_GIVEN_MAX places */
	size_t count;
};
void watched_source(struct memory_source *source, struct watched_set *set);

/* ---- watch_show.c ---------------------------------------------------------------------------------------------------- */

/** watch_show_look() - a line (or JSON object) on stdout for the look just made. */
int watch_show_look(struct watched *w, const struct watch_args *args, int several, int first,
		    struct err *err);
/** watch_show_growth() - what grew: the table at the end, and of a history file. */
int watch_show_growth(const struct watch_args *args, const struct history *history,
		      uint64_t limit_bytes, size_t rows, struct err *err);
/** watch_show_json() - one object for the last reading. */
int watch_show_json(struct watched *w, const struct watch_args *args, struct err *err);
/** watch_show_cost() - on stderr, where it changed: how often mappings are read and growth is judged now, and why. */
void watch_show_cost(struct watched *w, uint64_t look_period_ns);

#endif
