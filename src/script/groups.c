/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.c - what a list holds by stack, and what can be asked of a single block, mapping or stack.
 */
#include <stdlib.h>
#include <string.h>

#include "out/name.h"
#include "script/machine.h"

#define TRACE_DEPTH_MAX 1000

/* ---- groups ---------------------------------------------------------------------------------- */

static struct groups *groups_check(lua_State *L, int at)
{
	return luaL_checkudata(L, at, GROUPS_NAME);
}

/** groups_push() - room for @count rows; @list: where on the stack the list is that they are of. */
static struct groups *groups_push(lua_State *L, uint32_t count, int of_maps, int list)
{
	size_t bytes = sizeof(struct groups) + (size_t)count * sizeof(struct groups_row);
	list = lua_absindex(L, list);
	struct groups *groups = lua_newuserdatauv(L, bytes, 1);
	memset(groups, 0, bytes);
	groups->count = count;
	groups->of_maps = of_maps;
	lua_pushvalue(L, list);
	lua_setiuservalue(L, -2, 1);
	luaL_setmetatable(L, GROUPS_NAME);
	return groups;
}

struct gather {
	struct groups_row *by_stack;
};

static int gather_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct gather *g = ctx;
	(void)at;
	g->by_stack[row->stack].count++;
	sum_add(&g->by_stack[row->stack].bytes, row->bytes);
	return 0;
}

static int group_by_backtrace(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	uint32_t stacks = prof_stack_count(machine_of(L)->data->names), count = 0;
	lua_settop(L, 1);
	struct gather g = { lua_newuserdatauv(L, ((size_t)stacks + 1) * sizeof(*g.by_stack), 0) };
	memset(g.by_stack, 0, ((size_t)stacks + 1) * sizeof(*g.by_stack));
	list_each(L, list, gather_each, &g);
	for (uint32_t i = 0; i < stacks; i++)
		count += g.by_stack[i].count != 0;
	struct groups *groups = groups_push(L, count, list->of_maps, 1);
	count = 0;
	for (uint32_t i = 0; i < stacks; i++) {
		if (!g.by_stack[i].count)
			continue;
		groups->rows[count] = g.by_stack[i];
		groups->rows[count++].stack = i;
	}
	return 1;
}

/** copy_groups() - of those at 1, on the stack. */
static struct groups *copy_groups(lua_State *L)
{
	const struct groups *from = groups_check(L, 1);
	lua_settop(L, 1);
	lua_getiuservalue(L, 1, 1);
	struct groups *to = groups_push(L, from->count, from->of_maps, 2);
	memcpy(to->rows, from->rows, from->count * sizeof(*from->rows));
	return to;
}

static int more_bytes(const void *a, const void *b)
{
	const struct groups_row *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int more_blocks(const void *a, const void *b)
{
	const struct groups_row *x = a, *y = b;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int sort_groups(lua_State *L)
{
	int by_count = lua_toboolean(L, lua_upvalueindex(1));
	int ascending = lua_toboolean(L, lua_upvalueindex(2));
	struct groups *to = copy_groups(L);
	qsort(to->rows, to->count, sizeof(*to->rows), by_count ? more_blocks : more_bytes);
	for (uint32_t i = 0; ascending && i < to->count / 2; i++) {
		struct groups_row row = to->rows[i];
		to->rows[i] = to->rows[to->count - 1 - i];
		to->rows[to->count - 1 - i] = row;
	}
	return 1;
}

struct leaking {
	/* by stack */
	uint64_t *leaked;
};

static int leaking_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct leaking *l = ctx;
	(void)at;
	l->leaked[row->stack] += row->freed_ns == BLOCK_NEVER;
	return 0;
}

static int only_all_leaked(lua_State *L)
{
	struct groups *to = copy_groups(L);
	const struct list *list = list_check(L, 2);
	size_t stacks = (size_t)prof_stack_count(machine_of(L)->data->names) + 1;
	struct leaking l = { lua_newuserdatauv(L, stacks * sizeof(*l.leaked), 0) };
	uint32_t kept = 0;
	memset(l.leaked, 0, stacks * sizeof(*l.leaked));
	list_each(L, list, leaking_each, &l);
	for (uint32_t i = 0; i < to->count; i++)
		if (l.leaked[to->rows[i].stack] == to->rows[i].count)
			to->rows[kept++] = to->rows[i];
	to->count = kept;
	lua_settop(L, -2);
	return 1;
}

static int only_count_at_least(lua_State *L)
{
	lua_Integer least = luaL_checkinteger(L, 2);
	struct groups *to = copy_groups(L);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < to->count; i++)
		if (least <= 0 || to->rows[i].count >= (uint64_t)least)
			to->rows[kept++] = to->rows[i];
	to->count = kept;
	return 1;
}

static int take(lua_State *L)
{
	lua_Integer most = luaL_checkinteger(L, 2);
	struct groups *to = copy_groups(L);
	if (most < 0 || (uint64_t)most < to->count)
		to->count = most < 0 ? 0 : (uint32_t)most;
	return 1;
}

static int groups_len(lua_State *L)
{
	lua_pushinteger(L, groups_check(L, 1)->count);
	return 1;
}

static void push_group(lua_State *L, const struct groups *groups, uint32_t i)
{
	lua_getiuservalue(L, 1, 1);
	const struct list *list = list_check(L, lua_gettop(L));
	uint8_t *mask = mask_push(L);
	mask[groups->rows[i].stack] = 1;
	list_of_stacks(L, list, mask);
}

static int ungroup(lua_State *L)
{
	const struct groups *groups = groups_check(L, 1);
	lua_getiuservalue(L, 1, 1);
	const struct list *list = list_check(L, lua_gettop(L));
	uint8_t *mask = mask_push(L);
	for (uint32_t i = 0; i < groups->count; i++)
		mask[groups->rows[i].stack] = 1;
	list_of_stacks(L, list, mask);
	return 1;
}

static int groups_index(lua_State *L)
{
	const struct groups *groups = groups_check(L, 1);
	if (!lua_isinteger(L, 2)) {
		lua_pushvalue(L, 2);
		lua_rawget(L, lua_upvalueindex(1));
		return 1;
	}
	lua_Integer n = lua_tointegerx(L, 2, NULL);
	if (n < 1 || n > groups->count)
		return 0;
	push_group(L, groups, (uint32_t)n - 1);
	return 1;
}

static int groups_iterate_next(lua_State *L)
{
	lua_Integer n = lua_tointegerx(L, lua_upvalueindex(2), NULL);
	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	const struct groups *groups = groups_check(L, 1);
	if (n >= groups->count)
		return 0;
	lua_pushinteger(L, n + 1);
	lua_copy(L, -1, lua_upvalueindex(2));
	push_group(L, groups, (uint32_t)n);
	return 1;
}

static int groups_iterate(lua_State *L)
{
	groups_check(L, 1);
	lua_settop(L, 1);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, groups_iterate_next, 2);
	return 1;
}

static int groups_text(lua_State *L)
{
	lua_pushfstring(L, "%d groups", (int)groups_check(L, 1)->count);
	return 1;
}

/** open_kind() - the end of it: the kind at 1, its methods, or what looks them up, on top. */
static void open_kind(lua_State *L, const luaL_Reg *meta)
{
	lua_setfield(L, 1, "__index");
	luaL_setfuncs(L, meta, 0);
	lua_pushboolean(L, 0);
	lua_setfield(L, 1, "__metatable");
	lua_settop(L, 0);
}

void groups_open(lua_State *L)
{
	static const struct {
		const char *name;
		int by_count, ascending;
	} sorts[] = { { "sort_by_size", 0, 0 },
		      { "sort_by_size_descending", 0, 0 },
		      { "sort_by_size_ascending", 0, 1 },
		      { "sort_by_count", 1, 0 },
		      { "sort_by_count_descending", 1, 0 },
		      { "sort_by_count_ascending", 1, 1 } };
	static const luaL_Reg plain[] = { { "only_all_leaked", only_all_leaked },
					  { "only_count_at_least", only_count_at_least },
					  { "take", take },
					  { "len", groups_len },
					  { "iter", groups_iterate },
					  { "ungroup", ungroup },
					  { NULL, NULL } };
	static const luaL_Reg meta[] = { { "__len", groups_len },
					 { "__call", groups_iterate },
					 { "__tostring", groups_text },
					 { NULL, NULL } };
	luaL_newmetatable(L, GROUPS_NAME);
	lua_createtable(L, 0, 16);
	luaL_setfuncs(L, plain, 0);
	for (size_t i = 0; i < ARRAY_LEN(sorts); i++) {
		lua_pushboolean(L, sorts[i].by_count);
		lua_pushboolean(L, sorts[i].ascending);
		lua_pushcclosure(L, sort_groups, 2);
		lua_setfield(L, -2, sorts[i].name);
	}
	lua_pushcclosure(L, groups_index, 1);
	open_kind(L, meta);
	lua_getglobal(L, "_list_methods");
	lua_pushcclosure(L, group_by_backtrace, 0);
	lua_setfield(L, 1, "group_by_backtrace");
	lua_pushnil(L);
	lua_setglobal(L, "_list_methods");
	lua_settop(L, 0);
}

/* ---- single blocks and mappings -------------------------------------------------------------- */

void item_push(lua_State *L, const struct block_row *row)
{
	((struct item *)lua_newuserdatauv(L, sizeof(struct item), 0))->row = *row;
	luaL_setmetatable(L, ITEM_NAME);
}

static const struct block_row *row_check(lua_State *L)
{
	return &((const struct item *)luaL_checkudata(L, 1, ITEM_NAME))->row;
}

static void trace_push(lua_State *L, uint32_t stack, int stripped)
{
	*(struct trace *)lua_newuserdatauv(L, sizeof(struct trace), 0) =
		(struct trace){ stack, stripped };
	luaL_setmetatable(L, TRACE_NAME);
}

static int item_backtrace(lua_State *L)
{
	trace_push(L, row_check(L)->stack, 0);
	return 1;
}

static int item_deallocation(lua_State *L)
{
	const struct block_row *row = row_check(L);
	if (!row->free_stack)
		return 0;
	trace_push(L, row->free_stack, 0);
	return 1;
}

static int item_allocated_at(lua_State *L)
{
	duration_push(L, (int64_t)row_check(L)->time_ns);
	return 1;
}

static int item_deallocated_at(lua_State *L)
{
	const struct block_row *row = row_check(L);
	if (row->freed_ns == BLOCK_NEVER)
		return 0;
	duration_push(L, (int64_t)row->freed_ns);
	return 1;
}

static int item_number(lua_State *L)
{
	const struct block_row *row = row_check(L);
	switch (*lua_tolstring(L, lua_upvalueindex(1), NULL)) {
	case 's':
		lua_pushinteger(L, (lua_Integer)row->bytes);
		break;
	case 'a':
		lua_pushinteger(L, (lua_Integer)row->addr);
		break;
	default:
		lua_pushinteger(L, row->tid);
	}
	return 1;
}

static int item_text(lua_State *L)
{
	const struct block_row *row = row_check(L);
	char text[80];
	snprintf(text, sizeof(text), "%llu bytes at 0x%llx", (unsigned long long)row->bytes,
		 (unsigned long long)row->addr);
	lua_pushstring(L, text);
	return 1;
}

/**
 * is_plumbing() - the C library's, the loader's and the C++ library's own frames say little of who
 * asked.
 */
static int is_plumbing(const char *module)
{
	static const char *const names[] = { "libc.so", "libc-", "ld-linux", "libstdc++",
					     "libpthread" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(module, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

static void put_frame(struct buf *to, const struct prof *names, struct frame_id row, int stripped,
		      unsigned *number)
{
	const struct prof_frame *f = prof_frame(names, row);
	const struct prof_module *m = prof_module(names, f->module);
	if (stripped && is_plumbing(m->name))
		return;
	for (uint32_t i = f->symbol_count ? f->symbol_count : 1; i-- > 0;) {
		const struct symbol *s = i < f->symbol_count ? &f->symbols[i] : NULL;
		buf_printf(to, "%s#%02u [%s] ", to->len ? "\n" : "", (*number)++,
			   *m->name ? m->name : "?");
		if (!s || !s->function)
			buf_printf(to, "0x%llx", (unsigned long long)f->offset);
		else if (stripped)
			text_short_name(to, s->function, 0);
		else
			buf_puts(to, s->function);
		if (s && s->file && s->line)
			buf_printf(to, " [%s:%u]", s->file, s->line);
	}
}

/** trace_text() - outermost first, as the older tracer has it. */
static int trace_text(lua_State *L)
{
	const struct trace *trace = luaL_checkudata(L, 1, TRACE_NAME);
	const struct prof *names = machine_of(L)->data->names;
	uint32_t way[TRACE_DEPTH_MAX];
	unsigned count = 0, number = 0;
	struct buf text = { 0 };
	for (struct stack_id at = { trace->stack }; at.v && count < TRACE_DEPTH_MAX;
	     at = prof_stack(names, at)->parent)
		way[count++] = at.v;
	while (count) {
		const struct prof_stack *s = prof_stack(names, (struct stack_id){ way[--count] });
		if (!s->stop)
			put_frame(&text, names, s->frame, trace->stripped, &number);
	}
	lua_pushlstring(L, text.data ? text.data : "", text.len);
	buf_fini(&text);
	return 1;
}

static int trace_strip(lua_State *L)
{
	trace_push(L, ((const struct trace *)luaL_checkudata(L, 1, TRACE_NAME))->stack, 1);
	return 1;
}

static int trace_same(lua_State *L)
{
	const struct trace *a = luaL_checkudata(L, 1, TRACE_NAME),
			   *b = luaL_checkudata(L, 2, TRACE_NAME);
	lua_pushboolean(L, a->stack == b->stack);
	return 1;
}

void items_open(lua_State *L)
{
	static const luaL_Reg item[] = { { "backtrace", item_backtrace },
					 { "deallocation_backtrace", item_deallocation },
					 { "allocated_at", item_allocated_at },
					 { "deallocated_at", item_deallocated_at },
					 { NULL, NULL } };
	static const luaL_Reg item_meta[] = { { "__tostring", item_text }, { NULL, NULL } };
	static const luaL_Reg trace[] = { { "strip", trace_strip }, { NULL, NULL } };
	static const luaL_Reg trace_meta[] = { { "__tostring", trace_text },
					       { "__eq", trace_same },
					       { NULL, NULL } };
	static const char *const numbers[] = { "size", "address", "thread" };
	luaL_newmetatable(L, TRACE_NAME);
	lua_createtable(L, 0, 1);
	luaL_setfuncs(L, trace, 0);
	open_kind(L, trace_meta);
	luaL_newmetatable(L, ITEM_NAME);
	lua_createtable(L, 0, 8);
	luaL_setfuncs(L, item, 0);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		lua_pushstring(L, numbers[i]);
		lua_pushcclosure(L, item_number, 1);
		lua_setfield(L, -2, numbers[i]);
	}
	open_kind(L, item_meta);
}
