/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.h - a balance sheet with names: groups of stacks, and what would help, with its forecast.
 */
#ifndef VIEW_EXPLAIN_H
#define VIEW_EXPLAIN_H

#include "model/instant.h"
#include "view/reconcile.h"
#include "view/view.h"

enum advice_bound { ADVICE_EXACT, ADVICE_AT_MOST, ADVICE_UNKNOWN };
/** advice_bound_name() - "exact", "at-most", "unknown". */
const char *advice_bound_name(enum advice_bound bound);

#define ADVICE_MAX 16
struct advice {
	/* "malloc-trim" */
	const char *id;
	/* 0 with ADVICE_UNKNOWN */
	uint64_t saves_bytes;
	enum advice_bound bound;
	char text[320], command[160], evidence[320];
	int has_again;
	/* of it, touched again within @again_ns: from the snapshots that follow */
	uint64_t again_bytes;
	uint64_t again_ns;
};
struct not_advised {
	const char *id;
	char why[120];
};

struct explain_group {
	/* of the group; of stacks the innermost */
	struct view_frame frame;
	/* a row of the names; one example unless grouped by stack */
	uint32_t stack;
};

/**
 * struct explain_touch - anonymous memory under one mapping's name that one group touched first.
 */
struct explain_touch {
	const char *label;
	uint64_t bytes;
	/* of a group the one with most of it; lent from the reading */
	const struct page_stack *stack;
	/* whose frame stands for the group */
	uint16_t first;
};

struct explain {
	/* lent */
	const struct snapshot *snapshot;
	/* lent; NULL: nothing was recorded */
	const struct prof *names;
	struct sheet *sheet;
	enum view_by by;
	/* sheet->group_count */
	struct explain_group *groups;
	struct advice advice[ADVICE_MAX];
	unsigned advice_count;
	struct not_advised not_advised[ADVICE_MAX];
	unsigned not_advised_count;
	uint64_t lost_events, filtered;
	/* as of the instant: what came and went while it was read */
	int has_window;
	uint64_t window_allocated_bytes, window_freed_bytes;
	/* as instant.behind */
	int behind;
	/* as instant.unreadable */
	size_t unreadable;
	int recorded, complete;
	/* many blocks came and went while the heap was walked: caches are not told from them */
	int moving;
	/* nothing was recorded: why; NULL */
	const char *why_not;
	/* of the recording's reading of resident pages next to the moment */
	int has_pages;
	/* by label, of each the largest first */
	struct explain_touch *touched;
	size_t touched_count;
	/* of the class anonymous-mmap: what nothing else explains */
	uint64_t touched_bytes;
	/* how far the reading is from the snapshot */
	int64_t pages_age_ns;
	/* FILE at its peak: as instant.peak_rss_bytes; else 0 */
	uint64_t peak_rss_bytes;
	/* FILE: how far the snapshot is from the moment that was asked for */
	int64_t snapshot_age_ns;
};

struct explain_opt {
	enum view_by by;
	/* lent; NULL: the known ones */
	const struct view_skip *skip;
};

/**
 * explain_new() - the sheet of @instant, which is lent; its blocks and maps are sorted, and name
 * groups by opt->by instead of stacks afterwards: one sheet an instant. O(stacks + reconcile()).
 * NULL with @err.
 */
struct explain *explain_new(struct instant *instant, const struct explain_opt *opt,
			    struct err *err);
void explain_free(struct explain *explain);

/** explain_group_name() - what to call group @group, pseudo groups too. Lent. */
const char *explain_group_name(const struct explain *explain, uint32_t group);
/** explain_frame_name() - what to call the group that @frame stands for. Lent. */
const char *explain_frame_name(const struct explain *explain, const struct view_frame *frame);
/** What of a group beside its classes: memory that it never touched, and what was swapped out. */
enum { EXPLAIN_UNTOUCHED = SHEET_CLASSES, EXPLAIN_SWAPPED };

/**
 * explain_group_bytes() - what @group has of a class (enum sheet_class, or one of the two above);
 * 0: groups have no part in it.
 */
uint64_t explain_group_bytes(const struct sheet_group *group, unsigned class);

struct explain_ranked {
	uint64_t bytes;
	uint32_t group;
};
/**
 * explain_rank() - the @count groups that have some of @class, pseudo groups too, the costliest
 * first; malloc'd, NULL: no memory.
 */
struct explain_ranked *explain_rank(const struct explain *explain, unsigned class, size_t *count);

/** explain_line_bytes() - of class @class under label @label (NULL: all of the class). */
uint64_t explain_line_bytes(const struct explain *explain, unsigned class, const char *label);

/** struct explain_module - whose blocks an allocator has. */
struct explain_module {
	/* lent; "" where code has none */
	const char *module;
	/* lent */
	const char *allocator;
	uint64_t live_bytes, unit_bytes;
};
/**
 * explain_modules() - which allocator serves which module, those with most live bytes first;
 * malloc'd, *@count of them. Not by file. NULL with *@count 0 where nothing was recorded, or
 * without memory.
 */
struct explain_module *explain_modules(const struct explain *explain, size_t *count);
/**
 * explain_touched() - where in explain->touched those of @label stand, and how many: 0 where there
 * are none.
 */
size_t explain_touched(const struct explain *explain, const char *label, size_t *count);
/** explain_touch_frame() - frame @at of touch->stack. */
void explain_touch_frame(const struct explain_touch *touch, size_t at, struct view_frame *frame);

/** Private: touched.c */
int explain_touch(struct explain *explain, const struct instant *instant);
/** Private: advice.c */
void explain_advise(struct explain *explain, const struct instant *instant);

/** explain_is_walked() - of the runtime's heap on @line it is known which bytes are in use. */
int explain_is_walked(const struct sheet *sheet, const struct sheet_line *line);
/**
 * explain_counted() - bytes that a runtime's own counters said were in use when it last collected;
 * UINT64_MAX: it does not tell.
 */
uint64_t explain_counted(const struct explain *e, const struct sheet_line *line);
/**
 * explain_not_walked() - adds up all runtimes' heaps that are not walked: what is known to be in
 * use, and all else.
 */
void explain_not_walked(const struct explain *e, uint64_t *used, uint64_t *unknown);

#endif
