/* SPDX-License-Identifier: Apache-2.0 */
/* The option parsers that several commands share, without a command: what the words become, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "cmd/select.h"
#include "cmd/targets.h"

/* ---- what cmd/main.c does otherwise: here a refusal comes back ------------------------------------------------------- */

/* A refusal jumps out of argp_parse() as the program's exit would end it: what that holds is nobody's any more. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:argp_parse\n";
}

static jmp_buf refused;
static char said[1200];

void cmd_usage(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	longjmp(refused, 1);
}

void cmd_refuse(const struct err *err)
{
	snprintf(said, sizeof(said), "%s|%s", err->msg, err->hint);
	longjmp(refused, 2);
}

const char *cmd_parsed_name(void)
{
	return "test";
}

void cmd_say(const char *format, ...)
{
	(void)format;
}

static struct selection selection;
static struct targets targets;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &selection;
	state->child_inputs[1] = &targets;
	return 0;
}

/* 0: taken, 1 or 2: refused by usage or by value. */
static int take(const char *const *words, int count)
{
	static const struct argp_child children[] = { { &select_argp, 0, NULL, 0 },
						      { &targets_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = { .parser = parse, .children = children };
	char *argv[80] = { (char *)"test" };
	memset(&selection, 0, sizeof(selection));
	memset(&targets, 0, sizeof(targets));
	said[0] = '\0';
	for (int i = 0; i < count; i++)
		argv[i + 1] = (char *)words[i];
	int how = setjmp(refused);
	if (how)
		return how;
	return argp_parse(&argp, count + 1, argv, ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP, NULL,
			  NULL)
		       ? 3
		       : 0;
}
#define TAKE(...)                                  \
	take((const char *const[]){ __VA_ARGS__ }, \
	     (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))

static void selection_words_become_a_query(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--at", "peak", "--min-size", "64K", "--max-size=1.5M", "--by",
			      "function", "--cost=allocations", "--limit", "7", "--inverted"),
			 0);
	assert_int_equal(selection.query.at.kind, QUERY_TIME_PEAK);
	assert_int_equal(selection.query.min_size, 65536);
	assert_int_equal(selection.query.has_max_size, 1);
	assert_int_equal(selection.query.max_size, 1572864);
	assert_int_equal(selection.by, VIEW_BY_FUNCTION);
	assert_int_equal(selection.limit, 7);
	assert_int_equal(selection.inverted, 1);
	assert_non_null(strstr(select_words(&selection), "--at peak"));
	assert_int_equal(TAKE("--from", "10s", "--to", "50%", "--lifetime-min", "5ms", "--leaked"),
			 0);
	assert_int_equal(selection.query.from.kind, QUERY_TIME_START_NS);
	assert_int_equal(selection.query.from.value, 10000000000u);
	assert_int_equal(selection.query.to.kind, QUERY_TIME_PERMILLION);
	assert_int_equal(selection.query.to.value, 500000);
	assert_int_equal(selection.query.lifetime_min_ns, 5000000);
	assert_int_equal(selection.query.leaked, 1);
	assert_int_equal(TAKE("--leaked"), 0);
	assert_int_equal(query_is_empty(&selection.query), 0);
}

static void nothing_asked_for_selects_everything(void **state)
{
	(void)state;
	assert_int_equal(take(NULL, 0), 0);
	assert_int_equal(query_is_empty(&selection.query), 1);
	assert_null(select_words(&selection));
	assert_int_equal(targets_given(&targets), 0);
}

static void words_that_make_no_sense_are_refused_and_named(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "--at", "yesterday" },  { "--min-size", "-1" },
		{ "--max-size", "many" }, { "--by", "colour" },
		{ "--cost", "euros" },    { "--lifetime-min", "soon" },
		{ "--limit", "0x10" },    { "--function-regex", "a(" },
		{ "--from", "120%" },     { "-p", "0" },
		{ "-p", "12x" },          { "-p", "99999999" },
		{ "-n", "/usr/bin/ls" },  { "-n", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (take(cases[i], 2) == 0 || (cases[i][1][0] && !strstr(said, cases[i][1])))
			fail_msg("%s '%s' was taken, or not named: '%s'", cases[i][0], cases[i][1],
				 said);
	}
	assert_int_equal(TAKE("--no-such-option"), 3);
}

static void processes_are_named_by_id_name_container_and_cgroup(void **state)
{
	(void)state;
	assert_int_equal(TAKE("-p", "42", "--pid=43", "-n", "redis-*", "--container", "web",
			      "--cgroup", "a/b", "--follow-children"),
			 0);
	assert_int_equal(targets.pid_count, 2);
	assert_int_equal(targets.pids[1], 43);
	assert_string_equal(targets.name, "redis-*");
	assert_string_equal(targets.container, "web");
	assert_string_equal(targets.cgroup, "a/b");
	assert_int_equal(targets.follow_children, 1);
	assert_int_equal(targets_given(&targets), 1);
	assert_int_equal(targets_follow(&targets), 1);
	assert_non_null(targets.waiting);
}

static void more_ids_than_there_is_room_for_are_refused(void **state)
{
	(void)state;
	const char *words[TARGETS_GIVEN_MAX + 1];
	for (int i = 0; i <= TARGETS_GIVEN_MAX; i++)
		words[i] = "-p7";
	assert_int_equal(take(words, TARGETS_GIVEN_MAX), 0);
	assert_int_equal(targets.pid_count, TARGETS_GIVEN_MAX);
	assert_int_equal(take(words, TARGETS_GIVEN_MAX + 1), 1);
	assert_non_null(strstr(said, "at most"));
}

/* What a value becomes, or UINT64_MAX where it was refused by its name. */
static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	said[0] = '\0';
	return setjmp(refused) ? UINT64_MAX : cmd_take_number("--top", text, least, most);
}

static uint64_t milliseconds(const char *text)
{
	said[0] = '\0';
	return setjmp(refused) ? UINT64_MAX
			       : (uint64_t)(cmd_take_seconds("--watch", text, 0.05) * 1e3);
}

static void numbers_are_taken_within_their_bounds_and_whole(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"", "x", "-1", "5x", "0x5", "11", "99999999999999999999"
	};
	assert_int_equal(number("0", 0, 10), 0);
	assert_int_equal(number("10", 0, 10), 10);
	assert_int_equal(number("0", 1, 10), UINT64_MAX);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (number(bad[i], 0, 10) != UINT64_MAX)
			fail_msg("'%s' was taken", bad[i]);
		assert_non_null(strstr(said, "--top"));
	}
	assert_int_equal(milliseconds("0.5"), 500);
	assert_int_equal(milliseconds("86400"), 86400000);
	assert_int_equal(milliseconds("0.01"), UINT64_MAX);
	assert_int_equal(milliseconds("86401"), UINT64_MAX);
	assert_int_equal(milliseconds("nan"), UINT64_MAX);
	assert_non_null(strstr(said, "seconds from 0.05 to 86400"));
}

static void words_and_programs_are_found(void **state)
{
	(void)state;
	static const char *const words[] = { "rss", "pss", "swap" };
	char *with[] = { (char *)"run", (char *)"-q", (char *)"--", (char *)"ls" };
	assert_int_equal(cmd_take_word("order", "pss", words, 3), 1);
	if (setjmp(refused) == 0)
		cmd_take_word("order", "ps", words, 3);
	assert_string_equal(said, "unknown order 'ps': rss, pss or swap");
	assert_int_equal(cmd_take_json("text"), 0);
	assert_int_equal(cmd_take_json("json"), 1);
	assert_int_equal(cmd_names_program(4, with), 1);
	assert_int_equal(cmd_names_program(2, with), 0);
}

static void a_field_is_set_by_its_option_alone(void **state)
{
	(void)state;
	struct fields {
		int all, quiet;
		const char *path;
	} f = { 0 };
	static const struct cmd_field fields[] = { CMD_FLAG('a', struct fields, all),
						   CMD_FLAG('q', struct fields, quiet),
						   CMD_TEXT('o', struct fields, path),
						   { 0 } };
	assert_int_equal(cmd_take_field(fields, 'x', "y", &f), 0);
	assert_int_equal(cmd_take_field(fields, 'q', NULL, &f), 1);
	assert_int_equal(cmd_take_field(fields, 'o', "y", &f), 1);
	assert_int_equal(f.all, 0);
	assert_int_equal(f.quiet, 1);
	assert_string_equal(f.path, "y");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selection_words_become_a_query),
		cmocka_unit_test(nothing_asked_for_selects_everything),
		cmocka_unit_test(words_that_make_no_sense_are_refused_and_named),
		cmocka_unit_test(processes_are_named_by_id_name_container_and_cgroup),
		cmocka_unit_test(more_ids_than_there_is_room_for_are_refused),
		cmocka_unit_test(numbers_are_taken_within_their_bounds_and_whole),
		cmocka_unit_test(words_and_programs_are_found),
		cmocka_unit_test(a_field_is_set_by_its_option_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
