/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - `byteledger export FILE --to FORMAT`: a recording in the words of other tools. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/select.h"
#include "out/formats.h"

struct export
{
	/* first: the child parser's input */
	struct selection selection;
	const char *path, *out_path;
	const struct out_format *format;
	struct err err;
};

enum { OPT_TO = 256 };

static const struct argp_option options[] = {
	{ "to", OPT_TO, "FORMAT|TIME", 0,
	  "One of" OUT_FORMAT_NAMES
	  "; may be given once more as a TIME: only what was allocated before it",
	  0 },
	{ "output", 'o', "OUT", 0,
	  "Write here instead of to standard output (-); an existing file is replaced when all is "
	  "written, unless it is a recording. Text ends up compressed where OUT ends in .gz or "
	  ".zst",
	  0 },
	{ 0 },
};

/** parse_to() - --to has two meanings here: a format's name, else the end of a selection. */
static int parse_to(const char *text, struct export *e, struct err *err)
{
	const struct out_format *format = out_format_find(text);
	if (format && e->format)
		return err_set(err, -EINVAL, "--to names two formats, '%s' and '%s'",
			       e->format->name, text);
	if (format) {
		e->format = format;
		return 0;
	}
	if (query_time_parse(text, &e->selection.query.to, err) == 0)
		return 0;
	err_set(err, -EINVAL, "'%s' is neither a format nor a time", text);
	return err_hint(err, "formats:" OUT_FORMAT_NAMES);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct export *e = state->input;
	int rc = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &e->selection;
		state->child_inputs[1] = &e->selection;
		break;
	case OPT_TO:
		rc = parse_to(arg, e, &e->err);
		break;
	case 'o':
		e->out_path = strcmp(arg, "-") ? arg : NULL;
		break;
	default:
		return cmd_take_file(&e->path, key, arg);
	}
	if (rc < 0)
		cmd_refuse(&e->err);
	return 0;
}

/* A word that the format cannot follow is refused, not ignored. */
static int check_words(const struct export *e, struct err *err)
{
	const struct selection *s = &e->selection;
	if (!e->format) {
		err_set(err, -EINVAL, "no format given");
		return err_hint(err, "--to FORMAT; 'byteledger export --help' lists them");
	}
	return out_format_follows(
		e->format,
		(s->by_given ? OUT_WORD_BY : 0) | (s->cost_given ? OUT_WORD_COST : 0) |
			(s->limit ? OUT_WORD_LIMIT : 0) | (s->inverted ? OUT_WORD_INVERTED : 0),
		err);
}

static int open_out(struct export *e, struct outfile *out)
{
	if (e->out_path)
		return outfile_open(out, e->out_path, !e->format->binary, &e->err);
	if (e->format->binary && isatty(STDOUT_FILENO)) {
		err_set(&e->err, -EINVAL, "not writing a binary format to a terminal");
		return err_hint(&e->err, "-o FILE, or a pipe");
	}
	*out = (struct outfile){ .to = stdout, .is_lent = 1 };
	return 0;
}

int cmd_export(int argc, char **argv)
{
	static const struct argp_child children[] = { { &select_but_to_argp, 0, NULL, 0 },
						      { &select_leaks_argp, 0, NULL, 0 },
						      { &memory_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Write a recording in the format of another tool.\vTIME is 10s or 1h30m "
		       "(from the start), -5m (from the end), 50%, peak, end, mark:7, a clock time "
		       "of the recording (14:03, '2026-11-24 14:03:10'), or RFC 3339. SIZE is 100, "
		       "64K, 1.5M. Bounds are inclusive.",
		.children = children,
	};
	struct export e = { 0 };
	char nothing[512];
	if (cmd_parse(&argp, argc, argv, NULL, &e) < 0)
		return CMD_USAGE;
	if (check_words(&e, &e.err) < 0) {
		cmd_fail(&e.err);
		return CMD_USAGE;
	}
	CLEANUP(recording_freep) struct recording *rec = recording_open(e.path, &cmd_ears, &e.err);
	if (!rec)
		return cmd_fail(&e.err);
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	if ((e.out_path && recording_spares(e.out_path, e.path, &e.err) < 0) ||
	    open_out(&e, &out) < 0)
		return cmd_fail(&e.err);
	if (e.format->stream && recording_will_stream(rec, &e.err) < 0)
		return cmd_fail(&e.err);
	CLEANUP(prof_freep) struct prof *prof = recording_read(rec, &e.selection.query, &e.err);
	if (!prof || recording_resolve(prof, &cmd_ears, &e.err) < 0)
		return cmd_fail(&e.err);
	int warned = recording_warning(rec) != NULL;
	if (warned)
		cmd_say("%s", recording_warning(rec));
	if (!e.format->tells_losses &&
	    out_losses(stderr, prof, !e.format->has_sums, e.format->stream != NULL, &e.err) < 0)
		return cmd_fail(&e.err);
	CLEANUP(view_skip_freep) struct view_skip *skip = select_skip(&e.selection, &e.err);
	if (!skip)
		return cmd_fail(&e.err);
	/* figures for machines are whole, unless somebody says what to leave out */
	CLEANUP(suppress_freep) struct suppress *suppress = NULL;
	if (e.selection.quiet.count && e.format->reading && !e.selection.query.at.kind &&
	    !recording_goes_on(rec)) {
		suppress = suppress_files_run(&e.selection.quiet, prof, 0, &e.err);
		if (!suppress)
			return cmd_fail(&e.err);
		quiet_tell(suppress);
	}
	const struct out_opt opt = {
		.suppress = suppress,
		.skip = skip,
		.inclusive = e.selection.inclusive,
		.being_written = recording_goes_on(rec),
		.by = e.selection.by,
		.cost = select_cost(&e.selection),
		.limit = e.selection.limit,
		.inverted = e.selection.inverted,
		.moment = e.selection.query.at.kind != QUERY_TIME_NONE,
	};
	if (out_format_nothing(e.format, prof, &e.selection.query, e.path, opt.cost, nothing,
			       sizeof(nothing)))
		cmd_say("%s", nothing);
	int rc = e.format->reading ? e.format->reading(out.to, prof, &opt, &e.err)
				   : out_format_stream(e.format, out.to, rec, &e.selection.query,
						       prof, &e.err);
	if (recording_warning(rec) && !warned) /* seen in the events only */
		cmd_say("%s", recording_warning(rec));
	if (rc == 0)
		rc = outfile_commit(&out, &e.err);
	return rc < 0 ? cmd_fail(&e.err) : CMD_OK;
}
