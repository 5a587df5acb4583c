/* SPDX-License-Identifier: Apache-2.0 */
/* sample_impl.h - what sample.c and sample_text.c share. */
#ifndef OUT_SAMPLE_IMPL_H
#define OUT_SAMPLE_IMPL_H

#include "base/buf.h"
#include "out/sample.h"

uint64_t sample_whole(double value);
#define SAMPLE_NUMBERS 256 /* of functions */
/**
 * sample_shared() - functions that several processes have in common: their calls are those of all
 * of them. By number.
 */
void sample_shared(const struct samples *samples, uint8_t shared[SAMPLE_NUMBERS]);
/**
 * sample_histogram() - the table of sizes that the baselines' users know: a row a power of two, and
 * a last line with the sums. Bars of at most 50 columns, fewer where lines have @width (0: any).
 */
void sample_histogram(struct buf *to, const double *size, double bytes, double count, size_t width);
/**
 * sample_frames() - a line a frame, innermost first: "ADDRESS - SYMBOL (module) file:line"; @width
 * 0: not cut.
 */
void sample_frames(struct buf *to, const struct samples *samples, const struct prof *prof,
		   const struct sample_row *row, size_t width);

#endif
