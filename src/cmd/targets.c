/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/targets.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cmd/cmd.h"

enum { OPT_CGROUP = 512, OPT_CONTAINER, OPT_FOLLOW };

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "The process with that id (repeatable)", 1 },
	{ "name", 'n', "NAME", 0,
	  "Every process of that name (or glob): its executable's, its own (comm) or argv[0]'s, "
	  "without folders; waits for one where none runs, and follows restarts",
	  1 },
	{ "container", OPT_CONTAINER, "NAME|ID", 0,
	  "Every process of a container; a name is what docker or podman knows it by", 1 },
	{ "cgroup", OPT_CGROUP, "PATH", 0, "Every process of a cgroup and of those below it", 1 },
	{ "follow-children", OPT_FOLLOW, NULL, 0, "What these have started, too", 1 },
	{ 0 },
};

static void say_waiting(const char *name)
{
	cmd_say("waiting for a program called '%s'", name);
}

static void say_called(pid_t pid, const char *by, const char *exe)
{
	CLEANUP(buf_fini) struct buf safe = { 0 };
	text_escape(&safe, exe, 0);
	cmd_say("process %d is called so by its %s; its executable is '%s'", (int)pid, by,
		buf_cstr(&safe));
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct targets *t = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		t->waiting = say_waiting;
		t->called = say_called;
		return 0;
	case 'p':
		if (t->pid_count == TARGETS_GIVEN_MAX)
			cmd_usage("at most %d process ids", TARGETS_GIVEN_MAX);
		t->pids[t->pid_count++] = cmd_take_pid(arg);
		break;
	case 'n':
		if (!*arg || strchr(arg, '/'))
			cmd_usage("'%s' is not the base name of a program", arg);
		t->name = arg;
		break;
	case OPT_CONTAINER:
		t->container = arg;
		break;
	case OPT_CGROUP:
		t->cgroup = arg;
		break;
	case OPT_FOLLOW:
		t->follow_children = 1;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp targets_argp = { .options = options, .parser = parse };
