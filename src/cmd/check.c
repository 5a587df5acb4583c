/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - `byteledger check`: what this machine permits this user, each line tried and not
 * assumed.
 */
#include <stdio.h>

#include "base/jsonw.h"
#include "cmd/cmd.h"
#include "out/check.h"
#include "source/tries.h"

enum { OPT_FORMAT = 0x100 };

static const struct argp_option options[] = {
	{ "format", OPT_FORMAT, "WORD", 0, "text (default) or json", 0 },
	{ 0 },
};

struct check {
	int json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct check *check = state->input;
	switch (key) {
	case OPT_FORMAT:
		check->json = cmd_take_json(arg);
		return 0;
	case ARGP_KEY_ARG:
		cmd_usage("unexpected '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_check(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Say what this machine and user permit, line by line, with the remedy. "
		       "Every line is tried.",
	};
	struct check check = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &check) < 0)
		return CMD_USAGE;
	struct jsonw json;
	jsonw_init(&json, stdout);
	if (check.json)
		jsonw_array(&json, NULL);
	for (const struct tries_line *entry = tries_all; entry->feature; entry++) {
		struct err err;
		err_init(&err);
		int ok = entry->run(&err) == 0;
		const struct out_check line = { entry->feature, entry->gives, ok ? NULL : &err };
		if (check.json)
			out_check_json(&json, &line);
		else
			out_check_text(stdout, &line);
	}
	if (check.json) {
		jsonw_array_end(&json);
		jsonw_line(&json);
	}
	return CMD_OK;
}
