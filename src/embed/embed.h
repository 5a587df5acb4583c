/* SPDX-License-Identifier: Apache-2.0 */
/* embed.h - what the files of libbyteledger share. Private. */
#ifndef EMBED_EMBED_H
#define EMBED_EMBED_H

#include "base/buf.h"
#include "proc/breakdown.h"

#define EXPORT __attribute__((visibility("default")))
#define EMBED_TOP_MAX 1000

/**
 * embed_read() - one reading of the own process, the @keep largest mappings kept, labels bounded:
 * below 1 MiB whatever the process looks like; of a program with a Go runtime every mapping, and
 * its heap's books, which is 300 bytes a mapping more. NULL with *@code a negative errno.
 */
struct breakdown *embed_read(size_t keep, int *code);

/** embed_names() - where the table of names lies; 0 where there is none yet. */
uint64_t embed_names(size_t *bytes);

/**
 * embed_recorded() - ask the recorder of this process for @path of what it serves, and put its
 * whole answer, head and all, into @to. NULL, or why there is none, with *@status. Waits for it:
 * five seconds at most between two pieces, 16 MiB.
 */
const char *embed_recorded(const char *path, struct buf *to, int *status);

#endif
