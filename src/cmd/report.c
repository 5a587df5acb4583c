/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `byteledger report FILE`: where the memory went, as text, JSON or CSV. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/open.h"
#include "out/out.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

struct report {
	const char *path;
	enum format format;
	struct out_opt out;
	struct err err;
};

enum { OPT_BY = 256, OPT_COST, OPT_LIMIT, OPT_FORMAT };

static const struct argp_option options[] = {
	{ "by", OPT_BY, "WORD", 0,
	  "A row is one stack (default), function, module, file, line or thread", 1 },
	{ "cost", OPT_COST, "WORD", 0,
	  "Sort by peak (default), allocations, allocated, temporary, leaked or live", 1 },
	{ "limit", OPT_LIMIT, "N", 0, "At most N rows (text: 10 unless given)", 1 },
	{ "format", OPT_FORMAT, "WORD", 0, "text (default), json or csv", 2 },
	{ 0 },
};

static int parse_limit(const char *text, size_t *limit, struct err *err)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || n == 0)
		return err_set(err, -EINVAL, "bad limit '%s'", text);
	*limit = n;
	return 0;
}

static int parse_format(const char *text, enum format *format, struct err *err)
{
	static const char *const words[] = { "text", "json", "csv" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(text, words[i]) == 0) {
			*format = (enum format)i;
			return 0;
		}
	}
	err_set(err, -EINVAL, "unknown format '%s'", text);
	return err_hint(err, "one of: text json csv; 'byteledger export' writes others");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report *r = state->input;
	int rc = 0;
	switch (key) {
	case OPT_BY:
		rc = view_by_parse(arg, &r->out.by, &r->err);
		r->out.one_section = 1;
		break;
	case OPT_COST:
		rc = view_cost_parse(arg, &r->out.cost, &r->err);
		r->out.one_section = 1;
		break;
	case OPT_LIMIT:
		rc = parse_limit(arg, &r->out.limit, &r->err);
		break;
	case OPT_FORMAT:
		rc = parse_format(arg, &r->format, &r->err);
		break;
	case ARGP_KEY_ARG:
		if (r->path)
			argp_error(state, "one recording at a time");
		r->path = arg;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which recording?");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (rc < 0) {
		cmd_fail(&r->err);
		exit(CMD_USAGE);
	}
	return 0;
}

int cmd_report(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Say where the memory went: the report of a recording.",
	};
	struct report r = { 0 };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &r) < 0)
		return CMD_USAGE;
	CLEANUP(recording_freep) struct recording *rec = cmd_open_recording(r.path, &r.err);
	if (!rec)
		return cmd_fail(&r.err);
	CLEANUP(prof_freep) struct prof *prof = recording_read(rec, NULL, &r.err);
	if (!prof || cmd_resolve(prof, NULL, &r.err) < 0)
		return cmd_fail(&r.err);
	if (recording_warning(rec))
		fprintf(stderr, "byteledger: %s\n", recording_warning(rec));
	int rc = r.format == FORMAT_JSON  ? out_json(stdout, prof, &r.out, &r.err)
		 : r.format == FORMAT_CSV ? out_csv(stdout, prof, &r.out, &r.err)
					  : out_text(stdout, prof, &r.out, &r.err);
	return rc < 0 ? cmd_fail(&r.err) : CMD_OK;
}
