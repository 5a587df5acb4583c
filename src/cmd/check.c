/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - `byteledger check`: what this machine permits this user, each line tried and not
 * assumed.
 */
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "cmd/cmd.h"
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

static void print_text(const struct tries_line *entry, int ok, const struct err *err)
{
	printf("%-4s %-13s %s\n", ok ? "ok" : "no", entry->feature, ok ? entry->gives : err->msg);
	if (!ok && err->hint[0])
		printf("%-18s hint: %s\n", "", err->hint);
}

static void print_json(struct jsonw *json, const struct tries_line *entry, int ok,
		       const struct err *err)
{
	jsonw_object(json, NULL);
	jsonw_str(json, "feature", entry->feature);
	jsonw_bool(json, "ok", ok);
	jsonw_str(json, "why", ok ? entry->gives : err->msg);
	jsonw_str(json, "hint", !ok && err->hint[0] ? err->hint : NULL);
	jsonw_object_end(json);
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
		if (check.json)
			print_json(&json, entry, ok, &err);
		else
			print_text(entry, ok, &err);
	}
	if (check.json) {
		jsonw_array_end(&json);
		jsonw_line(&json);
	}
	return CMD_OK;
}
