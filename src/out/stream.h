/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - what the formats that write as events pass have in common. Private to out. */
#ifndef OUT_STREAM_H
#define OUT_STREAM_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/event.h"
#include "model/prof.h"

/**
 * struct out_stream - the head of each format's own struct; sink first, so that a sink is its
 * stream.
 */
struct out_stream {
	struct sink sink;
	FILE *to;
	/* knows the producer's numbers (prof_stack_row()), names and totals */
	const struct prof *names;
	/** Write the rest; @err is filled by out_stream_finish() when the stream has failed. */
	int (*finish)(struct out_stream *stream, struct err *err);
	/* release what the format allocated, not itself */
	void (*fini)(struct out_stream *stream);
};

/** out_no_memory() - the error for it. */
int out_no_memory(struct err *err);
/**
 * out_live_add() - to a sum of what lives. The prof refuses what is too much, but not where it was
 * filled from a summary.
 */
int out_live_add(uint64_t *live, uint64_t bytes, struct err *err);

/**
 * What a frame is called where there is room for one word: the function, else "module+0x123", else
 * "0x123".
 */
struct out_label {
	char text[512];
};
const char *out_symbol_label(const struct prof *names, const struct prof_frame *frame,
			     const struct symbol *symbol, struct out_label *label);
/**
 * out_command_line() - the arguments joined by spaces, control characters replaced by spaces;
 * malloc'd, NULL without memory.
 */
char *out_command_line(const struct prof *names);

/**
 * out_clean_utf8() - append @text with bytes that are not UTF-8 as U+FFFD and control characters as
 * spaces.
 */
void out_clean_utf8(struct buf *to, const char *text);

/**
 * struct out_walk - one stack from its innermost call outwards, inlined functions one by one,
 * allocator wrappers at the inner end left out (view_frames() does the same, but knows no frame
 * numbers).
 */
struct out_walk {
	const struct prof *prof;
	uint32_t stack, symbol;
	/* still at wrappers */
	int inner;
};
struct out_step {
	/* != 0: not a frame but why the stack is partial; always the last step */
	unsigned stop;
	/* row */
	struct frame_id frame;
	/* index of the function within the frame; 0 where there are none */
	uint32_t symbol;
};
void out_walk_init(struct out_walk *walk, const struct prof *prof, struct stack_id stack);
/** out_walk_next() - 1 and the next step, 0 past the outermost. */
int out_walk_next(struct out_walk *walk, struct out_step *step);

#endif
