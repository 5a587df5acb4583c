/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.c - `byteledger pages TARGET`: every resident page by the call stack that made it so, live.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/pages.h"

#define THRESHOLD_KIB 256
#define STACKS_LEAST 1024
#define STACKS_MOST (4u << 20)

enum {
	OPT_THRESHOLD = 256,
	OPT_REVERSE,
	OPT_KIND,
	OPT_BY,
	OPT_DEPTH,
	OPT_SINCE,
	OPT_WATCH,
	OPT_DURATION,
	OPT_FORMAT,
	OPT_REPORT,
	OPT_JSONL,
	OPT_STACKS,
	OPT_TABLES,
	OPT_SERVE
};

static const struct argp_option options[] = {
	{ "threshold", OPT_THRESHOLD, "KIB", 0,
	  "Add up what has less than so many KiB (default 256; 0: show everything)", 2 },
	{ "reverse", OPT_REVERSE, NULL, 0,
	  "Outermost functions on top, callees below; else the function that touched the page is "
	  "on top",
	  2 },
	{ "kind", OPT_KIND, "WORD,...", 0,
	  "Of these kinds only: anon, shmem, file (together RSS), swap, hugetlb, cache, kernel, "
	  "held (default anon,shmem,file,cache)",
	  2 },
	{ "by", OPT_BY, "WORD", 0, "function (default) or site: each place of a call by itself",
	  2 },
	{ "depth", OPT_DEPTH, "N", 0, "Show N levels of the tree", 2 },
	{ "since", OPT_SINCE, "TIME", 0,
	  "Show what came within the last 10s, 5m, 1h instead of what is there", 2 },
	{ "watch", OPT_WATCH, "SEC", 0,
	  "Count every SEC seconds; else as often as 2 % of a CPU allow, once a second at most",
	  3 },
	{ "duration", OPT_DURATION, "TIME", 0,
	  "End after 10s, 5m, 1h30m; a program that was started goes on", 3 },
	{ "format", OPT_FORMAT, "WORD", 0, "text (default) or json", 3 },
	{ "jsonl", OPT_JSONL, NULL, 0, "An object for each reading, a line each", 3 },
	{ "output", 'o', "FILE", 0,
	  "Record to FILE, a recording a process; %e %p %t %h stand for program, pid, time, host. "
	  "What exists is kept: .1, .2 ... is appended",
	  3 },
	{ "report", OPT_REPORT, "FILE", 0, "Write the result to FILE, named in the same way", 3 },
	{ "quiet", 'q', NULL, 0, "Print no result", 3 },
	{ "stacks", OPT_STACKS, "N", 0,
	  "Room for N distinct stacks in the kernel (default 65536: 25 MiB)", 4 },
	{ "tables", OPT_TABLES, "MIB", 0,
	  "Room for unwind tables in the kernel (default 16 MiB; a browser's code needs 64)", 4 },
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Serve /v1/tree and /v1/pid meanwhile (default 127.0.0.1:17832)", 5 },
	{ 0 },
};

static void check(struct pages_job *job)
{
	/* as TezEdge's memory profiler is told which container to look at */
	const char *node = getenv("TEZEDGE_NODE_NAME");
	if (node && *node && !job->with_program && !targets_given(&job->targets))
		job->targets.container = node;
	int given = targets_given(&job->targets);
	if (given && job->with_program)
		cmd_usage("either a program behind '--' or a target");
	if (!given && !job->with_program)
		cmd_usage("which process? -p PID, -n NAME, --container NAME|ID, --cgroup PATH or "
			  "-- PROGRAM");
	if (job->quiet && job->report)
		cmd_usage("-q prints nothing, and --report says where to print");
	if (serving_given(&job->serving) && !job->serving.wanted)
		cmd_usage("--token-file, --no-auth, --host and --cors belong to --serve");
	if (job->json && (job->tree.reverse || job->tree_given || job->since_ns))
		cmd_usage("json has every stack: --reverse, --threshold, --by, --depth, --kind and "
			  "--since are for text");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pages_job *job = state->input;
	struct err err = { 0 };
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &job->targets;
		state->child_inputs[1] = &job->serving;
		return 0;
	case OPT_THRESHOLD:
		job->tree.threshold_bytes =
			cmd_take_number("--threshold", arg, 0, UINT64_MAX >> 11) * 1024;
		job->tree_given = 1;
		return 0;
	case OPT_REVERSE:
		job->tree.reverse = 1;
		return 0;
	case OPT_KIND:
		if (pages_kinds_parse(arg, &job->tree.kinds, &err) < 0)
			cmd_usage("%s", err.msg);
		job->tree_given = 1;
		return 0;
	case OPT_BY:
		if (strcmp(arg, "function") != 0 && strcmp(arg, "site") != 0)
			cmd_usage("--by '%s': function or site", arg);
		job->tree.by_site = arg[0] == 's';
		job->tree_given = 1;
		return 0;
	case OPT_DEPTH:
		job->tree.depth = (unsigned)cmd_take_number("--depth", arg, 1, 100000);
		job->tree_given = 1;
		return 0;
	case OPT_SINCE:
		job->since_ns = cmd_take_duration(arg);
		return 0;
	case OPT_WATCH:
		job->watch_ns = (uint64_t)(cmd_take_seconds("--watch", arg, 0.05) * 1e9);
		return 0;
	case OPT_DURATION:
		job->duration_ns = cmd_take_duration(arg);
		return 0;
	case OPT_FORMAT:
		job->json = cmd_take_json(arg);
		job->format_given = 1;
		return 0;
	case OPT_JSONL:
		job->json = job->jsonl = job->format_given = 1;
		return 0;
	case 'o':
		job->output = cmd_take_recording(arg);
		return 0;
	case OPT_REPORT:
		if (!*arg)
			cmd_usage("--report needs a file name");
		job->report = arg;
		return 0;
	case 'q':
		job->quiet = 1;
		return 0;
	case OPT_STACKS:
		job->stacks = (uint32_t)cmd_take_number("--stacks", arg, STACKS_LEAST, STACKS_MOST);
		return 0;
	case OPT_TABLES:
		job->tables_bytes = (uint32_t)cmd_take_number("--tables", arg, 1, 1024) << 20;
		return 0;
	case ARGP_KEY_ARG:
		if (serving_takes(&job->serving, arg))
			return CMD_TAKEN;
		job->with_program = 1;
		return 0;
	case OPT_SERVE:
		job->serving.wanted = 1;
		job->serving.http.address = arg;
		return 0;
	case ARGP_KEY_END:
		check(job);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_pages(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &serving_guard_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[-- PROGRAM [ARGS...]]",
		.doc = "Say which code holds a process's memory: every resident page by the call "
		       "stack that made it so, adding up to its RSS.",
		.children = children,
	};
	struct pages_job job = { .tree = { .threshold_bytes = THRESHOLD_KIB * 1024 } };
	int rest;
	job.with_program = cmd_names_program(argc, argv);
	if (cmd_parse(&argp, argc, argv, &rest, &job) < 0)
		return CMD_USAGE;
	if (job.with_program && rest >= argc)
		return cmd_lacks_program("--");
	if (job.duration_ns)
		job.end_ns = clock_ns(CLOCK_MONOTONIC) + job.duration_ns;
	result_init(&job.result, job.report,
		    cmd_result_stream(job.quiet, job.with_program, job.format_given));
	int status = pages_run(&job, job.with_program ? argv + rest : NULL);
	result_fini(&job.result);
	return status;
}
