/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - what the subcommands share. A new command: one file cmd/NAME.c with cmd_NAME() (those
 * that make files of a file share rewrite.c), a declaration here, a row in main.c's table, a page
 * man/byteledger-NAME.1 (a test compares it with --help), a completion row, a news fragment.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <argp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* Exit status: docs/rules.md. */
enum cmd_exit { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2, CMD_ALERT = 3 };

/** cmd_main() - a subcommand; parses @argv, whose first is "byteledger NAME". The exit status. */
typedef int cmd_main(int argc, char **argv);

struct command {
	const char *name;
	/* one line for `byteledger --help` */
	const char *summary;
	cmd_main *run;
};

/**
 * cmd_say() - "byteledger: " and one line on stderr, in the words of printf(); names in it may be
 * anybody's: what a terminal would obey is shown as its number.
 */
void cmd_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** cmd_say_line() - the same of a line that is a text already. */
void cmd_say_line(const char *text);

/** cmd_vsay() - the same with its arguments as a list. */
void cmd_vsay(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/** cmd_parsed_name() - "byteledger report": what cmd_parse() was called for; NULL before. */
const char *cmd_parsed_name(void);

/**
 * cmd_fail() - print "byteledger: MESSAGE" and a hint on stderr, the usual one where @err has none;
 * returns CMD_FAILED.
 */
int cmd_fail(const struct err *err);

/**
 * cmd_refuse() - the same for what was typed: prints and exits with CMD_USAGE; only inside an argp
 * parser.
 */
void cmd_refuse(const struct err *err) __attribute__((noreturn));

/** cmd_usage() - likewise, in the words of printf(); the hint names the command's --help. */
void cmd_usage(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/**
 * cmd_status_is_programs() - what is wrong with stdout at the end does not change the exit status.
 */
void cmd_status_is_programs(void);

/**
 * cmd_take_file() - the part of a parser that takes the one FILE: keys ARGP_KEY_ARG and
 * ARGP_KEY_END, a second or a missing one is a usage error. Return: 0, or ARGP_ERR_UNKNOWN for any
 * other key. @path is lent from argv.
 */
error_t cmd_take_file(const char **path, int key, char *arg);

/*
 * take.c: values of options. What does not fit is a usage error, which names @option ("--top")
 * where it is asked for.
 */

/** cmd_take_number() - a number, from @least to @most. */
uint64_t cmd_take_number(const char *option, const char *arg, uint64_t least, uint64_t most);
/** cmd_take_seconds() - a number of seconds, from @least to a day. */
double cmd_take_seconds(const char *option, const char *arg, double least);
/** cmd_take_pid() - a process id. */
pid_t cmd_take_pid(const char *arg);
/** cmd_take_json() - "text" or "json": 1 for the latter. */
int cmd_take_json(const char *arg);
/** cmd_take_format() - one of @words by its place; else the usage error names @hint. */
int cmd_take_format(const char *arg, const char *const *words, size_t count, const char *hint);
/**
 * cmd_take_word() - which of @words @arg is; else the usage error names @what it is not, and all of
 * them.
 */
int cmd_take_word(const char *what, const char *arg, const char *const *words, size_t count);

/**
 * struct cmd_field - an option that sets one field of what is parsed into: an int to 1, or a text
 * to its value.
 */
struct cmd_field {
	/* 0 ends a table of them */
	int key;
	size_t at;
	int is_text;
};
#define CMD_HAS_TYPE(type, member, want)                                                     \
	(0 *                                                                                 \
	 sizeof(char[__builtin_types_compatible_p(__typeof__(((type *)0)->member), want) ? 1 \
											 : -1]))
#define CMD_FLAG(key, type, member)                                              \
	{                                                                        \
		key, offsetof(type, member) + CMD_HAS_TYPE(type, member, int), 0 \
	}
#define CMD_TEXT(key, type, member)                                                       \
	{                                                                                 \
		key, offsetof(type, member) + CMD_HAS_TYPE(type, member, const char *), 1 \
	}
/** cmd_take_field() - whether @key is one of @fields; then it is set in @input. */
int cmd_take_field(const struct cmd_field *fields, int key, const char *arg, void *input);

/**
 * cmd_take_duration() - @arg of an option as nanoseconds, more than none; what is no duration is a
 * usage error.
 */
uint64_t cmd_take_duration(const char *arg);

/**
 * cmd_take_recording() - @arg of an option that names the recording to write; what names none is a
 * usage error. Return: @arg.
 */
const char *cmd_take_recording(const char *arg);

/**
 * cmd_result_stream() - where results go that are not written to a file; NULL with @quiet. With a
 * @program of its own, whose stdout and stderr they are: stdout where that is a terminal or
 * @format_given, else stderr (docs/rules.md).
 */
FILE *cmd_result_stream(int quiet, int program, int format_given);
/** cmd_names_program() - "--" stands among the words: a program follows. */
int cmd_names_program(int argc, char **argv);
/**
 * cmd_lacks_program() - says on stderr how the command takes one, behind @dashes; returns
 * CMD_USAGE.
 */
int cmd_lacks_program(const char *dashes);

/* What a parser returns for a word that is its own, where a program's name could stand. */
#define CMD_TAKEN (-1)

/**
 * cmd_parse() - argp_parse() with the house's manners: unknown options and --help are handled,
 * usage errors are told as all others are (and -1 is returned), --help exits with 0. Of a command
 * that runs a PROGRAM options end at the first word that is none, or at "--"; its parser is told of
 * that word (ARGP_KEY_ARG; it may keep it: CMD_TAKEN) and *@rest receives its index (argc if there
 * is none). Others have @rest NULL: behind "--" stand arguments that may begin with a dash.
 */
int cmd_parse(const struct argp *argp, int argc, char **argv, int *rest, void *input);

/* The commands. */
cmd_main cmd_check, cmd_diff, cmd_explain, cmd_export, cmd_extract, cmd_gather, cmd_heap,
	cmd_import, cmd_info, cmd_merge, cmd_net, cmd_pages, cmd_postprocess, cmd_regions,
	cmd_report, cmd_run, cmd_sample, cmd_serve, cmd_strip, cmd_top;

#endif
