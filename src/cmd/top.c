/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.c - `byteledger top [FILE | ADDRESS | -p PID | -n NAME]`: a recording, a process, a node or a
 * server in the terminal; or processes.
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/select.h"
#include "out/name.h"
#include "proc/processes.h"
#include "tui/crowd.h"
#include "tui/paint.h"
#include "tui/session.h"

struct top {
	/* first: the child parser's input */
	struct selection selection;
	const char *path;
	const char *name;
	pid_t pid;
	uint64_t delay_ns;
	struct err err;
};

enum { OPT_DELAY = 'd', OPT_PID = 'p', OPT_NAME = 'n' };

static const struct argp_option options[] = {
	{ "pid", OPT_PID, "PID", 0, "A program that is being recorded", 3 },
	{ "name", OPT_NAME, "NAME", 0, "Processes whose program is called that; a glob", 3 },
	{ "delay", OPT_DELAY, "DURATION", 0, "Between two looks at what grows (default 1s)", 3 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top *t = state->input;
	int rc = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &t->selection;
		break;
	case OPT_PID:
		t->pid = cmd_take_pid(arg);
		break;
	case OPT_NAME:
		t->name = arg;
		break;
	case OPT_DELAY:
		rc = query_duration_parse(arg, &t->delay_ns, &t->err);
		if (rc == 0 && t->delay_ns < 100000000u)
			rc = err_set(&t->err, -EINVAL, "bad delay '%s': 100ms at least", arg);
		break;
	case ARGP_KEY_ARG:
		if (t->path)
			cmd_usage("one recording at a time: '%s' is another", arg);
		t->path = arg;
		break;
	case ARGP_KEY_END:
		if (t->selection.limit || t->selection.inclusive || t->selection.skip_count ||
		    t->selection.no_skip)
			cmd_usage("--limit, --sort, --skip and --no-skip are of lists; here keys "
				  "sort and all rows are shown");
		if (t->selection.by == VIEW_BY_THREAD)
			cmd_usage("top shows no threads");
		if (!!t->path + !!t->pid + !!t->name > 1)
			cmd_usage("either a file or a process or processes of a name");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (rc < 0)
		cmd_refuse(&t->err);
	return 0;
}

/** show_heap() - until the reader leaves it. 0, or negative errno. */
static int show_heap(struct top *t, pid_t pid)
{
	const struct heap_session_opt opt = { .path = t->path,
					      .pid = pid,
					      .query = &t->selection.query,
					      .ears = &cmd_ears,
					      .words = select_words(&t->selection),
					      .by = t->selection.by,
					      .cost = t->selection.cost,
					      .cost_given = t->selection.cost_given,
					      .inverted = t->selection.inverted,
					      .delay_ns = t->delay_ns,
					      .from_list = !t->path && !t->pid,
					      .short_name = text_short_name };
	struct heap_session *session = heap_session_new(&opt, &t->err);
	if (!session)
		return t->err.code;
	int rc = heap_session_run(session, &t->err);
	const struct buf *stack = heap_session_stack(session);
	if (rc == 0 && stack->len)
		fwrite(stack->data, 1, stack->len, stdout);
	heap_session_free(session);
	return rc;
}

static int read_processes(void *name, struct process_row *rows, size_t room, struct err *err)
{
	return processes_read(name, rows, room, err);
}

/** show_processes() - and the heap of whichever is picked. 0, or negative errno. */
static int show_processes(struct top *t)
{
	const struct crowd_opt opt = { .read = read_processes,
				       .ctx = (void *)t->name,
				       .words = t->name,
				       .delay_ns = t->delay_ns };
	struct crowd *crowd = crowd_new(&opt, &t->err);
	pid_t pid = crowd ? crowd_run(crowd, &t->err) : t->err.code;
	while (pid > 0) {
		if (show_heap(t, pid) < 0) {
			crowd_say(crowd, t->err.msg);
			err_init(&t->err);
		}
		pid = crowd_run(crowd, &t->err);
	}
	crowd_free(crowd);
	return pid;
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = { { &select_argp, 0, NULL, 0 },
						      { &memory_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE\nADDRESS\n-p PID\n[-n NAME]",
		.doc = "Show in the terminal what the page shows: call tree, table, balance, "
		       "growth and mappings of a recording, finished or still being written, of "
		       "a process, a node's store, or whatever is served at ADDRESS "
		       "(http://...). Without one: processes by what they hold, from which "
		       "Enter leads to one of them.\vKeys: ? shows them, digits lead from "
		       "screen to screen.",
		.children = children,
	};
	struct top t = { .delay_ns = NS_PER_S };
	if (cmd_parse(&argp, argc, argv, NULL, &t) < 0)
		return CMD_USAGE;
	setlocale(LC_CTYPE, "");
	int rc = paint_check(&t.err);
	if (rc < 0) {
		cmd_fail(&t.err);
		return CMD_USAGE;
	}
	rc = t.path || t.pid ? show_heap(&t, t.pid) : show_processes(&t);
	return rc < 0 ? cmd_fail(&t.err) : CMD_OK;
}
