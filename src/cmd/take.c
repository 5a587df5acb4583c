/* SPDX-License-Identifier: Apache-2.0 */
/*
 * take.c - what the values of options and the words behind them become, the same in every command.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "query/query.h"

#define PID_MAX 4194304

error_t cmd_take_file(const char **path, int key, char *arg)
{
	switch (key) {
	case ARGP_KEY_ARG:
		if (*path)
			cmd_usage("one file at a time, not '%s' and '%s'", *path, arg);
		*path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!*path)
			cmd_usage("which file?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

uint64_t cmd_take_duration(const char *arg)
{
	uint64_t ns = 0;
	/* a moment that far ahead can still be counted to */
	if (query_duration_parse(arg, &ns, NULL) < 0 || !ns || ns > INT64_MAX / 4)
		cmd_usage("'%s' is not a duration like 10s, 5m, 1h30m", arg);
	return ns;
}

double cmd_take_seconds(const char *option, const char *arg, double least)
{
	char *end;
	double seconds = strtod(arg, &end);
	if (end == arg || *end || !(seconds >= least && seconds <= 86400))
		cmd_usage("%s '%s': seconds from %g to 86400", option, arg, least);
	return seconds;
}

uint64_t cmd_take_number(const char *option, const char *arg, uint64_t least, uint64_t most)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(arg, &end, 10);
	if (end == arg || *end || errno || *arg == '-' || n < least || n > most)
		cmd_usage("%s '%s': a number from %llu to %llu", option, arg,
			  (unsigned long long)least, (unsigned long long)most);
	return n;
}

pid_t cmd_take_pid(const char *arg)
{
	char *end;
	errno = 0;
	long pid = strtol(arg, &end, 10);
	if (end == arg || *end || errno || pid <= 0 || pid > PID_MAX)
		cmd_usage("'%s' is not a process id", arg);
	return (pid_t)pid;
}

static int find_word(const char *arg, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(arg, words[i]) == 0)
			return (int)i;
	return -1;
}

int cmd_take_word(const char *what, const char *arg, const char *const *words, size_t count)
{
	char all[256];
	int word = find_word(arg, words, count), used = 0;
	for (size_t i = 0; word < 0 && i < count && used < (int)sizeof(all); i++)
		used += snprintf(all + used, sizeof(all) - (size_t)used, "%s%s",
				 i == 0           ? ""
				 : i + 1 == count ? " or "
						  : ", ",
				 words[i]);
	if (word < 0)
		cmd_usage("unknown %s '%s': %s", what, arg, all);
	return word;
}

int cmd_take_field(const struct cmd_field *fields, int key, const char *arg, void *input)
{
	for (; fields->key; fields++) {
		char *at = (char *)input + fields->at;
		if (fields->key != key)
			continue;
		if (fields->is_text)
			*(const char **)at = arg;
		else
			*(int *)at = 1;
		return 1;
	}
	return 0;
}

int cmd_take_format(const char *arg, const char *const *words, size_t count, const char *hint)
{
	struct err err = { 0 };
	int word = find_word(arg, words, count);
	if (word >= 0)
		return word;
	err_set(&err, -EINVAL, "unknown format '%s'", arg);
	err_hint(&err, "%s", hint);
	cmd_refuse(&err);
}

int cmd_take_json(const char *arg)
{
	static const char *const words[] = { "text", "json" };
	return cmd_take_word("format", arg, words, ARRAY_LEN(words));
}

const char *cmd_take_recording(const char *arg)
{
	if (!*arg)
		cmd_usage("-o needs a file name");
	if (strcmp(arg, "-") == 0)
		cmd_usage("a recording needs a file, it cannot go to stdout (./- is one)");
	return arg;
}

FILE *cmd_result_stream(int quiet, int program, int format_given)
{
	if (quiet)
		return NULL;
	return program && !format_given && !isatty(STDOUT_FILENO) ? stderr : stdout;
}

int cmd_names_program(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return 1;
	return 0;
}

int cmd_lacks_program(const char *dashes)
{
	fprintf(stderr, "byteledger: no program given\nhint: %s [OPTIONS] %s PROGRAM [ARGS...]\n",
		cmd_parsed_name(), dashes);
	return CMD_USAGE;
}
