/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.c - `byteledger explain`: the balance sheet of a process, of a program that is started,
 * or of a recording.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/record.h"
#include "cmd/targets.h"
#include "out/explain.h"
#include "out/fit.h"
#include "query/balance.h"
#include "query/query.h"
#include "recorder/scratch.h"

enum { OPT_FORMAT = 256, OPT_FREEZE, OPT_AT, OPT_DIFF, OPT_BY, OPT_LIMIT, OPT_MAP };

struct explaining {
	struct targets targets;
	const char *path;
	struct query_time at, diff;
	int freeze, json, with_program, map;
	enum view_by by;
	int by_given;
	size_t limit;
	const char *output;
};

static const struct argp_option options[] = {
	{ "at", OPT_AT, "TIME", 0,
	  "Of a recording: the snapshot nearest to TIME (default: the one with the most memory)",
	  2 },
	{ "diff", OPT_DIFF, "TIME", 0, "What changed from --at to TIME", 2 },
	{ "by", OPT_BY, "WORD", 0,
	  "Hold to account by function (text's default), module, file, line or stack (JSON's "
	  "default)",
	  2 },
	{ "limit", OPT_LIMIT, "N", 0, "Who holds: so many rows (default 5)", 2 },
	{ "map", OPT_MAP, NULL, 0,
	  "Show where in the heap what is used lies, too: how full each share of each arena is",
	  2 },
	{ "freeze", OPT_FREEZE, NULL, 0,
	  "With -p: stop every thread while it is read; for how long is told. Without, nothing is "
	  "stopped",
	  2 },
	{ "format", OPT_FORMAT, "text|json", 0, "text (default) or json", 2 },
	{ "output", 'o', "FILE", 0, "With a program: the recording to write, and keep", 2 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct explaining *x = state->input;
	struct err err = { 0 };
	char *end;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &x->targets;
		return 0;
	case OPT_AT:
	case OPT_DIFF:
		if (query_time_parse(arg, key == OPT_AT ? &x->at : &x->diff, &err) < 0)
			cmd_refuse(&err);
		return 0;
	case OPT_BY:
		if (view_by_parse(arg, &x->by, &err) < 0)
			cmd_refuse(&err);
		if (x->by == VIEW_BY_THREAD)
			cmd_usage("--by thread says nothing here: function, module, file, line or "
				  "stack");
		x->by_given = 1;
		return 0;
	case OPT_LIMIT:
		x->limit = strtoul(arg, &end, 10);
		if (*end || !x->limit || *arg == '-')
			cmd_usage("--limit is a number of rows, not '%s'", arg);
		return 0;
	case OPT_MAP:
		x->map = 1;
		return 0;
	case OPT_FREEZE:
		x->freeze = 1;
		return 0;
	case OPT_FORMAT:
		x->json = cmd_take_json(arg);
		return 0;
	case 'o':
		x->output = cmd_take_recording(arg);
		return 0;
	case ARGP_KEY_ARG:
		if (x->with_program)
			return 0;
		if (x->path)
			cmd_usage("one FILE is enough, '%s' is too much", arg);
		x->path = arg;
		return CMD_TAKEN;
	case ARGP_KEY_END:
		if ((x->path != NULL) + targets_given(&x->targets) + x->with_program > 1)
			cmd_usage("a FILE, a process or a program: one of them");
		if (!x->path && !targets_given(&x->targets) && !x->with_program)
			cmd_usage("nothing to explain: -p PID, FILE or -- PROGRAM");
		if ((x->at.kind || x->diff.kind) && !x->path)
			cmd_usage("--at and --diff are for a recording");
		if (x->freeze && !targets_given(&x->targets))
			cmd_usage("--freeze is for a running process: -p PID");
		if (x->targets.follow_children && !targets_given(&x->targets))
			cmd_usage("--follow-children is for running processes: -p PID; 'byteledger "
				  "run --follow-children' records children, too");
		if (x->output && !x->with_program)
			cmd_usage("-o is for the recording of a program: -- PROGRAM");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- one sheet ------------------------------------------------------------------------------- */

/* What a sheet is told by: text shows functions, JSON every stack. */
static struct explain_opt told_by(const struct explaining *x)
{
	return (struct explain_opt){ .by = x->by_given ? x->by
					   : x->json   ? VIEW_BY_STACK
						       : VIEW_BY_FUNCTION };
}

static int print(const struct explaining *x, const struct explain *e, struct err *err)
{
	struct out_opt opt = { .limit = x->limit };
	if (x->json)
		return out_explain_json(stdout, e, 0, err);
	terminal_fit(stdout, &opt);
	int rc = out_explain_text(stdout, e, &opt, err);
	return rc == 0 && x->map ? out_explain_map(stdout, e, &opt, err) : rc;
}

static int explain_process(const struct explaining *x, pid_t pid, struct err *err)
{
	CLEANUP(balance_fini) struct balance b = { 0 };
	const struct explain_opt opt = told_by(x);
	int rc = balance_of_process(&b, pid, x->freeze, &cmd_ears, &opt, err);
	return rc < 0 ? rc : print(x, b.explain, err);
}

static int explain_file(const struct explaining *x, struct err *err)
{
	CLEANUP(balance_fini) struct balance b = { 0 };
	CLEANUP(balance_fini) struct balance after = { 0 };
	const struct explain_opt by = told_by(x);
	int rc = balance_read(&b, x->path, &x->at, &cmd_ears, &by, err);
	if (rc < 0 || !x->diff.kind)
		return rc < 0 ? rc : print(x, b.explain, err);
	rc = balance_read(&after, x->path, &x->diff, &cmd_ears, &by, err);
	if (rc < 0)
		return rc;
	if (x->json)
		return out_explain_diff_json(stdout, b.explain, after.explain, err);
	struct out_opt opt = { .limit = x->limit };
	terminal_fit(stdout, &opt);
	return out_explain_diff_text(stdout, b.explain, after.explain, &opt, err);
}

/*
 * Records, and explains the recording: into a file of its own that goes again, unless one was asked
 * for.
 */
static int explain_program(struct explaining *x, char **argv)
{
	struct err err = { 0 };
	struct scratch scratch = { 0 };
	char made[1024];
	cmd_status_is_programs();
	if (!x->output && scratch_make(&scratch, &err) < 0)
		return cmd_fail(&err);
	int status = record_quietly(x->output ? x->output : scratch.path, argv, made, sizeof(made));
	if (made[0]) {
		x->path = made;
		int rc = explain_file(x, &err);
		if (rc == -ENODATA) {
			err_init(&err);
			err_set(&err, -ESRCH,
				"cannot explain '%s': it ended before it was looked at", argv[0]);
		}
		if (rc < 0)
			cmd_fail(&err);
	}
	if (!x->output)
		scratch_remove(&scratch, made);
	return status;
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &memory_later_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[FILE | -- PROGRAM [ARGS...]]",
		.doc = "Say why a process is as large as it is: every resident byte on one line, "
		       "the lines add up to the kernel's figure, and what would bring it back.",
		.children = children,
	};
	struct explaining x = { 0 };
	struct err err = { 0 };
	int rest, status = CMD_OK;
	x.with_program = cmd_names_program(argc, argv);
	if (cmd_parse(&argp, argc, argv, &rest, &x) < 0)
		return CMD_USAGE;
	if (x.with_program && rest >= argc)
		return cmd_lacks_program("--");
	if (x.with_program)
		return explain_program(&x, argv + rest);
	if (x.path)
		memory_bound();
	if (x.path)
		return explain_file(&x, &err) < 0 ? cmd_fail(&err) : CMD_OK;
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	if (targets_find(&x.targets, 0, &list, &err) < 0)
		return cmd_fail(&err);
	for (size_t i = 0; i < list.count; i++) {
		struct err one = { 0 };
		if (i && !x.json)
			putchar('\n');
		if (explain_process(&x, list.pids[i], &one) < 0)
			status = cmd_fail(&one);
	}
	return status;
}
