/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c - `import`, `strip`, `postprocess`, `extract`: what is made of a whole file. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "recorder/rewrite.h"

struct rewrite {
	const char *path, *out;
	struct rewrite_opt opt;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const veils[] = { "none", "partial", "full" };
	struct rewrite *r = state->input;
	switch (key) {
	case 'o':
		r->out = cmd_take_recording(arg);
		return 0;
	case 't':
		r->opt.lifetime_ns = arg[strspn(arg, "0123456789.")]
					     ? cmd_take_duration(arg)
					     : (uint64_t)(cmd_take_seconds("-t", arg, 0) * 1e9);
		return 0;
	case 'a':
		r->opt.veil = (enum veil_how)cmd_take_word("-a", arg, veils, 3);
		return 0;
	case ARGP_KEY_END:
		if (r->path && !r->out)
			cmd_usage("-o OUT is needed");
		break;
	}
	return cmd_take_file(&r->path, key, arg);
}

static int run(const struct argp *argp, int argc, char **argv, struct rewrite *r)
{
	struct err err = { 0 };
	struct rewrite_result result;
	char before[32], after[32];
	if (cmd_parse(argp, argc, argv, NULL, r) < 0)
		return CMD_USAGE;
	CLEANUP(recording_freep) struct recording *rec = cmd_open_recording(r->path, &err);
	if (!rec)
		return cmd_fail(&err);
	int rc = recorder_rewrite(rec, &r->opt, r->out, &result, &err);
	if (recording_warning(rec))
		cmd_say("%s", recording_warning(rec));
	if (rc < 0)
		return cmd_fail(&err);
	if (r->opt.imports && strcmp(result.path, r->out) != 0)
		cmd_say("written to '%s'", result.path);
	else if (!r->opt.imports)
		printf("%s: %s, of %s\n", result.path, text_bytes(after, result.after_bytes),
		       text_bytes(before, result.before_bytes));
	if (r->opt.strips)
		printf("%llu allocations of %s are told by their sums only\n",
		       (unsigned long long)result.left_out_allocations,
		       text_bytes(after, result.left_out_bytes));
	free(result.path);
	return CMD_OK;
}

#define OUTPUT "The recording to write; an existing file is never overwritten: .1, .2 ... is tried"
static const struct argp_child children[] = { { &memory_argp, 0, NULL, 0 }, { 0 } };

int cmd_import(int argc, char **argv)
{
	static const struct argp_option options[] = { { "output", 'o', "OUT", 0, OUTPUT, 1 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Turn a heaptrack file (format 0 to 3, raw or interpreted, plain, gzip or "
		       "zstd), or the rings of a library that found no recorder, into a recording.",
		.children = children,
	};
	struct rewrite r = { .opt = { .imports = 1, .ears = &cmd_ears } };
	return run(&argp, argc, argv, &r);
}

int cmd_strip(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "OUT", 0, OUTPUT, 1 },
		{ "lifetime", 't', "TIME", 0,
		  "Leave out what was freed sooner than that (10s; a number is seconds); without "
		  "it, all that was freed",
		  1 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Make a recording small: what lived shortly stays in the sums of its stack, "
		       "in totals and in the peak.",
		.children = children,
	};
	struct rewrite r = { .opt = { .strips = 1, .lifetime_ns = UINT64_MAX } };
	return run(&argp, argc, argv, &r);
}

int cmd_postprocess(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "OUT", 0, OUTPUT, 1 },
		{ "anonymize", 'a', "none|partial|full", 0,
		  "partial: paths become their last part, arguments go; full: program, libraries, "
		  "files, functions and threads become numbers",
		  1 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Copy a recording with all names that this machine knows, or make one that "
		       "may be given away.",
		.children = children,
	};
	struct rewrite r = { .opt.ears = &cmd_ears };
	return run(&argp, argc, argv, &r);
}

static void on_file(void *ctx, const char *name, const char *made)
{
	(void)ctx;
	if (made)
		puts(made);
	else
		cmd_say("the recording has no content of '%s'", name);
}

int cmd_extract(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "DIR", 0, "The folder to unpack into, which is made", 1 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Unpack the files that are embedded in a recording "
		       "(BYTELEDGER_INCLUDE_FILE).",
		.children = children,
	};
	struct rewrite r = { 0 };
	struct err err = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &r) < 0)
		return CMD_USAGE;
	return recorder_extract(r.path, r.out, on_file, NULL, &err) < 0 ? cmd_fail(&err) : CMD_OK;
}
