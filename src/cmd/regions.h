/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - what the files of `regions` share: regions.c has the options, regions_print.c what
 * comes out, regions_last.c the reading of a process that is about to end. (watch.h stands by
 * itself.)
 */
#ifndef CMD_REGIONS_H
#define CMD_REGIONS_H

#include "cmd/targets.h"
#include "cmd/watch.h"
#include "out/regions_page.h"
#include "proc/breakdown.h"
#include "proc/group.h"
#include "proc/text.h"
#include "recorder/result.h"
#include "recorder/started.h"
#include "source/mapnames.h"

struct regions {
	struct targets targets;
	struct watch_args watch;
	enum out_regions_format format;
	enum regions_sort sort;
	size_t top;
	enum regions_group group;
	/* --diff */
	struct regions_base *base;
	const char *base_path, *output;
	int top_given, format_given, sort_given, with_program, all, raw, quick, compat, probe,
		quiet, classes;
	/* --probe, where it is permitted */
	struct mapnames *names;
	struct result result;
	/* -- PROGRAM */
	struct started program;
	int printed;
};

/** regions_serve() - `regions TARGET --serve`, for `serve`: the exit status. */
int regions_serve(const struct targets *targets, const struct serving_opt *serving);

/** regions_fit() - how text is laid out where the result goes. */
struct regions_text_opt regions_fit(const struct regions *r);
/** regions_read() - one reading as the options want it; NULL with @err. */
struct breakdown *regions_read(const struct regions *r, const struct target *target,
			       struct err *err);
/**
 * regions_ledger() - read these processes and print them as one: by PSS, with their cgroup.
 * @unread: how many ended or were refused before.
 */
int regions_ledger(struct regions *r, const struct target_list *list, struct err *err);
/**
 * regions_live() - a table of them, again and again until the time is over, a signal comes or all
 * have ended.
 */
int regions_live(struct regions *r, const struct target_list *list, const char *title,
		 struct err *err);
/**
 * regions_print() - @b in the layout asked for, @age_ns old; @before_end: the process had ended
 * when it was printed.
 */
int regions_print(struct regions *r, const struct breakdown *b, const char *exe, uint64_t age_ns,
		  int before_end, struct err *err);

/**
 * regions_last() - read these processes again and again until they end, the program that was
 * started ends, --duration is over or a signal comes; then print the last reading of each.
 * *@stopped: it was not the end of the program. Return: the exit status, which is not yet the
 * program's.
 */
int regions_last(struct regions *r, const struct target_list *list, int *stopped);

#endif
