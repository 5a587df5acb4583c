/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `byteledger report FILE`: where the memory went, as text, JSON or CSV. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/select.h"
#include "out/family.h"
#include "out/fit.h"
#include "out/out.h"
#include "out/pager.h"
#include "out/pages.h"
#include "query/family.h"
#include "query/resident.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

struct report {
	/* first: the child parser's input */
	struct selection selection;
	const char *path;
	enum format format;
	int store_symbols, no_pager, tree;
	struct err err;
};

enum { OPT_FORMAT = 256, OPT_STORE_SYMBOLS, OPT_NO_PAGER, OPT_TREE };

static const struct argp_option options[] = {
	{ "format", OPT_FORMAT, "WORD", 0, "text (default), json or csv", 3 },
	{ "no-pager", OPT_NO_PAGER, NULL, 0,
	  "Do not show a long report through $PAGER (less) on a terminal", 3 },
	{ "tree", OPT_TREE, NULL, 0,
	  "List the processes that were recorded together (--follow-children), with their figures; "
	  "FILE is any recording of them, or their folder",
	  3 },
	{ "store-symbols", OPT_STORE_SYMBOLS, NULL, 0,
	  "Store the names found on this machine in FILE, so that it can be read elsewhere", 3 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report *r = state->input;
	static const char *const formats[] = { "text", "json", "csv" };
	int rc = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &r->selection;
		state->child_inputs[1] = &r->selection;
		break;
	case OPT_FORMAT:
		r->format = (enum format)cmd_take_format(
			arg, formats, ARRAY_LEN(formats),
			"one of: text json csv; 'byteledger export' writes others");
		break;
	case OPT_NO_PAGER:
		r->no_pager = 1;
		break;
	case OPT_TREE:
		r->tree = 1;
		break;
	case OPT_STORE_SYMBOLS:
		r->store_symbols = 1;
		break;
	default:
		return cmd_take_file(&r->path, key, arg);
	}
	if (rc < 0)
		cmd_refuse(&r->err);
	return 0;
}

static int print(const struct report *r, const struct recording *rec, struct prof *prof,
		 struct err *err)
{
	/* what lives at a moment, or while the recording goes on, is no leak */
	int leaks = !r->selection.query.at.kind && !recording_goes_on(rec);
	CLEANUP(suppress_freep)
	struct suppress *suppress =
		leaks ? suppress_files_run(&r->selection.quiet, prof, r->format == FORMAT_TEXT, err)
		      : NULL;
	if (leaks && !suppress)
		return err->code;
	CLEANUP(view_skip_freep) struct view_skip *skip = select_skip(&r->selection, err);
	if (!skip)
		return err->code;
	struct out_opt opt = {
		.inclusive = r->selection.inclusive,
		.skip = skip,
		.suppress = suppress,
		.being_written = recording_goes_on(rec),
		.by = r->selection.by,
		.cost = select_cost(&r->selection),
		.inverted = r->selection.inverted,
		.limit = r->selection.limit,
		.moment = r->selection.query.at.kind != QUERY_TIME_NONE,
		.one_section = r->selection.by_given || r->selection.cost_given ||
			       r->selection.query.at.kind || r->selection.query.leaked,
		.selection = select_words(&r->selection),
	};
	CLEANUP(paged_fini) struct paged paged = { 0 };
	int with_pages = r->format == FORMAT_JSON || (r->format == FORMAT_TEXT && !opt.one_section);
	if (with_pages && paged_open(&paged, r->path, &r->selection.query.at, prof, err) < 0)
		return err->code;
	opt.pages = paged.shot;
	switch (r->format) {
	case FORMAT_JSON:
		return out_json(stdout, prof, &opt, err);
	case FORMAT_CSV: {
		int rc = out_losses(stderr, prof, 0, 0, err);
		return rc < 0 ? rc : out_csv(stdout, prof, &opt, err);
	}
	case FORMAT_TEXT:
		break;
	}
	if (r->selection.query.leaked && !r->selection.cost_given)
		opt.cost = VIEW_COST_LEAKED; /* the only question left; JSON and CSV: by peak */
	terminal_fit(stdout, &opt);
	struct pager pager;
	pager_begin(&pager, stdout, r->no_pager);
	int rc = out_text(pager.to, prof, &opt, err);
	if (rc >= 0)
		rc = out_pages_below(pager.to, paged.shot, &opt, err);
	pager_end(&pager);
	return rc;
}

static int is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int print_tree(const struct report *r, struct err *err)
{
	if (r->format == FORMAT_CSV) {
		err_set(err, -EINVAL, "cannot write a tree of processes as csv");
		return err_hint(err, "--format text or json");
	}
	CLEANUP(family_freep) struct family *family = family_read(r->path, &cmd_ears, err);
	if (!family)
		return err->code;
	struct out_opt opt = { .limit = r->selection.limit };
	if (r->format == FORMAT_JSON)
		return out_family_json(stdout, family, err);
	terminal_fit(stdout, &opt);
	struct pager pager;
	pager_begin(&pager, stdout, r->no_pager);
	int rc = out_family_text(pager.to, family, &opt, err);
	pager_end(&pager);
	if (rc >= 0 && family->others && is_folder(r->path))
		cmd_say("not listed: %zu recording%s of other families in '%s': name one of them",
			family->others, family->others == 1 ? "" : "s", r->path);
	return rc;
}

int cmd_report(int argc, char **argv)
{
	static const struct argp_child children[] = { { &select_argp, 0, NULL, 0 },
						      { &select_leaks_argp, 0, NULL, 0 },
						      { &memory_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Say where the memory went: the report of a recording.\vTIME is 10s or "
		       "1h30m (from the start), -5m (from the end), 50%, peak, end, mark:7, a "
		       "clock time of the recording (14:03, '2026-11-24 14:03:10'), or RFC 3339. "
		       "SIZE is 100, 64K, 1.5M. Bounds are inclusive.",
		.children = children,
	};
	struct report r = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &r) < 0)
		return CMD_USAGE;
	if (r.tree || is_folder(r.path))
		return print_tree(&r, &r.err) < 0 ? cmd_fail(&r.err) : CMD_OK;
	CLEANUP(recording_freep) struct recording *rec = recording_open(r.path, &cmd_ears, &r.err);
	if (!rec)
		return cmd_fail(&r.err);
	CLEANUP(prof_freep)
	struct prof *prof = recording_read(rec, &r.selection.query, &r.err);
	if (!prof || recording_resolve(prof, &cmd_ears, &r.err) < 0)
		return cmd_fail(&r.err);
	if (r.store_symbols && recording_store_symbols(rec, prof, &r.err) < 0)
		return cmd_fail(&r.err);
	if (recording_warning(rec))
		cmd_say("%s", recording_warning(rec));
	return print(&r, rec, prof, &r.err) < 0 ? cmd_fail(&r.err) : CMD_OK;
}
