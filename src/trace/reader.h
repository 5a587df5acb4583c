/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - the open recording: finding blocks and loading them. Private to trace/. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

/*
 * A circle of files: a reader is replayed, what a replay finds at the end of a file is told to the
 * reader that it has.
 */

#include "trace/block.h"
#include "trace/events.h"
#include "trace/index.h"
#include "trace/trace.h"

struct trace_reader {
	char *path;
	int fd;
	struct zblock_dec *zdec;
	struct blt_file_header header;
	int header_damaged;
	struct trace_reader_info info;
	struct index index;
	/* as the index says; only events where there is none */
	struct events_tally total;
	struct buf payload, scratch;
	struct blt_flows flows;
	/*
	 * the block that snapshots resemble, as long as the next ones name the same; like_at 0:
	 * none is loaded
	 */
	struct buf like_scratch;
	struct blt_view like;
	uint64_t like_at;
	/* FILE.pending; its events stand for those from @side_from on */
	struct trace_reader *side;
	uint64_t side_from;
};

/**
 * reader_of() - trace_reader_new() of a file that is open; @fd is the reader's from here on, also
 * on failure.
 */
struct trace_reader *reader_of(int fd, const char *path, struct err *err);
/**
 * reader_is_written() - 1: the writer of the file lives, and holds its lock. Not of a descriptor
 * that may hold the lock itself.
 */
int reader_is_written(int fd);
/** reader_is_replaced() - 1: the side file's events stand for those of this block. */
static inline int reader_is_replaced(const struct trace_reader *r, uint64_t at,
				     const struct blt_head *head)
{
	return r->side && head->type == BLT_EVENTS && at >= r->side_from;
}
/**
 * reader_head() - the block header at @at: 1, 0 if there is none (or its block does not fit in the
 * file), negative errno.
 */
int reader_head(struct trace_reader *r, uint64_t at, struct blt_head *head);
/**
 * reader_resync() - the next block at or after @from: 1 with *@at, 0 if there is none, negative
 * errno.
 */
int reader_resync(struct trace_reader *r, uint64_t from, uint64_t *at);
/**
 * reader_payload() - the stored bytes of a block, their checksum compared; valid until the next
 * call. As reader_load().
 */
int reader_payload(struct trace_reader *r, uint64_t at, const struct blt_head *head,
		   const uint8_t **payload);
/**
 * reader_load() - read, check and decompress a block; @view is valid until the next call on @r.
 * Return: 0, -EBADMSG for a damaged block, other negative errno.
 */
int reader_load(struct trace_reader *r, uint64_t at, const struct blt_head *head,
		struct blt_view *view);

#endif
