/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.h - a screen as cells: what `top` draws, and what its tests compare. Names from outside are
 * shown as text: control characters and those that turn the direction of writing are spelt as
 * numbers.
 */
#ifndef TUI_GRID_H
#define TUI_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define GRID_ROWS_MAX 1000
#define GRID_COLUMNS_MAX 1000

enum grid_style {
	GRID_PLAIN = 0,
	GRID_BOLD,
	GRID_FAINT,
	GRID_HEAD,     /* a heading's line */
	GRID_SELECTED, /* where the cursor is */
	GRID_GROWN,
	GRID_SHRUNK,
	GRID_WARN,
	GRID_STYLES
};

/** struct grid_cell - one column of one row; the second half of a wide character has no bytes. */
struct grid_cell {
	/* UTF-8, its accents included; what does not fit is left out */
	char bytes[12];
	uint8_t len, style;
};

#define GRID_HELP_TEXT 28
/* below 80 columns: where what they do stands, if they are shorter */
#define GRID_HELP_NARROW 15

struct grid {
	unsigned rows, columns;
	/* row by row */
	struct grid_cell *cells;
	/* nothing beyond ASCII is shown */
	int ascii;
};

/**
 * grid_init() - @rows and @columns are cut at GRID_ROWS_MAX and GRID_COLUMNS_MAX. All blank.
 * -ENOMEM.
 */
int grid_init(struct grid *grid, unsigned rows, unsigned columns, int ascii, struct err *err);
void grid_fini(struct grid *grid);
/** grid_clear() - all blank and plain. */
void grid_clear(struct grid *grid);

/**
 * grid_put() - @text at @row, @column, in at most @room columns; what lies outside the grid is left
 * out. Return: columns used.
 */
unsigned grid_put(struct grid *grid, unsigned row, unsigned column, unsigned room,
		  enum grid_style style, const char *text);
/** grid_put_words() - as grid_put(), but ends before a word that does not fit. */
unsigned grid_put_words(struct grid *grid, unsigned row, unsigned column, unsigned room,
			enum grid_style style, const char *text);
/**
 * grid_put_lines() - @text broken at words, from @row on, over the whole width, in at most @rows
 * rows; an ellipsis where they do not hold all. Return: rows used.
 */
unsigned grid_put_lines(struct grid *grid, unsigned row, unsigned rows, enum grid_style style,
			const char *text);
/**
 * grid_put_help() - keys and, from column GRID_HELP_TEXT of @text on, what they do, broken at words
 * into as many rows as it takes. Return: the row behind.
 */
unsigned grid_put_help(struct grid *grid, unsigned row, const char *text);
/**
 * grid_put_end() - the end of @text in @room columns, with an ellipsis in front where it does not
 * fit: a name's end tells most.
 */
unsigned grid_put_end(struct grid *grid, unsigned row, unsigned column, unsigned room,
		      enum grid_style style, const char *text);
/**
 * grid_put_right() - @text so that it ends before column @end. Text that is wider than @room shows
 * as `#`.
 */
void grid_put_right(struct grid *grid, unsigned row, unsigned end, unsigned room,
		    enum grid_style style, const char *text);
/**
 * grid_spark() - @points as a line of bars in at most @columns columns of @row, each the highest of
 * its stretch. ASCII has none.
 */
void grid_spark(struct grid *grid, unsigned row, unsigned column, unsigned columns,
		const uint64_t *points, uint32_t count);
/** grid_style_row() - the whole row in @style. */
void grid_style_row(struct grid *grid, unsigned row, enum grid_style style);
/** grid_width() - columns that @text takes. */
unsigned grid_width(const struct grid *grid, const char *text);

/**
 * grid_row_text() - the row as text without blanks at its end; malloc'd, NULL where memory is out.
 */
char *grid_row_text(const struct grid *grid, unsigned row);

#endif
