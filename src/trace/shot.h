/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shot.h - SNAPSHOT blocks: where a process's memory was at one instant, one a block. Private to
 * trace/; docs/format.md is normative.
 */
#ifndef TRACE_SHOT_H
#define TRACE_SHOT_H

#include "model/snapshot.h"
#include "trace/block.h"

enum shot_col {
	SHC_HEAD =
		0, /* numbers that there are once, how many rows each list has, and the settings */
	SHC_TEXT = 1,
	SHC_REGIONS = 2,
	SHC_RUNS = 3,
	SHC_UNITS = 4,
	SHC_PIECES = 5,
	SHC_RANGES = 6, /* stacks, own ranges */
	SHC_HEAPS = 7,  /* allocators, sizes */
};

/** shot_encode() - the columns of a SNAPSHOT block. */
void shot_encode(struct blt_cols *cols, const struct snapshot *snapshot);
/**
 * shot_decode() - NULL with *@rc -EBADMSG (what it says is not possible: snapshot_check()) or
 * -ENOMEM. Memory: some times the block's.
 */
struct snapshot *shot_decode(const struct blt_view *view, int *rc);
/** shot_time() - of its instant alone; UINT64_MAX where the block is damaged. */
uint64_t shot_time(const struct blt_view *view, uint64_t *rss_bytes);

#endif
