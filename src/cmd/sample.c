/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - `byteledger sample TARGET`: what running programs allocate, and what they do not give
 * back, by probes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/sample.h"
#include "query/query.h"

#define OLDER_NS 500000000ull
#define LEAK_INTERVAL_NS 5000000000ull
#define BUDGET 0.01
#define TOP 10

enum {
	OPT_PROGRAM = 256,
	OPT_ORDER,
	OPT_MIN,
	OPT_MAX,
	OPT_EVERY,
	OPT_BYTES,
	OPT_ALL,
	OPT_SKIP_SIZE,
	OPT_SKIP_COUNT,
	OPT_REGEX,
	OPT_CSV,
	OPT_CSV_FLAT,
	OPT_FLAME,
	OPT_LEAKS,
	OPT_OLDER,
	OPT_INTERVAL,
	OPT_COUNT,
	OPT_TOP,
	OPT_ASCENDING,
	OPT_FEW,
	OPT_FORMAT,
	OPT_JSONL,
	OPT_REPORT,
	OPT_DURATION,
	OPT_BUDGET,
	OPT_KERNEL,
	OPT_SHOW_ALLOCS,
	OPT_TID,
	OPT_COMM,
	OPT_ALLOCATOR,
	OPT_NOP5,
	OPT_TIER,
	OPT_SERVE,
};

static const struct argp_option options[] = {
	{ "program", OPT_PROGRAM, "PATH", 0,
	  "Probe functions of this program or library alone; without a target in every process "
	  "that maps it",
	  2 },
	{ "function", 'f', "NAME", 0,
	  "Probe this function alone. Of one that is not known, NAME:SIZEARG or "
	  "NAME:SIZEARG,TIMESARG says which argument is the size (from 0)",
	  2 },
	{ "allocator", OPT_ALLOCATOR, "WORD", 0,
	  "Probe this allocator alone: glibc, jemalloc, tcmalloc, mimalloc, go, hotspot or rust; "
	  "auto (default): all that are there",
	  2 },
	{ "tier", OPT_TIER, "WORD", 0,
	  "a (default): what allocators sample by themselves where they do, else calls; b: calls "
	  "of every allocator that has such a choice",
	  2 },
	{ "allow-nop5", OPT_NOP5, NULL, 0,
	  "Probe a nop of five bytes, too, where nothing else can be, though children that the "
	  "process forks may die of it on this kernel",
	  2 },
	{ "kernel", OPT_KERNEL, NULL, 0,
	  "The kernel's own allocations instead, by its tracepoints: slab objects, kmalloc, pages, "
	  "per-CPU memory; with a target those alone that its system calls ask for",
	  2 },
	{ "tid", OPT_TID, "TID", 0, "What this thread asks for alone", 3 },
	{ "comm", OPT_COMM, "NAME", 0, "What threads of this name ask for alone", 3 },
	{ "sample-bytes", OPT_BYTES, "SIZE", 0,
	  "Take one sample for so many bytes (default 512K): each allocation with a chance that "
	  "grows with its size, weighed by it",
	  3 },
	{ "sample-every", OPT_EVERY, "N", 0,
	  "Take one call in N instead, at random, whatever its size; figures are multiplied by N",
	  3 },
	{ "all", OPT_ALL, NULL, 0, "Take every call; no budget holds then unless one is given", 3 },
	{ "min-alloc-size", OPT_MIN, "SIZE", 0, "Only allocations of this size and above", 3 },
	{ "max-alloc-size", OPT_MAX, "SIZE", 0, "Only allocations of this size and below", 3 },
	{ "leaks", OPT_LEAKS, NULL, 0,
	  "Follow what was taken until it is freed: what is outstanding, how old it is, what grows",
	  4 },
	{ "older", OPT_OLDER, "AGE", 0,
	  "Show what is outstanding for so long (default 500ms; a bare number is milliseconds)",
	  4 },
	{ "show-allocs", OPT_SHOW_ALLOCS, NULL, 0,
	  "List the single blocks of each stack, by address, size and age; --leaks is implied", 4 },
	{ "interval", OPT_INTERVAL, "TIME", 0,
	  "Print what is outstanding every so often (a bare number is seconds)", 4 },
	{ "count", OPT_COUNT, "N", 0, "End after N intervals (of 5 seconds, unless --interval)",
	  4 },
	{ "order-by", OPT_ORDER, "WORD", 0,
	  "count, traffic (bytes; default), live, growth, temporary or peak", 5 },
	{ "top", OPT_TOP, "N", 0, "Show the N first stacks (default 10 in text; 0: all)", 5 },
	{ "ascending", OPT_ASCENDING, NULL, 0, "The largest last", 5 },
	{ "few", OPT_FEW, NULL, 0,
	  "Show stacks of so few samples, too, that their estimate may be off by more than itself",
	  5 },
	{ "skip-size", OPT_SKIP_SIZE, "SIZE", 0, "Leave out stacks of fewer bytes", 5 },
	{ "skip-count", OPT_SKIP_COUNT, "N", 0, "Leave out stacks of fewer allocations", 5 },
	{ "stack-regex", OPT_REGEX, "REGEX", 0,
	  "Only stacks with a function or module that matches", 5 },
	{ "format", OPT_FORMAT, "WORD", 0, "text (default) or json", 6 },
	{ "jsonl", OPT_JSONL, NULL, 0, "An object for each interval (a second, unless --interval)",
	  6 },
	{ "csv", OPT_CSV, "PATH", 0, "Write a table of stacks there", 6 },
	{ "csv-flat", OPT_CSV_FLAT, NULL, 0, "One row in it for each size of a stack", 6 },
	{ "flame", OPT_FLAME, "PATH", 0,
	  "Write a flame graph there, and others beside it: -by-count.svg, -by-traffic.svg and, "
	  "with --leaks, -by-live.svg",
	  6 },
	{ "report", OPT_REPORT, "FILE", 0, "The report goes there, whatever stdout is", 6 },
	{ "output", 'o', "FILE", 0,
	  "Record the samples of one process in FILE (%e %p %t %h as everywhere) for report, "
	  "export and the like; --leaks is implied",
	  6 },
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Serve /api/v1/sample meanwhile, the object of --format json (default 127.0.0.1:17832)",
	  5 },
	{ "quiet", 'q', NULL, 0, "Print no report; files are written, notes go to stderr as ever",
	  6 },
	{ "budget", OPT_BUDGET, "PERCENT", 0,
	  "What the probes may cost, of one CPU (default 1; of a program behind -- 5, beside its "
	  "first second; 0: no limit). Above it they are in for a part of the time; with --leaks, "
	  "which has to see every free, a budget that is given and exceeded ends it",
	  7 },
	{ "duration", OPT_DURATION, "TIME", 0, "Detach, report and exit after that time", 7 },
	{ 0 },
};

static uint64_t take_size(const char *what, const char *arg)
{
	struct err err = { 0 };
	uint64_t bytes;
	if (query_size_parse(arg, &bytes, &err) < 0) {
		err_wrap(&err, "%s", what);
		cmd_refuse(&err);
	}
	return bytes;
}

static uint64_t take_time(const char *what, const char *arg)
{
	struct err err = { 0 };
	uint64_t ns;
	if (query_duration_parse(arg, &ns, &err) < 0) {
		err_wrap(&err, "%s", what);
		cmd_refuse(&err);
	}
	return ns;
}

static double take_percent(const char *arg)
{
	char *end;
	double percent = strtod(arg, &end);
	if (end == arg || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 10000))
		cmd_usage("--budget '%s': per cent of one CPU, like 0.5 or 5%%", arg);
	return percent / 100;
}

static void take_order(struct sample_args *a, const char *arg)
{
	static const char *const words[] = { "traffic", "count",     "live",
					     "growth",  "temporary", "peak" };
	a->out.order = (enum out_sample_order)cmd_take_word("order", arg, words, ARRAY_LEN(words));
	a->order_given = 1;
}

static void take_allocator(struct sample_args *a, const char *arg)
{
	a->want.allocator = strcmp(arg, "auto") ? arg : NULL;
	for (size_t i = 0; a->want.allocator && sampler_allocators[i]; i++)
		if (strcmp(arg, sampler_allocators[i]) == 0)
			return;
	if (a->want.allocator)
		cmd_usage("unknown allocator '%s': auto, glibc, jemalloc, tcmalloc, mimalloc, go, "
			  "hotspot or rust",
			  arg);
}

static void take_regex(struct sample_args *a, const char *arg)
{
	struct err err = { 0 };
	if (query_regex_check(arg, &err) < 0)
		cmd_refuse(&err);
	if (regcomp(&a->regex, arg, REG_EXTENDED | REG_NOSUB) != 0)
		cmd_usage("--stack-regex '%s' is no pattern", arg);
	a->out.stack_regex = &a->regex;
}

/* What does not go together, and what follows from what was said. */
static void check(struct sample_args *a)
{
	int given = targets_given(&a->targets);
	if (given && a->with_program)
		cmd_usage("either a program or a target: '%s' would be a program to start",
			  a->program_word ? a->program_word : "--");
	if (a->kernel && (a->function || a->file || a->want.allocator || a->output))
		cmd_usage("--kernel watches the kernel's tracepoints: -f, --program, --allocator "
			  "and -o are of processes");
	if (!given && !a->with_program && !a->file && !a->kernel)
		cmd_usage("which process? -p PID, -n NAME, --container NAME|ID, --cgroup PATH, "
			  "--program PATH or -- PROGRAM");
	if (a->sampler.sample_every && a->sampler.sample_bytes)
		cmd_usage("--sample-every, --sample-bytes and --all are three ways to choose");
	if (a->sampler.bytes_max && a->sampler.bytes_min > a->sampler.bytes_max)
		cmd_usage("--min-alloc-size is above --max-alloc-size: nothing is in between");
	if (a->order_given && a->out.order >= SAMPLE_BY_LIVE && !a->leaks)
		cmd_usage("what is live, grows or is temporary is known with --leaks");
	if (a->output && a->sampler.sample_every > 1)
		cmd_usage("a recording knows samples by bytes: -o with --sample-bytes or --all");
	if (!a->serving.wanted && serving_given(&a->serving))
		cmd_usage("--token-file, --no-auth, --host and --cors belong to --serve");
	if (a->csv_flat && !a->csv)
		cmd_usage("--csv-flat goes with --csv PATH");
	if (a->quiet && a->report)
		cmd_usage("-q prints no report, and --report says where to");
	if (a->leaks && !a->interval_ns && a->count)
		a->interval_ns = LEAK_INTERVAL_NS;
	if (a->leaks && !a->order_given)
		a->out.order = SAMPLE_BY_LIVE;
	if (!a->top_given)
		a->out.top = a->json ? 0 : TOP;
	a->want.program = a->file;
	a->want.function = a->function;
	a->out.has_live = a->leaks;
}

static const struct cmd_field fields[] = {
	CMD_TEXT(OPT_PROGRAM, struct sample_args, file),
	CMD_TEXT('f', struct sample_args, function),
	CMD_FLAG(OPT_LEAKS, struct sample_args, leaks),
	CMD_FLAG(OPT_ASCENDING, struct sample_args, out.ascending),
	CMD_FLAG(OPT_FEW, struct sample_args, out.all),
	CMD_TEXT(OPT_CSV, struct sample_args, csv),
	CMD_FLAG(OPT_CSV_FLAT, struct sample_args, csv_flat),
	CMD_TEXT(OPT_FLAME, struct sample_args, flame),
	CMD_FLAG(OPT_NOP5, struct sample_args, want.allow_nop5),
	CMD_TEXT(OPT_REPORT, struct sample_args, report),
	CMD_FLAG('q', struct sample_args, quiet),
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct sample_args *a = state->input;
	if (cmd_take_field(fields, key, arg, a))
		return 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->targets;
		state->child_inputs[1] = &a->serving;
		break;
	case OPT_BYTES:
		a->sampler.sample_bytes = take_size("--sample-bytes", arg);
		if (!a->sampler.sample_bytes || a->sampler.sample_bytes > SAMPLE_BYTES_MAX)
			cmd_usage("--sample-bytes '%s': from 1 to 1G", arg);
		break;
	case OPT_EVERY:
		a->sampler.sample_every =
			(uint32_t)cmd_take_number("--sample-every", arg, 1, 1u << 20);
		break;
	case OPT_ALL:
		a->sampler.sample_bytes = 1;
		break;
	case OPT_MIN:
		a->sampler.bytes_min = take_size("--min-alloc-size", arg);
		break;
	case OPT_MAX:
		a->sampler.bytes_max = take_size("--max-alloc-size", arg);
		if (!a->sampler.bytes_max)
			cmd_usage("--max-alloc-size 0 leaves nothing");
		break;
	case OPT_OLDER:
		a->leaks = 1;
		a->older_ns = strspn(arg, "0123456789") == strlen(arg) && *arg
				      ? cmd_take_number("--older", arg, 0, 86400000) * 1000000
				      : take_time("--older", arg);
		break;
	case OPT_INTERVAL:
		a->interval_ns = take_time("--interval", arg);
		if (a->interval_ns < 100000000)
			cmd_usage("--interval '%s': 100ms at least", arg);
		break;
	case OPT_COUNT:
		a->count = cmd_take_number("--count", arg, 1, 1000000000);
		break;
	case OPT_ORDER:
		take_order(a, arg);
		break;
	case OPT_TOP:
		a->out.top = cmd_take_number("--top", arg, 0, 10000000);
		a->top_given = 1;
		break;
	case OPT_SKIP_SIZE:
		a->out.skip_bytes = take_size("--skip-size", arg);
		break;
	case OPT_SKIP_COUNT:
		a->out.skip_count = cmd_take_number("--skip-count", arg, 0, UINT64_MAX);
		break;
	case OPT_REGEX:
		take_regex(a, arg);
		break;
	case OPT_FORMAT:
		a->json = cmd_take_json(arg);
		a->format_given = 1;
		break;
	case OPT_JSONL:
		a->json = a->jsonl = a->format_given = 1;
		break;
	case OPT_KERNEL:
		a->kernel = a->sampler.kernel = 1;
		break;
	case OPT_SHOW_ALLOCS:
		a->leaks = a->out.show_allocs = 1;
		break;
	case OPT_TID:
		a->sampler.tid = (uint32_t)cmd_take_number("--tid", arg, 1, 4194304);
		break;
	case OPT_COMM:
		a->sampler.comm = arg;
		if (!*arg || strlen(arg) > 15)
			cmd_usage("--comm '%s': 1 to 15 characters, as the kernel keeps them", arg);
		break;
	case OPT_ALLOCATOR:
		take_allocator(a, arg);
		break;
	case OPT_TIER:
		a->want.calls_only = strcmp(arg, "b") == 0 || strcmp(arg, "B") == 0;
		if (!a->want.calls_only && strcmp(arg, "a") != 0 && strcmp(arg, "A") != 0)
			cmd_usage("unknown tier '%s': a or b; c is b where it is above the budget",
				  arg);
		break;
	case 'o':
		a->output = cmd_take_recording(arg);
		a->leaks = a->sampler.events = 1;
		break;
	case OPT_DURATION:
		a->duration_ns = take_time("--duration", arg);
		break;
	case OPT_BUDGET:
		a->budget = take_percent(arg);
		a->budget_given = 1;
		break;
	case OPT_SERVE:
		a->serving.wanted = 1;
		a->serving.http.address = arg;
		break;
	case ARGP_KEY_ARG:
		if (serving_takes(&a->serving, arg))
			return CMD_TAKEN;
		a->with_program = 1;
		a->program_word = arg;
		break;
	case ARGP_KEY_END:
		check(a);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static int run_program(struct sample_args *a, char **argv)
{
	struct err err = { 0 };
	int stopped = 0;
	cmd_status_is_programs();
	if (started_begin(&a->program, argv, 1, &err) < 0) {
		cmd_fail(&err);
		return a->program.status;
	}
	a->targets.pids[a->targets.pid_count++] = a->program.pid;
	int status = sample_run(a, &stopped);
	if (!stopped)
		status = started_wait(&a->program);
	close(a->program.signals);
	return status;
}

int cmd_sample(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &serving_guard_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[-- PROGRAM [ARGS...]]",
		.doc = "Sample what running programs allocate, by stack and size, and with --leaks "
		       "what they do not give back. By probes: nothing is restarted or preloaded.",
		.children = children,
	};
	struct sample_args a = { .older_ns = OLDER_NS, .budget = BUDGET };
	int rest, stopped = 0;
	a.with_program = cmd_names_program(argc, argv);
	if (cmd_parse(&argp, argc, argv, &rest, &a) < 0)
		return CMD_USAGE;
	if (a.with_program && rest >= argc)
		return cmd_lacks_program("--");
	int status = a.with_program ? run_program(&a, argv + rest) : sample_run(&a, &stopped);
	if (a.out.stack_regex)
		regfree(&a.regex);
	return status;
}
