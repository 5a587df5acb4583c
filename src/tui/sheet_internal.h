/* SPDX-License-Identifier: Apache-2.0 */
/* sheet_internal.h - what sheet.c, which owns it, shares with sheet_draw.c. */
#ifndef TUI_SHEET_INTERNAL_H
#define TUI_SHEET_INTERNAL_H

#include "tui/list.h"
#include "tui/past.h"
#include "tui/sheet.h"

/** struct sheet_line - a row that is shown. */
struct sheet_line {
	uint32_t row;
	uint16_t depth;
	uint8_t opens, is_open, last;
	/* bit n: what it hangs below, n levels up, has rows to come */
	uint64_t guides;
};

struct sheet_view {
	struct sheet sheet;
	/* sorted: the reader has said by what */
	int fed, sorted;
	uint64_t time_ns, before_ns;
	/* by row; NULL: there is nothing to tell changes from */
	int64_t *before;
	/* what column 0 said of each key */
	struct past past;
	struct sheet_line *lines;
	uint32_t line_count;
	struct list list;
	/* column, then change, then name */
	unsigned sort;
	int ascending, holds, help, finding;
	/* keys that the reader has turned from what they are at first, sorted */
	uint64_t *open;
	size_t open_count, open_room;
	/* rows that the verdict has had so far in a terminal of that width: it takes no fewer */
	unsigned verdict_rows, verdict_columns;
	char find[SHEET_FIND_MAX + 1];
	uint32_t matched;
};

/** sheet_changes() - 1: there is a column of changes. */
int sheet_changes(const struct sheet_view *view);

#endif
