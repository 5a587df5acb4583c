/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_draw.c - a heap's screens as cells. Widths: 80 columns show changes, 120 blocks, temporary
 * ones and how each row went, 200 peak, rate and the call path of the row under the cursor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tui/heap_internal.h"

#define VALUE 9
#define CHANGE 10
#define SHARE 8
#define TEMPORARY 7
#define SPARK 16
#define TRAIL 9
#define PANEL 60
#define PATH_MAX_FRAMES 512
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

/* The last moment that was marked by then, and how many there were. */
static void put_mark(const struct heap_view *v, struct grid *grid, unsigned at, unsigned right)
{
	const struct marks *marks = prof_marks(v->prof);
	uint64_t end = v->time_ns ? v->time_ns : v->totals.runtime_ns;
	uint32_t count = marks->count;
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	while (count && marks->at[count - 1].time_ns > end)
		count--;
	if (!count)
		return;
	const struct mark *last = &marks->at[count - 1];
	buf_printf(&text, "  %smark %llu", grid->ascii ? "" : "▽ ",
		   (unsigned long long)last->value);
	buf_printf(&text, " at %s", text_duration(x, last->time_ns));
	if (count > 1)
		buf_printf(&text, ", %u in all", count);
	/* all of it or nothing */
	if (at + grid_width(grid, buf_cstr(&text)) <= right)
		grid_put(grid, 0, at, right - at, GRID_PLAIN, buf_cstr(&text));
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
		at += grid_put(grid, 0, at, right > at ? right - at : 0, GRID_WARN,
			       buf_cstr(&text));
	}
	put_mark(v, grid, at, right);
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
	static const char *const sorts[SORT_WORDS] = { [SORT_SELF] = "self",
						       [SORT_CHANGE] = "change",
						       [SORT_TEMPORARY] = "temporary share",
						       [SORT_PEAK] = "peak",
						       [SORT_RATE] = "rate",
						       [SORT_NAME] = "name" };
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 }, right = { 0 };
	if (v->shown.total && v->shown.total[0] < v->whole)
		buf_printf(&right, "%s ", text_percent(x, v->shown.total[0], v->whole));
	buf_printf(&right, "of %s", figure(x, v->opt.cost, v->whole));
	unsigned room = grid->columns - grid_width(grid, buf_cstr(&right)) - 1;
	buf_printf(&text, "%s · %s%s", view_cost_name(v->opt.cost), by_name(v->opt.by),
		   v->screen == HEAP_TREE && v->opt.inverted ? ", inverted" : "");
	if (v->step_count) {
		unsigned last = v->step_count - 1;
		buf_printf(&text, v->steps[last].op == FOLD_FOCUS ? " · only %s" : " · without %s",
			   v->step_names[last]);
		if (last)
			buf_printf(&text, " +%u", last);
	}
	if (v->holds)
		buf_puts(&text, " · held: Space goes on");
	buf_printf(&text, " · %s", v->opt.when);
	if (v->screen == HEAP_TABLE && (sorts[v->sort] || v->ascending))
		buf_printf(&text, " · by %s%s", sorts[v->sort] ? sorts[v->sort] : "total",
			   v->ascending ? ", other way" : "");
	grid_put(grid, 1, 0, room, v->holds || v->step_count ? GRID_WARN : GRID_PLAIN,
		 buf_cstr(&text));
	grid_put_right(grid, 1, grid->columns, grid->columns - room, GRID_PLAIN, buf_cstr(&right));
}

/* Where each column ends; 0: it is left out. */
struct layout {
	unsigned total, share, self, change, blocks, temporary, peak, rate;
	/* where they begin; @end: where the name does not go on */
	unsigned trail, trail_columns, name, end;
};

static struct layout lay_out(const struct heap_view *v, const struct grid *grid)
{
	struct layout l = { .total = VALUE };
	unsigned end = VALUE;
	l.share = grid->columns >= 80 ? end += SHARE : 0;
	l.self = grid->columns >= 80 ? end += VALUE + 1 : 0;
	l.change = grid->columns >= 80 &&v->has_before ? end += CHANGE + 1 : 0;
	l.blocks = grid->columns >= HEAP_WIDE ? end += VALUE + 1 : 0;
	if (v->has_more) {
		l.temporary = grid->columns >= HEAP_WIDE ? end += TEMPORARY + 1 : 0;
		l.peak = grid->columns >= HEAP_WIDEST ? end += VALUE + 1 : 0;
		l.rate = grid->columns >= HEAP_WIDEST ? end += VALUE + 1 : 0;
	}
	if (v->trail_count > 1 && grid->columns >= HEAP_WIDE && !grid->ascii) {
		l.trail = end + 1;
		l.trail_columns = grid->columns >= HEAP_WIDEST ? HEAP_TRAIL : TRAIL;
		end += l.trail_columns + 1;
	}
	l.name = end + 1;
	l.end = grid->columns >= HEAP_WIDEST ? grid->columns - PANEL - 1 : grid->columns;
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
	if (l->temporary)
		grid_put_right(grid, 2, l->temporary, TEMPORARY, GRID_PLAIN, "TEMP %");
	if (l->peak)
		grid_put_right(grid, 2, l->peak, VALUE, GRID_PLAIN,
			       v->opt.cost == VIEW_COST_PEAK ? "LIVE" : "PEAK");
	if (l->rate)
		grid_put_right(grid, 2, l->rate, VALUE, GRID_PLAIN, "RATE/s");
	grid_put(grid, 2, l->name, l->end - l->name, GRID_PLAIN,
		 v->opt.by == VIEW_BY_FUNCTION ? "FUNCTION"
		 : v->opt.by == VIEW_BY_MODULE ? "MODULE"
		 : v->opt.by == VIEW_BY_FILE   ? "FILE"
					       : "LINE");
	if (l->end < grid->columns)
		grid_put(grid, 2, l->end + 1, PANEL, GRID_PLAIN,
			 v->screen == HEAP_TREE ? "CALL PATH, INNERMOST FIRST"
						: "MOST OF IT COMES THIS WAY, INNERMOST FIRST");
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

/* The columns that only wide terminals have room for. */
static void put_more(const struct heap_view *v, struct grid *grid, const struct layout *l,
		     const struct heap_row *row, unsigned line)
{
	char x[TEXT_NUMBER_MAX];
	if (l->temporary)
		grid_put_right(grid, line, l->temporary, TEMPORARY, GRID_FAINT,
			       row->more[HEAP_CALLS] ? text_percent(x, row->more[HEAP_TEMPORARY],
								    row->more[HEAP_CALLS])
						     : "-");
	if (l->peak)
		grid_put_right(grid, line, l->peak, VALUE, GRID_PLAIN,
			       text_bytes(x, row->more[HEAP_PEAK]));
	if (l->rate) {
		double seconds = (double)(v->time_ns - v->before_ns) / 1e9;
		double rate = seconds > 0 ? (double)row->more[HEAP_TRAFFIC] / seconds : 0;
		grid_put_right(grid, line, l->rate, VALUE, GRID_PLAIN,
			       seconds > 0 ? text_bytes(x, (uint64_t)rate) : "-");
	}
	if (l->trail) {
		uint64_t points[HEAP_TRAIL];
		unsigned count = heap_trail_of(v, row->key, points), least = l->trail_columns;
		/* a narrow one shows the newest, a cell each */
		unsigned from = count > least ? count - least : 0;
		grid_spark(grid, line, l->trail, least, points + from, count - from);
	}
}

/* A parent's small children: they have a sum. */
static void put_smaller(struct grid *grid, const struct layout *l, const struct heap_row *row,
			unsigned line)
{
	const struct {
		unsigned end, width;
	} columns[] = { { l->self, VALUE },          { l->change, CHANGE }, { l->blocks, VALUE },
			{ l->temporary, TEMPORARY }, { l->peak, VALUE },    { l->rate, VALUE } };
	char name[48];
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		if (columns[i].end)
			grid_put_right(grid, line, columns[i].end, columns[i].width, GRID_FAINT,
				       "-");
	unsigned at = put_guides(row, grid, line, l->name);
	snprintf(name, sizeof(name), "%s %u smaller", grid->ascii ? "..." : "…", row->smaller);
	if (at < l->end)
		grid_put(grid, line, at, l->end - at, GRID_FAINT, name);
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
	if (row->smaller) {
		put_smaller(grid, l, row, line);
		return;
	}
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
	put_more(v, grid, l, row, line);
	unsigned at = l->name;
	if (v->screen == HEAP_TREE)
		at = put_guides(row, grid, line, at);
	if (heap_matches(v, f))
		at += grid_put(grid, line, at, 2, GRID_WARN, grid->ascii ? "* " : "● ");
	CLEANUP(buf_fini) struct buf name = { 0 };
	heap_name(v, f, &name, grid->ascii);
	if (at < l->end)
		grid_put_end(grid, line, at, l->end - at, GRID_PLAIN, buf_cstr(&name));
}

/* ---- the panel ------------------------------------------------------------------------------- */

/** path_of() - the frames of the row under the cursor, innermost first. */
static unsigned path_of(const struct heap_view *v, uint32_t frames[PATH_MAX_FRAMES])
{
	const struct heap_row *row = &v->rows[v->list.cursor];
	const struct fold *fold = v->fold;
	unsigned count = 0;
	if (v->screen == HEAP_TREE) {
		for (uint32_t at = row->pick; at && count < PATH_MAX_FRAMES;
		     at = v->picks.all[at].parent)
			frames[count++] = v->picks.all[at].frame;
		for (unsigned i = 0; v->opt.inverted && i < count / 2; i++) {
			uint32_t other = frames[i];
			frames[i] = frames[count - 1 - i];
			frames[count - 1 - i] = other;
		}
		return count;
	}
	uint32_t most = 0; /* where the function stands with most of what passes through it */
	for (uint32_t i = 1; i < fold->node_count; i++)
		if (fold->nodes[i].frame == row->frame &&
		    (!most || v->shown.total[i] > v->shown.total[most]))
			most = i;
	for (uint32_t at = most; at && count < PATH_MAX_FRAMES; at = fold->nodes[at].parent)
		frames[count++] = fold->nodes[at].frame;
	return count;
}

static void put_panel(const struct heap_view *v, struct grid *grid, unsigned from, unsigned room)
{
	uint32_t frames[PATH_MAX_FRAMES];
	char text[48];
	if (v->list.cursor >= v->row_count || !v->shown.total)
		return;
	unsigned count = path_of(v, frames), lines = count > room ? room - 1 : count;
	for (unsigned i = 0; i < room; i++)
		grid_put(grid, 3 + i, from, 1, GRID_FAINT, grid->ascii ? "|" : "│");
	for (unsigned i = 0; i < lines; i++) {
		const struct fold_frame *f = &v->fold->frames[frames[i]];
		CLEANUP(buf_fini) struct buf name = { 0 }, place = { 0 };
		const char *slash = f->file ? strrchr(f->file, '/') : NULL;
		heap_name(v, f, &name, grid->ascii);
		if (f->function && f->file && f->line)
			buf_printf(&place, "%s:%u", slash && slash[1] ? slash + 1 : f->file,
				   f->line);
		unsigned width = grid_width(grid, buf_cstr(&place));
		unsigned used = width && width < PANEL / 2 ? width + 1 : 0;
		grid_put_end(grid, 3 + i, from + 1, PANEL - used, GRID_PLAIN, buf_cstr(&name));
		if (used)
			grid_put_right(grid, 3 + i, from + 1 + PANEL, width, GRID_FAINT,
				       buf_cstr(&place));
	}
	if (lines < count) {
		snprintf(text, sizeof(text), "%s %u more", grid->ascii ? "..." : "…",
			 count - lines);
		grid_put(grid, 3 + lines, from + 1, PANEL, GRID_FAINT, text);
	}
}

/** style_part() - a row's first @columns in @style. */
static void style_part(struct grid *grid, unsigned row, unsigned columns, enum grid_style style)
{
	for (unsigned i = 0; i < columns && i < grid->columns; i++)
		grid->cells[(size_t)row * grid->columns + i].style = (uint8_t)style;
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
	if (row->smaller) {
		buf_printf(&text, "%u that hold less each: %s of all%s", row->smaller,
			   text_percent(x, row->total, v->whole),
			   row->opens ? " · Enter shows them" : "");
		grid_put_end(grid, line, 0, grid->columns, GRID_FAINT, buf_cstr(&text));
		return;
	}
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
	buf_printf(&text, "%s /find %s c:cost m:by d:base Space:hold f:focus -:hide p:peak",
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
		"3 4                         call tree, table, as it is now",
		"2 5 6 7 8 9                 balance growth regions pages sampler node",
		", . < >                     a hundredth, a tenth of its time back and on",
		"c p                         cost: live, peak, allocated ..; the peak",
		"m                           merge by function, module, file, line",
		"i h                         allocating functions first; hot path",
		"f -                         only through this function; without it",
		"Backspace                   undo that",
		"s S                         sort by the next column, again: the other way",
		"/ n N                       find a name, next, previous",
		"d                           changes are told from now on",
		"Space                       hold what is shown, or go on",
		"y                           print the row's call path when top ends",
		"w                           write the screen to a file",
		"q                           quit",
		"",
		"PEAK LIVE ..  of blocks whose stack passes here",
		"SELF          asked for by this function itself",
		"+- RATE/s     change; bytes asked for a second",
		"TEMP %        allocations that were temporary",
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
	int grows = grid->columns >= HEAP_WIDE && !v->has_more && !v->opt.moment;
	v->columns = grid->columns;
	if (grows && heap_widen(v) < 0) {
		grid_put(grid, 0, 0, grid->columns, GRID_WARN, "out of memory");
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
		style_part(grid, 3 + (v->list.cursor - v->list.top), l.end, GRID_SELECTED);
	if (l.end < grid->columns)
		put_panel(v, grid, l.end, room);
	put_detail(v, grid, grid->rows - 2);
	put_last_line(v, grid, grid->rows - 1);
}
