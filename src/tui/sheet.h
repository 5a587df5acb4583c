/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sheet.h - rows with figures, in a list or a tree, as the screens of `top` beside the heap's show
 * them. A struct sheet is what one answer says; a struct sheet_view how the reader looks at it,
 * from answer to answer. Knows no terminal: keys come in, a grid comes out.
 */
#ifndef TUI_SHEET_H
#define TUI_SHEET_H

#include "base/arena.h"
#include "base/buf.h"
#include "tui/grid.h"

#define SHEET_COLUMNS_MAX 8
/* not known: shows as "-". Twice of it, or a number taken from it, fit. */
#define SHEET_NONE (-(INT64_C(1) << 62))
#define SHEET_FIND_MAX 60
#define SHEET_DEPTH_MAX 1024 /* rows in rows; what lies deeper never opens */

enum sheet_kind {
	SHEET_BYTES,
	SHEET_RATE,   /* bytes an hour, with their sign */
	SHEET_SIGNED, /* bytes, with their sign */
	SHEET_COUNT,
	SHEET_NUMBER, /* as it is */
	SHEET_SPAN,   /* ns */
	SHEET_CLOCK,  /* ns since 1970, as time of day */
	SHEET_WORD,
	SHEET_SPARK /* of row->points */
};

struct sheet_column {
	const char *head;
	enum sheet_kind kind;
	unsigned width;
	/* a terminal has to be so wide to show it */
	unsigned from;
};

struct sheet_cell {
	int64_t number;
	const char *word;
};

struct sheet_row {
	/* the same thing has the same one in every answer */
	uint64_t key;
	/* its place + 1, before it; 0: none */
	uint32_t parent;
	/* of the sheet's arena */
	const char *name, *detail;
	struct sheet_cell cells[SHEET_COLUMNS_MAX];
	const uint64_t *points;
	uint32_t point_count;
	/* shows: what hangs below it is open at first */
	int is_faint, shows;
};

/**
 * struct sheet - zero-initialised is empty; sheet_fini(). Column 0 is what rows are ordered by, and
 * what changes are told of.
 */
struct sheet {
	/* static */
	const struct sheet_column *columns;
	/* sort: by which, at first */
	unsigned column_count, sort;
	const char *name_head;
	struct sheet_row *rows;
	uint32_t count, room;
	struct arena arena;
	/* of column 0: rows at the top have percents; 0: they have not */
	uint64_t whole;
	/* in the order of the answer, and nothing changes: a log */
	int stays;
	/* of the first line; 0: not known */
	uint64_t rss_bytes;
	char says[160], right[80], warns[200];
	/* above the rows: what they come to, in sentences. Of the arena; NULL */
	const char *verdict;
	/* instead of rows */
	const char *empty;
};
void sheet_fini(struct sheet *sheet);
/** sheet_text() - a copy in the arena; NULL stays NULL. */
const char *sheet_text(struct sheet *sheet, const char *text);
/**
 * sheet_add() - one more row, all of its cells SHEET_NONE; NULL without memory. Valid until the
 * next.
 */
struct sheet_row *sheet_add(struct sheet *sheet, uint32_t parent, uint64_t key, const char *name);
/** sheet_key() - of @text below @parent's. */
uint64_t sheet_key(uint64_t parent, const char *text);

struct sheet_view;
struct sheet_view *sheet_view_new(struct err *err);
void sheet_view_free(struct sheet_view *view);
/**
 * sheet_view_feed() - show @sheet, which is taken and left empty. @time_ns: of CLOCK_MONOTONIC;
 * @live: changes of 10 s are told.
 */
int sheet_view_feed(struct sheet_view *view, struct sheet *sheet, uint64_t time_ns, int live,
		    struct err *err);
/** sheet_view_key() - 1 taken, 0 not one of these keys, negative errno with @err. */
int sheet_view_key(struct sheet_view *view, int key, struct err *err);
/** sheet_view_takes_all() - 1: text is being typed, or the help is open: every key is for that. */
int sheet_view_takes_all(const struct sheet_view *view);
int sheet_view_holds(const struct sheet_view *view);
/**
 * sheet_view_move() - what comes now is of another moment: what was fed before is not how it was
 * seconds ago. What the reader chose to compare with stays.
 */
void sheet_view_move(struct sheet_view *view);
/**
 * sheet_view_forget() - what comes now is something else: nothing of what was there, nor how it was
 * sorted and searched, counts any more.
 */
void sheet_view_forget(struct sheet_view *view);

/** struct sheet_frame - what stands around the rows. */
struct sheet_frame {
	/* ends of the first line */
	const char *title, *remark;
	/* to the last key, in the line below the rows; NULL */
	const char *said;
	/* last line: beside those that every sheet has */
	const char *keys;
	/* lines of the help above the common ones; ends with NULL */
	const char *const *help;
	/* instead of rows, where there is no answer yet */
	const char *waits;
	/* of RSS: a sparkline in the first line */
	const uint64_t *past;
	unsigned past_count;
};
void sheet_view_draw(struct sheet_view *view, const struct sheet_frame *frame, struct grid *grid);
/**
 * sheet_view_path() - the row under the cursor and what it hangs below, a line each; appended to
 * @to.
 */
void sheet_view_path(const struct sheet_view *view, struct buf *to);

#endif
