/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - argp with the house's manners: errors as all others are told, the nearest name, options
 * that end at a program.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/nearest.h"
#include "cmd/cmd.h"

#define NAMES_MAX 128

/* What is being parsed: argp calls back without knowing of it. */
static struct {
	char *name;
	const struct argp *argp;
	argp_parser_t parser;
	/* the last argument that the parser did not take */
	const char *unwanted;
	/* the argument at which it stopped */
	const char *typed;
	/* of a command that runs a program */
	int *rest;
} parsed;

const char *cmd_parsed_name(void)
{
	return parsed.name;
}

/* ---- the nearest name ------------------------------------------------------------------------ */

static void add_names(const struct argp *argp, const char **names, size_t *count)
{
	for (const struct argp_option *o = argp->options;
	     o && (o->name || o->key || o->doc || o->group); o++)
		if (o->name && !(o->flags & OPTION_HIDDEN) && *count < NAMES_MAX)
			names[(*count)++] = o->name;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		add_names(c->argp, names, count);
}

static const char *nearest_option(void)
{
	const char *names[NAMES_MAX];
	size_t count = 0;
	char word[NEAREST_WORD_MAX + 1];
	if (!parsed.typed || strncmp(parsed.typed, "--", 2) != 0)
		return NULL;
	size_t length = strcspn(parsed.typed + 2, "=");
	if (length == 0 || length > NEAREST_WORD_MAX)
		return NULL;
	memcpy(word, parsed.typed + 2, length);
	word[length] = '\0';
	add_names(parsed.argp, names, &count);
	for (size_t i = 0; i < count; i++)
		if (strncmp(names[i], word, length) == 0)
			return NULL; /* it is known, or may be several: that has been said */
	return nearest_word(word, names, count);
}

static void point_to_help(const char *nearest)
{
	if (nearest)
		fprintf(stderr, "hint: did you mean '--%s'? '%s --help' lists the options\n",
			nearest, parsed.name);
	else
		fprintf(stderr, "hint: '%s --help' lists the options\n", parsed.name);
}

void cmd_usage(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	cmd_vsay(format, args);
	va_end(args);
	point_to_help(NULL);
	exit(CMD_USAGE);
}

/* ---- argp ------------------------------------------------------------------------------------ */

/*
 * As argp has them, but with the command's name, which is not what getopt is to begin its lines
 * with.
 */
enum { OPT_USAGE = 1 };
static const struct argp_option help_options[] = {
	{ "help", 'h', NULL, 0, "Give this help list", -1 },
	{ NULL, '?', NULL, OPTION_HIDDEN, NULL, -1 },
	{ "usage", OPT_USAGE, NULL, 0, "Give a short usage message", 0 },
	{ 0 },
};

/*
 * Without its line on what is mandatory: "--by=WORD" says it. What the user set for argp holds,
 * too.
 */
static void fit_help(void)
{
	CLEANUP(buf_fini) struct buf format = { 0 };
	const char *given = getenv("ARGP_HELP_FMT");
	buf_printf(&format, "%s%sno-dup-args-note", given ? given : "", given && *given ? "," : "");
	if (!buf_failed(&format))
		setenv("ARGP_HELP_FMT", buf_cstr(&format), 1);
}

static error_t parse_help(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'h' && key != '?' && key != OPT_USAGE)
		return ARGP_ERR_UNKNOWN;
	fit_help();
	state->name = parsed.name;
	argp_state_help(state, state->out_stream,
			key == OPT_USAGE ? ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK
					 : ARGP_HELP_STD_HELP);
	return 0;
}

static error_t parse_with_manners(int key, char *arg, struct argp_state *state)
{
	static char name[] = "byteledger";
	if (key == ARGP_KEY_INIT) {
		state->err_stream = NULL; /* argp has words of its own for errors */
		state->argv[0] = name;    /* and getopt begins its line with this */
	}
	if (key == ARGP_KEY_ERROR && state->next > 0 && state->next <= state->argc)
		parsed.typed = state->argv[state->next - 1];
	error_t rc = parsed.parser(key, arg, state);
	if (key == ARGP_KEY_ARG && rc == CMD_TAKEN)
		return 0;
	if (key == ARGP_KEY_ARG && parsed.rest && rc == 0) {
		*parsed.rest = state->next - 1;
		state->next = state->argc; /* what follows is the program's */
	}
	if (key == ARGP_KEY_ARG)
		parsed.unwanted = rc == ARGP_ERR_UNKNOWN ? arg : NULL;
	return rc;
}

int cmd_parse(const struct argp *argp, int argc, char **argv, int *rest, void *input)
{
	const struct argp help = { .options = help_options, .parser = parse_help };
	struct argp command = *argp;
	const struct argp_child both[] = { { .argp = &command }, { .argp = &help }, { 0 } };
	const struct argp all = { .children = both };
	parsed.name = argv[0];
	parsed.argp = argp;
	parsed.parser = argp->parser;
	parsed.rest = rest;
	if (rest)
		*rest = argc;
	command.parser = parse_with_manners;
	if (argp_parse(&all, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, input) == 0)
		return 0;
	if (parsed.unwanted)
		cmd_say("unexpected '%s'", parsed.unwanted);
	point_to_help(nearest_option());
	return -1;
}
