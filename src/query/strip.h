/* SPDX-License-Identifier: Apache-2.0 */
/* strip.h - a recording without the blocks that did not live for long: their sums by stack stay. */
#ifndef QUERY_STRIP_H
#define QUERY_STRIP_H

#include "model/cull.h"
#include "query/recording.h"

/**
 * strip_run() - @recording is read twice. @sums is given all of it (or has it: @known), and @to
 * what is left: a block
 * that was freed within @lifetime_ns of its allocation is counted (EVENT_CULLED) and not told, a
 * chain of reallocs being one block. @left_out: as of cull_result(). Memory: 64 bytes for each
 * block that lives at once, 48 to 96 for each sum, a million at most; a bit for each allocation, in
 * a temporary file. 0 or negative errno.
 */
int strip_run(struct recording *recording, uint64_t lifetime_ns, struct prof *sums, int known,
	      struct sink *to, struct cull_result *left_out, struct err *err);

#endif
