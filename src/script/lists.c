/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lists.c - lists of blocks and of mappings: a bit a row, and filters that are ranges of what is
 * known of a row.
 */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "query/query.h"
#include "script/machine.h"

#define WALK_MAX 4000000 /* rows of a list that is gone through one by one */

struct list *list_check(lua_State *L, int at)
{
	return luaL_checkudata(L, at, LIST_NAME);
}

struct list *list_push(lua_State *L, int of_maps)
{
	const struct machine *m = machine_of(L);
	uint64_t rows = of_maps ? m->data->map_count : m->rows;
	size_t bytes = (size_t)(rows / 8) + 1;
	struct list *list = lua_newuserdatauv(L, sizeof(*list) + bytes, 1);
	memset(list, 0, sizeof(*list) + bytes);
	list->of_maps = of_maps;
	list->rows = rows;
	luaL_setmetatable(L, LIST_NAME);
	return list;
}

static void list_count(struct list *list)
{
	list->count = 0;
	for (uint64_t i = 0; i <= list->rows / 8; i++)
		list->count += (unsigned)__builtin_popcount(list->bits[i]);
}

uint8_t *mask_push(lua_State *L)
{
	size_t count = (size_t)prof_stack_count(machine_of(L)->data->names) + 1;
	uint8_t *mask = lua_newuserdatauv(L, count, 0);
	memset(mask, 0, count);
	return mask;
}

struct each {
	const struct list *list;
	int (*each)(void *ctx, uint64_t at, const struct block_row *row);
	void *ctx;
	uint64_t at;
};

static int each_rows(void *ctx, const struct block_row *rows, size_t count)
{
	struct each *e = ctx;
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++, e->at++)
		if (list_has(e->list, e->at))
			rc = e->each(e->ctx, e->at, &rows[i]);
	return rc;
}

int list_each(lua_State *L, const struct list *list,
	      int (*each)(void *ctx, uint64_t at, const struct block_row *row), void *ctx)
{
	const struct script_data *data = machine_of(L)->data;
	struct each e = { list, each, ctx, 0 };
	struct err err = { 0 };
	int rc = 0;
	if (!list->of_maps)
		rc = blocks_scan(data->blocks, each_rows, &e, &err);
	for (size_t i = 0; list->of_maps && i < data->map_count && !rc; i++)
		if (list_has(list, i))
			rc = each(ctx, i, &data->maps[i].row);
	return rc < 0 ? luaL_error(L, "%s", err.msg) : rc;
}

/* ---- filters --------------------------------------------------------------------------------- */

enum field {
	F_SIZE,
	F_ADDRESS,
	F_TIME,
	F_FREED, /* UINT64_MAX: never */
	F_LIFETIME,
	F_DEPTH,
	F_FIRST_SIZE,
	F_LAST_SIZE,
	F_CHAIN_LENGTH,
	F_CHAIN_LIFETIME,
	F_CHAIN_FREED,
	F_POSITION,
	F_GROUP_COUNT,
	F_GROUP_INTERVAL,
	F_GROUP_LEAKED,
	F_GROUP_MOST,
	F_JEMALLOC,
	F_MMAPED,
	F_MAIN_ARENA,
	F_READABLE,
	F_WRITABLE,
	F_EXECUTABLE,
	F_NONE /* 0 for all: nothing of it is recorded */
};

static uint64_t span(uint64_t from, uint64_t to, uint64_t end)
{
	to = to == BLOCK_NEVER ? end : to;
	return to > from ? to - from : 0;
}

static uint64_t field_of(const struct script_data *d, enum field field, const struct block_row *r,
			 uint64_t at)
{
	const struct block_chain *c = r->chain ? blocks_chain(d->blocks, r->chain) : NULL;
	switch (field) {
	case F_SIZE:
		return r->bytes;
	case F_ADDRESS:
		return r->addr;
	case F_TIME:
		return r->time_ns;
	case F_FREED:
		return r->freed_ns;
	case F_LIFETIME:
		return span(r->time_ns, r->freed_ns, d->length_ns);
	case F_DEPTH:
		return prof_stack(d->names, (struct stack_id){ r->stack })->depth;
	case F_FIRST_SIZE:
		return c ? c->first_bytes : r->bytes;
	case F_LAST_SIZE:
		return c ? c->last_bytes : r->bytes;
	case F_CHAIN_LENGTH:
		return c ? c->length : 1;
	case F_CHAIN_LIFETIME:
		return c ? span(c->first_time_ns, c->freed_ns, d->length_ns)
			 : span(r->time_ns, r->freed_ns, d->length_ns);
	case F_CHAIN_FREED:
		return c ? c->freed_ns : r->freed_ns;
	case F_POSITION:
		return r->position;
	case F_GROUP_COUNT:
		return d->groups[r->stack].count;
	case F_GROUP_INTERVAL:
		return d->groups[r->stack].last_ns - d->groups[r->stack].first_ns;
	case F_GROUP_LEAKED:
		return d->groups[r->stack].leaked;
	case F_GROUP_MOST:
		return d->groups[r->stack].most_ns;
	case F_JEMALLOC:
		return (uint64_t)d->has_jemalloc;
	case F_MMAPED:
		return (uint64_t)block_is_mmaped(r);
	case F_MAIN_ARENA:
		return (uint64_t)block_in_main_arena(r);
	case F_READABLE:
		return !!(d->maps[at].prot & PROT_READ);
	case F_WRITABLE:
		return !!(d->maps[at].prot & PROT_WRITE);
	case F_EXECUTABLE:
		return !!(d->maps[at].prot & PROT_EXEC);
	case F_NONE:
		break;
	}
	return 0;
}

/** struct sieve - what of a list goes on. */
struct sieve {
	const struct script_data *data;
	enum field field;
	uint64_t min, max;
	/* of the group, where @is_share */
	double min_share, max_share;
	int is_share;
	/* instead: by row, of what allocated, or of what freed */
	const uint8_t *stacks;
	int of_frees, negative;
	struct list *to;
};

static int sieve_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct sieve *s = ctx;
	int takes;
	if (s->stacks) {
		takes = s->of_frees ? row->free_stack && s->stacks[row->free_stack]
				    : s->stacks[row->stack];
		takes ^= s->negative;
	} else if (s->is_share) {
		const struct block_group *g = &s->data->groups[row->stack];
		double share = g->count ? (double)g->leaked / (double)g->count : 0;
		takes = share >= s->min_share && share <= s->max_share;
	} else {
		uint64_t value = field_of(s->data, s->field, row, at);
		takes = value >= s->min && value <= s->max;
	}
	if (takes) {
		s->to->bits[at / 8] |= (uint8_t)(1u << at % 8);
		s->to->count++;
	}
	return 0;
}

/** sift() - push what of @list goes through. */
static struct list *sift(lua_State *L, const struct list *list, struct sieve *s)
{
	s->data = machine_of(L)->data;
	s->to = list_push(L, list->of_maps);
	list_each(L, list, sieve_each, s);
	return s->to;
}

struct list *list_of_stacks(lua_State *L, const struct list *list, const uint8_t *mask)
{
	struct sieve s = { .stacks = mask };
	return sift(L, list, &s);
}

enum compare { LARGER, AT_LEAST, SMALLER, AT_MOST, IS, NOT, NOT_NEVER_AT_LEAST, NOT_NEVER_AT_MOST };
enum takes { T_NUMBER, T_DURATION, T_SHARE_OF_GROUP, T_SHARE_OF_RUN, T_NOTHING };
enum of { BLOCKS = 1, MAPS = 2, BOTH = 3 };

struct filter {
	const char *name;
	enum field field;
	enum compare compare;
	enum takes takes;
	enum of of;
};
#define FOUR(name, field, of)                                               \
	{ name "_larger", field, LARGER, T_NUMBER, of },                    \
		{ name "_larger_or_equal", field, AT_LEAST, T_NUMBER, of }, \
		{ name "_smaller", field, SMALLER, T_NUMBER, of },          \
	{                                                                   \
		name "_smaller_or_equal", field, AT_MOST, T_NUMBER, of      \
	}
#define TWO(name, field, takes, of)                        \
	{ name "_at_least", field, AT_LEAST, takes, of },  \
	{                                                  \
		name "_at_most", field, AT_MOST, takes, of \
	}
#define YES_NO(yes, no, field, of)                    \
	{ "only_" yes, field, IS, T_NOTHING, of },    \
	{                                             \
		"only_" no, field, NOT, T_NOTHING, of \
	}
static const struct filter filters[] = {
	FOUR("only", F_SIZE, BOTH),
	TWO("only_address", F_ADDRESS, T_NUMBER, BOTH),
	{ "only_allocated_after_at_least", F_TIME, AT_LEAST, T_DURATION, BOTH },
	{ "only_allocated_until_at_most", F_TIME, AT_MOST, T_DURATION, BOTH },
	{ "only_deallocated_after_at_least", F_FREED, NOT_NEVER_AT_LEAST, T_DURATION, BOTH },
	{ "only_deallocated_until_at_most", F_FREED, NOT_NEVER_AT_MOST, T_DURATION, BOTH },
	{ "only_leaked_or_deallocated_after", F_FREED, AT_LEAST, T_DURATION, BOTH },
	TWO("only_alive_for", F_LIFETIME, T_DURATION, BOTH),
	{ "only_leaked", F_FREED, IS, T_NOTHING, BOTH },
	{ "only_temporary", F_FREED, NOT, T_NOTHING, BOTH },
	TWO("only_backtrace_length", F_DEPTH, T_NUMBER, BOTH),
	FOUR("only_first_size", F_FIRST_SIZE, BLOCKS),
	FOUR("only_last_size", F_LAST_SIZE, BLOCKS),
	TWO("only_chain_length", F_CHAIN_LENGTH, T_NUMBER, BLOCKS),
	TWO("only_chain_alive_for", F_CHAIN_LIFETIME, T_DURATION, BLOCKS),
	{ "only_chain_leaked", F_CHAIN_FREED, IS, T_NOTHING, BLOCKS },
	TWO("only_position_in_chain", F_POSITION, T_NUMBER, BLOCKS),
	TWO("only_group_allocations", F_GROUP_COUNT, T_NUMBER, BLOCKS),
	TWO("only_group_interval", F_GROUP_INTERVAL, T_SHARE_OF_RUN, BLOCKS),
	TWO("only_group_leaked_allocations", F_GROUP_LEAKED, T_SHARE_OF_GROUP, BLOCKS),
	TWO("only_group_max_total_usage_first_seen", F_GROUP_MOST, T_SHARE_OF_RUN, BLOCKS),
	YES_NO("ptmalloc_mmaped", "ptmalloc_not_mmaped", F_MMAPED, BLOCKS),
	YES_NO("ptmalloc_from_main_arena", "ptmalloc_not_from_main_arena", F_MAIN_ARENA, BLOCKS),
	YES_NO("readable", "not_readable", F_READABLE, MAPS),
	YES_NO("writable", "not_writable", F_WRITABLE, MAPS),
	YES_NO("executable", "not_executable", F_EXECUTABLE, MAPS),
	YES_NO("bytehound", "not_bytehound", F_NONE, MAPS),
};

static uint64_t number_check(lua_State *L, int at)
{
	double number = luaL_checknumber(L, at);
	if (lua_isinteger(L, at)) {
		lua_Integer whole = lua_tointegerx(L, at, NULL);
		return whole > 0 ? (uint64_t)whole : 0;
	}
	return number >= 1.8e19 ? UINT64_MAX : number > 0 ? (uint64_t)number : 0;
}

static const struct list *check_kind(lua_State *L, enum of of, const char *name)
{
	const struct list *list = list_check(L, 1);
	if (!(of & (list->of_maps ? MAPS : BLOCKS)))
		luaL_error(L, "'%s' is only for lists of %s", name,
			   list->of_maps ? "allocations" : "mappings");
	return list;
}

static int apply(lua_State *L)
{
	const struct filter *f = &filters[lua_tointeger(L, lua_upvalueindex(1))];
	const struct list *list = check_kind(L, f->of, f->name);
	struct sieve s = { .field = f->field, .max = UINT64_MAX };
	uint64_t value = 0;
	int is_least = f->compare == AT_LEAST || f->compare == LARGER;
	if (f->takes == T_SHARE_OF_GROUP && !lua_isinteger(L, 2)) {
		double share = luaL_checknumber(L, 2);
		s.is_share = 1;
		s.min_share = is_least ? share : -1;
		s.max_share = is_least ? 2 : share;
	} else if (f->takes == T_SHARE_OF_RUN && lua_isnumber(L, 2) && !lua_isinteger(L, 2)) {
		double share = luaL_checknumber(L, 2);
		value = share <= 0 ? 0 : (uint64_t)(share * (double)machine_of(L)->data->length_ns);
	} else if (f->takes == T_DURATION || f->takes == T_SHARE_OF_RUN) {
		int64_t ns = duration_check(L, 2);
		value = ns > 0 ? (uint64_t)ns : 0;
	} else if (f->takes != T_NOTHING) {
		value = number_check(L, 2);
	}
	switch (f->compare) {
	case LARGER:
		if (value == UINT64_MAX)
			s.max = 0;
		s.min = value == UINT64_MAX ? value : value + 1;
		break;
	case AT_LEAST:
		s.min = value;
		break;
	case SMALLER:
		s.min = value ? 0 : 1;
		s.max = value ? value - 1 : 0;
		break;
	case AT_MOST:
		s.max = value;
		break;
	case NOT_NEVER_AT_LEAST:
		s.min = value;
		s.max = BLOCK_NEVER - 1;
		break;
	case NOT_NEVER_AT_MOST:
		s.max = value < BLOCK_NEVER ? value : BLOCK_NEVER - 1;
		break;
	case IS:
		s.min = f->field == F_FREED || f->field == F_CHAIN_FREED ? BLOCK_NEVER : 1;
		break;
	case NOT:
		s.max = f->field == F_FREED ? BLOCK_NEVER - 1 : 0;
		break;
	}
	sift(L, list, &s);
	return 1;
}

/** only_jemalloc() - of blocks by the library that the process had, of mappings nobody's. */
static int only_jemalloc(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	int negative = lua_toboolean(L, lua_upvalueindex(1));
	struct sieve s = { .field = list->of_maps ? F_NONE : F_JEMALLOC,
			   .min = negative ? 0 : 1,
			   .max = negative ? 0 : UINT64_MAX };
	sift(L, list, &s);
	return 1;
}

/** only_alive_at() - at all of these moments: a table of durations, or one. */
static int only_alive_at(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	int is_table = lua_type(L, 2) == LUA_TTABLE;
	lua_Unsigned count = is_table ? lua_rawlen(L, 2) : 1;
	lua_settop(L, 2);
	lua_pushvalue(L, 1);
	for (lua_Unsigned i = 1; i <= count; i++) {
		if (is_table)
			lua_rawgeti(L, 2, (lua_Integer)i);
		else
			lua_pushvalue(L, 2);
		int64_t ns = duration_check(L, lua_gettop(L));
		uint64_t at = ns > 0 ? (uint64_t)ns : 0;
		struct sieve made = { .field = F_TIME, .max = at };
		lua_settop(L, -2);
		list = sift(L, list, &made);
		struct sieve freed = { .field = F_FREED, .min = at + 1, .max = UINT64_MAX };
		list = sift(L, list, &freed);
		lua_rotate(L, 3, 1); /* the newest stays, at 3 */
		lua_settop(L, 3);
	}
	return 1;
}

/** only_passing() - upvalues: through a source file instead of a function, negative. */
static int only_passing(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	struct err err = { 0 };
	uint8_t *mask = query_mask(machine_of(L)->data->names, luaL_checklstring(L, 2, NULL),
				   lua_toboolean(L, lua_upvalueindex(1)), &err);
	if (!mask)
		return luaL_error(L, "%s", err.msg);
	size_t count = prof_stack_count(machine_of(L)->data->names);
	memcpy(mask_push(L), mask, count); /* an error below must not lose it */
	free(mask);
	struct sieve s = { .stacks = lua_touserdata(L, -1),
			   .negative = lua_toboolean(L, lua_upvalueindex(2)) };
	sift(L, list, &s);
	return 1;
}

struct marking {
	uint8_t *mask;
	int of_frees;
};

static int mark_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct marking *m = ctx;
	(void)at;
	m->mask[m->of_frees ? row->free_stack : row->stack] = 1;
	return 0;
}

/**
 * mark() - the stacks of what stands at @at: a list, groups, a stack, a block, or a table of such.
 */
static void mark(lua_State *L, int at, struct marking *m, int depth)
{
	const struct trace *trace = luaL_testudata(L, at, TRACE_NAME);
	const struct item *item = luaL_testudata(L, at, ITEM_NAME);
	const struct groups *groups = luaL_testudata(L, at, GROUPS_NAME);
	const struct list *list = luaL_testudata(L, at, LIST_NAME);
	if (trace)
		m->mask[trace->stack] = 1;
	else if (item)
		mark_each(m, 0, &item->row);
	else if (list)
		list_each(L, list, mark_each, m);
	else if (groups)
		for (uint32_t i = 0; i < groups->count; i++)
			m->mask[groups->rows[i].stack] = 1;
	else if (lua_type(L, at) == LUA_TTABLE && depth < 4)
		for (lua_Unsigned i = 1; i <= lua_rawlen(L, at); i++) {
			lua_rawgeti(L, at, (lua_Integer)i);
			mark(L, lua_absindex(L, -1), m, depth + 1);
			lua_settop(L, -2);
		}
	else
		luaL_typeerror(L, at, "list, groups, backtrace or a table of them");
}

/** only_matching() - upvalues: of what freed, negative. */
static int only_matching(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	int of_frees = lua_toboolean(L, lua_upvalueindex(1));
	struct marking m = { mask_push(L), of_frees };
	mark(L, 2, &m, 0);
	m.mask[0] = of_frees ? 0 : m.mask[0];
	struct sieve s = { .stacks = m.mask,
			   .of_frees = of_frees,
			   .negative = lua_toboolean(L, lua_upvalueindex(2)) };
	sift(L, list, &s);
	return 1;
}

struct within {
	const struct script_data *data;
	const struct list *maps;
	struct list *to;
};

static int within_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct within *w = ctx;
	for (size_t i = 0; i < w->data->map_count; i++) {
		const struct block_row *map = &w->data->maps[i].row;
		if (!list_has(w->maps, i) || row->addr < map->addr ||
		    row->addr - map->addr >= map->bytes || row->time_ns < map->time_ns ||
		    row->time_ns >= map->freed_ns)
			continue;
		w->to->bits[at / 8] |= (uint8_t)(1u << at % 8);
		w->to->count++;
		return 0;
	}
	return 0;
}

/**
 * only_from_maps() - blocks that lie in one of these mappings, which was there when they were made.
 */
static int only_from_maps(lua_State *L)
{
	const struct list *list = check_kind(L, BLOCKS, "only_from_maps");
	struct within w = { .data = machine_of(L)->data, .maps = list_check(L, 2) };
	if (!w.maps->of_maps)
		return luaL_argerror(L, 2, "a list of mappings");
	w.to = list_push(L, 0);
	list_each(L, list, within_each, &w);
	return 1;
}

static int not_recorded(lua_State *L)
{
	return luaL_error(L, "'%s': recordings do not hold that",
			  lua_tolstring(L, lua_upvalueindex(1), NULL));
}

/* ---- sets ------------------------------------------------------------------------------------ */

static int combine(lua_State *L)
{
	const struct list *a = list_check(L, 1), *b = list_check(L, 2);
	char how = *lua_tolstring(L, lua_upvalueindex(1), NULL);
	if (a->of_maps != b->of_maps)
		return luaL_error(L, "a list of allocations and one of mappings");
	struct list *to = list_push(L, a->of_maps);
	for (uint64_t i = 0; i <= a->rows / 8; i++)
		to->bits[i] = how == '+'   ? a->bits[i] | b->bits[i]
			      : how == '-' ? (uint8_t)(a->bits[i] & ~b->bits[i])
					   : a->bits[i] & b->bits[i];
	list_count(to);
	return 1;
}

static int list_len(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)list_check(L, 1)->count);
	return 1;
}

/** struct place - where a row lies, sorted by its allocation's number. */
struct place {
	uint64_t id, at;
};
struct collect {
	struct place *to;
	uint64_t count;
};

static int collect_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct collect *c = ctx;
	c->to[c->count++] = (struct place){ row->id, at };
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/**
 * places_of() - all rows of the list at 1 in the order of their allocation, made at the first look.
 */
static const struct place *places_of(lua_State *L, const struct list *list)
{
	if (lua_getiuservalue(L, 1, 1) != LUA_TUSERDATA) {
		if (list->count > WALK_MAX)
			luaL_error(L,
				   "a list of %I rows is too long to be gone through one by one "
				   "(at most %d): narrow it, or group it",
				   (LUAI_UACINT)list->count, WALK_MAX);
		lua_settop(L, -2);
		struct collect c = {
			lua_newuserdatauv(L, ((size_t)list->count + 1) * sizeof(*c.to), 0), 0
		};
		list_each(L, list, collect_each, &c);
		qsort(c.to, (size_t)c.count, sizeof(*c.to), by_id);
		lua_pushvalue(L, -1);
		lua_setiuservalue(L, 1, 1);
	}
	const struct place *places = lua_touserdata(L, -1);
	lua_settop(L, -2);
	return places;
}

static void push_row(lua_State *L, const struct list *list, uint64_t at)
{
	const struct script_data *data = machine_of(L)->data;
	struct block_row row;
	struct err err = { 0 };
	if (list->of_maps)
		row = data->maps[at].row;
	else if (blocks_read(data->blocks, at, &row, &err) < 0)
		luaL_error(L, "%s", err.msg);
	item_push(L, &row);
}

/** list_index() - a number: that block, from 1 on; a word: a method. */
static int list_index(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	if (!lua_isinteger(L, 2)) {
		lua_pushvalue(L, 2);
		lua_rawget(L, lua_upvalueindex(1));
		return 1;
	}
	lua_Integer n = lua_tointegerx(L, 2, NULL);
	if (n < 1 || (uint64_t)n > list->count)
		return 0;
	push_row(L, list, places_of(L, list)[n - 1].at);
	return 1;
}

static int iterate(lua_State *L)
{
	const struct list *list = luaL_checkudata(L, lua_upvalueindex(1), LIST_NAME);
	lua_Integer n = lua_tointegerx(L, lua_upvalueindex(2), NULL);
	lua_settop(L, 0);
	if ((uint64_t)n >= list->count)
		return 0;
	lua_pushvalue(L, lua_upvalueindex(1));
	uint64_t at = places_of(L, list)[n].at;
	lua_pushinteger(L, n + 1);
	lua_copy(L, -1, lua_upvalueindex(2));
	push_row(L, list, at);
	return 1;
}

static int list_iterate(lua_State *L)
{
	list_check(L, 1);
	lua_settop(L, 1);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, iterate, 2);
	return 1;
}

static int list_text(lua_State *L)
{
	const struct list *list = list_check(L, 1);
	lua_pushfstring(L, "%I %s", (LUAI_UACINT)list->count,
			list->of_maps ? "mappings" : "allocations");
	return 1;
}

struct summing {
	uint64_t bytes;
};

static int sum_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct summing *s = ctx;
	(void)at;
	sum_add(&s->bytes, row->bytes);
	return 0;
}

static int list_size(lua_State *L)
{
	struct summing s = { 0 };
	list_each(L, list_check(L, 1), sum_each, &s);
	lua_pushinteger(L, s.bytes > INT64_MAX ? INT64_MAX : (lua_Integer)s.bytes);
	return 1;
}

static int whole(lua_State *L)
{
	struct list *list = list_push(L, lua_toboolean(L, lua_upvalueindex(1)));
	memset(list->bits, 0xff, (size_t)(list->rows / 8));
	list->bits[list->rows / 8] = (uint8_t)((1u << list->rows % 8) - 1);
	list->count = list->rows;
	return 1;
}

static int runtime(lua_State *L)
{
	duration_push(L, (int64_t)machine_of(L)->data->length_ns);
	return 1;
}

static int data_of(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	return 1;
}

void lists_open(lua_State *L)
{
	static const luaL_Reg plain[] = { { "len", list_len },
					  { "size", list_size },
					  { "iter", list_iterate },
					  { "only_alive_at", only_alive_at },
					  { "only_from_maps", only_from_maps },
					  { "save_as_graph", graph_of_list },
					  { "save_as_flamegraph", flame_of_list },
					  { NULL, NULL } };
	static const struct {
		const char *name;
		lua_CFunction function;
		int first, second;
	} pairs[] = {
		{ "only_passing_through_function", only_passing, 0, 0 },
		{ "only_not_passing_through_function", only_passing, 0, 1 },
		{ "only_passing_through_source", only_passing, 1, 0 },
		{ "only_not_passing_through_source", only_passing, 1, 1 },
		{ "only_matching_backtraces", only_matching, 0, 0 },
		{ "only_not_matching_backtraces", only_matching, 0, 1 },
		{ "only_matching_deallocation_backtraces", only_matching, 1, 0 },
		{ "only_not_matching_deallocation_backtraces", only_matching, 1, 1 },
		{ "only_jemalloc", only_jemalloc, 0, 0 },
		{ "only_not_jemalloc", only_jemalloc, 1, 0 },
	};
	static const char *const missing[] = { "only_with_marker", "only_peak_rss_larger",
					       "only_peak_rss_larger_or_equal",
					       "only_peak_rss_smaller",
					       "only_peak_rss_smaller_or_equal" };
	static const char *const sets[][2] = { { "__add", "+" },
					       { "__sub", "-" },
					       { "__band", "&" } };
	luaL_newmetatable(L, LIST_NAME);
	lua_createtable(L, 0, 128); /* the methods, at 2 */
	luaL_setfuncs(L, plain, 0);
	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		lua_pushinteger(L, (lua_Integer)i);
		lua_pushcclosure(L, apply, 1);
		lua_setfield(L, 2, filters[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		lua_pushboolean(L, pairs[i].first);
		lua_pushboolean(L, pairs[i].second);
		lua_pushcclosure(L, pairs[i].function, 2);
		lua_setfield(L, 2, pairs[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
		lua_pushstring(L, missing[i]);
		lua_pushcclosure(L, not_recorded, 1);
		lua_setfield(L, 2, missing[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		lua_pushstring(L, sets[i][1]);
		lua_pushcclosure(L, combine, 1);
		lua_setfield(L, 1, sets[i][0]);
	}
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, list_index, 1);
	lua_setfield(L, 1, "__index");
	static const luaL_Reg meta[] = { { "__len", list_len },
					 { "__call", list_iterate },
					 { "__tostring", list_text },
					 { NULL, NULL } };
	lua_pushvalue(L, 1);
	luaL_setfuncs(L, meta, 0);
	lua_pushboolean(L, 0);
	lua_setfield(L, 1, "__metatable");
	lua_settop(L, 2);
	lua_setglobal(L, "_list_methods"); /* groups_open() adds to them, and takes the name away */
	lua_settop(L, 0);
	lua_createtable(L, 0, 3); /* data() */
	for (int maps = 0; maps < 2; maps++) {
		lua_pushboolean(L, maps);
		lua_pushcclosure(L, whole, 1);
		lua_pushvalue(L, -1);
		lua_setglobal(L, maps ? "maps" : "allocations");
		lua_setfield(L, 1, maps ? "maps" : "allocations");
	}
	lua_pushcclosure(L, runtime, 0);
	lua_setfield(L, 1, "runtime");
	lua_pushcclosure(L, data_of, 1);
	lua_setglobal(L, "data");
	lua_settop(L, 0);
}
