/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serving.h"

#include <stdio.h>
#include <string.h>

#include "api/desktop.h"
#include "cmd/cmd.h"

enum { OPT_SERVE = 0x2000, OPT_OPEN, OPT_TOKEN, OPT_NO_AUTH, OPT_HOST, OPT_CORS };

static const struct argp_option guard_options[] = {
	{ "token-file", OPT_TOKEN, "FILE", 0, "Ask clients for the token in FILE", 5 },
	{ "no-auth", OPT_NO_AUTH, NULL, 0, "Serve an address beyond loopback without a token", 5 },
	{ "host", OPT_HOST, "NAME", 0, "A name that clients may use for this host (repeatable)",
	  5 },
	{ "cors", OPT_CORS, "ORIGIN", 0, "Another web origin that may read what is served, or '*'",
	  5 },
	{ 0 },
};
static const struct argp_option serve_option[] = {
	{ "serve", OPT_SERVE, "ADDR:PORT", OPTION_ARG_OPTIONAL,
	  "Show the recording in the web browser while it is made (default 127.0.0.1:17832)", 5 },
	{ "open", OPT_OPEN, NULL, 0,
	  "The same, in a browser that is started on this desktop; the page stays until Ctrl-C",
	  5 },
	{ 0 },
};

static error_t parse_guard(int key, char *arg, struct argp_state *state)
{
	struct serving_opt *opt = state->input;
	switch (key) {
	case OPT_TOKEN:
		opt->http.token_file = arg;
		return 0;
	case OPT_NO_AUTH:
		opt->http.no_auth = 1;
		return 0;
	case OPT_HOST:
		if (opt->host_count == SERVING_HOSTS_MAX)
			cmd_usage("at most %d host names", SERVING_HOSTS_MAX);
		opt->hosts[opt->host_count++] = arg;
		return 0;
	case OPT_CORS:
		opt->http.cors = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_serve(int key, char *arg, struct argp_state *state)
{
	struct serving_opt *opt = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = opt;
		return 0;
	case OPT_SERVE:
		opt->wanted = 1;
		opt->http.address = arg;
		return 0;
	case OPT_OPEN:
		opt->wanted = opt->opens = 1;
		return 0;
	case ARGP_KEY_END:
		if (!opt->wanted && serving_given(opt))
			cmd_usage("--token-file, --no-auth, --host and --cors belong to --serve");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp serving_guard_argp = { .options = guard_options, .parser = parse_guard };
static const struct argp_child children[] = { { &serving_guard_argp, 0, NULL, 0 }, { 0 } };
const struct argp serving_argp = { .options = serve_option,
				   .parser = parse_serve,
				   .children = children };

int serving_takes(struct serving_opt *opt, const char *word)
{
	if (!opt->wanted || opt->http.address ||
	    (!strchr(word, ':') && strspn(word, "0123456789") != strlen(word)) || strchr(word, '/'))
		return 0;
	opt->http.address = word;
	return 1;
}

int serving_open_page(const struct serving_opt *opt, const struct serving *serving)
{
	struct err err = { 0 };
	if (!opt->opens || desktop_open(serving_url(serving), &err) == 0)
		return opt->opens;
	cmd_fail(&err); /* it is served all the same */
	return 0;
}

void serving_tell_url(const struct serving *serving)
{
	puts(serving_url(serving));
	fflush(stdout);
}

void serving_tell_note(const struct serving *serving)
{
	if (serving_note(serving))
		cmd_say("%s", serving_note(serving));
}

struct serving *serving_begin(const struct serving_opt *opt, const char *const *paths, size_t count,
			      struct err *err)
{
	struct serving *serving = serving_new(opt, paths, count, err);
	if (serving && !opt->quiet)
		serving_tell_note(serving);
	return serving;
}
