/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - a folder of its own for a recording that nobody keeps. */
#ifndef RECORDER_SCRATCH_H
#define RECORDER_SCRATCH_H

#include "base/err.h"

struct scratch {
	char folder[512];
	/* where the recording is to be written */
	char path[600];
};
/** scratch_make() - in $TMPDIR, or /tmp. 0 or negative errno. */
int scratch_make(struct scratch *scratch, struct err *err);
/** scratch_remove() - the folder, and @made in it ("": nothing was recorded). */
void scratch_remove(const struct scratch *scratch, const char *made);

#endif
