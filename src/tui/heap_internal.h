/* SPDX-License-Identifier: Apache-2.0 */
/* heap_internal.h - what heap.c, which owns it, shares with heap_draw.c. */
#ifndef TUI_HEAP_INTERNAL_H
#define TUI_HEAP_INTERNAL_H

#include "tui/heap.h"
#include "tui/list.h"
#include "view/fold.h"

#define HEAP_PAST 16         /* readings that are kept, a second apart at least */
#define HEAP_NODES_MAX 20000 /* of the tree: the costliest */
#define HEAP_FIND_MAX 120

enum heap_sort { SORT_TOTAL, SORT_SELF, SORT_CHANGE, SORT_NAME, SORT_WORDS };

/* What some earlier reading said of each stack. */
struct heap_past {
	uint64_t time_ns;
	uint64_t *values;
	uint32_t count;
};

struct heap_row {
	uint64_t key;
	uint64_t total, self, blocks;
	/* total in the reading that changes are told from */
	uint64_t before;
	uint32_t frame;
	/* of the tree */
	uint32_t pick;
	uint16_t depth;
	/* last: of its parent's children that are shown */
	uint8_t opens, is_open, last;
	/* bit n: a line goes on at depth n */
	uint64_t guides;
};

struct heap_view {
	struct heap_opt opt;
	const struct prof *prof;
	uint64_t time_ns;
	struct prof_totals totals;
	struct fold *fold;
	uint32_t *stacks;
	uint32_t stack_count;
	struct fold_picks picks;
	/* of the cost */
	uint64_t whole;
	struct heap_past past[HEAP_PAST];
	unsigned past_count;
	/* asked for by the reader; values NULL: the one of ten seconds ago */
	struct heap_past base;
	/* of the reading that changes are told from */
	uint64_t before_ns;
	int has_before;

	enum heap_screen screen;
	enum heap_sort sort;
	int ascending, holds, help;
	/* the reader opened or closed something: nothing opens by itself */
	int touched;
	struct heap_row *rows;
	uint32_t row_count;
	struct list list;
	/* keys, sorted */
	uint64_t *open;
	size_t open_count, open_room;
	char find[HEAP_FIND_MAX + 1];
	size_t find_len;
	/* text is being typed */
	int finding;
	char remark[64];
	char said[160];
	/* NULL: those of this view alone */
	const char *tabs;
};

/** heap_name() - how a frame is called, appended to @to. */
void heap_name(const struct heap_view *view, const struct fold_frame *frame, struct buf *to,
	       int ascii);
/** heap_matches() - 1: the frame has what the reader looks for. */
int heap_matches(const struct heap_view *view, const struct fold_frame *frame);

#endif
