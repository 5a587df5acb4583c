/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/grid.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

int grid_init(struct grid *grid, unsigned rows, unsigned columns, int ascii, struct err *err)
{
	rows = rows < GRID_ROWS_MAX ? rows : GRID_ROWS_MAX;
	columns = columns < GRID_COLUMNS_MAX ? columns : GRID_COLUMNS_MAX;
	*grid = (struct grid){ .rows = rows, .columns = columns, .ascii = ascii };
	grid->cells = calloc((size_t)rows * columns + 1, sizeof(*grid->cells));
	if (!grid->cells)
		return err_set(err, -ENOMEM, "cannot draw %u rows", rows);
	grid_clear(grid);
	return 0;
}

void grid_fini(struct grid *grid)
{
	free(grid->cells);
	*grid = (struct grid){ 0 };
}

void grid_clear(struct grid *grid)
{
	for (size_t i = 0; i < (size_t)grid->rows * grid->columns; i++)
		grid->cells[i] = (struct grid_cell){ .bytes = " ", .len = 1 };
}

/* One character as it is shown: its bytes, and how many columns they take. */
struct glyph {
	char bytes[16];
	unsigned len, width;
};

/* What turns the direction of writing, or has no width of its own and is no accent. */
static int is_hidden(wchar_t c)
{
	return (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x2069) || c == 0xfeff;
}

static void spell(struct glyph *g, unsigned long number)
{
	g->len = g->width = (unsigned)snprintf(g->bytes, sizeof(g->bytes),
					       number < 256 ? "\\x%02lx" : "\\u{%lx}", number);
}

/* Bytes of the UTF-8 character at @text, whatever the locale; 0: it is none. */
static size_t utf8_bytes(const char *text)
{
	unsigned char lead = (unsigned char)*text;
	size_t n = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
	if (lead >= 0xf5)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Takes the next character of @text; 0 at its end. Return: bytes taken. */
static size_t take(const struct grid *grid, const char *text, struct glyph *g)
{
	wchar_t c;
	mbstate_t state = { 0 };
	if (!*text)
		return 0;
	if (grid->ascii && (unsigned char)*text >= 0x80 && utf8_bytes(text)) {
		*g = (struct glyph){ .bytes = "?", .len = 1, .width = 1 };
		if (strncmp(text, "\xc2\xb7", 2) == 0) /* between the parts of a line */
			g->bytes[0] = '-';
		return utf8_bytes(text);
	}
	size_t n = mbrtowc(&c, text, MB_LEN_MAX, &state);
	if (n == (size_t)-1 || n == (size_t)-2 || n == 0 || n > 4) {
		spell(g, (unsigned char)*text);
		return 1;
	}
	int width = wcwidth(c);
	if (c < 32 || c == 127 || is_hidden(c) || width < 0) {
		spell(g, (unsigned long)c);
	} else {
		*g = (struct glyph){ .len = (unsigned)n, .width = (unsigned)width };
		memcpy(g->bytes, text, n);
	}
	return n;
}

unsigned grid_width(const struct grid *grid, const char *text)
{
	struct glyph g;
	unsigned width = 0;
	for (size_t n; (n = take(grid, text, &g)); text += n)
		width += g.width;
	return width;
}

static struct grid_cell *cell_at(const struct grid *grid, unsigned row, unsigned column)
{
	return row < grid->rows && column < grid->columns
		       ? &grid->cells[(size_t)row * grid->columns + column]
		       : NULL;
}

static void put_glyph(struct grid *grid, unsigned row, unsigned column, enum grid_style style,
		      const struct glyph *g)
{
	struct grid_cell *cell = cell_at(grid, row, column);
	if (!g->width) { /* an accent: to the character before */
		cell = column ? cell_at(grid, row, column - 1) : NULL;
		if (cell && cell->len + g->len <= sizeof(cell->bytes)) {
			memcpy(cell->bytes + cell->len, g->bytes, g->len);
			cell->len = (uint8_t)(cell->len + g->len);
		}
		return;
	}
	if (g->len == g->width) { /* ASCII, perhaps a number that stands for something else */
		for (unsigned i = 0; i < g->len; i++)
			if ((cell = cell_at(grid, row, column + i)))
				*cell = (struct grid_cell){ { g->bytes[i] }, 1, (uint8_t)style };
		return;
	}
	for (unsigned i = 0; i < g->width; i++) {
		cell = cell_at(grid, row, column + i);
		if (!cell)
			return;
		*cell = (struct grid_cell){ .style = (uint8_t)style };
		if (!i) {
			memcpy(cell->bytes, g->bytes, g->len);
			cell->len = (uint8_t)g->len;
		}
	}
}

unsigned grid_put(struct grid *grid, unsigned row, unsigned column, unsigned room,
		  enum grid_style style, const char *text)
{
	struct glyph g;
	unsigned used = 0;
	unsigned left = column < grid->columns ? grid->columns - column : 0;
	room = room < left ? room : left;
	for (size_t n; (n = take(grid, text, &g)) && used + g.width <= room; text += n) {
		put_glyph(grid, row, column + used, style, &g);
		used += g.width;
	}
	return used;
}

/** fitting() - bytes of @text, up to the end of a word, that take at most @room columns. */
static size_t fitting(const struct grid *grid, const char *text, unsigned room)
{
	struct glyph g;
	size_t at = 0, fits = 0;
	unsigned used = 0;
	for (size_t n; (n = take(grid, text + at, &g)) && used + g.width <= room; at += n) {
		used += g.width;
		if (text[at + n] == ' ' || !text[at + n])
			fits = at + n;
	}
	return fits;
}

unsigned grid_put_words(struct grid *grid, unsigned row, unsigned column, unsigned room,
			enum grid_style style, const char *text)
{
	char part[512];
	unsigned left = column < grid->columns ? grid->columns - column : 0;
	snprintf(part, sizeof(part), "%.*s", (int)fitting(grid, text, room < left ? room : left),
		 text);
	return grid_put(grid, row, column, room, style, part);
}

unsigned grid_put_lines(struct grid *grid, unsigned row, unsigned rows, enum grid_style style,
			const char *text)
{
	unsigned used = 0;
	for (size_t fits; used < rows && *text && (fits = fitting(grid, text, grid->columns));
	     used++) {
		grid_put_words(grid, row + used, 0, grid->columns, style, text);
		text += fits;
		text += strspn(text, " ");
	}
	if (used && *text)
		grid_put_right(grid, row + used - 1, grid->columns, 3, style,
			       grid->ascii ? ".." : "…");
	return used;
}

unsigned grid_put_help(struct grid *grid, unsigned row, const char *text)
{
	char keys[GRID_HELP_TEXT + 1];
	size_t len = strlen(text), fits;
	int split = len > GRID_HELP_TEXT && text[GRID_HELP_TEXT - 1] == ' ' &&
		    text[GRID_HELP_TEXT - 2] == ' ';
	unsigned hang = !split ? 3 : grid->columns < 80 ? GRID_HELP_NARROW : GRID_HELP_TEXT + 1;
	unsigned column = 1;
	if (split) {
		snprintf(keys, sizeof(keys), "%s", text);
		for (len = GRID_HELP_TEXT; len && keys[len - 1] == ' '; len--)
			keys[len - 1] = '\0';
		column += grid_put(grid, row, column, GRID_HELP_TEXT, GRID_PLAIN, keys) + 2;
		column = column > hang ? column : hang;
		text += GRID_HELP_TEXT;
	}
	while (row < grid->rows && *text && grid->columns > column + 1 &&
	       (fits = fitting(grid, text, grid->columns - column - 1))) {
		grid_put_words(grid, row++, column, grid->columns - column - 1, GRID_PLAIN, text);
		text += fits;
		text += strspn(text, " ");
		column = hang;
	}
	return row;
}

unsigned grid_put_end(struct grid *grid, unsigned row, unsigned column, unsigned room,
		      enum grid_style style, const char *text)
{
	const char *ellipsis = grid->ascii ? ".." : "…";
	unsigned width = grid_width(grid, text), dots = grid->ascii ? 2 : 1;
	struct glyph g;
	if (width <= room)
		return grid_put(grid, row, column, room, style, text);
	if (room <= dots)
		return grid_put(grid, row, column, room, style, ellipsis);
	for (size_t n; width > room - dots && (n = take(grid, text, &g)); text += n)
		width -= g.width;
	unsigned used = grid_put(grid, row, column, room, style, ellipsis);
	return used + grid_put(grid, row, column + used, room - used, style, text);
}

void grid_put_right(struct grid *grid, unsigned row, unsigned end, unsigned room,
		    enum grid_style style, const char *text)
{
	unsigned width = grid_width(grid, text);
	if (width > room || width > end) {
		grid_put(grid, row, end > room ? end - room : 0, room, style, "#");
		return;
	}
	grid_put(grid, row, end - width, width, style, text);
}

void grid_spark(struct grid *grid, unsigned row, unsigned column, unsigned columns,
		const uint64_t *points, uint32_t count)
{
	static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	uint64_t most = 0;
	for (uint32_t i = 0; i < count; i++)
		most = points[i] > most ? points[i] : most;
	if (grid->ascii || !most)
		return;
	unsigned used = count < columns ? count : columns;
	for (unsigned i = 0; i < used; i++) {
		uint64_t high = 0;
		uint32_t from = (uint32_t)((uint64_t)count * i / used),
			 to = (uint32_t)((uint64_t)count * (i + 1) / used);
		for (uint32_t k = from; k < to; k++)
			high = points[k] > high ? points[k] : high;
		grid_put(grid, row, column + i, 1, GRID_PLAIN,
			 bars[(uint64_t)((double)high / (double)most * 7)]);
	}
}

void grid_style_row(struct grid *grid, unsigned row, enum grid_style style)
{
	for (unsigned i = 0; i < grid->columns; i++) {
		struct grid_cell *cell = cell_at(grid, row, i);
		if (cell)
			cell->style = (uint8_t)style;
	}
}

char *grid_row_text(const struct grid *grid, unsigned row)
{
	char *text = malloc((size_t)grid->columns * sizeof(((struct grid_cell *)0)->bytes) + 1);
	size_t len = 0, kept = 0;
	if (!text)
		return NULL;
	for (unsigned i = 0; i < grid->columns; i++) {
		const struct grid_cell *cell = cell_at(grid, row, i);
		if (!cell)
			continue;
		memcpy(text + len, cell->bytes, cell->len);
		len += cell->len;
		if (cell->len != 1 || cell->bytes[0] != ' ')
			kept = len;
	}
	text[kept] = 0;
	return text;
}
