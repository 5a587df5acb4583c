/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
#include "cmd/record.h"

#include <stdio.h>

int cmd_heap(int argc, char **argv)
{
	static const struct argp_child children[] = { { &record_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.args_doc = "-- PROGRAM [ARGS...]",
		.doc = "Record every allocation of PROGRAM with its stack.",
		.children = children,
	};
	struct record_opt opt = { 0 };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &opt) < 0)
		return CMD_USAGE;
	if (rest >= argc) {
		fputs("byteledger: no program given\n"
		      "hint: byteledger heap [OPTIONS] -- PROGRAM [ARGS...]\n",
		      stderr);
		return CMD_USAGE;
	}
	return record_program(&opt, "heap", argv + rest);
}
