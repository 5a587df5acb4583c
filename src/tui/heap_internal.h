/* SPDX-License-Identifier: Apache-2.0 */
/* heap_internal.h - what heap.c, which owns it, shares with heap_draw.c. */
#ifndef TUI_HEAP_INTERNAL_H
#define TUI_HEAP_INTERNAL_H

#include "tui/heap.h"
#include "tui/list.h"
#include "tui/past.h"
#include "view/fold.h"

#define HEAP_PAST 16         /* readings that are kept, a second apart at least */
#define HEAP_NODES_MAX 20000 /* of the tree: the costliest */
#define HEAP_FIND_MAX 120
#define HEAP_TRAIL 25 /* readings that a row's sparkline shows */
#define HEAP_STEPS_MAX 8
/* columns of a terminal that shows shares of temporary blocks and sparklines, and all there is */
#define HEAP_WIDE 120
#define HEAP_WIDEST 200

enum heap_sort {
	SORT_TOTAL,
	SORT_SELF,
	SORT_CHANGE,
	SORT_TEMPORARY,
	SORT_PEAK,
	SORT_RATE,
	SORT_NAME,
	SORT_WORDS
};

/* Further costs of a row, of wide terminals; HEAP_PEAK: where the rows are the peak's, live. */
enum heap_more { HEAP_CALLS, HEAP_TEMPORARY, HEAP_PEAK, HEAP_TRAFFIC, HEAP_MORE };
_Static_assert(HEAP_MORE <= FOLD_MORE_MAX, "a pick has room for all of them");

/* What some earlier reading said of each stack. */
struct heap_past {
	uint64_t time_ns;
	/* of the cost; allocated bytes */
	uint64_t *values, *traffic;
	uint32_t count;
};

struct heap_row {
	uint64_t key;
	uint64_t total, self, blocks;
	/* total in the reading that changes are told from */
	uint64_t before;
	uint64_t more[HEAP_MORE];
	uint32_t frame;
	/*
	 * of the tree; with @smaller it is no node but so many children of @pick, put together:
	 * total is their sum, and nothing else is told
	 */
	uint32_t pick, smaller;
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
	/* of the cost, by node */
	struct fold_sums shown;
	/* what the reader left out of it, or looks at alone; how these are called */
	struct fold_step steps[HEAP_STEPS_MAX];
	char step_names[HEAP_STEPS_MAX][80];
	unsigned step_count;
	/* of the cost */
	uint64_t whole;
	struct heap_past past[HEAP_PAST];
	unsigned past_count;
	/* asked for by the reader; values NULL: the one of ten seconds ago */
	struct heap_past base;
	/* totals by the rows' keys, a reading each; the oldest first */
	struct past_reading trail[HEAP_TRAIL];
	unsigned trail_count;
	/* of the reading that changes are told from */
	uint64_t before_ns;
	int has_before;
	/* of the terminal, when it was drawn last; has_more: rows have heap_row.more */
	unsigned columns;
	int has_more;
	/* of `p` */
	enum view_cost before_peak;

	enum heap_screen screen;
	enum heap_sort sort;
	int ascending, sorted, holds, help;
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

struct heap_sums {
	struct fold_sums cost, blocks, base, more[HEAP_MORE];
	/* of the cost, by account */
	uint64_t *accounts;
};
/** heap_list_stacks() - those that count anything; -ENOMEM. */
int heap_list_stacks(struct heap_view *view);
/** heap_add_up() - what is shown, from heap_view.fold. -ENOMEM, also as @err. */
int heap_add_up(struct heap_view *view, struct heap_sums *sums, struct err *err);
void heap_sums_fini(struct heap_sums *sums);
/** heap_remember() - this reading, if it is due; heap_set_base(): changes are told from it. */
void heap_remember(struct heap_view *view);
void heap_set_base(struct heap_view *view);
/** heap_forget() - all readings. */
void heap_forget(struct heap_view *view);
/** heap_trail() - what the rows say now, as their newest point; none where memory is out. */
void heap_trail(struct heap_view *view);
void heap_drop_trail(struct heap_view *view);
/** heap_trail_of() - how many points the row with @key has. */
unsigned heap_trail_of(const struct heap_view *view, uint64_t key, uint64_t points[HEAP_TRAIL]);
/** heap_widen() - rows once more, with what the terminal has room for now. */
int heap_widen(struct heap_view *view);
/** heap_temporary() - part of the row's allocations that was temporary, 0 to 1. */
static inline double heap_temporary(const struct heap_row *row)
{
	return row->more[HEAP_CALLS]
		       ? (double)row->more[HEAP_TEMPORARY] / (double)row->more[HEAP_CALLS]
		       : 0;
}
/** heap_name() - how a frame is called, appended to @to. */
void heap_name(const struct heap_view *view, const struct fold_frame *frame, struct buf *to,
	       int ascii);
/** heap_matches() - 1: the frame has what the reader looks for. */
int heap_matches(const struct heap_view *view, const struct fold_frame *frame);

#endif
