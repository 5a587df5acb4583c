/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c - `byteledger import FILE -o OUT.blt`: a heaptrack file, or the library's rings, as a
 * recording.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "recorder/recorder.h"

struct import {
	const char *path, *out_path;
};

static const struct argp_option options[] = {
	{ "output", 'o', "OUT", 0,
	  "The recording to write; an existing file is never overwritten: .1, .2 ... is tried", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct import *import = state->input;
	if (key == ARGP_KEY_END && import->path && !import->out_path)
		cmd_usage("-o OUT is needed");
	if (key != 'o')
		return cmd_take_file(&import->path, key, arg);
	import->out_path = cmd_take_recording(arg);
	return 0;
}

int cmd_import(int argc, char **argv)
{
	static const struct argp_child children[] = { { &memory_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Turn a heaptrack file (format 0 to 3, raw or interpreted, plain, gzip or "
		       "zstd), or the rings of a library that found no recorder, into a recording.",
		.children = children,
	};
	struct import import = { 0 };
	struct err err = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &import) < 0)
		return CMD_USAGE;
	CLEANUP(recording_freep) struct recording *rec = cmd_open_recording(import.path, &err);
	if (!rec)
		return cmd_fail(&err);
	char *path = NULL;
	int rc = recorder_import(rec, import.out_path, &path, &err);
	if (recording_warning(rec))
		cmd_say("%s", recording_warning(rec));
	if (path && strcmp(path, import.out_path) != 0)
		cmd_say("written to '%s'", path);
	free(path);
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
