/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - the recordings of one family, found by any of them or by their folder. */
#ifndef QUERY_FAMILY_H
#define QUERY_FAMILY_H

#include "model/family.h"
#include "query/recording.h"

/**
 * family_read() - the family of the recording @path; of a folder: the family that began last in it.
 * All files there are looked into as far as their first block; those of the family are read as far
 * as their sums. A recording that knows of no family makes one with those whose parents' pids and
 * times say so, at the least with itself. A member that cannot be read has its trouble told.
 * @ears: NULL, or who hears how far it is. Return: release with family_freep(); NULL with @err.
 */
struct family *family_read(const char *path, const struct recording_ears *ears, struct err *err);
void family_freep(struct family **family);
/**
 * family_await() - the same once the recordings of all members that have ended are finished, which
 * takes their recorders some milliseconds; after 3 seconds as it is then.
 */
struct family *family_await(const char *path, struct err *err);
/**
 * family_unfinished() - how many members have ended, while their recordings are still being
 * written.
 */
size_t family_unfinished(const struct family *family);

#endif
