/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - `byteledger gather`: recordings that other processes send. */
#include "recorder/gather.h"

#include <signal.h>

#include "cmd/cmd.h"
#include "recorder/started.h"

enum { OPT_TOKEN = 0x100, OPT_NO_AUTH };
static const struct argp_option options[] = {
	{ "listen", 'l', "ADDR:PORT", 0,
	  "Where to listen (default 127.0.0.1:17833; port 0: any free one), or unix:PATH", 0 },
	{ "token-file", OPT_TOKEN, "FILE", 0, "Ask senders for the token in FILE", 0 },
	{ "no-auth", OPT_NO_AUTH, NULL, 0, "Listen beyond loopback without a token", 0 },
	{ "dir", 'd', "DIR", 0, "Where recordings go (default: the current folder)", 0 },
	{ 0 },
};
static const struct cmd_field fields[] = {
	CMD_TEXT('l', struct gather_opt, address),
	CMD_TEXT(OPT_TOKEN, struct gather_opt, token_file),
	CMD_FLAG(OPT_NO_AUTH, struct gather_opt, no_auth),
	CMD_TEXT('d', struct gather_opt, folder),
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	return cmd_take_field(fields, key, arg, state->input) ? 0 : ARGP_ERR_UNKNOWN;
}

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

int cmd_gather(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Receive the recordings that other processes send while they write them."
		       "\vWho is recorded with BYTELEDGER_SEND=HOST:PORT (or unix:PATH) in its "
		       "environment sends. The address is printed on stdout, and each recording "
		       "that "
		       "begins and ends; Ctrl-C ends it.",
	};
	struct gather_opt opt = { .tell = say, .trouble = cmd_say_line };
	struct err err = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &opt) < 0)
		return CMD_USAGE;
	int signals = signals_open(0);
	signal(SIGPIPE, SIG_IGN); /* who read stdout may go */
	CLEANUP(gather_freep) struct gather *gather = gather_open(&opt, &err);
	return !gather || gather_run(gather, signals, &err) < 0 ? cmd_fail(&err) : CMD_OK;
}
