/* SPDX-License-Identifier: Apache-2.0 */
/* embed.h - what the files of libbyteledger share. Private. */
#ifndef EMBED_EMBED_H
#define EMBED_EMBED_H

#include "proc/breakdown.h"

#define EXPORT __attribute__((visibility("default")))
#define EMBED_TOP_MAX 1000

/**
 * embed_read() - one reading of the own process, the @keep largest mappings kept, labels bounded: below 1 MiB whatever the
 * process looks like; of a program with a Go runtime every mapping, and its heap's books, which is 300 bytes a mapping more. NULL with *@code a negative errno.
 */
struct breakdown *embed_read(size_t keep, int *code);

/** embed_names() - where the table of names lies; 0 where there is none yet. */
uint64_t embed_names(size_t *bytes);

#endif
