/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - what was read goes to a sink, checked: everything is defined before it is named. Private to trace/. */
#ifndef TRACE_REPLAY_H
#define TRACE_REPLAY_H

#include "trace/reader.h"

struct replay;
struct replay *replay_new(struct trace_reader *reader, struct sink *sink, struct err *err);
void replay_freep(struct replay **replay);
/** replay_defs() - hand on the definitions of one block. 0, -EBADMSG for damage, or the sink's error. */
int replay_defs(struct replay *replay, const struct blt_view *view, uint32_t rows, struct err *err);

/** replay_all_defs() - hand on all definitions of the file that are whole, and nothing else; reads no event block. */
int replay_all_defs(struct trace_reader *reader, struct sink *sink, struct err *err);

#endif
