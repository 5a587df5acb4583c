/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the child: an interpreter with bounds, durations, and what every script can call. */
#include "script/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define HOOK_INSTRUCTIONS 10000
#define LINE_MAX_BYTES (64u << 10)

/* ---- the pipe -------------------------------------------------------------------------------- */

static void put_all(struct machine *m, const void *bytes, size_t len)
{
	const char *from = bytes;
	while (len) {
		ssize_t n = write(m->out, from, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(1); /* nobody listens any more */
		from += n;
		len -= (size_t)n;
	}
}

void machine_tell(struct machine *m, enum message what, const void *a, size_t a_len, const void *b,
		  size_t b_len)
{
	const uint32_t len[2] = { (uint32_t)a_len, (uint32_t)b_len };
	const char kind = (char)what;
	put_all(m, &kind, 1);
	put_all(m, len, sizeof(len));
	put_all(m, a, a_len);
	put_all(m, b, b_len);
}

static void end_with_error(struct machine *m, const char *text, size_t len)
{
	machine_tell(m, MESSAGE_ERROR, text, len, NULL, 0);
	_exit(0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void *take_memory(void *ud, void *block, size_t old, size_t size)
{
	struct machine *m = ud;
	old = block ? old : 0; /* else it is the kind of a new object */
	if (!size) {
		free(block);
		m->used -= old;
		return NULL;
	}
	if (size > old && size - old > m->most - m->used)
		return NULL;
	void *moved = realloc(block, size);
	if (moved)
		m->used += size - old;
	return moved;
}

/**
 * on_count() - every so many instructions: a script could catch an error and go on, so its time
 * ends here.
 */
static void on_count(lua_State *L, lua_Debug *debug)
{
	struct machine *m = machine_of(L);
	(void)debug;
	if (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < (uint64_t)m->opt->cpu_seconds * NS_PER_S)
		return;
	char text[80];
	int len = snprintf(text, sizeof(text), "it took more than %u s of CPU time",
			   m->opt->cpu_seconds);
	end_with_error(m, text, (size_t)len);
}

struct machine *machine_of(lua_State *L)
{
	/*
	 * room in front of every state that belongs to whoever embeds Lua; coroutines begin with a
	 * copy of it
	 */
	return *(struct machine **)lua_getextraspace(L);
}

/* ---- durations ------------------------------------------------------------------------------- */

void duration_push(lua_State *L, int64_t ns)
{
	*(int64_t *)lua_newuserdatauv(L, sizeof(ns), 0) = ns;
	luaL_setmetatable(L, DURATION_NAME);
}

static int64_t of_seconds(lua_State *L, int at, double seconds)
{
	if (!(seconds > -9e9 && seconds < 9e9))
		luaL_argerror(L, at, "no duration is that long");
	return (int64_t)(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5));
}

int64_t duration_check(lua_State *L, int at)
{
	const int64_t *ns = luaL_testudata(L, at, DURATION_NAME);
	return ns ? *ns : of_seconds(L, at, luaL_checknumber(L, at));
}

static int duration_add(lua_State *L)
{
	int64_t sum;
	if (__builtin_add_overflow(duration_check(L, 1), duration_check(L, 2), &sum))
		return luaL_error(L, "no duration is that long");
	duration_push(L, sum);
	return 1;
}

static int duration_sub(lua_State *L)
{
	int64_t rest;
	if (__builtin_sub_overflow(duration_check(L, 1), duration_check(L, 2), &rest))
		return luaL_error(L, "no duration is that long");
	duration_push(L, rest);
	return 1;
}

static int duration_mul(lua_State *L)
{
	int second = lua_isnumber(L, 1); /* 2 * duration */
	const int64_t *ns = luaL_checkudata(L, second ? 2 : 1, DURATION_NAME);
	double times = luaL_checknumber(L, second ? 1 : 2);
	duration_push(L, of_seconds(L, 2, (double)*ns / 1e9 * times));
	return 1;
}

static int duration_eq(lua_State *L)
{
	lua_pushboolean(L, duration_check(L, 1) == duration_check(L, 2));
	return 1;
}

static int duration_lt(lua_State *L)
{
	lua_pushboolean(L, duration_check(L, 1) < duration_check(L, 2));
	return 1;
}

static int duration_le(lua_State *L)
{
	lua_pushboolean(L, duration_check(L, 1) <= duration_check(L, 2));
	return 1;
}

static int duration_text(lua_State *L)
{
	char text[40];
	snprintf(text, sizeof(text), "%.9gs", (double)duration_check(L, 1) / 1e9);
	lua_pushstring(L, text);
	return 1;
}

static int duration_seconds(lua_State *L)
{
	lua_pushnumber(L, (double)duration_check(L, 1) / 1e9);
	return 1;
}

static const luaL_Reg duration_functions[] = {
	{ "__add", duration_add },       { "__sub", duration_sub },       { "__mul", duration_mul },
	{ "__eq", duration_eq },         { "__lt", duration_lt },         { "__le", duration_le },
	{ "__tostring", duration_text }, { "seconds", duration_seconds }, { NULL, NULL }
};

static int make_duration(lua_State *L)
{
	duration_push(
		L, of_seconds(L, 1, luaL_checknumber(L, 1) * lua_tonumber(L, lua_upvalueindex(1))));
	return 1;
}

static int make_size(lua_State *L)
{
	double bytes = luaL_checknumber(L, 1) * lua_tonumber(L, lua_upvalueindex(1));
	if (!(bytes >= 0 && bytes < 9e18))
		return luaL_argerror(L, 1, "no size is that large");
	lua_pushinteger(L, (lua_Integer)bytes);
	return 1;
}

/* ---- globals --------------------------------------------------------------------------------- */

/**
 * println() - its first argument with each {} replaced by one of the others; those left over behind
 * it, with spaces.
 */
static int println(lua_State *L)
{
	struct machine *m = machine_of(L);
	int count = lua_gettop(L), next = 2;
	struct buf line = { 0 };
	size_t len = 0;
	const char *text = count ? luaL_tolstring(L, 1, &len) : "", *end = text + len;
	for (const char *at = text; at < end && line.len < LINE_MAX_BYTES; at++) {
		if (at[0] == '{' && at + 1 < end && at[1] == '}' && next <= count) {
			size_t part_len;
			const char *part = luaL_tolstring(L, next++, &part_len);
			buf_put(&line, part, part_len < LINE_MAX_BYTES ? part_len : LINE_MAX_BYTES);
			lua_pop(L, 1);
			at++;
		} else {
			buf_putc(&line, *at);
		}
	}
	for (; next <= count && line.len < LINE_MAX_BYTES; next++) {
		size_t part_len;
		const char *part = luaL_tolstring(L, next, &part_len);
		buf_putc(&line, ' ');
		buf_put(&line, part, part_len < LINE_MAX_BYTES ? part_len : LINE_MAX_BYTES);
		lua_pop(L, 1);
	}
	if (line.len > LINE_MAX_BYTES)
		line.len = LINE_MAX_BYTES;
	machine_tell(m, MESSAGE_LINE, line.data ? line.data : "", line.len, NULL, 0);
	buf_fini(&line);
	return 0;
}

static int leave(lua_State *L)
{
	struct machine *m = machine_of(L);
	machine_tell(m, MESSAGE_DONE, NULL, 0, NULL, 0);
	_exit(0);
}

static int no_arguments(lua_State *L)
{
	lua_createtable(L, 0, 0);
	return 1;
}

/** change_folder() - pictures have a path; there are no folders. */
static int change_folder(lua_State *L)
{
	struct machine *m = machine_of(L);
	const char *path = luaL_checklstring(L, 1, NULL);
	char joined[sizeof(m->cwd)];
	int len = snprintf(joined, sizeof(joined), "%s%s%s", *path == '/' ? "" : m->cwd,
			   *path == '/' || !m->cwd[1] ? "" : "/", path);
	if (len < 0 || (size_t)len >= sizeof(joined))
		return luaL_argerror(L, 1, "too long");
	strcpy(m->cwd, joined);
	return 0;
}

static int nothing(lua_State *L)
{
	luaL_checklstring(L, 1, NULL);
	return 0;
}

static int folder_of(lua_State *L)
{
	const char *path = luaL_checklstring(L, 1, NULL), *slash = strrchr(path, '/');
	if (!slash)
		lua_pushstring(L, "");
	else
		lua_pushlstring(L, path, slash == path ? 1 : (size_t)(slash - path));
	return 1;
}

static int refuse(lua_State *L)
{
	return luaL_error(
		L, "'%s' is not to be had here: a script sees the recording and nothing else",
		lua_tolstring(L, lua_upvalueindex(1), NULL));
}

static void open_libraries(lua_State *L)
{
	static const char *const names[] = { "_G", "string", "table", "math", "utf8" };
	int (*const opens[])(lua_State *) = { luaopen_base, luaopen_string, luaopen_table,
					      luaopen_math, luaopen_utf8 };
	static const char *const refused[] = { "load",       "loadfile", "dofile",
					       "loadstring", "require",  "collectgarbage" };
	for (size_t i = 0; i < ARRAY_LEN(opens); i++) {
		luaL_requiref(L, names[i], opens[i], 1);
		lua_settop(L, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		lua_pushstring(L, refused[i]);
		lua_pushcclosure(L, refuse, 1);
		lua_setglobal(L, refused[i]);
	}
	lua_getglobal(L, "string"); /* bytecode is not looked at before it is run */
	lua_pushnil(L);
	lua_setfield(L, -2, "dump");
	lua_settop(L, 0);
}

static void open_globals(lua_State *L)
{
	static const struct {
		const char *name;
		double seconds;
	} durations[] = { { "h", 3600 }, { "m", 60 }, { "s", 1 }, { "ms", 1e-3 }, { "us", 1e-6 } };
	static const struct {
		const char *name;
		double bytes;
	} sizes[] = { { "kb", 1e3 }, { "mb", 1e6 }, { "gb", 1e9 } };
	static const luaL_Reg functions[] = { { "println", println },   { "print", println },
					      { "info", println },      { "exit", leave },
					      { "argv", no_arguments }, { "chdir", change_folder },
					      { "mkdir_p", nothing },   { "dirname", folder_of } };
	luaL_newmetatable(L, DURATION_NAME);
	luaL_setfuncs(L, duration_functions, 0);
	lua_pushvalue(L, -1);
	lua_setfield(L, -2, "__index");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_settop(L, 0);
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		lua_pushnumber(L, durations[i].seconds);
		lua_pushcclosure(L, make_duration, 1);
		lua_setglobal(L, durations[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		lua_pushnumber(L, sizes[i].bytes);
		lua_pushcclosure(L, make_size, 1);
		lua_setglobal(L, sizes[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		lua_pushcclosure(L, functions[i].func, 0);
		lua_setglobal(L, functions[i].name);
	}
	lists_open(L);
	groups_open(L);
	items_open(L);
	graph_open(L);
	lua_settop(L, 0);
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct bits {
	uint8_t *to;
};

static int set_bit(void *ctx, uint64_t at, const struct block_row *row)
{
	struct bits *bits = ctx;
	(void)at;
	bits->to[(row->id - 1) / 8] |= (uint8_t)(1u << (row->id - 1) % 8);
	return 0;
}

/** run() - in protected mode: what fails in here is the script's error. */
static int run(lua_State *L)
{
	struct machine *m = machine_of(L);
	size_t len = (size_t)lua_tointeger(L, 2);
	const char *source = lua_touserdata(L, 1);
	open_libraries(L);
	open_globals(L);
	if (luaL_loadbufferx(L, source, len, "=script", "t"))
		return lua_error(L);
	lua_callk(L, 0, m->opt->bits ? 1 : 0, 0, NULL);
	if (m->opt->bits) {
		const struct list *list = luaL_testudata(L, -1, LIST_NAME);
		struct bits bits = { m->opt->bits };
		if (!list || list->of_maps != m->opt->of_maps)
			return luaL_error(L, "a filter returns a list of %s: return %s():only_...",
					  m->opt->of_maps ? "mappings" : "allocations",
					  m->opt->of_maps ? "maps" : "allocations");
		list_each(L, list, set_bit, &bits);
	}
	return 0;
}

void machine_main(struct machine *m, const char *source, size_t len)
{
	lua_State *L = lua_newstate(take_memory, m);
	if (!L)
		end_with_error(m, "not enough memory", 17);
	*(struct machine **)lua_getextraspace(L) = m;
	lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
	lua_pushcclosure(L, run, 0);
	lua_pushlightuserdata(L, (void *)source);
	lua_pushinteger(L, (lua_Integer)len);
	if (lua_pcallk(L, 2, 0, 0, 0, NULL)) {
		size_t text_len = 0;
		const char *text = lua_tolstring(L, -1, &text_len);
		static const char unnamed[] = "the script ended with an error that is no text";
		text_len = text ? text_len : sizeof(unnamed) - 1;
		end_with_error(m, text ? text : unnamed,
			       text_len < LINE_MAX_BYTES ? text_len : LINE_MAX_BYTES);
	}
	machine_tell(m, MESSAGE_DONE, NULL, 0, NULL, 0);
	_exit(0); /* no lua_close(): all of it goes with the process */
}
