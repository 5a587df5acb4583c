/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the table of commands, and nothing else that knows more than one of them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bound.h"
#include "base/buf.h"
#include "base/nearest.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/record.h"
#include "recorder/launch.h"
#include "wire/heap_start.h"

static const struct command commands[] = {
	{ "run", "record a program: heap, resident size and mappings over time", cmd_run },
	{ "heap", "record every allocation of a program with its stack", cmd_heap },
	{ "regions", "say where a process's memory is right now, by mapping", cmd_regions },
	{ "explain", "say why RSS is larger than the heap profile, and what would help",
	  cmd_explain },
	{ "sample", "sample what running programs allocate, and what they leak", cmd_sample },
	{ "pages", "say which code holds the resident pages of a process, live", cmd_pages },
	{ "report", "say where the memory went: the report of a recording", cmd_report },
	{ "serve", "show recordings in the web browser, and to scripts as JSON", cmd_serve },
	{ "top", "show a heap in the terminal, finished or growing", cmd_top },
	{ "gather", "receive recordings that other processes send while they run", cmd_gather },
	{ "diff", "say what changed between two recordings, or two moments", cmd_diff },
	{ "export", "write a recording in the format of another tool", cmd_export },
	{ "import", "turn a heaptrack file into a recording", cmd_import },
	{ "info", "tell what is in a recording, and whether all of it can be read", cmd_info },
	{ "strip", "make a recording small: without the blocks that lived shortly", cmd_strip },
	{ "merge", "make one recording of those of several processes", cmd_merge },
	{ "postprocess", "store the names in a copy of a recording, or take them out",
	  cmd_postprocess },
	{ "extract", "unpack the files that are embedded in a recording", cmd_extract },
	{ "net", "record a Tezos node's traffic and logs, or decode a capture", cmd_net },
	{ "check", "say what this machine and user permit, each line tried", cmd_check },
	{ NULL, NULL, NULL },
};

void cmd_vsay(const char *format, va_list args)
{
	CLEANUP(buf_fini) struct buf raw = { 0 };
	CLEANUP(buf_fini) struct buf safe = { 0 };
	buf_vprintf(&raw, format, args);
	text_escape(&safe, buf_cstr(&raw), 0);
	fprintf(stderr, "byteledger: %s\n", buf_cstr(&safe));
}

void cmd_say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	cmd_vsay(format, args);
	va_end(args);
}

void cmd_say_line(const char *text)
{
	cmd_say("%s", text);
}

int cmd_fail(const struct err *err)
{
	cmd_say("%s", err->msg[0] ? err->msg : "failed for an unknown reason");
	const char *hint = err->hint[0] ? err->hint : err->code == -ENOMEM ? bound_hint() : NULL;
	if (!hint)
		hint = err_usual_hint(err->code);
	if (hint)
		fprintf(stderr, "hint: %s\n", hint);
	else if (cmd_parsed_name())
		fprintf(stderr, "hint: '%s --help' says what it takes\n", cmd_parsed_name());
	else
		fputs("hint: 'byteledger check' says what this machine permits\n", stderr);
	return CMD_FAILED;
}

void cmd_refuse(const struct err *err)
{
	cmd_fail(err);
	exit(CMD_USAGE);
}

static void print_help(FILE *to)
{
	fputs("Usage: byteledger COMMAND [OPTIONS] [--] [PROGRAM [ARGS...]]\nKeeps the books on a "
	      "Linux process: which code, allocator or file holds its memory.\n\nCommands:\n",
	      to);
	for (const struct command *c = commands; c->name; c++)
		fprintf(to, "  %-12s %s\n", c->name, c->summary);
	fputs("\n'byteledger COMMAND --help' lists a command's options.\n", to);
}

static int status_is_programs;

void cmd_status_is_programs(void)
{
	status_is_programs = 1;
}

/* What was printed last may have found a full disk. Where the command failed, it has said why. */
static void end_stdout(int status, void *unused)
{
	(void)unused;
	errno = 0;
	int good = fflush(stdout) == 0 && !ferror(stdout);
	/* whoever read it has seen enough */
	if (good || errno == EPIPE || status != CMD_OK || status_is_programs)
		return;
	fprintf(stderr,
		"byteledger: cannot write to stdout%s%s\nhint: what was printed is not all\n",
		errno ? ": " : "", errno ? strerror(errno) : "");
	_exit(CMD_FAILED);
}

int main(int argc, char **argv)
{
	bound_streams();
	bound_file_size();
	on_exit(end_stdout, NULL);
	if (argc < 2) {
		print_help(stderr);
		return CMD_USAGE;
	}
	static char help[] = "--help";
	if (argc > 2 && strcmp(argv[1], "help") == 0) {
		argv[1] = argv[2];
		argv[2] = help;
		argc = 3;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return CMD_OK;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("byteledger " BYTELEDGER_VERSION);
		return CMD_OK;
	}
	if (strcmp(argv[1], WIRE_RECORDER_OPTION) == 0)
		return record_helper(argc, argv); /* started by the preload library */
	if (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "heap") == 0)
		launch_without_preloads(argv);
	for (const struct command *c = commands; c->name; c++) {
		if (strcmp(argv[1], c->name) != 0)
			continue;
		char name[64];
		snprintf(name, sizeof(name), "byteledger %s", c->name);
		argv[1] = name;
		return c->run(argc - 1, argv + 1);
	}
	const char *words[ARRAY_LEN(commands)], *nearest;
	size_t count = 0;
	for (const struct command *c = commands; c->name; c++)
		words[count++] = c->name;
	cmd_say("unknown command '%s'", argv[1]);
	nearest = nearest_word(argv[1], words, count);
	if (nearest)
		fprintf(stderr, "hint: did you mean '%s'? ", nearest);
	fprintf(stderr, "%s'byteledger --help' lists the commands\n", nearest ? "" : "hint: ");
	return CMD_USAGE;
}
