/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c - `import`, `strip`, `postprocess`, `merge`, `extract`: what is made of whole files. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "recorder/rewrite.h"

struct rewrite {
	const char *path, *out;
	/* merge: of several, room for all arguments; else NULL */
	const char **paths;
	size_t count;
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
	case ARGP_KEY_ARG:
		if (r->paths)
			r->path = r->paths[r->count++] = arg;
		else
			break;
		return 0;
	case ARGP_KEY_END:
		if (r->paths && r->count == 1)
			cmd_usage("one recording is not merged: name all of them");
		if (r->path && !r->out)
			cmd_usage("-o OUT is needed");
		break;
	}
	return cmd_take_file(&r->path, key, arg);
}

static const struct argp_child children[] = { { &memory_argp, 0, NULL, 0 }, { 0 } };
#define OUTPUT                                                                                   \
	{                                                                                        \
		"output", 'o', "OUT", 0,                                                         \
			"The recording to write; an existing file is never overwritten: .1, .2 " \
			"... is tried",                                                          \
			1                                                                        \
	}
static const struct argp_option only_output[] = { OUTPUT, { 0 } };

static int take(const struct argp_option *options, const char *doc, int argc, char **argv,
		struct rewrite *r)
{
	const struct argp argp = { options, parse,    r->paths ? "FILE FILE..." : "FILE",
				   doc,     children, NULL,
				   NULL };
	return cmd_parse(&argp, argc, argv, NULL, r) < 0 ? CMD_USAGE : CMD_OK;
}

static int make(const struct argp_option *options, const char *doc, int argc, char **argv,
		struct rewrite *r)
{
	struct err err = { 0 };
	struct rewrite_result result;
	char before[32], after[32];
	if (take(options, doc, argc, argv, r) != CMD_OK)
		return CMD_USAGE;
	CLEANUP(recording_freep)
	struct recording *rec = r->paths ? NULL : recording_open(r->path, &cmd_ears, &err);
	int rc = r->paths ? recorder_merge(r->paths, r->count, r->out, &cmd_ears, &result, &err)
		 : rec    ? recorder_rewrite(rec, &r->opt, r->out, &result, &err)
			  : err.code;
	if (rec && recording_warning(rec))
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

int cmd_import(int argc, char **argv)
{
	static const char doc[] =
		"Turn a heaptrack file (format 0 to 3, raw or interpreted, plain, gzip or zstd), "
		"or "
		"the rings of a library that found no recorder, into a recording.";
	struct rewrite r = { .opt = { .imports = 1, .ears = &cmd_ears } };
	return make(only_output, doc, argc, argv, &r);
}

int cmd_merge(int argc, char **argv)
{
	static const char doc[] =
		"Make one recording of those of several processes, in the order of the clock: its "
		"sums are theirs together. What a process had not freed at its end stays.";
	struct rewrite r = { .paths = calloc((size_t)argc + 1, sizeof(*r.paths)) };
	int status = r.paths ? make(only_output, doc, argc, argv, &r) : CMD_FAILED;
	free(r.paths);
	return status;
}

int cmd_strip(int argc, char **argv)
{
	static const struct argp_option options[] = {
		OUTPUT,
		{ "lifetime", 't', "TIME", 0,
		  "Leave out what was freed sooner than that (10s; a number is seconds); without "
		  "it, all that was freed",
		  1 },
		{ 0 },
	};
	static const char doc[] = "Make a recording small: what lived shortly stays in the sums of "
				  "its stack, in totals and in the peak.";
	struct rewrite r = { .opt = { .strips = 1, .lifetime_ns = UINT64_MAX } };
	return make(options, doc, argc, argv, &r);
}

int cmd_postprocess(int argc, char **argv)
{
	static const struct argp_option options[] = {
		OUTPUT,
		{ "anonymize", 'a', "none|partial|full", 0,
		  "partial: paths become their last part, arguments go; full: program, libraries, "
		  "files, functions and threads become numbers",
		  1 },
		{ 0 },
	};
	static const char doc[] = "Copy a recording with all names that this machine knows, or "
				  "make one that may be given away.";
	struct rewrite r = { .opt.ears = &cmd_ears };
	return make(options, doc, argc, argv, &r);
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
	static const char doc[] = "Unpack the files that are embedded in a recording "
				  "(BYTELEDGER_INCLUDE_FILE).";
	struct rewrite r = { 0 };
	struct err err = { 0 };
	if (take(options, doc, argc, argv, &r) != CMD_OK)
		return CMD_USAGE;
	return recorder_extract(r.path, r.out, on_file, NULL, &err) < 0 ? cmd_fail(&err) : CMD_OK;
}
