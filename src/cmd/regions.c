/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - `byteledger regions TARGET`: where a process's memory is right now, by mapping. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "cmd/cmd.h"
#include "cmd/regions_diff.h"
#include "cmd/targets.h"
#include "cmd/terminal.h"
#include "cmd/watch.h"
#include "out/regions.h"
#include "proc/breakdown.h"
#include "proc/group.h"
#include "proc/text.h"
#include "source/mapnames.h"

#define TOP_DEFAULT 20
#define TOP_MAX 10000000

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

struct regions {
	struct targets targets;
	struct watch_args watch;
	enum format format;
	enum regions_sort sort;
	size_t top;
	enum regions_group group;
	struct regions_base *base; /* --diff */
	const char *base_path;
	int top_given, all, raw, quick, compat, probe;
	struct mapnames *names; /* --probe, where it is permitted */
};

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
	OPT_PROBE
};

static const struct argp_option options[] = {
	{ "top", OPT_TOP, "N", 0, "List the N largest mappings (default 20; 0: none)", 2 },
	{ "all", OPT_ALL, NULL, 0, "List every mapping, label and thread", 2 },
	{ "sort", OPT_SORT, "WORD", 0, "Order of mappings: rss (default), pss, swap or virtual",
	  2 },
	{ "group", OPT_GROUP, "WORD", 0,
	  "Add up by label (default), file, module or thread, or list mappings only (vma)", 2 },
	{ "diff", OPT_DIFF, "FILE", 0,
	  "Print what changed since FILE was written with --format json", 3 },
	{ "format", OPT_FORMAT, "WORD", 0, "text (default), json or csv", 3 },
	{ "bytes", OPT_BYTES, NULL, 0, "Print sizes in bytes", 3 },
	{ "quick", OPT_QUICK, NULL, 0,
	  "Count resident pages without walking them for PSS: RSS and swap only, and the target "
	  "hardly waits",
	  3 },
	{ "probe", OPT_PROBE, NULL, 0,
	  "Look at mmap() and prctl() by BPF while watching, or for --duration: what is mapped "
	  "meanwhile "
	  "is called by the code that asked for it, or by the name that the kernel refused to keep",
	  3 },
	{ "compat", OPT_COMPAT, NULL, 0,
	  "Print the layout of Teranode's memory analyzer, in whole MB, for scripts that read it",
	  3 },
	{ 0 },
};

static int parse_word(const char *text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, words[i]) == 0)
			return (int)i;
	return -1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const formats[] = { "text", "json", "csv" };
	static const char *const sorts[] = { "rss", "pss", "swap", "virtual" };
	static const char *const groups[] = { "label", "vma", "file", "module", "thread" };
	struct regions *r = state->input;
	int word;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &r->targets;
		state->child_inputs[1] = &r->watch;
		break;
	case OPT_TOP: {
		char *end;
		errno = 0;
		long long n = strtoll(arg, &end, 10);
		if (end == arg || *end || errno || n < 0 || n > TOP_MAX)
			argp_error(state, "--top '%s': a number from 0 to %d", arg, TOP_MAX);
		r->top = (size_t)n;
		r->top_given = 1;
		break;
	}
	case OPT_ALL:
		r->all = 1;
		break;
	case OPT_SORT:
		word = parse_word(arg, sorts, ARRAY_LEN(sorts));
		if (word < 0)
			argp_error(state, "unknown order '%s': rss, pss, swap or virtual", arg);
		r->sort = (enum regions_sort)word;
		break;
	case OPT_GROUP:
		word = parse_word(arg, groups, ARRAY_LEN(groups));
		if (word < 0)
			argp_error(state, "unknown group '%s': label, vma, file, module or thread",
				   arg);
		r->group = (enum regions_group)word;
		break;
	case OPT_DIFF:
		r->base_path = arg;
		break;
	case OPT_FORMAT:
		word = parse_word(arg, formats, ARRAY_LEN(formats));
		if (word < 0)
			argp_error(state, "unknown format '%s': text, json or csv", arg);
		r->format = (enum format)word;
		break;
	case OPT_BYTES:
		r->raw = 1;
		break;
	case OPT_QUICK:
		r->quick = 1;
		break;
	case OPT_PROBE:
		r->probe = r->watch.probe = 1;
		break;
	case OPT_COMPAT:
		r->compat = 1;
		break;
	case ARGP_KEY_ARG:
		if (watch_takes(&r->watch, arg))
			break;
		argp_error(state,
			   "unexpected argument '%s': a target is given by -p, -n, --container or "
			   "--cgroup",
			   arg);
		break;
	case ARGP_KEY_END:
		if (watch_wanted(&r->watch) &&
		    (r->compat || r->format == FORMAT_CSV || r->sort == REGIONS_BY_PSS))
			argp_error(state,
				   "a watch prints lines or, with --format json, objects, and "
				   "does not know PSS");
		if (!targets_given(&r->targets) && !(r->watch.history && !r->watch.seconds &&
						     !r->watch.serve && !r->watch.rule_count))
			argp_error(state, "which process? -p PID, -n NAME, --container NAME|ID or "
					  "--cgroup PATH");
		if (r->probe && !watch_wanted(&r->watch) && !r->watch.duration_ns)
			argp_error(state, "--probe needs a time to look: --duration, or a watch");
		if (r->quick && (r->compat || r->sort == REGIONS_BY_PSS))
			argp_error(state, "--quick does not know PSS");
		if (r->compat && (r->format != FORMAT_TEXT || r->group || r->base_path))
			argp_error(state, "--compat is a text layout of its own");
		if (r->group && r->format != FORMAT_TEXT)
			argp_error(state, "--group is for text: json and csv have every mapping");
		if (r->base_path && (r->format == FORMAT_CSV || r->group))
			argp_error(state, "--diff prints text or json, by label");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** print_groups() - the page with another middle. */
static void print_groups(struct buf *text, const struct regions *r, const struct breakdown *b,
			 struct regions_text_opt *opt)
{
	regions_text_head(text, b, opt);
	if (r->group == GROUP_VMA) {
		regions_text_mappings(text, b, opt);
	} else if (r->group == GROUP_THREAD) {
		opt->all = 1;
		regions_text_threads(text, b, opt);
	} else {
		size_t count;
		struct class_row *rows = breakdown_group(b, r->group, r->sort, &count);
		if (rows)
			regions_text_groups(text, b, rows, count, opt);
		else
			text->failed = 1;
		free(rows);
	}
}

static int print_text(const struct regions *r, const struct breakdown *b, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (r->compat) {
		char title[64];
		size_t listed = r->top < b->region_count ? r->top : b->region_count;
		snprintf(title, sizeof(title),
			 r->all ? "All Memory Regions" : "Top %zu Memory Regions", listed);
		regions_compat(&text, b, r->all ? b->region_count : r->top, title);
	} else {
		struct out_opt terminal = { 0 };
		terminal_fit(stdout, &terminal);
		struct regions_text_opt opt = { .width = terminal.width,
						.colour = terminal.colour,
						.ascii = terminal.ascii,
						.raw = r->raw,
						.top = r->top,
						.all = r->all,
						.all_labels = r->all,
						.sort = r->sort };
		if (r->base) {
			struct regions_diff_opt diff = { r->top, r->all, r->raw, terminal.ascii,
							 terminal.colour };
			int rc = regions_diff_text(&text, r->base, b, &diff, err);
			if (rc < 0)
				return rc;
		} else if (r->group) {
			print_groups(&text, r, b, &opt);
		} else {
			regions_text(&text, b, &opt);
		}
	}
	if (buf_failed(&text))
		return err_set(err, -ENOMEM, "cannot print");
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

static int print(const struct regions *r, const struct breakdown *b, int first, struct err *err)
{
	struct out_regions_opt opt = { .top = r->top, .all = r->all, .sort = r->sort };
	int rc;
	if (r->format == FORMAT_JSON) {
		struct jsonw json;
		jsonw_init(&json, stdout);
		rc = r->base ? regions_diff_json(&json, r->base, b, err)
			     : out_regions_json(&json, NULL, b, &opt, now_ns() - b->end_ns, err);
		jsonw_line(&json);
	} else if (r->format == FORMAT_CSV) {
		rc = out_regions_csv(stdout, b, &opt, first, err);
	} else {
		rc = print_text(r, b, err);
	}
	if (rc == 0 && (fflush(stdout) != 0 || ferror(stdout)))
		rc = err_set(err, -EIO, "cannot write the result");
	return rc;
}

/** look() - one reading of one process, printed. */
static int look(const struct regions *r, pid_t pid, int first, struct err *err)
{
	CLEANUP(target_close) struct target target = { 0 };
	int rc = target_open(&target, pid, err);
	if (rc < 0)
		return rc;
	struct breakdown_opt opt = { .quick = r->quick, .doubt_only = r->format != FORMAT_JSON };
	CLEANUP(breakdown_freep) struct breakdown *b = breakdown_read(&target, &opt, err);
	if (!b)
		return err->code;
	rc = r->names ? mapnames_apply(r->names, b, &target, err) : 0;
	if (rc < 0)
		return rc;
	/* a quick look does not copy heaps */
	rc = r->quick ? 0 : allocators_read(b, &target, NULL, err);
	return rc < 0 ? rc : print(r, b, first, err);
}

/**
 * open_probe() - BPF looks at what these processes map. Where it is not permitted, or for a process that it cannot follow, stderr
 * says so and the rules name what they can.
 */
static struct mapnames *open_probe(const struct target_list *list)
{
	struct err err = { 0 };
	struct mapnames *names = mapnames_new(&err);
	for (size_t i = 0; i < list->count && names && !err.code; i++)
		mapnames_add(names, list->pids[i], &err);
	if (err.code) {
		fprintf(stderr, "byteledger: %s: new mappings are called by rules only\n", err.msg);
		if (err.hint[0])
			fprintf(stderr, "hint: %s\n", err.hint);
	} else {
		fprintf(stderr, "byteledger: looking at what is mapped and named from now on\n");
	}
	return names;
}

/* Until --duration is over, or the user has seen enough. */
static void look_on(uint64_t duration_ns)
{
	sigset_t set, before;
	struct timespec time = { .tv_sec = (time_t)(duration_ns / 1000000000u),
				 .tv_nsec = (long)(duration_ns % 1000000000u) };
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &before);
	sigtimedwait(&set, NULL, &time);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int cmd_regions(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &watch_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Say where a process's memory is right now: every mapping classified, the "
		       "classes adding up "
		       "to its RSS.",
		.children = children,
	};
	struct regions r = { .top = TOP_DEFAULT };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &r) < 0)
		return CMD_USAGE;
	r.watch.json = r.format == FORMAT_JSON;
	r.watch.top = r.top_given ? r.top : 0;
	if (!targets_given(&r.targets))
		return watch_history(&r.watch);
	struct err err = { 0 };
	CLEANUP(regions_base_freep)
	struct regions_base *base = r.base_path ? regions_base_read(r.base_path, &err) : NULL;
	if (r.base_path && !base)
		return cmd_fail(&err);
	r.base = base;
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	if (targets_find(&r.targets, &list, &err) < 0)
		return cmd_fail(&err);
	CLEANUP(mapnames_freep) struct mapnames *names = r.probe ? open_probe(&list) : NULL;
	r.names = r.watch.names = names;
	if (watch_wanted(&r.watch))
		return watch_run(&r.watch, &list);
	if (r.probe)
		look_on(r.watch.duration_ns);
	int status = CMD_OK;
	for (size_t i = 0; i < list.count; i++) {
		err_init(&err);
		/* one that ended does not take the others with it */
		if (look(&r, list.pids[i], i == 0, &err) < 0)
			status = cmd_fail(&err);
	}
	uint64_t lost = names ? mapnames_lost(names) : 0;
	if (lost)
		fprintf(stderr,
			"byteledger: %llu mappings or names found no room and are called by "
			"rules\n",
			(unsigned long long)lost);
	return status;
}
