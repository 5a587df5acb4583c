/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
#include "cmd/record.h"
#include "cmd/record_opt.h"

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "Record process PID from now on, or steer its recording:", 20 },
	{ "mark", 512, "NUMBER", 0, "Mark this moment: mark:NUMBER is a TIME, then", 20 },
	{ "start", 513, NULL, 0, "Record allocations again", 20 },
	{ "stop", 514, NULL, 0, "Record no allocations until --start", 20 },
	{ "sync", 515, NULL, 0, "Return when what happened so far is in the file", 20 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct steering *s = state->input;
	if (key == 'p')
		s->pid = cmd_take_pid(arg);
	else if (key < 512 || key > 515)
		return ARGP_ERR_UNKNOWN;
	else
		s->what |= 1u << (key - 512); /* enum steer_what */
	if (key == 512)
		s->mark = (uint32_t)cmd_take_number("--mark", arg, 0, UINT32_MAX);
	return 0;
}

const struct argp steering_argp = { .options = options, .parser = parse };

int cmd_heap(int argc, char **argv)
{
	return record_command(argc, argv, "heap",
			      "Record every allocation of PROGRAM, or PID, with its stack.", 0);
}
