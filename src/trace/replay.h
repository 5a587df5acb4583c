/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - what was read goes to a sink, checked: everything is defined before it is named.
 * Private to trace/.
 */
#ifndef TRACE_REPLAY_H
#define TRACE_REPLAY_H

#include "trace/reader.h"

struct events_dec;
struct replay;
struct replay *replay_new(struct trace_reader *reader, struct sink *sink, struct err *err);
void replay_freep(struct replay **replay);
/** replay_fit() - how many definitions a file of this size may bring; again when it has grown. */
void replay_fit(struct replay *replay);
/**
 * replay_decoder() - a decoder of events that go where @replay's definitions go; NULL with @err.
 * Release with events_dec_free().
 */
struct events_dec *replay_decoder(struct replay *replay, struct err *err);
/**
 * replay_block() - load the block at @at of @from and hand on what is in it. Return: 0 (other
 * types: nothing to do), 1 it was skipped because it builds on missing ones, -EBADMSG damaged, or a
 * negative errno; replay_sink_failed() tells whose.
 */
int replay_block(struct replay *replay, struct trace_reader *from, struct events_dec *dec,
		 uint64_t at, const struct blt_head *head, struct err *err);
/** replay_sink_failed() - the last failure was the sink's, whatever its number: no damage. */
int replay_sink_failed(const struct replay *replay);
/**
 * replay_defs() - hand on the definitions of one block. 0, -EBADMSG for damage, or the sink's
 * error.
 */
int replay_defs(struct replay *replay, const struct blt_view *view, uint32_t rows, struct err *err);

/**
 * replay_all_defs() - hand on all definitions of the file that are whole, and nothing else; reads
 * no event block.
 */
int replay_all_defs(struct trace_reader *reader, struct sink *sink, struct err *err);

#endif
