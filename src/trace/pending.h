/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - FILE.pending: events that a culling has not decided about, kept beside a recording so
 * that a killed recorder loses none of them. Written anew each time, gone once the recording is
 * finished. Private to trace/; docs/format.md is normative.
 */
#ifndef TRACE_PENDING_H
#define TRACE_PENDING_H

#include "model/event.h"
#include "trace/block.h"
#include "trace/events.h"

#define PENDING_SUFFIX ".pending"
#define PENDING_SUFFIX_NEW ".pending.new" /* until it is whole */

enum pending_col {
	PEC_AT = 0,   /* where the recording's blocks end that belong to it */
	PEC_KIND = 1, /* a byte an event: kind | flags << 4 */
	PEC_TIME = 2, /* differences */
	PEC_THREAD = 3,
	PEC_STACK = 4, /* zigzag, differences; not of frees, nor are the next three */
	PEC_ADDR = 5,
	PEC_BYTES = 6,
	PEC_VALUE = 7, /* neither of allocations */
	PEC_AUX = 8,   /* not of allocations */
	PEC_BLOCK =
		/* frees: 2 x slot, or 2 x number of the allocation here + 1; others: block + 1 */
	9,
	PEC_COUNT
};

struct pending;

/** pending_there() - 1: beside @path stands what is, or may be, somebody's. */
int pending_there(const char *path);
/**
 * pending_new() - for the recording @path, which begins with @header and codes its events with
 * @enc.
 */
struct pending *pending_new(const char *path, const struct blt_file_header *header,
			    const struct events_enc *enc, struct err *err);
/**
 * pending_begin() - the recording is @end bytes long. Return: takes the events that are undecided
 * now, in order.
 */
struct sink *pending_begin(struct pending *pending, uint64_t end);
/**
 * pending_write() - what the sink took replaces the file's content, all or nothing; without any the
 * file is removed.
 * @fd: the recording, whose owner the file gets, too. 0 or negative errno: the older content stays.
 */
int pending_write(struct pending *pending, int fd, struct err *err);
/** pending_free() - @remove: the recording is finished. */
void pending_free(struct pending *pending, int remove);

#endif
