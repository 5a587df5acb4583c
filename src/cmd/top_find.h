/* SPDX-License-Identifier: Apache-2.0 */
/* top_find.h - which recording a running program is being written to. */
#ifndef CMD_TOP_FIND_H
#define CMD_TOP_FIND_H

#include <sys/types.h>

#include "base/err.h"

/**
 * top_find_recording() - the .blt file in which some recorder on this machine is writing process @pid: looked for among the files
 * that running byteledgers hold open. *@path is malloc'd, and leads there through /proc. -EINVAL with a hint where there is none.
 */
int top_find_recording(pid_t pid, char **path, struct err *err);

#endif
