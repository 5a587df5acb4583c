/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - pictures of lists over time: stacked areas, each without what an earlier one shows. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "script/machine.h"

#define SERIES_MAX 48
#define POINTS 600
#define WIDTH 1200
#define HEIGHT 480
#define LEFT 84
#define RIGHT 16
#define TOP 16
#define BOTTOM 40

enum mode { MODE_MEMORY, MODE_LIVE, MODE_NEW, MODE_FREED, MODE_RSS, MODE_SPACE };

struct series {
	char name[80];
	/* only its blocks; UINT32_MAX: all of the list */
	uint32_t stack;
};
/** struct graph - its first user value is a table: series n's list at n. */
struct graph {
	enum mode mode;
	int trim_left, trim_right, only_non_empty, no_axes, no_grid, no_legend;
	int has_start, has_end;
	uint64_t start_ns, end_ns;
	int has_gradient;
	uint32_t from_colour, to_colour;
	uint32_t count, saved;
	struct series series[SERIES_MAX];
};

static struct graph *graph_check(lua_State *L)
{
	return luaL_checkudata(L, 1, GRAPH_NAME);
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static int new_graph(lua_State *L)
{
	struct graph *g = lua_newuserdatauv(L, sizeof(*g), 1);
	memset(g, 0, sizeof(*g));
	lua_createtable(L, SERIES_MAX, 0);
	lua_setiuservalue(L, -2, 1);
	luaL_setmetatable(L, GRAPH_NAME);
	return 1;
}

/** add_series() - the list on top of the stack, which is taken. */
static void add_series(lua_State *L, struct graph *g, const char *name, uint32_t stack)
{
	if (g->count == SERIES_MAX)
		luaL_error(L, "a graph has at most %d series", SERIES_MAX);
	struct series *s = &g->series[g->count++];
	if (name)
		snprintf(s->name, sizeof(s->name), "%s", name);
	else
		snprintf(s->name, sizeof(s->name), "Series #%u", g->count);
	s->stack = stack;
	lua_getiuservalue(L, 1, 1);
	lua_rotate(L, -2, 1);
	lua_rawseti(L, -2, g->count);
	lua_settop(L, -2);
}

static int add(lua_State *L)
{
	struct graph *g = graph_check(L);
	int at = lua_type(L, 2) == LUA_TSTRING ? 3 : 2;
	const char *name = at == 3 ? luaL_checklstring(L, 2, NULL) : NULL;
	struct groups *groups = luaL_testudata(L, at, GROUPS_NAME);
	if (!groups) {
		list_check(L, at);
		lua_pushvalue(L, at);
		add_series(L, g, name, UINT32_MAX);
		lua_settop(L, 1);
		return 1;
	}
	uint32_t room = SERIES_MAX - g->count, single = groups->count;
	if (single > room)
		single = room ? room - 1 : 0;
	for (uint32_t i = 0; i < single; i++) {
		char text[80];
		snprintf(text, sizeof(text), "%s#%u", name ? name : "Group ", i + 1);
		lua_getiuservalue(L, at, 1);
		add_series(L, g, text, groups->rows[i].stack);
	}
	if (single <
	    groups->count) { /* the rest is one; series before it are left out when it is drawn */
		lua_getiuservalue(L, at, 1);
		const struct list *list = list_check(L, lua_gettop(L));
		uint8_t *mask = mask_push(L);
		for (uint32_t i = single; i < groups->count; i++)
			mask[groups->rows[i].stack] = 1;
		list_of_stacks(L, list, mask);
		add_series(L, g, "the others", UINT32_MAX);
	}
	lua_settop(L, 1);
	return 1;
}

static int set_mode(lua_State *L)
{
	graph_check(L)->mode = (enum mode)lua_tointeger(L, lua_upvalueindex(1));
	lua_settop(L, 1);
	return 1;
}

static int set_flag(lua_State *L)
{
	struct graph *g = graph_check(L);
	switch (lua_tointeger(L, lua_upvalueindex(1))) {
	case 0:
		g->trim_left = g->trim_right = 1;
		break;
	case 1:
		g->trim_left = 1;
		break;
	case 2:
		g->trim_right = 1;
		break;
	case 3:
		g->only_non_empty = 1;
		break;
	case 4:
		g->no_axes = 1;
		break;
	case 5:
		g->no_grid = 1;
		break;
	default:
		g->no_legend = 1;
	}
	lua_settop(L, 1);
	return 1;
}

static int start_at(lua_State *L)
{
	struct graph *g = graph_check(L);
	int64_t ns = duration_check(L, 2);
	g->has_start = 1;
	g->start_ns = ns > 0 ? (uint64_t)ns : 0;
	lua_settop(L, 1);
	return 1;
}

static int end_at(lua_State *L)
{
	struct graph *g = graph_check(L);
	int64_t ns = duration_check(L, 2);
	g->has_end = 1;
	g->end_ns = ns > 0 ? (uint64_t)ns : 0;
	lua_settop(L, 1);
	return 1;
}

static uint32_t colour_check(lua_State *L, int at)
{
	const char *text = luaL_checklstring(L, at, NULL);
	char *end;
	text += *text == '#';
	unsigned long value = strtoul(text, &end, 16);
	if (end - text != 6 || *end)
		luaL_argerror(L, at, "a colour is written #rrggbb");
	return (uint32_t)value;
}

static int with_gradient(lua_State *L)
{
	struct graph *g = graph_check(L);
	g->has_gradient = 1;
	g->from_colour = colour_check(L, 2);
	g->to_colour = colour_check(L, 3);
	lua_settop(L, 1);
	return 1;
}

/* ---- what is drawn --------------------------------------------------------------------------- */

struct drawing {
	const struct graph *g;
	const struct list *lists[SERIES_MAX];
	/* ns */
	uint64_t from, to;
	/* of what happens to blocks of any series */
	uint64_t first, last;
	uint64_t rows[SERIES_MAX];
	/* by series */
	int64_t (*deltas)[POINTS + 1];
	uint64_t at;
	/* only for @first, @last */
	int looks;
};

static size_t point_of(const struct drawing *d, uint64_t ns)
{
	if (ns <= d->from)
		return 0;
	uint64_t span = d->to > d->from ? d->to - d->from : 1;
	if (ns - d->from >= span)
		return POINTS;
	return (size_t)((__uint128_t)(ns - d->from) * POINTS / span);
}

static void draw_row(struct drawing *d, uint64_t at, const struct block_row *r)
{
	uint32_t i = 0;
	for (; i < d->g->count; i++)
		if ((d->g->series[i].stack == UINT32_MAX || d->g->series[i].stack == r->stack) &&
		    list_has(d->lists[i], at))
			break;
	if (i == d->g->count)
		return;
	int never = r->freed_ns == BLOCK_NEVER;
	if (d->looks) {
		uint64_t last = never ? r->time_ns : r->freed_ns;
		d->first = r->time_ns < d->first ? r->time_ns : d->first;
		d->last = last > d->last ? last : d->last;
		return;
	}
	d->rows[i]++;
	int64_t worth =
		d->g->mode == MODE_MEMORY || d->g->mode == MODE_SPACE ? (int64_t)r->bytes : 1;
	if (d->g->mode == MODE_NEW) {
		if (r->time_ns >= d->from && r->time_ns <= d->to)
			d->deltas[i][point_of(d, r->time_ns)]++;
	} else if (d->g->mode == MODE_FREED) {
		if (!never && r->freed_ns >= d->from && r->freed_ns <= d->to)
			d->deltas[i][point_of(d, r->freed_ns)]++;
	} else if (r->time_ns <= d->to && (never || r->freed_ns > d->from)) {
		d->deltas[i][point_of(d, r->time_ns)] += worth;
		if (!never && r->freed_ns <= d->to)
			d->deltas[i][point_of(d, r->freed_ns)] -= worth;
	}
}

static int draw_rows(void *ctx, const struct block_row *rows, size_t count)
{
	struct drawing *d = ctx;
	for (size_t i = 0; i < count; i++)
		draw_row(d, d->at++, &rows[i]);
	return 0;
}

static void draw_all(lua_State *L, struct drawing *d)
{
	const struct script_data *data = machine_of(L)->data;
	struct err err = { 0 };
	int maps = d->g->count && d->lists[0]->of_maps;
	d->at = 0;
	if (!maps && blocks_scan(data->blocks, draw_rows, d, &err) < 0)
		luaL_error(L, "%s", err.msg);
	for (size_t i = 0; maps && i < data->map_count; i++)
		draw_row(d, i, &data->maps[i].row);
}

/** draw_rss() - what the whole process had: of single blocks and mappings it is not recorded. */
static void draw_rss(lua_State *L, struct drawing *d)
{
	size_t count;
	const struct prof_point *points = prof_timeline(machine_of(L)->data->names, &count);
	int64_t now = 0;
	size_t next = 0;
	for (size_t i = 0; i <= POINTS; i++) {
		uint64_t at = d->from + (uint64_t)((__uint128_t)(d->to - d->from) * i / POINTS);
		int64_t before = now;
		for (; next < count && points[next].time_ns <= at; next++)
			now = points[next].rss_bytes ? (int64_t)points[next].rss_bytes : now;
		d->deltas[0][i] = now - before;
	}
	d->rows[0] = 1;
}

static void put_xml(struct buf *to, const char *text)
{
	for (size_t len = strlen(text), step; len; text += step, len -= step) {
		unsigned char c = (unsigned char)*text;
		step = utf8_len(text, len);
		if (!step || c < ' ' || c == 0x7f)
			buf_puts(to, "\xef\xbf\xbd");
		else if (c == '&' || c == '<' || c == '>' || c == '"')
			buf_printf(to, "&#%d;", c);
		else
			buf_put(to, text, step);
		step = step ? step : 1;
	}
}

static void put_value(struct buf *to, const struct graph *g, double value)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	int bytes = g->mode == MODE_MEMORY || g->mode == MODE_RSS || g->mode == MODE_SPACE;
	for (; bytes && value >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
		value /= 1024;
	buf_printf(to, "%.3g%s%s", value, bytes ? " " : "", bytes ? units[unit] : "");
}

static uint32_t colour_of(const struct graph *g, uint32_t i, uint32_t count)
{
	static const uint32_t colours[] = { 0x7dc3fc, 0x3e996e, 0xfdc408, 0x9b62fd,
					    0x7b8396, 0xec4a09, 0xcbecb6, 0xb6b6b6 };
	if (!g->has_gradient)
		return colours[i % ARRAY_LEN(colours)];
	uint32_t mixed = 0;
	for (int shift = 0; shift < 24; shift += 8) {
		int a = g->from_colour >> shift & 0xff, b = g->to_colour >> shift & 0xff;
		int value = count > 1 ? a + (b - a) * (int)i / (int)(count - 1) : a;
		mixed |= (uint32_t)value << shift;
	}
	return mixed;
}

static double x_of(const struct graph *g, double point)
{
	double left = g->no_axes ? 0 : LEFT, right = g->no_axes ? WIDTH : WIDTH - RIGHT;
	return left + (right - left) * point / POINTS;
}

static double y_of(const struct graph *g, double value, double most)
{
	double bottom = g->no_axes ? HEIGHT : HEIGHT - BOTTOM, top = g->no_axes ? 0 : TOP;
	return bottom - (bottom - top) * (most > 0 ? value / most : 0);
}

static void put_axes(struct buf *to, const struct drawing *d, double most)
{
	const struct graph *g = d->g;
	for (int i = 0; i <= 4; i++) {
		double y = y_of(g, most * i / 4, most), x = x_of(g, POINTS * i / 4.0);
		if (!g->no_grid)
			buf_printf(to, "<path class=\"g\" d=\"M%.1f %.1fH%.1fM%.1f %dV%d\"/>\n",
				   x_of(g, 0), y, x_of(g, POINTS), x, TOP, HEIGHT - BOTTOM);
		buf_printf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 6, y + 4);
		put_value(to, g, most * i / 4);
		buf_printf(to,
			   "</text>\n<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%.3f s</text>\n",
			   x, HEIGHT - BOTTOM + 18, i == 4 ? "end" : "middle",
			   ((double)d->from + (double)(d->to - d->from) / 4 * i) / 1e9);
	}
}

/** put_svg() - series from the last one up, for each is drawn over the sum of those below it. */
static void put_svg(struct buf *to, const struct drawing *d, uint32_t count)
{
	const struct graph *g = d->g;
	static double sum[POINTS + 1], below[SERIES_MAX + 1][POINTS + 1]; /* one script a process */
	int rates = g->mode == MODE_NEW || g->mode == MODE_FREED;
	double most = 0;
	memset(sum, 0, sizeof(sum));
	for (uint32_t i = 0; i < count; i++) {
		int64_t now = 0;
		for (size_t k = 0; k <= POINTS; k++) {
			now = rates ? d->deltas[i][k] : now + d->deltas[i][k];
			below[i][k] = sum[k];
			sum[k] += (double)now;
			most = sum[k] > most ? sum[k] : most;
		}
	}
	memcpy(below[count], sum, sizeof(sum));
	buf_printf(
		to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 "
		"0 %d "
		"%d\">\n<style>text{font:12px system-ui,sans-serif;fill:#14181f}.g{stroke:#d5d9e0;"
		"fill:none}</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
	for (uint32_t i = 0; i < count; i++) {
		if (!d->rows[i])
			continue;
		buf_printf(to, "<path fill=\"#%06x\" d=\"M", colour_of(g, i, count));
		for (size_t k = 0; k <= POINTS; k++)
			buf_printf(to, "%s%.1f %.1f", k ? "L" : "", x_of(g, (double)k),
				   y_of(g, below[i + 1][k], most));
		for (size_t k = POINTS + 1; k-- > 0;)
			buf_printf(to, "L%.1f %.1f", x_of(g, (double)k),
				   y_of(g, below[i][k], most));
		buf_puts(to, "Z\"><title>");
		put_xml(to, g->series[i].name);
		buf_puts(to, "</title></path>\n");
	}
	if (!g->no_axes)
		put_axes(to, d, most);
	for (uint32_t i = 0, row = 0; i < count && !g->no_legend && row < 24; i++) {
		if (g->only_non_empty && !d->rows[i])
			continue;
		double y = TOP + 8 + 17.0 * row++;
		buf_printf(to,
			   "<rect x=\"%d\" y=\"%.0f\" width=\"11\" height=\"11\" "
			   "fill=\"#%06x\"/><text "
			   "x=\"%d\" y=\"%.0f\">",
			   LEFT + 8, y, colour_of(g, i, count), LEFT + 24, y + 10);
		put_xml(to, g->series[i].name);
		buf_puts(to, "</text>\n");
	}
	buf_puts(to, "</svg>\n");
}

/** draw() - @only: that series alone, UINT32_MAX: all. */
static void draw(lua_State *L, const struct graph *whole, int lists_at, uint32_t only,
		 const char *name)
{
	struct machine *m = machine_of(L);
	struct graph g = *whole;
	struct drawing d = { .g = &g, .first = UINT64_MAX };
	int top = lua_gettop(L);
	if (only != UINT32_MAX) {
		g.series[0] = whole->series[only];
		g.count = 1;
	}
	for (uint32_t i = 0; i < g.count; i++) {
		lua_rawgeti(L, lists_at, (lua_Integer)(only == UINT32_MAX ? i : only) + 1);
		d.lists[i] = luaL_checkudata(L, -1, LIST_NAME);
		if (d.lists[i]->of_maps != d.lists[0]->of_maps)
			luaL_error(L, "a graph shows lists of allocations, or of mappings");
		lua_settop(L, top); /* the graph's table holds it */
	}
	d.deltas = lua_newuserdatauv(L, SERIES_MAX * sizeof(*d.deltas), 0);
	memset(d.deltas, 0, SERIES_MAX * sizeof(*d.deltas));
	d.to = m->data->length_ns;
	if (g.trim_left || g.trim_right) {
		d.looks = 1;
		draw_all(L, &d);
		d.looks = 0;
		if (d.first <= d.last) {
			d.from = g.trim_left ? d.first : 0;
			d.to = g.trim_right ? d.last : d.to;
		}
	}
	d.from = g.has_start ? g.start_ns : d.from;
	d.to = g.has_end && g.end_ns < d.to ? g.end_ns : d.to;
	if (d.to <= d.from)
		d.to = d.from + 1;
	if (g.mode == MODE_RSS) {
		g.count = 1;
		snprintf(g.series[0].name, sizeof(g.series[0].name), "RSS of the process");
		draw_rss(L, &d);
	} else {
		draw_all(L, &d);
	}
	struct buf svg = { 0 };
	put_svg(&svg, &d, g.count);
	if (!buf_failed(&svg))
		picture_save(m, name, "Graph", svg.data, svg.len);
	buf_fini(&svg);
	lua_settop(L, top);
}

static int save(lua_State *L)
{
	const struct graph *g = graph_check(L);
	const char *name = luaL_optlstring(L, 2, NULL, NULL);
	lua_getiuservalue(L, 1, 1);
	draw(L, g, lua_gettop(L), UINT32_MAX, name);
	lua_settop(L, 1);
	return 1;
}

static int save_each(lua_State *L)
{
	const struct graph *g = graph_check(L);
	int flames = lua_toboolean(L, lua_upvalueindex(1));
	const char *folder = luaL_optlstring(L, 2, NULL, NULL);
	lua_getiuservalue(L, 1, 1);
	int lists = lua_gettop(L);
	for (uint32_t i = 0; i < g->count; i++) {
		char name[256];
		snprintf(name, sizeof(name), "%s%s%s.svg", folder ? folder : "", folder ? "/" : "",
			 g->series[i].name);
		if (!flames) {
			draw(L, g, lists, i, name);
			continue;
		}
		lua_rawgeti(L, lists, (lua_Integer)i + 1);
		const struct list *list = list_check(L, lua_gettop(L));
		if (g->series[i].stack != UINT32_MAX) {
			uint8_t *mask = mask_push(L);
			mask[g->series[i].stack] = 1;
			list = list_of_stacks(L, list, mask);
		}
		flame_save(L, list, name);
		lua_settop(L, lists);
	}
	lua_settop(L, 1);
	return 1;
}

int graph_of_list(lua_State *L)
{
	list_check(L, 1);
	const char *name = luaL_optlstring(L, 2, NULL, NULL);
	struct graph g = { .count = 1, .series = { { "Allocations", UINT32_MAX } } };
	lua_createtable(L, 1, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 1);
	draw(L, &g, lua_gettop(L), UINT32_MAX, name);
	lua_settop(L, 1);
	return 1;
}

void graph_open(lua_State *L)
{
	static const char *const modes[] = { [MODE_MEMORY] = "show_memory_usage",
					     [MODE_LIVE] = "show_live_allocations",
					     [MODE_NEW] = "show_new_allocations",
					     [MODE_FREED] = "show_deallocations",
					     [MODE_RSS] = "show_rss",
					     [MODE_SPACE] = "show_address_space" };
	static const char *const flags[] = { "trim",          "trim_left",
					     "trim_right",    "only_non_empty_series",
					     "without_axes",  "without_grid",
					     "without_legend" };
	static const luaL_Reg plain[] = {
		{ "add", add },       { "start_at", start_at },
		{ "end_at", end_at }, { "with_gradient_color_scheme", with_gradient },
		{ "save", save },     { NULL, NULL }
	};
	luaL_newmetatable(L, GRAPH_NAME);
	lua_createtable(L, 0, 24);
	luaL_setfuncs(L, plain, 0);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		lua_pushinteger(L, (lua_Integer)i);
		lua_pushcclosure(L, set_mode, 1);
		lua_setfield(L, -2, modes[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		lua_pushinteger(L, (lua_Integer)i);
		lua_pushcclosure(L, set_flag, 1);
		lua_setfield(L, -2, flags[i]);
	}
	for (int i = 0; i < 2; i++) {
		lua_pushboolean(L, i);
		lua_pushcclosure(L, save_each, 1);
		lua_setfield(L, -2,
			     i ? "save_each_series_as_flamegraph" : "save_each_series_as_graph");
	}
	lua_setfield(L, -2, "__index");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_settop(L, 0);
	lua_pushcclosure(L, new_graph, 0);
	lua_setglobal(L, "graph");
}
