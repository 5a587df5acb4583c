/* SPDX-License-Identifier: Apache-2.0 */
/* heap_draw.c - a heap's screens as cells. Widths: 80 columns show changes, 120 blocks besides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tui/heap_internal.h"

#define VALUE 9
#define CHANGE 10
#define SHARE 8
#define SPARK 16
#define COLUMNS_LEAST 60
#define ROWS_LEAST 12
#define FIXED_ROWS 5 /* two above, the columns' heads, two below */

static const char *const cost_heads[] = { "PEAK", "CALLS", "BYTES", "TEMP", "LEAKED", "LIVE" };

static const char *figure(char to[TEXT_NUMBER_MAX], enum view_cost cost, uint64_t value)
{
	return cost == VIEW_COST_ALLOCATIONS || cost == VIEW_COST_TEMPORARY ? text_count(to, value)
									    : text_bytes(to, value);
}

static const char *change_of(char to[TEXT_NUMBER_MAX], enum view_cost cost, uint64_t before,
			     uint64_t after)
{
	char value[TEXT_NUMBER_MAX];
	if (after == before)
		return "0";
	snprintf(to, TEXT_NUMBER_MAX, "%c%.*s", after > before ? '+' : '-', TEXT_NUMBER_MAX - 2,
		 figure(value, cost, after > before ? after - before : before - after));
	return to;
}

/* The last @columns stretches of the timeline, each with its highest. */
static void put_spark(const struct heap_view *v, struct grid *grid, unsigned column,
		      unsigned columns)
{
	size_t count;
	const struct prof_point *points = prof_timeline(v->prof, &count);
	uint64_t high[SPARK] = { 0 }, end = v->time_ns ? v->time_ns : v->totals.runtime_ns;
	if (!count || !end || grid->ascii)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t at =
			points[i].time_ns < end
				? (uint64_t)((double)points[i].time_ns / (double)end * columns)
				: columns - 1;
		at = at < columns ? at : columns - 1;
		if (points[i].heap_max_bytes > high[at])
			high[at] = points[i].heap_max_bytes;
	}
	for (unsigned i = 1; i < columns; i++)
		high[i] = high[i] ? high[i] : high[i - 1]; /* nothing happened there */
	grid_spark(grid, 0, column, columns, high, columns);
}

static void put_first_line(const struct heap_view *v, struct grid *grid)
{
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	size_t count;
	const struct prof_point *points = prof_timeline(v->prof, &count);
	uint64_t rss = count ? points[count - 1].rss_bytes : 0;
	unsigned right = grid->columns;
	if (v->remark[0]) {
		unsigned width = grid_width(grid, v->remark), most = grid->columns / 3;
		right = grid->columns - (width < most ? width : most);
		grid_put(grid, 0, right, most, GRID_PLAIN, v->remark);
	}
	unsigned at = grid_put(grid, 0, 0, 11, GRID_BOLD, "byteledger");
	at += 1 + grid_put(grid, 0, at + 1, grid->columns / 3, GRID_BOLD, v->opt.title);
	if (rss)
		buf_printf(&text, "  RSS %s", text_bytes(x, rss));
	buf_printf(&text, "  heap %s",
		   text_bytes(x, view_cost_of(&v->totals.cost, VIEW_COST_LIVE)));
	at += grid_put(grid, 0, at, right > at ? right - at : 0, GRID_PLAIN, buf_cstr(&text));
	if (at + SPARK + 12 < right) {
		put_spark(v, grid, at + 1, SPARK);
		at += SPARK + 1;
	}
	if (v->totals.lost_events) {
		buf_clear(&text);
		buf_printf(&text, "  lost %s", text_count(x, v->totals.lost_events));
		grid_put(grid, 0, at, right > at ? right - at : 0, GRID_WARN, buf_cstr(&text));
	}
}

static const char *by_name(enum view_by by)
{
	static const char *const names[] = {
		"stack", "function", "module", "file", "line", "thread"
	};
	return names[by];
}

static void put_second_line(const struct heap_view *v, struct grid *grid)
{
	static const char *const sorts[] = { "", " · by self", " · by change", " · by name" };
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	buf_printf(&text, "%s · %s%s · %s%s", view_cost_name(v->opt.cost), by_name(v->opt.by),
		   v->screen == HEAP_TREE && v->opt.inverted ? ", inverted" : "", v->opt.when,
		   v->screen == HEAP_TABLE ? sorts[v->sort] : "");
	unsigned used = grid_put(grid, 1, 0, grid->columns, v->holds ? GRID_WARN : GRID_PLAIN,
				 buf_cstr(&text));
	if (v->holds)
		used += grid_put(grid, 1, used, grid->columns - used, GRID_WARN,
				 " · held: Space goes on");
	buf_clear(&text);
	buf_printf(&text, "of %s", figure(x, v->opt.cost, v->whole));
	grid_put_right(grid, 1, grid->columns, grid->columns > used ? grid->columns - used : 0,
		       GRID_PLAIN, buf_cstr(&text));
}

/* Where each column ends; 0: it is left out. */
struct layout {
	unsigned total, share, self, change, blocks, name;
};

static struct layout lay_out(const struct heap_view *v, const struct grid *grid)
{
	struct layout l = { .total = VALUE };
	unsigned end = VALUE;
	l.share = grid->columns >= 80 ? end += SHARE : 0;
	l.self = grid->columns >= 80 ? end += VALUE + 1 : 0;
	l.change = grid->columns >= 80 &&v->has_before ? end += CHANGE + 1 : 0;
	l.blocks = grid->columns >= 120 ? end += VALUE + 1 : 0;
	l.name = end + 1;
	return l;
}

static void put_heads(const struct heap_view *v, struct grid *grid, const struct layout *l)
{
	char change[32], x[TEXT_NUMBER_MAX];
	grid_put_right(grid, 2, l->total, VALUE, GRID_PLAIN, cost_heads[v->opt.cost]);
	if (l->share)
		grid_put_right(grid, 2, l->share, SHARE, GRID_PLAIN, "%");
	if (l->self)
		grid_put_right(grid, 2, l->self, VALUE, GRID_PLAIN, "SELF");
	if (l->change) {
		snprintf(change, sizeof(change), "+- %.*s", 24,
			 text_duration(x,
				       v->time_ns > v->before_ns ? v->time_ns - v->before_ns : 0));
		grid_put_right(grid, 2, l->change, CHANGE, GRID_PLAIN, change);
	}
	if (l->blocks)
		grid_put_right(grid, 2, l->blocks, VALUE, GRID_PLAIN, "BLOCKS");
	grid_put(grid, 2, l->name, grid->columns - l->name, GRID_PLAIN,
		 v->opt.by == VIEW_BY_FUNCTION ? "FUNCTION"
		 : v->opt.by == VIEW_BY_MODULE ? "MODULE"
		 : v->opt.by == VIEW_BY_FILE   ? "FILE"
					       : "LINE");
	grid_style_row(grid, 2, GRID_HEAD);
}

static unsigned put_guides(const struct heap_row *row, struct grid *grid, unsigned line,
			   unsigned column)
{
	unsigned at = column, depth = row->depth < 64 ? row->depth : 64;
	/* what is deep in the tree keeps its name on the screen */
	unsigned from = depth > 24 ? depth - 24 : 0;
	if (from)
		at += grid_put(grid, line, at, 2, GRID_FAINT, grid->ascii ? ".." : "…");
	for (unsigned d = from; d < depth; d++) {
		const char *guide = d + 1 == depth ? (row->last ? (grid->ascii ? "`" : "└")
								: (grid->ascii ? "|" : "├"))
				    : row->guides >> (d + 1) & 1 ? (grid->ascii ? "|" : "│")
								 : " ";
		at += grid_put(grid, line, at, 1, GRID_FAINT, guide);
	}
	at += grid_put(grid, line, at, 2, GRID_PLAIN,
		       !row->opens    ? "  "
		       : row->is_open ? (grid->ascii ? "v " : "▾ ")
				      : (grid->ascii ? "> " : "▸ "));
	return at;
}

static void put_row(const struct heap_view *v, struct grid *grid, const struct layout *l,
		    const struct heap_row *row, unsigned line)
{
	char x[TEXT_NUMBER_MAX];
	const struct fold_frame *f = &v->fold->frames[row->frame];
	grid_put_right(grid, line, l->total, VALUE, GRID_PLAIN, figure(x, v->opt.cost, row->total));
	if (l->share)
		grid_put_right(grid, line, l->share, SHARE, GRID_FAINT,
			       text_percent(x, row->total, v->whole));
	if (l->self)
		grid_put_right(grid, line, l->self, VALUE, GRID_PLAIN,
			       figure(x, v->opt.cost, row->self));
	if (l->change)
		grid_put_right(grid, line, l->change, CHANGE,
			       row->total > row->before   ? GRID_GROWN
			       : row->total < row->before ? GRID_SHRUNK
							  : GRID_FAINT,
			       change_of(x, v->opt.cost, row->before, row->total));
	if (l->blocks)
		grid_put_right(grid, line, l->blocks, VALUE, GRID_PLAIN,
			       text_count(x, row->blocks));
	unsigned at = l->name;
	if (v->screen == HEAP_TREE)
		at = put_guides(row, grid, line, at);
	if (heap_matches(v, f))
		at += grid_put(grid, line, at, 2, GRID_WARN, grid->ascii ? "* " : "● ");
	CLEANUP(buf_fini) struct buf name = { 0 };
	heap_name(v, f, &name, grid->ascii);
	if (at < grid->columns)
		grid_put_end(grid, line, at, grid->columns - at, GRID_PLAIN, buf_cstr(&name));
}

/* The row under the cursor in full: where it is, and its parts of the whole. */
static void put_detail(const struct heap_view *v, struct grid *grid, unsigned line)
{
	const struct heap_row *row =
		v->list.cursor < v->row_count ? &v->rows[v->list.cursor] : NULL;
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (v->said[0])
		grid_put(grid, line, 0, grid->columns, GRID_WARN, v->said);
	if (!row || v->said[0])
		return;
	const struct fold_frame *f = &v->fold->frames[row->frame];
	if (f->module)
		buf_printf(&text, f->offset ? "%s+0x%llx" : "%s", f->module,
			   (unsigned long long)f->offset);
	if (f->file) {
		const char *slash = strrchr(f->file, '/');
		buf_printf(&text, "%s%s", text.len ? " · " : "",
			   slash && slash[1] ? slash + 1 : f->file);
		if (f->line)
			buf_printf(&text, ":%u", f->line);
	}
	buf_printf(&text, "%s%s of all", text.len ? " · " : "",
		   text_percent(x, row->total, v->whole));
	if (v->screen == HEAP_TREE && v->picks.all[row->pick].parent) {
		const struct fold_pick *parent = &v->picks.all[v->picks.all[row->pick].parent];
		buf_printf(&text, ", %s of its caller's",
			   text_percent(x, row->total, parent->total));
	}
	buf_printf(&text, " · %s block%s", text_count(x, row->blocks), row->blocks == 1 ? "" : "s");
	grid_put_end(grid, line, 0, grid->columns, GRID_FAINT, buf_cstr(&text));
}

static void put_last_line(const struct heap_view *v, struct grid *grid, unsigned line)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (v->finding) {
		buf_printf(&text, "find: %s_", v->find);
		grid_put(grid, line, 0, grid->columns, GRID_BOLD, buf_cstr(&text));
		return;
	}
	buf_printf(&text, "%s /find %s c:cost m:by d:base Space:hold",
		   v->tabs ? v->tabs : "3tree 4table", v->screen == HEAP_TREE ? "i:inv" : "s:sort");
	grid_put_words(grid, line, 0, grid->columns - 13, GRID_FAINT, buf_cstr(&text));
	grid_put_right(grid, line, grid->columns, 14, GRID_FAINT, "?help q:quit");
}

static void put_help(struct grid *grid)
{
	static const char *const lines[] = {
		"arrows PgUp PgDn Home End   move",
		"Enter, right                open a row (tree)",
		"left                        close it, or go to its caller",
		"3 4                         call tree, table",
		"2 5 6 7 8 9                 balance, growth, regions, pages, sampler, node",
		(", . < >                     what lived a hundredth, a tenth back and on; 3 4: as "
		 "now"),
		"c                           cost: live, peak, allocated, allocations, temporary",
		"m                           merge by function, module, file, line",
		"i                           tree from the allocating functions outwards",
		"s S                         sort the table; the other way round",
		"/ n N                       find a name, next, previous",
		"d                           changes are told from now on",
		"Space                       hold what is shown, or go on",
		"y                           print the row's call path when top ends",
		"w                           write the screen to a file",
		"q                           quit",
		"",
		"PEAK LIVE ..  asked for below this row: blocks whose stack passes here",
		"SELF          asked for by this function itself",
		"+-            change since the time that its head says",
	};
	grid_clear(grid);
	for (unsigned i = 0, line = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		line = *lines[i] ? grid_put_help(grid, line, lines[i]) : line + 1;
}

void heap_view_draw(struct heap_view *v, struct grid *grid)
{
	grid_clear(grid);
	if (grid->columns < COLUMNS_LEAST || grid->rows < ROWS_LEAST) {
		grid_put(grid, 0, 0, grid->columns, GRID_PLAIN, "top needs 60 columns and 12 rows");
		return;
	}
	if (v->help) {
		put_help(grid);
		return;
	}
	if (!v->prof || !v->fold) {
		grid_put(grid, 0, 0, grid->columns, GRID_PLAIN, "nothing yet: no call was made");
		grid_put(grid, grid->rows - 1, 0, grid->columns, GRID_FAINT, "q:quit");
		return;
	}
	struct layout l = lay_out(v, grid);
	put_first_line(v, grid);
	put_second_line(v, grid);
	put_heads(v, grid, &l);
	unsigned room = grid->rows - FIXED_ROWS;
	list_fit(&v->list, room);
	for (unsigned i = 0; i < room && v->list.top + i < v->row_count; i++)
		put_row(v, grid, &l, &v->rows[v->list.top + i], 3 + i);
	if (v->row_count)
		grid_style_row(grid, 3 + (v->list.cursor - v->list.top), GRID_SELECTED);
	put_detail(v, grid, grid->rows - 2);
	put_last_line(v, grid, grid->rows - 1);
}
