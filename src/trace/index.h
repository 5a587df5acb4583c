/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - where the blocks stand, and the sums at the end. Private to trace/. */
#ifndef TRACE_INDEX_H
#define TRACE_INDEX_H

#include "trace/block.h"
#include "trace/events.h"

/*
 * Beyond this many entries every other one of the event blocks is forgotten, so a long recording's
 * index stays small.
 */
#define INDEX_MAX 32768

struct index_entry {
	/* byte offset of the block's header */
	uint64_t at;
	uint64_t time_ns;
	uint8_t type, flags;
};

/** struct index - zero-initialised is empty. */
struct index {
	struct index_entry *entry;
	uint32_t count, cap;
	/* of all types, the forgotten ones too */
	uint64_t blocks;
	/* event blocks that were offered since thinning began */
	uint64_t events;
	/* 0 or 1 = all */
	uint32_t keep_every;
};

void index_fini(struct index *index);
int index_add(struct index *index, uint64_t at, const struct blt_head *head, struct err *err);
void index_put(const struct index *index, const struct events_tally *tally, struct buf *to);
/**
 * index_get() - 0, -EBADMSG, -ENOMEM; @index is empty before. No entry lies outside @file_bytes.
 */
int index_get(struct index *index, struct events_tally *tally, const uint8_t *at,
	      const uint8_t *end, uint64_t file_bytes);

#endif
