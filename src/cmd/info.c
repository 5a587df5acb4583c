/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - `byteledger info FILE`: what is in a recording, and whether all of it can be read. */
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "out/contents.h"

struct info_args {
	const char *path;
	int json;
};

static const struct argp_option options[] = {
	{ "format", 'f', "text|json", 0, "How to print; text by default", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info_args *args = state->input;
	if (key != 'f')
		return cmd_take_file(&args->path, key, arg);
	args->json = cmd_take_json(arg);
	return 0;
}

int cmd_info(int argc, char **argv)
{
	static const struct argp_child children[] = { { &memory_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Tell what is in a recording, and whether all of it can be read.\vReads the "
		       "whole file and checks every block; memory does not grow with its length.",
		.children = children,
	};
	struct info_args args = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &args) < 0)
		return CMD_USAGE;
	struct err err = { 0 };
	CLEANUP(recording_freep)
	struct recording *recording = recording_open(args.path, &cmd_ears, &err);
	if (!recording)
		return cmd_fail(&err);
	CLEANUP(contents_fini) struct contents contents = { 0 };
	int rc = contents_read(recording, &cmd_ears, &contents, &err);
	if (rc >= 0 && contents.kind != RECORDING_BLT && recording_warning(recording))
		cmd_say("%s", recording_warning(recording));
	if (rc >= 0 && args.json)
		out_contents_json(stdout, &contents);
	else if (rc >= 0)
		out_contents_text(stdout, &contents);
	if (rc >= 0 && contents.file.damaged_blocks) {
		fflush(stdout);
		rc = contents_damaged(&contents, args.path, &err);
	}
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
