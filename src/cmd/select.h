/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - the selection words as options, the same in every command that reads recordings
 * (docs/rules.md).
 */
#ifndef CMD_SELECT_H
#define CMD_SELECT_H

#include <argp.h>
#include <stddef.h>

#include "query/query.h"
#include "query/suppress_files.h"
#include "view/view.h"

struct selection {
	struct query query;
	enum view_by by;
	enum view_cost cost;
	int by_given, cost_given;
	/* 0 = not given */
	size_t limit;
	int inverted, inclusive;
	/* lent from argv */
	const char *skips[64];
	size_t skip_count;
	int no_skip;
	struct suppress_files quiet;
	/* what counts, as it was typed (cut where it is longer) */
	char words[256];
};

/**
 * select_argp - a child parser; hand &struct selection to it by state->child_inputs[] at
 * ARGP_KEY_INIT. A bad value is printed with its hint and ends the program with CMD_USAGE, as a bad
 * option does.
 */
extern const struct argp select_argp;
/**
 * select_but_to_argp - the same without --to TIME, for a command whose own --to takes it
 * (query_time_parse()).
 */
extern const struct argp select_but_to_argp;
/** select_leaks_argp - --suppress and --no-suppress; hand &struct selection to it likewise. */
extern const struct argp select_leaks_argp;

/**
 * select_cost() - the cost to sort by: the given one; else what is live where a moment was asked
 * for, else the peak.
 */
enum view_cost select_cost(const struct selection *selection);

/**
 * select_skip() - who does not count as who asked; release with view_skip_freep(). NULL with @err
 * without memory.
 */
struct view_skip *select_skip(const struct selection *selection, struct err *err);

/**
 * select_words() - "--at 50% --min-size 64K": what was asked to count, for a heading; NULL =
 * everything. Lent.
 */
const char *select_words(const struct selection *selection);

/* Leaks that are not told: the same in every command that tells of some. */

/** quiet_take() - --suppress @arg; more than there is room for is a usage error. */
void quiet_take(struct suppress_files *given, const char *arg);
/** quiet_tell() - on stderr, how much was suppressed; nothing where nothing was. */
void quiet_tell(const struct suppress *suppress);

#endif
