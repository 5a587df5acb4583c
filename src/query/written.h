/* SPDX-License-Identifier: Apache-2.0 */
/* written.h - which recording a running program is being written to. */
#ifndef QUERY_WRITTEN_H
#define QUERY_WRITTEN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/**
 * written_find() - the .blt file in which some recorder on this machine is writing process @pid:
 * looked for among the files that running byteledgers hold open. *@path is malloc'd, and leads
 * there through /proc. -EINVAL with a hint where there is none.
 */
int written_find(pid_t pid, char **path, struct err *err);
/** written_of() - the same of whoever records process @pid by the preload library. */
void written_of(pid_t pid, char *path, size_t size);
/**
 * written_by() - the recording that process @recorder writes, by what its open files hold, whatever
 * they are called; "" where there is none that can be read, or @recorder is 0.
 */
void written_by(pid_t recorder, char *path, size_t size);

#endif
