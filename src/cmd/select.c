/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"

enum {
	OPT_BY = 0x1000,
	OPT_COST,
	OPT_AT,
	OPT_FROM,
	OPT_TO,
	OPT_REGEX,
	OPT_MIN_SIZE,
	OPT_MAX_SIZE,
	OPT_LIFETIME_MIN,
	OPT_LIFETIME_MAX,
	OPT_LEAKED,
	OPT_LIMIT,
	OPT_INVERTED,
	OPT_SORT,
	OPT_SKIP,
	OPT_NO_SKIP,
	OPT_SUPPRESS,
	OPT_NO_SUPPRESS
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What counts:", 1 },
	{ "at", OPT_AT, "TIME", 0, "Only what was live at that moment", 1 },
	{ "from", OPT_FROM, "TIME", 0, "Only what was allocated at or after TIME", 1 },
	{ "function-regex", OPT_REGEX, "REGEX", 0,
	  "Only stacks with a function that matches (POSIX extended)", 1 },
	{ "min-size", OPT_MIN_SIZE, "SIZE", 0, "Only blocks of at least SIZE", 1 },
	{ "max-size", OPT_MAX_SIZE, "SIZE", 0, "Only blocks of at most SIZE", 1 },
	{ "lifetime-min", OPT_LIFETIME_MIN, "DURATION", 0,
	  "Only blocks that lived at least so long", 1 },
	{ "lifetime-max", OPT_LIFETIME_MAX, "DURATION", 0, "Only blocks that lived at most so long",
	  1 },
	{ "leaked", OPT_LEAKED, NULL, 0, "Only blocks that were never freed", 1 },
	{ NULL, 0, NULL, 0, "How it is shown:", 2 },
	{ "by", OPT_BY, "WORD", 0,
	  "A row is one stack (default), function, module, file, line or thread", 2 },
	{ "cost", OPT_COST, "WORD", 0,
	  "Sort by peak (default), allocations, allocated, temporary, leaked or live", 2 },
	{ "sort", OPT_SORT, "WORD", 0,
	  "Groups of frames by what is their own (default), or inclusive: with all that they call",
	  2 },
	{ "skip", OPT_SKIP, "REGEX", 0,
	  "Functions that match (POSIX extended) are no answer to who asked, nor are the known "
	  "wrappers of the allocator and the standard library; repeatable",
	  2 },
	{ "no-skip", OPT_NO_SKIP, NULL, 0,
	  "Those known ones count: who asked is whatever called the allocator", 2 },
	{ "limit", OPT_LIMIT, "N", 0, "At most N rows", 2 },
	{ "inverted", OPT_INVERTED, NULL, 0, "Trees begin at the allocating functions, not at main",
	  2 },
	{ 0 },
};

/* On their own, for commands that tell of leaks. */
static const struct argp_option leak_options[] = {
	{ "suppress", OPT_SUPPRESS, "FILE", 0,
	  "Leaks that fit a pattern in FILE (leak:NAME, one a line) are only counted; repeatable",
	  2 },
	{ "no-suppress", OPT_NO_SUPPRESS, NULL, 0,
	  "Show what runtimes never free on purpose: libstdc++'s pool, name services ...", 2 },
	{ 0 },
};

/* On its own, because `export --to` means a format as well. */
static const struct argp_option to_option[] = {
	{ "to", OPT_TO, "TIME", 0, "Only what was allocated before TIME", 1 },
	{ 0 },
};

/* --to has a table of its own. */
static const char *name_of(int key)
{
	const struct argp_option *o = options;
	while (o->key != key && (o->name || o->doc))
		o++;
	return o->name ? o->name : "to";
}

/**
 * remember() - an option that narrows what counts, for select_words(); beyond the room kept, "..".
 */
static void remember(struct selection *s, int key, const char *arg)
{
	size_t used = strlen(s->words), room = sizeof(s->words) - used;
	snprintf(s->words + used, room, "%s--%s%s%s", used ? " " : "", name_of(key), arg ? " " : "",
		 arg ? arg : "");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct selection *s = state->input;
	struct query *q = s ? &s->query : NULL;
	struct err err = { 0 };
	int rc = 0;
	if (q)
		q->times_inside = 1;
	switch (key) {
	case OPT_BY:
		s->by_given = 1;
		rc = view_by_parse(arg, &s->by, &err);
		break;
	case OPT_COST:
		s->cost_given = 1;
		rc = view_cost_parse(arg, &s->cost, &err);
		break;
	case OPT_AT:
	case OPT_FROM:
	case OPT_TO:
	case OPT_REGEX:
	case OPT_MIN_SIZE:
	case OPT_MAX_SIZE:
	case OPT_LIFETIME_MIN:
	case OPT_LIFETIME_MAX:
	case OPT_LEAKED:
		rc = query_take(q, name_of(key), arg, &err);
		break;
	case OPT_LIMIT:
		rc = query_limit_parse(arg, &s->limit, &err);
		break;
	case OPT_INVERTED:
		s->inverted = 1;
		break;
	case OPT_SORT:
		s->inclusive = strcmp(arg, "inclusive") == 0;
		if (!s->inclusive && strcmp(arg, "own") != 0)
			cmd_usage("--sort is own or inclusive, not '%s'", arg);
		break;
	case OPT_SKIP:
		rc = query_regex_check(arg, &err);
		if (rc == 0 && s->skip_count == ARRAY_LEN(s->skips))
			cmd_usage("too many --skip; one REGEX may have many parts: 'a|b'");
		if (rc == 0)
			s->skips[s->skip_count++] = arg;
		break;
	case OPT_NO_SKIP:
		s->no_skip = 1;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (rc < 0)
		cmd_refuse(&err);
	if (key < OPT_BY || (key != OPT_BY && key != OPT_COST && key < OPT_LIMIT))
		remember(s, key, arg);
	return 0;
}

static error_t parse_with_to(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_INIT)
		state->child_inputs[0] = state->input;
	return parse(key, arg, state);
}

static error_t parse_leaks(int key, char *arg, struct argp_state *state)
{
	struct selection *s = state->input;
	switch (key) {
	case OPT_SUPPRESS:
		quiet_take(&s->quiet, arg);
		return 0;
	case OPT_NO_SUPPRESS:
		s->quiet.off = 1;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp select_leaks_argp = { .options = leak_options, .parser = parse_leaks };

static const struct argp_child children[] = { { &select_but_to_argp, 0, NULL, 0 }, { 0 } };
const struct argp select_but_to_argp = { .options = options, .parser = parse };
const struct argp select_argp = { .options = to_option,
				  .parser = parse_with_to,
				  .children = children };

const char *select_words(const struct selection *selection)
{
	return selection->words[0] ? selection->words : NULL;
}

struct view_skip *select_skip(const struct selection *selection, struct err *err)
{
	return view_skip_new(selection->no_skip, selection->skips, selection->skip_count, err);
}

enum view_cost select_cost(const struct selection *selection)
{
	if (selection->cost_given)
		return selection->cost;
	return selection->query.at.kind ? VIEW_COST_LIVE : VIEW_COST_PEAK;
}

void quiet_take(struct suppress_files *given, const char *arg)
{
	if (given->count == SUPPRESS_FILES_MAX)
		cmd_usage("too many --suppress: one file may hold all patterns");
	given->files[given->count++] = arg;
}

void quiet_tell(const struct suppress *suppress)
{
	uint64_t allocations, bytes;
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	suppress_sum(suppress, &allocations, &bytes);
	if (allocations)
		cmd_say("suppressed: %s of leaks in %s block%s", text_bytes(x, bytes),
			text_grouped(y, allocations), allocations == 1 ? "" : "s");
}
