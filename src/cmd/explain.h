/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - sheets for `explain` itself, and for the last lines of what `run` prints. */
#ifndef CMD_EXPLAIN_H
#define CMD_EXPLAIN_H

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "out/out.h"
#include "query/query.h"
#include "view/view.h"

/** explain_brief() - three lines about the recording @path at its highest snapshot. Writes nothing where it has none. 0 or negative errno. */
int explain_brief(FILE *to, const char *path, const struct out_opt *opt, struct err *err);
/** explain_process_json() - the sheet of process @pid as it is now; nothing is stopped. Takes up to some seconds where it is recorded. */
int explain_process_json(FILE *to, pid_t pid, enum view_by by, size_t limit, struct err *err);

#endif
