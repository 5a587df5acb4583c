/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.h - the screens of a heap: its call tree and its table, of a recording or of a program that
 * runs. Knows no terminal: it is fed with readings and keys, and draws into a grid.
 */
#ifndef TUI_HEAP_H
#define TUI_HEAP_H

#include "base/buf.h"
#include "tui/grid.h"
#include "view/view.h"

enum heap_screen { HEAP_TREE = 3, HEAP_TABLE = 4 }; /* by their digits */

struct heap_opt {
	/* what is looked at: "node 4242"; lent */
	const char *title;
	enum view_by by;
	enum view_cost cost;
	int inverted;
	/* readings go on: changes of the last 10 s are shown */
	int live;
	/* it is what lived at one moment: its blocks are its allocations */
	int moment;
	/* "at end", "at 14:03:22"; lent */
	const char *when;
	/* a function's name as people say it, appended to @to; NULL: as it is */
	void (*short_name)(struct buf *to, const char *function, int ascii);
};

struct heap_view;
/** heap_view_new() - NULL with @err. */
struct heap_view *heap_view_new(const struct heap_opt *opt, struct err *err);
void heap_view_freep(struct heap_view **view);

/**
 * heap_view_feed() - show @prof from here on; it has to stay until the next is fed or the view is
 * freed. @time_ns: its time since the recording's start. O(frames of stacks).
 */
int heap_view_feed(struct heap_view *view, const struct prof *prof, uint64_t time_ns,
		   struct err *err);
/**
 * heap_view_remark() - the right end of the first line: "no data for 7 s", "ended"; copied, "" for
 * none.
 */
void heap_view_remark(struct heap_view *view, const char *remark);
/** heap_view_say() - below the rows, until the next key; copied. */
void heap_view_say(struct heap_view *view, const char *said);
/** heap_view_tabs() - which screens there are, "2bal 3tree ..."; lent. */
void heap_view_tabs(struct heap_view *view, const char *tabs);
/** heap_view_key() - Return: 1 taken, 0 not one of this screen's keys, negative errno with @err. */
int heap_view_key(struct heap_view *view, int key, struct err *err);
/** heap_view_draw() - all of @grid. */
void heap_view_draw(struct heap_view *view, struct grid *grid);
enum heap_screen heap_view_screen(const struct heap_view *view);
/** heap_view_holds() - 1: the reader asked that nothing changes. */
int heap_view_holds(const struct heap_view *view);
/**
 * heap_view_path() - the frames of the row under the cursor, innermost first, a line each; appended
 * to @to.
 */
void heap_view_path(const struct heap_view *view, struct buf *to);

#endif
