/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts over blocks: what they answer, and what hostile ones cannot do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "script/script.h"

#define BLOCKS 1000

static struct prof *names;
static struct blocks *blocks;
static struct block_group *groups;

/* Two stacks, main > work and main > spare; block i has i bytes, every tenth stays, the others live a millisecond. */
static int replay(void *ctx, struct sink *sink, struct err *err)
{
	static const char *const functions[] = { "main", "ns::work<int>(int)", "spare" };
	struct def def = { .kind = DEF_PROCESS, .process = { .pid = 7, .exe = "/bin/x" } };
	(void)ctx;
	assert_int_equal(sink->define(sink, &def, err), 0);
	def = (struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/x" } };
	assert_int_equal(sink->define(sink, &def, err), 0);
	def = (struct def){ .kind = DEF_THREAD, .id = 1, .thread = { .tid = 7, .name = "x" } };
	assert_int_equal(sink->define(sink, &def, err), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		const struct symbol symbol = { .function = functions[i - 1],
					       .file = "x.c",
					       .line = i };
		def = (struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, 16 * i } };
		assert_int_equal(sink->define(sink, &def, err), 0);
		def = (struct def){ .kind = DEF_SYMBOL, .id = i, .symbol = { &symbol, 1 } };
		assert_int_equal(sink->define(sink, &def, err), 0);
		def = (struct def){ .kind = DEF_STACK,
				    .id = i,
				    .stack = { .parent = { i > 1 }, .frame = { i } } };
		assert_int_equal(sink->define(sink, &def, err), 0);
	}
	for (uint32_t i = 1; i <= BLOCKS; i++) {
		struct event ev = { .kind = EVENT_ALLOC,
				    .time_ns = i * 2000000ull,
				    .addr = 0x1000 * i,
				    .bytes = i,
				    .thread = { 1 },
				    .stack = { 2 + i % 2 },
				    .block = { i } };
		assert_int_equal(sink->put(sink, &ev, 1, err), 0);
		if (i % 10 == 0)
			continue;
		ev.kind = EVENT_FREE;
		ev.time_ns += 1000000;
		ev.flags = EVENT_F_TEMPORARY;
		assert_int_equal(sink->put(sink, &ev, 1, err), 0);
	}
	return 0;
}

static int set_up(void **state)
{
	struct err err = { 0 };
	const struct query_source source = { .run = replay };
	(void)state;
	names = prof_new(&err);
	assert_non_null(names);
	assert_int_equal(replay(NULL, prof_sink(names), &err), 0);
	blocks = blocks_new(&source, names, &err);
	assert_non_null(blocks);
	groups = calloc(prof_stack_count(names) + 1, sizeof(*groups));
	for (uint32_t i = 1; i <= BLOCKS; i++) {
		groups[2 + i % 2].count++;
		groups[2 + i % 2].leaked += i % 10 == 0;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	blocks_free(blocks);
	prof_free(names);
	free(groups);
	return 0;
}

static struct script_result run(const char *source, struct script_opt opt)
{
	static const struct script_map maps[] = {
		{ { .id = 1,
		    .addr = 0x1000,
		    .bytes = 0x10000,
		    .freed_ns = BLOCK_NEVER,
		    .stack = 2 },
		  PROT_READ | PROT_WRITE,
		  0 },
		{ { .id = 2, .addr = 0x900000, .bytes = 4096, .time_ns = 5, .freed_ns = 9 },
		  PROT_READ,
		  0 },
	};
	const struct script_data data = { .blocks = blocks,
					  .names = names,
					  .groups = groups,
					  .maps = maps,
					  .map_count = ARRAY_LEN(maps),
					  .length_ns = 2001000000 };
	struct script_result result;
	struct err err = { 0 };
	if (script_run(source, strlen(source), &data, &opt, &result, &err) < 0)
		fail_msg("%s", err.msg);
	return result;
}

/** says() - the lines that @source prints, joined by '|'; what went wrong stands behind a '!'. */
static char *says(const char *source)
{
	static char text[4096];
	struct script_result r = run(source, (struct script_opt){ .memory_bytes = 32u << 20 });
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < r.count && len < sizeof(text) / 2; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "|" : "",
					r.outputs[i].path ? r.outputs[i].path : r.outputs[i].text);
	len = len < sizeof(text) - 1000 ? len : sizeof(text) - 1000;
	if (!r.ok)
		snprintf(text + len, sizeof(text) - len, "!%u %s", r.line, r.message);
	script_result_fini(&r);
	return text;
}

static void lists_are_narrowed_joined_and_counted(void **state)
{
	(void)state;
	assert_string_equal(says("local a = allocations() println(#a, a:len(), #a:only_leaked(), "
				 "#a:only_temporary())"),
			    "1000 1000 100 900");
	assert_string_equal(says("local a = allocations()"
				 "println(#a:only_larger(990), #a:only_larger_or_equal(990), "
				 "#a:only_smaller(10), "
				 "#a:only_smaller_or_equal(10))"),
			    "10 11 9 10");
	assert_string_equal(
		says("local a = allocations() local l, b = a:only_leaked(), a:only_larger(900)"
		     "println(#(l + b), #(l & b), #(a - l), #(l - b))"),
		"190 10 900 90");
	assert_string_equal(says("println(#allocations():only_passing_through_function('work'),"
				 "#allocations():only_not_passing_through_function('work'),"
				 "#allocations():only_passing_through_source('x[.]c$'))"),
			    "500 500 1000");
	assert_string_equal(
		says("local a = allocations() println(#a:only_alive_for_at_most(ms(1)), "
		     "#a:only_alive_at({ s(1) }), #a:only_allocated_until_at_most(ms(20)),"
		     "#a:only_deallocated_after_at_least(s(2)), "
		     "#a:only_leaked_or_deallocated_after(s(2)))"),
		"901 50 10 0 100");
	assert_string_equal(
		says("local a = allocations() println(#a:only_group_leaked_allocations_at_least(1),"
		     "#a:only_group_leaked_allocations_at_least(0.1), "
		     "#a:only_backtrace_length_at_least(2),"
		     "#a:only_address_at_most(0x2000), #a:only_from_maps(maps()))"),
		"500 500 1000 2 16");
	assert_string_equal(says("println(#maps(), #maps():only_writable(), "
				 "#maps():only_not_writable(), #maps():only_leaked(), maps())"),
			    "2 1 1 1 2 mappings");
}

static void groups_items_and_durations_say_what_they_are(void **state)
{
	(void)state;
	assert_string_equal(
		says("local g = allocations():only_leaked():group_by_backtrace()"
		     "println(#g, #g[1], #g:only_all_leaked(), #g:take(0), #g:ungroup(), g[2])"),
		"1 100 1 0 100 nil");
	assert_string_equal(says("local g = allocations():group_by_backtrace():sort_by_size()"
				 "println(g[1]:size(), g:sort_by_size_ascending()[1]:size(), "
				 "#g:only_count_at_least(501))"),
			    "250500 250000 0");
	assert_string_equal(says("local b = allocations()[10] println(b:size(), b:allocated_at(), "
				 "b:deallocated_at(), b)"),
			    "10 0.02s nil 10 bytes at 0xa000");
	assert_string_equal(says("println(allocations()[1]:backtrace():strip())"),
			    "#00 [x] main [x.c:1]\n#01 [x] spare [x.c:3]");
	assert_string_equal(says("println(s(1) + ms(500), h(1) - m(1), 2 * us(3), kb(2), mb(1), "
				 "data():runtime() > s(2))"),
			    "1.5s 3540s 6e-06s 2000 1000000 true");
	assert_string_equal(says("local n = 0 for b in allocations()() do n = n + b:size() end "
				 "println('{} of {}', n, #allocations())"),
			    "500500 of 1000");
	assert_string_equal(says("local n = 0 for i, b in ipairs(allocations():only_leaked()) do n "
				 "= n + i end println(n)"),
			    "5050");
	assert_string_equal(says("println('a') exit() println('b')"), "a");
}

static void pictures_are_drawn(void **state)
{
	(void)state;
	assert_string_equal(says("graph():add('all', allocations()):save() chdir('x') "
				 "allocations():save_as_flamegraph('f')"
				 "graph():add(allocations():group_by_backtrace()):trim():show_new_"
				 "allocations():without_axes():save('g.svg')"
				 "graph():add('<&', "
				 "maps()):show_address_space():save_each_series_as_graph('each')"),
			    "/Graph #1.svg|/x/f.svg|/x/g.svg|/x/each/<&.svg");
	struct script_result r =
		run("graph():add('<&\\1', allocations()):save()", (struct script_opt){ 0 });
	assert_int_equal(r.count, 1);
	assert_non_null(strstr(r.outputs[0].text, "&#60;&#38;"));
	assert_null(strstr(r.outputs[0].text, "<&"));
	script_result_fini(&r);
}

static void a_filter_hands_its_blocks_back(void **state)
{
	(void)state;
	uint8_t *bits = script_bits_new(BLOCKS);
	unsigned count = 0;
	struct script_result r =
		run("return allocations():only_leaked()", (struct script_opt){ .bits = bits });
	assert_true(r.ok);
	script_result_fini(&r);
	for (unsigned i = 0; i < BLOCKS; i++) {
		int set = bits[i / 8] >> i % 8 & 1;
		count += (unsigned)set;
		assert_int_equal(set, (i + 1) % 10 == 0);
	}
	assert_int_equal(count, 100);
	r = run("return 7", (struct script_opt){ .bits = bits });
	assert_false(r.ok);
	assert_non_null(strstr(r.message, "returns a list"));
	script_result_fini(&r);
	script_bits_free(bits, BLOCKS);
}

static void a_script_sees_the_recording_and_nothing_else(void **state)
{
	(void)state;
	static const char *const names_of[] = {
		"os",     "io",       "debug",     "package",        "require",    "load",
		"dofile", "loadfile", "coroutine", "collectgarbage", "string.dump"
	};
	for (size_t i = 0; i < ARRAY_LEN(names_of); i++) {
		char source[160];
		snprintf(source, sizeof(source),
			 "local f = %s println(f == nil or not pcall(f, 'x'))", names_of[i]);
		assert_string_equal(says(source), "true");
	}
	assert_non_null(strstr(says("\033Lua"), "!"));
	assert_non_null(strstr(says("setmetatable('', {}) "), "!"));
	assert_string_equal(
		says("println(getmetatable(allocations()), getmetatable(s(1)), _list_methods)"),
		"false false nil");
	assert_non_null(strstr(says("allocations():only_peak_rss_larger(1)"),
			       "recordings do not hold that"));
	assert_non_null(strstr(says("allocations():only_readable()"), "only for lists of"));
	assert_non_null(strstr(says("allocations().only_leaked(maps)"), "expected"));
	assert_non_null(strstr(says("println(allocations() + maps())"), "mappings"));
	assert_non_null(strstr(
		says("getmetatable('').__index.rep = 1 println(('x').rep) error({})"), "no text"));
	assert_non_null(strstr(
		says("allocations():only_passing_through_function('((a{99}){99}){99}')"), "!"));
}

static void memory_and_recursion_have_bounds(void **state)
{
	(void)state;
	assert_non_null(strstr(says("string.rep('x', 1e10)"), "!"));
	assert_non_null(
		strstr(says("local t = {} while true do t[#t + 1] = ('x'):rep(1000000) end"),
		       "not enough memory"));
	assert_non_null(strstr(says("local t = {} for i = 1, 1e9 do t[i] = allocations() end"),
			       "not enough memory"));
	assert_non_null(strstr(says("local function f() return 1 + f() end f()"), "!"));
	assert_non_null(strstr(
		says("local t = setmetatable({}, {}) getmetatable(t).__index = t println(t.x)"),
		"!"));
	assert_non_null(strstr(says("local t = setmetatable({}, { __index = function(t, k) return "
				    "t[k] end }) println(t.x)"),
			       "!"));
	assert_non_null(strstr(
		says("local function g(s) return (s:gsub('.', g)) end println(#g('xx'))"), "!"));
	assert_non_null(strstr(says("println(('('):rep(300) .. ')')local s = ('a'):rep(300000) "
				    "println(#s:gsub('a', '%0%0%0%0'), s:find(('(a'):rep(40)))"),
			       "!"));
	assert_non_null(
		strstr(says("while true do println(('x'):rep(60000)) end"), "more than is kept"));
	assert_non_null(strstr(says("for i = 1, 1e9 do println() end"), "more than is kept"));
	assert_non_null(strstr(says("while true do graph():add(allocations()):save() end"),
			       "more than is kept"));
}

/** ended() - with a second of CPU time: why the script was stopped. */
static void ends_with(const char *source, const char *why)
{
	struct script_result r = run(source, (struct script_opt){ .cpu_seconds = 1 });
	assert_false(r.ok);
	if (!strstr(r.message, why))
		fail_msg("'%s', not '%s'", r.message, why);
	script_result_fini(&r);
}

static void time_has_a_bound_that_no_script_can_catch(void **state)
{
	(void)state;
	ends_with("while true do pcall(function() while true do end end) end", "CPU time");
	ends_with("println(('a'):rep(40):find(('a*'):rep(30) .. 'b'))", "CPU time");
}

static int nobody(void *ctx)
{
	(void)ctx;
	return 1;
}

static void a_script_that_nobody_waits_for_ends(void **state)
{
	static const char source[] = "while true do end";
	const struct script_data data = { .blocks = blocks, .names = names, .groups = groups };
	const struct script_opt opt = { .gone = nobody };
	struct script_result result;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(script_run(source, sizeof(source) - 1, &data, &opt, &result, &err),
			 -ECANCELED);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_narrowed_joined_and_counted),
		cmocka_unit_test(groups_items_and_durations_say_what_they_are),
		cmocka_unit_test(pictures_are_drawn),
		cmocka_unit_test(a_filter_hands_its_blocks_back),
		cmocka_unit_test(a_script_sees_the_recording_and_nothing_else),
		cmocka_unit_test(memory_and_recursion_have_bounds),
		cmocka_unit_test(time_has_a_bound_that_no_script_can_catch),
		cmocka_unit_test(a_script_that_nobody_waits_for_ends),
	};
	return cmocka_run_group_tests_name("script", tests, set_up, tear_down);
}
