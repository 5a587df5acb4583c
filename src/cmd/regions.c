/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - `byteledger regions TARGET`: where a process's memory is right now, by mapping. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "out/regions.h"

#define TOP_DEFAULT 20
#define TOP_MAX 10000000

enum {
	OPT_TOP = 256,
	OPT_ALL,
	OPT_SORT,
	OPT_FORMAT,
	OPT_BYTES,
	OPT_QUICK,
	OPT_COMPAT,
	OPT_GROUP,
	OPT_DIFF,
	OPT_PROBE,
	OPT_JSONL,
	OPT_CLASSES
};

static const struct argp_option options[] = {
	{ "top", OPT_TOP, "N", 0, "List the N largest mappings (default 20; 0: none)", 2 },
	{ "all", OPT_ALL, NULL, 0, "List every mapping, label and thread", 2 },
	{ "sort", OPT_SORT, "WORD", 0,
	  "Order of mappings: rss (default), pss, swap, virtual; with --watch or --history also "
	  "growth: what grew most",
	  2 },
	{ "group", OPT_GROUP, "WORD", 0,
	  "Add up by label (default), file, module or thread, list mappings only (vma), or all the "
	  "processes together by PSS (process; with --watch a table again and again)",
	  2 },
	{ "classes", OPT_CLASSES, NULL, 0,
	  "Print the words by which memory is called, which alert rules may name, and end", 3 },
	{ "diff", OPT_DIFF, "FILE", 0,
	  "Print what changed since FILE was written with --format json", 3 },
	{ "format", OPT_FORMAT, "WORD", 0, "text (default), json or csv", 3 },
	{ "jsonl", OPT_JSONL, NULL, 0,
	  "An object for each reading of a watch; json: one at the end", 3 },
	{ "output", 'o', "FILE", 0,
	  "Write to FILE; %e %p %t %h stand for program, pid, time, host. What exists is kept: .1, "
	  ".2 ... is appended",
	  3 },
	{ "quiet", 'q', NULL, 0, "Print no result; alerts and notes go to stderr as ever", 3 },
	{ "bytes", OPT_BYTES, NULL, 0, "Print sizes in bytes", 3 },
	{ "quick", OPT_QUICK, NULL, 0,
	  "Count resident pages without walking them for PSS: RSS and swap only, and the target "
	  "hardly waits",
	  3 },
	{ "probe", OPT_PROBE, NULL, 0,
	  "Look at mmap() and prctl() by BPF while watching, or for --duration: what is mapped "
	  "meanwhile is called by the code that asked for it, or by the name that the kernel "
	  "refused to keep",
	  3 },
	{ "compat", OPT_COMPAT, NULL, 0,
	  "Print the layout of Teranode's memory analyzer, in whole MB, for scripts that read it",
	  3 },
	{ 0 },
};

/* What does not go together. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one pair of options a case */
static void check(const struct regions *r)
{
	if (r->classes)
		return;
	/*
	 * a table of processes that is made again and again is no watch: no history, no rules, and
	 * it knows PSS
	 */
	int live = r->group == GROUP_PROCESS && r->watch.seconds > 0;
	int watch = watch_wanted(&r->watch) && !live, given = targets_given(&r->targets);
	int history_only = r->watch.history && !r->watch.seconds && !r->watch.serving.wanted &&
			   !r->watch.rule_count && !given && !r->with_program;
	if (given && r->with_program)
		cmd_usage("either a program behind '--' or a target");
	if (!given && !r->with_program && !history_only)
		cmd_usage("which process? -p PID, -n NAME, --container NAME|ID, --cgroup PATH or "
			  "-- PROGRAM");
	if (watch && (r->compat || r->format == OUT_REGIONS_CSV || r->sort == REGIONS_BY_PSS))
		cmd_usage("a watch prints lines or, with --format json, objects, and does not know "
			  "PSS");
	if (live && (r->watch.history || r->watch.rule_count || r->watch.serving.wanted))
		cmd_usage("--group process --watch is a table to look at: rules, a history and "
			  "pages are of a watch without --group");
	if (watch && (r->base_path || r->group))
		cmd_usage("--diff and --group are of one reading: without a watch");
	if (history_only && r->sort_given && r->sort != REGIONS_BY_GROWTH &&
	    r->sort != REGIONS_BY_RSS)
		cmd_usage("a history is sorted by growth or rss");
	if (!watch && !live && r->sort == REGIONS_BY_GROWTH)
		cmd_usage("growth needs a time to look: --watch or --history; --diff tells what "
			  "grew since a saved reading");
	if (r->probe && !watch && !r->watch.duration_ns && !r->with_program)
		cmd_usage("--probe needs a time to look: --duration, or a watch");
	if (r->quick && (r->compat || r->sort == REGIONS_BY_PSS))
		cmd_usage("--quick does not know PSS");
	if (r->compat && (r->format != OUT_REGIONS_TEXT || r->group || r->base_path))
		cmd_usage("--compat is a text layout of its own");
	if (r->group && r->group != GROUP_PROCESS && r->format != OUT_REGIONS_TEXT)
		cmd_usage("--group is for text: json and csv have every mapping");
	if (r->group == GROUP_PROCESS && (r->format == OUT_REGIONS_CSV || r->quick))
		cmd_usage("--group process prints text or json, and needs PSS");
	if (r->group == GROUP_PROCESS && (r->with_program || (r->watch.duration_ns && !live)))
		cmd_usage("--group process is of this moment: without a program; with --duration "
			  "only where --watch makes it a table");
	if (r->base_path && (r->format == OUT_REGIONS_CSV || r->group))
		cmd_usage("--diff prints text or json, by label");
	if (r->quiet && r->output)
		cmd_usage("-q prints nothing, and -o says where to print");
}

static const struct cmd_field fields[] = {
	CMD_FLAG(OPT_ALL, struct regions, all),
	CMD_TEXT(OPT_DIFF, struct regions, base_path),
	CMD_FLAG('q', struct regions, quiet),
	CMD_FLAG(OPT_BYTES, struct regions, raw),
	CMD_FLAG(OPT_QUICK, struct regions, quick),
	CMD_FLAG(OPT_COMPAT, struct regions, compat),
	CMD_FLAG(OPT_CLASSES, struct regions, classes),
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const formats[] = { "text", "json", "csv" };
	static const char *const sorts[] = { "rss", "pss", "swap", "virtual", "growth" };
	static const char *const groups[] = {
		"label", "vma", "file", "module", "thread", "process"
	};
	struct regions *r = state->input;
	if (cmd_take_field(fields, key, arg, r))
		return 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &r->targets;
		state->child_inputs[1] = &r->watch;
		break;
	case OPT_TOP:
		r->top = cmd_take_number("--top", arg, 0, TOP_MAX);
		r->top_given = 1;
		break;
	case OPT_SORT:
		r->sort = (enum regions_sort)cmd_take_word("order", arg, sorts, ARRAY_LEN(sorts));
		r->sort_given = 1;
		break;
	case OPT_GROUP:
		r->group =
			(enum regions_group)cmd_take_word("group", arg, groups, ARRAY_LEN(groups));
		break;
	case OPT_FORMAT:
		r->format = (enum out_regions_format)cmd_take_word("format", arg, formats,
								   ARRAY_LEN(formats));
		r->format_given = 1;
		break;
	case OPT_JSONL:
		r->format = OUT_REGIONS_JSON;
		r->format_given = r->watch.jsonl = 1;
		break;
	case 'o':
		if (!*arg)
			cmd_usage("-o needs a file name");
		r->output = arg;
		break;
	case OPT_PROBE:
		r->probe = r->watch.probe = 1;
		break;
	case ARGP_KEY_ARG:
		if (serving_takes(&r->watch.serving, arg))
			return CMD_TAKEN;
		r->with_program = 1;
		break;
	case ARGP_KEY_END:
		check(r);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/** look() - one reading of one process, printed. */
static int look(struct regions *r, pid_t pid, struct err *err)
{
	CLEANUP(target_close) struct target target = { 0 };
	int rc = target_open(&target, pid, err);
	if (rc < 0)
		return rc;
	CLEANUP(breakdown_freep) struct breakdown *b = regions_read(r, &target, err);
	if (!b)
		return err->code;
	return regions_print(r, b, target.exe, clock_ns(CLOCK_MONOTONIC) - b->end_ns, 0, err);
}

/**
 * open_probe() - BPF looks at what these processes map. Where it is not permitted, or for a process
 * that it cannot follow, stderr says so and the rules name what they can.
 */
static struct mapnames *open_probe(const struct target_list *list)
{
	struct err err = { 0 };
	struct mapnames *names = mapnames_of(list->pids, list->count, &err);
	if (err.code) {
		fprintf(stderr, "byteledger: %s: new mappings are called by rules only\n", err.msg);
		if (err.hint[0])
			fprintf(stderr, "hint: %s\n", err.hint);
	} else {
		cmd_say("looking at what is mapped and named from now on");
	}
	return names;
}

/* Each process once. */
static int look_at_all(struct regions *r, const struct target_list *list)
{
	int status = CMD_OK;
	struct err whole = { 0 };
	if (r->group == GROUP_PROCESS)
		return regions_ledger(r, list, &whole) < 0 ? cmd_fail(&whole) : CMD_OK;
	for (size_t i = 0; i < list->count; i++) {
		struct err err = { 0 };
		/* one that ended does not take the others with it */
		if (look(r, list->pids[i], &err) < 0)
			status = cmd_fail(&err);
	}
	return status;
}

/* The processes are known, or the program runs. *@stopped: this ends before the program does. */
static int run(struct regions *r, const struct target_list *list, int *stopped)
{
	struct err err = { 0 };
	CLEANUP(mapnames_freep) struct mapnames *names = r->probe ? open_probe(list) : NULL;
	int status;
	r->names = r->watch.names = names;
	r->watch.result = &r->result;
	r->watch.targets = &r->targets;
	r->watch.program = r->program.pid;
	if (r->group == GROUP_PROCESS)
		status = look_at_all(r, list);
	else if (watch_wanted(&r->watch))
		status = watch_run(&r->watch, list, stopped);
	else if (r->program.pid || r->watch.duration_ns)
		status = regions_last(r, list, stopped);
	else
		status = look_at_all(r, list);
	uint64_t lost = names ? mapnames_lost(names) : 0;
	if (lost)
		fprintf(stderr,
			"byteledger: %llu mappings or names found no room and are called by "
			"rules\n",
			(unsigned long long)lost);
	if (result_end(&r->result, &err) < 0 && status != CMD_FAILED) /* else it is told */
		status = cmd_fail(&err);
	return status;
}

/* Around a program: its status is ours, unless we leave before it ends. */
static int run_program(struct regions *r, char **argv)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct err err = { 0 };
	int stopped = 0;
	cmd_status_is_programs();
	if (started_begin(&r->program, argv, 0, &err) < 0) {
		cmd_fail(&err);
		return r->program.status;
	}
	r->targets.pids[r->targets.pid_count++] = r->program.pid;
	int status = CMD_FAILED;
	if (targets_find(&r->targets, 0, &list, &err) == 0)
		status = run(r, &list, &stopped);
	else
		cmd_fail(&err);
	if (!stopped)
		status = started_wait(&r->program);
	close(r->program.signals);
	return status;
}

static int run_targets(struct regions *r)
{
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct err err = { 0 };
	int stopped;
	if (targets_find(&r->targets, r->watch.end_ns, &list, &err) < 0)
		return cmd_fail(&err);
	return run(r, &list, &stopped);
}

int regions_serve(const struct targets *targets, const struct serving_opt *serving)
{
	struct regions r = { .targets = *targets, .watch.serving = *serving, .top = TOP_DEFAULT };
	r.watch.serving.wanted = r.watch.is_server = r.targets.at_once = 1;
	result_init(&r.result, NULL, stdout);
	return run_targets(&r);
}

int cmd_regions(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &watch_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[-- PROGRAM [ARGS...]]",
		.doc = "Say where a process's memory is right now: every mapping classified, the "
		       "classes adding up to its RSS.",
		.children = children,
	};
	struct regions r = { .top = TOP_DEFAULT };
	struct err err = { 0 };
	int rest;
	r.with_program = cmd_names_program(argc, argv);
	if (cmd_parse(&argp, argc, argv, &rest, &r) < 0)
		return CMD_USAGE;
	if (r.classes) {
		out_classes_text(stdout);
		return fflush(stdout) == 0 ? CMD_OK : CMD_FAILED;
	}
	if (r.with_program && rest >= argc)
		return cmd_lacks_program("--");
	if (r.watch.duration_ns)
		r.watch.end_ns = clock_ns(CLOCK_MONOTONIC) + r.watch.duration_ns;
	r.watch.json = r.format == OUT_REGIONS_JSON;
	r.watch.top = r.top_given ? r.top : 0;
	r.watch.all = r.all;
	r.watch.sort = r.sort;
	r.watch.by_rss = r.sort_given && r.sort == REGIONS_BY_RSS;
	CLEANUP(regions_base_freep)
	struct regions_base *base = r.base_path ? regions_base_read(r.base_path, &err) : NULL;
	if (r.base_path && !base)
		return cmd_fail(&err);
	r.base = base;
	result_init(&r.result, r.output,
		    cmd_result_stream(r.quiet, r.with_program, r.format_given));
	if (r.with_program)
		return run_program(&r, argv + rest);
	if (targets_given(&r.targets))
		return run_targets(&r);
	r.watch.result = &r.result;
	return watch_history(&r.watch);
}
