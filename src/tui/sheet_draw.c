/* SPDX-License-Identifier: Apache-2.0 */
/* sheet_draw.c - a sheet as cells. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tui/sheet_internal.h"

#define COLUMNS_LEAST 60
#define ROWS_LEAST 12
#define FIXED_ROWS 5 /* two above, the columns' heads, two below */
#define VERDICT_ROWS 4
#define ROWS_LEFT 8 /* below the verdict; a lower terminal has none */
#define SHARE 8
#define CHANGE 11
#define SHARE_FROM 80 /* columns of a terminal that shows percents, and changes */

static const char *signed_bytes(char to[32], int64_t bytes, const char *behind)
{
	char x[TEXT_NUMBER_MAX];
	if (!bytes)
		return "0";
	text_bytes(x, bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes);
	snprintf(to, 32, "%c%.20s%s", bytes < 0 ? '-' : '+', x, behind);
	return to;
}

static const char *figure(char to[32], const struct sheet_column *column, int64_t n)
{
	time_t seconds;
	struct tm tm;
	if (n == SHEET_NONE)
		return "-";
	switch (column->kind) {
	case SHEET_BYTES:
		return text_bytes(to, n < 0 ? 0 : (uint64_t)n);
	case SHEET_RATE:
		return signed_bytes(to, n, "/h");
	case SHEET_SIGNED:
		return signed_bytes(to, n, "");
	case SHEET_COUNT:
		return text_count(to, n < 0 ? 0 : (uint64_t)n);
	case SHEET_SPAN:
		return text_duration(to, n < 0 ? 0 : (uint64_t)n);
	case SHEET_CLOCK:
		seconds = (time_t)(n / 1000000000);
		if (!localtime_r(&seconds, &tm) || !strftime(to, 16, "%H:%M:%S", &tm))
			return "?";
		snprintf(to + strlen(to), 8, ".%03d", (int)(n % 1000000000 / 1000000));
		return to;
	default:
		snprintf(to, 32, "%lld", (long long)n);
		return to;
	}
}

/* Where each column ends; 0: it is left out. */
struct layout {
	unsigned column[SHEET_COLUMNS_MAX], share, change, name;
	/* the row of the heads */
	unsigned head;
};

static struct layout lay_out(const struct sheet_view *v, const struct grid *grid)
{
	const struct sheet *s = &v->sheet;
	struct layout l = { 0 };
	unsigned end = 0;
	for (unsigned i = 0; i < s->column_count; i++) {
		if (grid->columns >= s->columns[i].from &&
		    !(s->columns[i].kind == SHEET_SPARK && grid->ascii))
			l.column[i] = end += s->columns[i].width + (i ? 1 : 0);
		if (!i && s->whole && grid->columns >= SHARE_FROM)
			l.share = end += SHARE;
		if (!i && sheet_changes(v) && grid->columns >= SHARE_FROM)
			l.change = end += CHANGE;
	}
	l.name = end + 1;
	l.head = 2;
	return l;
}

static void put_heads(const struct sheet_view *v, struct grid *grid, const struct layout *l)
{
	const struct sheet *s = &v->sheet;
	char x[TEXT_NUMBER_MAX], change[40];
	for (unsigned i = 0; i < s->column_count; i++) {
		const struct sheet_column *c = &s->columns[i];
		if (l->column[i] && (c->kind == SHEET_WORD || c->kind == SHEET_SPARK))
			grid_put(grid, l->head, l->column[i] - c->width, c->width, GRID_PLAIN,
				 c->head);
		else if (l->column[i])
			grid_put_right(grid, l->head, l->column[i], c->width, GRID_PLAIN, c->head);
	}
	if (l->share)
		grid_put_right(grid, l->head, l->share, SHARE, GRID_PLAIN, "%");
	if (l->change) {
		uint64_t seconds = (v->time_ns - v->before_ns + NS_PER_S / 2) / NS_PER_S;
		snprintf(change, sizeof(change), seconds ? "+- %.24s" : "+-",
			 text_duration(x, seconds * NS_PER_S));
		grid_put_right(grid, l->head, l->change, CHANGE, GRID_PLAIN, change);
	}
	grid_put(grid, l->head, l->name, grid->columns, GRID_PLAIN, s->name_head);
	grid_style_row(grid, l->head, GRID_HEAD);
}

static unsigned put_guides(const struct sheet_line *line, struct grid *grid, unsigned at_line,
			   unsigned at)
{
	/* what is deep in the tree keeps its name on the screen */
	unsigned from = line->depth > 24 ? line->depth - 24u : 0;
	if (from)
		at += grid_put(grid, at_line, at, 2, GRID_FAINT, grid->ascii ? ".." : "…");
	for (unsigned d = from; d < line->depth; d++) {
		const char *guide = d + 1u == line->depth ? (line->last ? (grid->ascii ? "`" : "└")
									: (grid->ascii ? "|" : "├"))
				    : line->guides >> (line->depth - d - 2) & 1
					    ? (grid->ascii ? "|" : "│")
					    : " ";
		at += grid_put(grid, at_line, at, 1, GRID_FAINT, guide);
	}
	return at + grid_put(grid, at_line, at, 2, GRID_PLAIN,
			     !line->opens    ? "  "
			     : line->is_open ? (grid->ascii ? "v " : "▾ ")
					     : (grid->ascii ? "> " : "▸ "));
}

static void put_row(const struct sheet_view *v, struct grid *grid, const struct layout *l,
		    const struct sheet_line *line, unsigned at, int tree)
{
	const struct sheet *s = &v->sheet;
	const struct sheet_row *row = &s->rows[line->row];
	char x[32];
	/* a frame of a stack has no figures of its own */
	int bare = row->is_faint && row->cells[0].number == SHEET_NONE;
	for (unsigned i = 0; i < s->column_count && !bare; i++) {
		const struct sheet_column *c = &s->columns[i];
		unsigned from = l->column[i] - c->width;
		if (!l->column[i])
			continue;
		if (c->kind == SHEET_SPARK)
			grid_spark(grid, at, from, c->width, row->points, row->point_count);
		else if (c->kind == SHEET_WORD)
			grid_put(grid, at, from, c->width, GRID_PLAIN,
				 row->cells[i].word ? row->cells[i].word : "-");
		else
			grid_put_right(grid, at, l->column[i], c->width,
				       i ? GRID_FAINT : GRID_PLAIN,
				       figure(x, c, row->cells[i].number));
	}
	int64_t first = row->cells[0].number == SHEET_NONE ? 0 : row->cells[0].number;
	if (l->share && first >= 0 && !bare)
		grid_put_right(grid, at, l->share, SHARE, GRID_FAINT,
			       text_percent(x, (uint64_t)first, s->whole));
	if (l->change && !bare) {
		int64_t by = first - v->before[line->row];
		grid_put_right(grid, at, l->change, CHANGE,
			       by > 0   ? GRID_GROWN
			       : by < 0 ? GRID_SHRUNK
					: GRID_FAINT,
			       s->columns[0].kind == SHEET_COUNT && by
				       ? (snprintf(x, sizeof(x), "%+lld", (long long)by), x)
				       : signed_bytes(x, by, ""));
	}
	unsigned name = l->name;
	if (tree)
		name = put_guides(line, grid, at, name);
	if (name < grid->columns)
		(s->stays ? grid_put : grid_put_end)(grid, at, name, grid->columns - name,
						     row->is_faint ? GRID_FAINT : GRID_PLAIN,
						     row->name);
}

static void put_first_line(const struct sheet_view *v, const struct sheet_frame *f,
			   struct grid *grid)
{
	char x[TEXT_NUMBER_MAX], text[48];
	unsigned right = grid->columns;
	if (f->remark && f->remark[0]) {
		unsigned width = grid_width(grid, f->remark), most = grid->columns / 3;
		right = grid->columns - (width < most ? width : most);
		grid_put(grid, 0, right, most, GRID_PLAIN, f->remark);
	}
	unsigned at = grid_put(grid, 0, 0, 11, GRID_BOLD, "byteledger");
	at += 1 + grid_put(grid, 0, at + 1, grid->columns / 2, GRID_BOLD, f->title);
	if (v->sheet.rss_bytes && at < right) {
		snprintf(text, sizeof(text), "  RSS %s", text_bytes(x, v->sheet.rss_bytes));
		at += grid_put(grid, 0, at, right - at, GRID_PLAIN, text);
	}
	if (f->past_count > 1 && at + f->past_count + 2 < right)
		grid_spark(grid, 0, at + 1, f->past_count, f->past, f->past_count);
}

static void put_second_line(const struct sheet_view *v, struct grid *grid)
{
	const struct sheet *s = &v->sheet;
	CLEANUP(buf_fini) struct buf text = { 0 };
	buf_puts(&text, s->says);
	if (v->sorted && s->column_count)
		buf_printf(&text, " · by %s%s",
			   v->sort < s->column_count    ? s->columns[v->sort].head
			   : v->sort == s->column_count ? "change"
							: "name",
			   v->ascending ? ", other way" : "");
	if (v->find[0])
		buf_printf(&text, " · %u with \"%s\"", v->matched, v->find);
	if (v->holds)
		buf_puts(&text, " · held: Space goes on");
	unsigned used = grid_put(grid, 1, 0, grid->columns, v->holds ? GRID_WARN : GRID_PLAIN,
				 buf_cstr(&text));
	if (grid->columns > used + 1 && grid_width(grid, s->right) < grid->columns - used)
		grid_put_right(grid, 1, grid->columns, grid->columns - used - 1, GRID_PLAIN,
			       s->right);
}

/** put_verdict() - below the second line. Return: rows that it takes, as long as rows are left. */
static unsigned put_verdict(struct sheet_view *v, struct grid *grid)
{
	if (!v->sheet.verdict || grid->rows < FIXED_ROWS + VERDICT_ROWS + ROWS_LEFT)
		return 0;
	if (v->verdict_columns != grid->columns)
		v->verdict_rows = 0;
	v->verdict_columns = grid->columns;
	unsigned used = grid_put_lines(grid, 2, VERDICT_ROWS, GRID_PLAIN, v->sheet.verdict);
	if (used > v->verdict_rows)
		v->verdict_rows = used; /* rows below do not jump when a figure gets shorter */
	return v->verdict_rows;
}

static void put_below(const struct sheet_view *v, const struct sheet_frame *f, struct grid *grid)
{
	unsigned line = grid->rows - 2;
	const struct sheet_row *row = v->list.cursor < v->line_count
					      ? &v->sheet.rows[v->lines[v->list.cursor].row]
					      : NULL;
	if (f->said && f->said[0])
		grid_put(grid, line, 0, grid->columns, GRID_WARN, f->said);
	else if (v->sheet.warns[0])
		grid_put(grid, line, 0, grid->columns, GRID_WARN, v->sheet.warns);
	else if (row && row->detail)
		grid_put(grid, line, 0, grid->columns, GRID_FAINT, row->detail);
	line++;
	if (v->finding) {
		char text[SHEET_FIND_MAX + 16];
		snprintf(text, sizeof(text), "find: %s_", v->find);
		grid_put(grid, line, 0, grid->columns, GRID_BOLD, text);
		return;
	}
	grid_put_words(grid, line, 0, grid->columns - 13, GRID_FAINT, f->keys);
	grid_put_right(grid, line, grid->columns, 14, GRID_FAINT, "?help q:quit");
}

static void put_help(const struct sheet_frame *f, struct grid *grid)
{
	static const char *const lines[] = {
		"arrows PgUp PgDn Home End   move",
		"Enter right left            open and close a row; left of a closed one: up",
		"s S                         sort by next column, change, name, again: other way",
		"/                           only rows that have a text",
		"d                           changes are told from now, from this moment on",
		"Space                       hold what is shown, or go on",
		"y w                         print the row at the end; screen to a file",
		"q                           back, or quit",
		NULL
	};
	unsigned line = 0;
	grid_clear(grid);
	for (const char *const *at = f->help; at && *at; at++)
		line = grid_put_help(grid, line, *at);
	for (const char *const *at = lines; *at; at++)
		line = grid_put_help(grid, line, *at);
}

void sheet_view_draw(struct sheet_view *v, const struct sheet_frame *f, struct grid *grid)
{
	grid_clear(grid);
	if (grid->columns < COLUMNS_LEAST || grid->rows < ROWS_LEAST) {
		grid_put(grid, 0, 0, grid->columns, GRID_PLAIN, "top needs 60 columns and 12 rows");
		return;
	}
	if (v->help) {
		put_help(f, grid);
		return;
	}
	struct layout l = lay_out(v, grid);
	int tree = 0;
	put_first_line(v, f, grid);
	if (f->waits) {
		grid_put(grid, 1, 0, grid->columns, GRID_PLAIN, f->waits);
	} else {
		put_second_line(v, grid);
		l.head += put_verdict(v, grid);
		put_heads(v, grid, &l);
		unsigned room = grid->rows - 3 - l.head, first = l.head + 1;
		list_fit(&v->list, room);
		for (uint32_t i = 0; i < v->line_count && !tree; i++)
			tree = v->lines[i].opens || v->lines[i].depth;
		for (unsigned i = 0; i < room && v->list.top + i < v->line_count; i++)
			put_row(v, grid, &l, &v->lines[v->list.top + i], first + i, tree);
		if (v->line_count)
			grid_style_row(grid, first + (v->list.cursor - v->list.top), GRID_SELECTED);
		else
			grid_put(grid, first, 1, grid->columns - 1, GRID_FAINT,
				 v->find[0]       ? "none has that"
				 : v->sheet.empty ? v->sheet.empty
						  : "none");
	}
	put_below(v, f, grid);
}
