/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - `byteledger diff BASE FILE`: what changed between two recordings, or two moments. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/select.h"
#include "out/compare.h"
#include "out/fit.h"
#include "query/limits.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_FOLDED, FORMAT_PPROF };

struct side {
	/* as typed: FILE or FILE@TIME */
	const char *word;
	char *path;
	/* kind 0: none */
	struct query_time at;
	struct recording *recording;
	struct prof *prof;
};

struct diff {
	/* first: the child parser's input */
	struct selection selection;
	struct side sides[2];
	size_t count;
	enum format format;
	struct growth_limits limits;
	struct err err;
};

enum { OPT_FORMAT = 256, OPT_FAIL_IF };

static const struct argp_option options[] = {
	{ "format", OPT_FORMAT, "WORD", 0,
	  "text (default), json, folded (lines of difference flame graphs), or pprof", 3 },
	{ "fail-if", OPT_FAIL_IF, "RULE", 0,
	  "End with status 3 where it is true: growth>5%, growth>10M (repeatable)", 3 },
	{ 0 },
};

static int take_side(struct diff *d, const char *word, struct err *err)
{
	if (d->count == ARRAY_LEN(d->sides))
		return err_set(err, -EINVAL, "too many files: '%s'", word);
	d->sides[d->count++].word = word;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct diff *d = state->input;
	static const char *const formats[] = { "text", "json", "folded", "pprof" };
	int rc = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->selection;
		state->child_inputs[1] = &d->selection;
		break;
	case OPT_FORMAT:
		d->format = (enum format)cmd_take_format(arg, formats, ARRAY_LEN(formats),
							 "one of: text json folded");
		break;
	case OPT_FAIL_IF:
		rc = growth_limits_add(&d->limits, arg, &d->err);
		break;
	case ARGP_KEY_ARG:
		rc = take_side(d, arg, &d->err);
		break;
	case ARGP_KEY_END:
		if (d->count < ARRAY_LEN(d->sides))
			cmd_usage("two readings are compared: BASE and FILE");
		if (d->selection.inverted)
			cmd_usage("--inverted is of trees, and a comparison is a list");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (rc < 0)
		cmd_refuse(&d->err);
	return 0;
}

static int read_side(struct diff *d, struct side *side, struct err *err)
{
	struct query query = d->selection.query;
	query.at = side->at.kind ? side->at : query.at;
	if (!query.at.kind && d->sides[side == d->sides].at.kind)
		query.at.kind = QUERY_TIME_END; /* what a moment is compared with is one, too */
	struct recording_ears ears = cmd_ears;
	ears.across_builds = 1;
	side->recording = recording_open(side->path, &cmd_ears, err);
	if (!side->recording)
		return err->code;
	side->prof = recording_read(side->recording, &query, err);
	if (!side->prof || recording_resolve(side->prof, &ears, err) < 0)
		return err->code;
	if (!query.at.kind && !recording_goes_on(side->recording)) {
		CLEANUP(suppress_freep)
		struct suppress *suppress = suppress_files_run(&d->selection.quiet, side->prof,
							       d->format == FORMAT_TEXT, err);
		if (!suppress)
			return err->code;
		if (suppress_applied(suppress) && d->selection.cost_given &&
		    d->selection.cost == VIEW_COST_LEAKED)
			quiet_tell(suppress);
	}
	if (recording_warning(side->recording))
		cmd_say("%s", recording_warning(side->recording));
	return 0;
}

static void sides_fini(struct diff *d)
{
	for (size_t i = 0; i < ARRAY_LEN(d->sides); i++) {
		prof_freep(&d->sides[i].prof);
		recording_freep(&d->sides[i].recording);
		free(d->sides[i].path);
	}
}

static int print(struct diff *d, const struct comparison *c, const struct out_opt *opt)
{
	const struct prof *base = d->sides[0].prof, *prof = d->sides[1].prof;
	const struct compare_names names = { d->sides[0].word, d->sides[1].word };
	for (size_t i = 0; d->format != FORMAT_JSON && i < ARRAY_LEN(d->sides); i++) {
		if (out_losses(d->format == FORMAT_TEXT ? stdout : stderr, d->sides[i].prof, 0, 0,
			       &d->err) < 0)
			return d->err.code;
	}
	switch (d->format) {
	case FORMAT_JSON:
		return out_compare_json(stdout, base, prof, c, &names, opt, &d->err);
	case FORMAT_FOLDED:
		return out_compare_folded(stdout, c, &d->err);
	case FORMAT_PPROF:
		return out_pprof_since(stdout, base, prof, opt, &d->err);
	default:
		return out_compare_text(stdout, base, prof, c, &names, opt, &d->err);
	}
}

/* The rule that is true and by how much, on stderr. */
static int judge(const struct diff *d, const struct comparison *c)
{
	return growth_limits_check(&d->limits, view_cost_name(c->cost), c->before, c->after,
				   cmd_say_line)
		       ? CMD_ALERT
		       : CMD_OK;
}

static int compare(struct diff *d)
{
	int moments = d->sides[0].at.kind || d->sides[1].at.kind || d->selection.query.at.kind;
	CLEANUP(view_skip_freep) struct view_skip *skip = select_skip(&d->selection, &d->err);
	if (!skip)
		return cmd_fail(&d->err);
	struct out_opt opt = {
		.by = d->format == FORMAT_FOLDED ? VIEW_BY_STACK : d->selection.by,
		.cost = d->selection.cost_given ? d->selection.cost
			: moments               ? VIEW_COST_LIVE
						: VIEW_COST_PEAK,
		.inclusive = d->selection.inclusive,
		.skip = skip,
		.limit = d->selection.limit,
		.moment = moments,
		.selection = select_words(&d->selection),
	};
	struct view_opt view = out_view(&opt);
	CLEANUP(comparison_freep)
	struct comparison *c = comparison_new(d->sides[0].prof, d->sides[1].prof, &view,
					      d->format == FORMAT_FOLDED, &d->err);
	if (!c)
		return cmd_fail(&d->err);
	terminal_fit(stdout, &opt);
	if (print(d, c, &opt) < 0)
		return cmd_fail(&d->err);
	return judge(d, c);
}

int cmd_diff(int argc, char **argv)
{
	static const struct argp_child children[] = { { &select_argp, 0, NULL, 0 },
						      { &select_leaks_argp, 0, NULL, 0 },
						      { &memory_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "BASE FILE",
		.doc = "Say what changed between two recordings, or between two moments of one "
		       "(FILE@TIME): what grew, what is new, what is gone.\vRows meet by function, "
		       "not by address: BASE may be of an earlier build.",
		.children = children,
	};
	struct diff d = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &d) < 0)
		return CMD_USAGE;
	int status = CMD_OK;
	for (size_t i = 0; status == CMD_OK && i < ARRAY_LEN(d.sides); i++)
		if (query_path_split(d.sides[i].word, &d.sides[i].path, &d.sides[i].at, &d.err) < 0)
			status = cmd_fail(&d.err);
	for (size_t i = 0; status == CMD_OK && i < ARRAY_LEN(d.sides); i++)
		if (read_side(&d, &d.sides[i], &d.err) < 0)
			status = cmd_fail(&d.err);
	if (status == CMD_OK)
		status = compare(&d);
	sides_fini(&d);
	return status;
}
