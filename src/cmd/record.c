/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - `heap` and `run` around a program, and the recorder that the preload library starts by
 * itself.
 */
#include "cmd/record.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/open.h"
#include "cmd/record_opt.h"
#include "cmd/select.h"
#include "query/query.h"
#include "recorder/findings.h"
#include "recorder/recorder.h"
#include "recorder/started.h"
#include "wire/heap_start.h"

#define MS 1000000
#define HEAP_BUDGET_MIN_MIB 32
#define HEAP_BUDGET_MAX_MIB 1024

enum {
	OPT_DURATION = 256,
	OPT_FORMAT,
	OPT_ON_FULL,
	OPT_RESOLUTION,
	OPT_FREE_STACKS,
	OPT_FOLLOW,
	OPT_BUDGET,
	OPT_REPORT,
	OPT_NO_NAMES,
	OPT_SNAPSHOT,
	OPT_NO_PAGES,
	OPT_FAIL_IF,
	OPT_SUPPRESS,
	OPT_NO_SUPPRESS
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0,
	  "Recording to write; %e %p %t %h %n stand for program, pid, time, host, number "
	  "(default " RECORDER_PATTERN "). An existing file is kept: .1, .2 ... is appended",
	  0 },
	{ "duration", OPT_DURATION, "TIME", 0,
	  "Stop after TIME (10s, 5m, 1h30m): detach, report, exit 0; the program goes on", 0 },
	{ "quiet", 'q', NULL, 0, "No report at the end", 0 },
	{ "format", OPT_FORMAT, "text|json", 0, "Report on stdout in this format", 0 },
	{ "report", OPT_REPORT, "FILE", 0, "Write the report to FILE, whatever stdout is", 0 },
	{ "fail-if", OPT_FAIL_IF, "RULE", 0,
	  "Exit with 3 and say why where RULE holds at the end: peak>200M, leaked>0, rss>1G, "
	  "allocations>1M, temporary>30%; repeatable",
	  0 },
	{ "suppress", OPT_SUPPRESS, "FILE", 0,
	  "Leaks that fit a pattern in FILE (leak:NAME, one a line) are only counted; repeatable",
	  0 },
	{ "no-suppress", OPT_NO_SUPPRESS, NULL, 0,
	  "Show what runtimes never free on purpose: libstdc++'s pool, name services ...", 0 },
	{ "on-full", OPT_ON_FULL, "wait|limit|drop", 0,
	  "What the program does when its buffer is full: wait for the recorder (default), wait at "
	  "most 10 % of the time, never wait. What is dropped is counted",
	  0 },
	{ "time-resolution", OPT_RESOLUTION, "TIME", 0,
	  "Exactness of event times: 1ms (default); anything finer stamps each event", 0 },
	{ "no-store-symbols", OPT_NO_NAMES, NULL, 0,
	  "Do not store the names of functions in the recording when it ends; they are looked for "
	  "when it is read",
	  0 },
	{ "free-stacks", OPT_FREE_STACKS, NULL, 0, "Record the stack of every free, too", 0 },
	{ "follow-children", OPT_FOLLOW, NULL, 0,
	  "Record its children as well, forked ones and programs that it starts, each into a file "
	  "of its own",
	  0 },
	{ "budget", OPT_BUDGET, "MIB", 0,
	  "Memory shared with the program, 32 to 1024 MiB (default 64)", 0 },
	{ 0 },
};

static const struct cmd_field fields[] = {
	CMD_FLAG('q', struct record_opt, quiet),
	CMD_FLAG(OPT_NO_SUPPRESS, struct record_opt, suppressions.off),
	CMD_FLAG(OPT_NO_NAMES, struct record_opt, no_names),
	CMD_FLAG(OPT_FREE_STACKS, struct record_opt, free_stacks),
	CMD_FLAG(OPT_FOLLOW, struct record_opt, follow_children),
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_opt *opt = state->input;
	struct err err = { 0 };
	uint64_t ns;
	char *end;
	if (cmd_take_field(fields, key, arg, opt))
		return 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->serving;
		if (!opt->snapshots)
			state->child_inputs[1] = &opt->steering;
		return 0;
	case 'o':
		opt->output = cmd_take_recording(arg);
		return 0;
	case OPT_DURATION:
		opt->duration_ns = cmd_take_duration(arg);
		return 0;
	case OPT_FORMAT:
		cmd_take_json(arg);
		opt->format = arg;
		return 0;
	case OPT_REPORT:
		if (!*arg)
			cmd_usage("--report needs a file name");
		opt->report = arg;
		return 0;
	case OPT_FAIL_IF:
		if (limits_add(&opt->limits, arg, &err) < 0)
			cmd_refuse(&err);
		return 0;
	case OPT_SUPPRESS:
		quiet_take(&opt->suppressions, arg);
		return 0;
	case OPT_ON_FULL:
		if (strcmp(arg, "wait") != 0 && strcmp(arg, "limit") != 0 &&
		    strcmp(arg, "drop") != 0)
			cmd_usage("--on-full is wait, limit or drop, not '%s'", arg);
		opt->on_full = arg;
		return 0;
	case OPT_RESOLUTION:
		if (query_duration_parse(arg, &ns, NULL) < 0 || !ns)
			cmd_usage("'%s' is not a time like 1ms, 10us, 1ns", arg);
		opt->stamp_every_event = ns < MS;
		return 0;
	case OPT_BUDGET:
		errno = 0;
		ns = strtoull(arg, &end, 10);
		if (errno || *end || *arg < '0' || *arg > '9' || ns < HEAP_BUDGET_MIN_MIB ||
		    ns > HEAP_BUDGET_MAX_MIB)
			cmd_usage("--budget is a number of MiB from 32 to 1024");
		opt->budget_bytes = ns << 20;
		return 0;
	case ARGP_KEY_ARG:
		return serving_takes(&opt->serving, arg) ? CMD_TAKEN : 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option snapshot_options[] = {
	{ "snapshot", OPT_SNAPSHOT, "TIME", 0,
	  "Also note every TIME (10s, 5m) where the memory is, for 'byteledger explain'; by "
	  "default at new peaks of the resident size and before the program ends. At most 0.5 % of "
	  "a CPU",
	  0 },
	{ "no-pages", OPT_NO_PAGES, NULL, 0,
	  "Leave resident pages by call stack out; else they are taken along where the kernel "
	  "permits it (root, or capabilities: 'byteledger check')",
	  0 },
	{ 0 },
};

static error_t parse_snapshot(int key, char *arg, struct argp_state *state)
{
	struct record_opt *opt = state->input;
	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = opt;
		return 0;
	}
	if (key == ARGP_KEY_ARG) /* the outer parser is the one that is asked for the program */
		return parse_option(key, arg, state);
	switch (key) {
	case OPT_SNAPSHOT:
		opt->snapshot_ns = cmd_take_duration(arg);
		return 0;
	case OPT_NO_PAGES:
		opt->pages = 0;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void on_tell(void *ctx, const struct err *what)
{
	(void)ctx;
	if (what->code)
		cmd_fail(what);
	else
		cmd_say("%s", what->msg);
}

/* A file was begun: it is served while it is written. */
static void on_file(void *ctx, const char *path)
{
	struct err err = { 0 };
	if (ctx && serving_add(ctx, path, &err) < 0)
		cmd_fail(&err);
}

/* ---- around a program ------------------------------------------------------------------------ */

static void print_hint(const char *text)
{
	fprintf(stderr, "hint: %s\n", text);
}

static int record_program(const struct record_opt *opt, const char *comment, char **argv)
{
	struct err err = { 0 };
	struct recorder_result result;
	int exit_status;
	CLEANUP(outfile_fini) struct outfile report = { 0 };
	if (recorder_may_create(opt->output ? opt->output : RECORDER_PATTERN, argv[0], &err) < 0 ||
	    suppress_files_check(&opt->suppressions, &err) < 0 ||
	    (opt->report && (recording_spares(opt->report, NULL, &err) < 0 ||
			     outfile_open(&report, opt->report, 0, &err) < 0)))
		return cmd_fail(&err);
	CLEANUP(serving_freep) struct serving *serving = NULL;
	if (opt->serving.wanted) {
		serving = serving_begin(&opt->serving, NULL, 0, &err);
		if (!serving) /* before the program starts: it would run unseen */
			return cmd_fail(&err);
		cmd_say("serving %s", serving_url(serving));
	}
	int opened = serving && serving_open_page(&opt->serving, serving);
	const struct recorder_opt how = {
		.ears = { .ctx = serving, .tell = on_tell, .file = on_file, .reading = cmd_ears },
		.pattern = opt->output,
		.pid = opt->steering.pid,
		.comment = comment,
		.variables = environ,
		.takes_signals = 1,
		.on_full = opt->on_full,
		.budget_bytes = opt->budget_bytes,
		.free_stacks = opt->free_stacks,
		.no_names = opt->no_names,
		.follow_exec = 1,
		.duration_ns = opt->duration_ns,
		.stamp_every_event = opt->stamp_every_event,
		.served_port = serving ? serving_open_port(serving) : 0,
		.follow_children = opt->follow_children,
		.snapshots = opt->snapshots,
		.snapshot_ns = opt->snapshot_ns,
		.pages = opt->pages,
	};
	CLEANUP(recorder_freep)
	struct recorder *recorder = recorder_start(&how, argv, &exit_status, &err);
	if (!recorder) {
		cmd_fail(&err);
		return exit_status;
	}
	recorder_run(recorder, opt->duration_ns);
	if (recorder_finish(recorder, &result, &err) < 0)
		cmd_fail(&err);
	if (result.path && opt->made)
		snprintf(opt->made, opt->made_size, "%s", result.path);
	int failed = 0;
	const struct findings_opt findings = {
		.say = cmd_say_line,
		.hint = print_hint,
		.is_quiet = opt->quiet,
		.is_json = opt->format && strcmp(opt->format, "json") == 0,
		.is_explained = opt->is_explained,
		.follow_children = opt->follow_children,
		.pages = opt->pages,
	};
	if (result.path) {
		recorder_findings_children(&result, &findings);
		failed = record_report(opt, &report, result.path);
		record_tell_family(opt, &result);
		/* last, beside the prompt: it says what to do next */
		recorder_findings(&result, &findings, argv[0]);
	} else if (limits_check(&opt->limits, NULL, cmd_say_line)) {
		failed = 1;
	}
	if (opened) {
		cmd_say("the page stays until Ctrl-C");
		signals_await();
	}
	return failed ? CMD_ALERT : result.exit_status;
}

int record_quietly(const char *output, char **argv, char *made, size_t size)
{
	const struct record_opt opt = { .output = output,
					.quiet = 1,
					.is_explained = 1,
					.snapshots = 2,
					.pages = 1,
					.made = made,
					.made_size = size };
	made[0] = '\0';
	return record_program(&opt, "explain", argv);
}

int record_command(int argc, char **argv, const char *name, const char *doc, int snapshots)
{
	const struct argp *last = snapshots ? NULL : &steering_argp;
	const struct argp_child plain_children[] = { { &serving_argp }, { last }, { 0 } };
	const struct argp plain = { .options = options,
				    .children = plain_children,
				    .parser = parse_option,
				    .args_doc = snapshots ? NULL : "[--] PROGRAM [ARGS...]",
				    .doc = snapshots ? NULL : doc };
	const struct argp_child children[] = { { &plain, 0, NULL, 0 }, { 0 } };
	const struct argp more = { .options = snapshot_options,
				   .parser = parse_snapshot,
				   .args_doc = "[--] PROGRAM [ARGS...]",
				   .doc = doc,
				   .children = children };
	const struct argp argp = snapshots ? more : plain;
	struct record_opt opt = { .snapshots = snapshots, .pages = snapshots };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &opt) < 0)
		return CMD_USAGE;
	if (opt.steering.what || (opt.steering.pid && rest < argc)) {
		struct err err = { 0 };
		if (steer(&opt.steering, argv[rest], &err) == -EINVAL)
			cmd_refuse(&err);
		return err.code ? cmd_fail(&err) : CMD_OK;
	}
	if (rest >= argc && !opt.steering.pid)
		return cmd_lacks_program("[--]");
	cmd_status_is_programs(); /* of one that runs already it is 0 */
	return record_program(&opt, name, argv + rest);
}

int record_helper(int argc, char **argv)
{
	/* byteledger --recorder FD [-o PATTERN] [NAME=VALUE...] */
	const struct recorder_ears ears = { .tell = on_tell, .reading = cmd_ears };
	char *end;
	long fd = argc > 2 ? strtol(argv[2], &end, 10) : -1;
	if (fd < 3 || fd > 65535 || *end) {
		fprintf(stderr, "byteledger: %s is for the preload library\n",
			WIRE_RECORDER_OPTION);
		return CMD_USAGE;
	}
	return recorder_helper((int)fd, argv + 3, &ears) < 0 ? CMD_FAILED : CMD_OK;
}
