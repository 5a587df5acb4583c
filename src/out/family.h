/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - processes that were recorded together, as a tree with their figures. */
#ifndef OUT_FAMILY_H
#define OUT_FAMILY_H

#include "model/family.h"
#include "out/out.h"

/**
 * out_family_text() - one line a process below who started it; @opt: width, colour, ascii.
 * @opt->limit: that many of those with the largest peaks, and who leads to them; 0: all.
 */
int out_family_text(FILE *to, const struct family *family, const struct out_opt *opt,
		    struct err *err);
int out_family_json(FILE *to, const struct family *family, struct err *err);

#endif
