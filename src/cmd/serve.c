/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - `byteledger serve FILE...`: the web page and the API over recordings. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/http.h"
#include "base/bound.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/regions.h"
#include "cmd/serving.h"
#include "cmd/targets.h"
#include "recorder/started.h"

struct serve {
	struct serving_opt serving;
	struct targets targets;
	const char **files;
	size_t file_count;
};

enum { OPT_OPEN = 0x100 };
static const struct argp_option options[] = {
	{ "listen", 'l', "ADDR:PORT", 0,
	  "Where to listen (default 127.0.0.1:17832; port 0: any free one)", 4 },
	{ "open", OPT_OPEN, NULL, 0, "Start a browser on this desktop, too", 4 },
	{ "quiet", 'q', NULL, 0, "Say nothing but errors", 4 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve *s = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->targets;
		state->child_inputs[1] = &s->serving;
		return 0;
	case 'l':
		s->serving.http.address = arg;
		return 0;
	case OPT_OPEN:
		s->serving.opens = 1;
		return 0;
	case 'q':
		s->serving.quiet = 1;
		return 0;
	case ARGP_KEY_ARG:
		s->files[s->file_count++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (s->file_count && targets_given(&s->targets))
			cmd_usage("either recordings or a running process");
		if (!s->file_count && !targets_given(&s->targets))
			cmd_usage("which recording, which folder of them, or which process? FILE, "
				  "-p PID, -n NAME");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int serve(const struct serve *s, struct err *err)
{
	memory_bound();
	http_memory_hint(bound_hint());
	int signals = signals_open(0); /* first: blocked in every thread that comes */
	if (signals < 0)
		return err_set(err, signals, "cannot take signals");
	CLEANUP(serving_freep)
	struct serving *serving = serving_begin(&s->serving, s->files, s->file_count, err);
	if (serving && !s->serving.quiet)
		serving_tell_url(serving);
	if (serving) {
		serving_open_page(&s->serving, serving);
		signals_wait(signals);
	}
	close(signals);
	return serving ? 0 : err->code;
}

int cmd_serve(int argc, char **argv)
{
	static const struct argp_child children[] = { { &targets_argp, 0, NULL, 0 },
						      { &serving_guard_argp, 0, NULL, 0 },
						      { &memory_later_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE...\nTARGET",
		.doc = "Serve recordings to the web browser, and to scripts as JSON.\vFILE is a "
		       "recording of any kind that 'report' reads, a folder, whose recordings are "
		       "listed, or a store of 'net'; one that is still being written is followed. "
		       "The address is printed on stdout; Ctrl-C ends it. Of a process its memory "
		       "by mapping and its balance sheet are shown, and its recording if it is "
		       "being recorded.",
		.children = children,
	};
	struct serve s = { .files = calloc((size_t)argc + 1, sizeof(*s.files)) };
	struct err err = { 0 };
	int status = CMD_USAGE;
	if (s.files && cmd_parse(&argp, argc, argv, NULL, &s) == 0) {
		if (targets_given(&s.targets))
			status = regions_serve(&s.targets, &s.serving);
		else
			status = serve(&s, &err) == 0 ? CMD_OK : cmd_fail(&err);
	}
	free(s.files);
	return status;
}
