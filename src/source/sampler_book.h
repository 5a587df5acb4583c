/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_book.h - from the sampler's tables in the kernel to a book of samples. */
#ifndef SOURCE_SAMPLER_BOOK_H
#define SOURCE_SAMPLER_BOOK_H

#include "model/samples.h"
#include "source/sampler.h"

/** sampler_read() - every row, what is live, losses and calls as they are now. O(rows + live blocks), milliseconds. */
int sampler_read(struct sampler *sampler, struct samples *samples, struct err *err);
/** sampler_note_functions() - those that were attached in @pid. */
int sampler_note_functions(struct samples *samples, uint32_t pid,
			   const struct sampler_functions *functions, struct err *err);

#endif
