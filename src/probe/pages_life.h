/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_life.h - resident pages by call stack, of processes and of who comes to them, counted again
 * and again: load, attach, take up targets, count as often as the budget allows, answer who asks,
 * record. In order of use:
 * 	pages_life_new();
 * 	pages_life_run() until a signal, the end of the time or of the processes; then readings are
 *	to be had as before;
 * 	pages_life_record() finishes the files, pages_life_wait() the program that was started;
 * 	pages_life_free().
 * One thread, but where another is said.
 */
#ifndef PROBE_PAGES_LIFE_H
#define PROBE_PAGES_LIFE_H

#include <stdint.h>

#include "base/err.h"
#include "model/pages.h"
#include "recorder/started.h"
#include "source/pageown.h"
#include "watch/targets.h"

struct pages_life;

/** struct pages_ears - who hears of it; say and fail are needed, on the thread that runs it. */
struct pages_ears {
	void *ctx;
	/* a line for people */
	void (*say)(const char *text);
	/* one process among others that cannot be had; what it returns is ignored */
	int (*fail)(const struct err *err);
	/* targets are taken, nothing is counted yet; negative ends it */
	int (*ready)(void *ctx, struct err *err);
	/* a reading was made; likewise */
	int (*counted)(void *ctx, struct err *err);
};

/** struct pages_life_opt - what is lent stays as long as the life. */
struct pages_life_opt {
	/* lent; .waiting is called for a name that nobody has; .container_id is filled in */
	struct targets *targets;
	/* to be started; NULL: none */
	char **program;
	/* pattern of the files; NULL: none */
	const char *record;
	/* between readings; 0 = as the work allows */
	uint64_t watch_ns;
	/* readings of before that are kept for pages_life_then(); 0 = none */
	uint64_t since_ns;
	/* of CLOCK_MONOTONIC; 0 = none */
	uint64_t end_ns;
	/* room in the kernel; 0: the default */
	uint32_t tables_bytes, stacks;
	/* somebody looks at each reading; at a stream's names, too */
	int is_drawn, is_streamed;
	/* earlier readings are kept, and all names are looked up */
	int is_served;
	struct pages_ears ears;
};

/** pages_life_new() - opens nothing yet. NULL with @err. */
struct pages_life *pages_life_new(const struct pages_life_opt *opt, struct err *err);
/**
 * pages_life_run() - to its end, with a last reading where a signal or the time ended it. 0 or
 * negative errno.
 */
int pages_life_run(struct pages_life *life, struct err *err);
/**
 * pages_life_tell_full() - ears.fail hears which room in the kernel was too small, and which option
 * gives more.
 */
void pages_life_tell_full(struct pages_life *life);
/**
 * pages_life_record() - finish what was recorded. @quiet: what the files are called is not said. 0
 * or negative errno.
 */
int pages_life_record(struct pages_life *life, int quiet, struct err *err);
/**
 * pages_life_wait() - take the probes out and wait for the program that was started, unless this
 * ended before. Return: its status; else @status.
 */
int pages_life_wait(struct pages_life *life, int status);
void pages_life_free(struct pages_life *life);

/** pages_life_shot() - the last reading; NULL before the first. Put by the caller. Any thread. */
struct page_shot *pages_life_shot(void *life);
/**
 * pages_life_fresh() - one of what the processes have now, which may take a second. Any thread but
 * the one that runs it.
 */
struct page_shot *pages_life_fresh(void *life);
/**
 * pages_life_past() - the last of those kept that was @ago_ns old or older; NULL: none is. Any
 * thread.
 */
struct page_shot *pages_life_past(void *life, uint64_t ago_ns);
/**
 * pages_life_then() - with opt.since_ns: what the last reading is compared with; NULL: nothing.
 * Lent until the next reading.
 */
const struct page_shot *pages_life_then(const struct pages_life *life);
/** pages_life_pages() - for names and figures; NULL before it runs. Lent. */
struct pageown *pages_life_pages(struct pages_life *life);
/** pages_life_program() - that was started; 0: none. */
pid_t pages_life_program(const struct pages_life *life);
/**
 * pages_life_ended() - once it has run: when @pid was seen to be gone, of CLOCK_MONOTONIC; 0: it
 * goes on.
 */
uint64_t pages_life_ended(const struct pages_life *life, pid_t pid);

#endif
