/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - several recordings told as one, in the order of the clock. */
#ifndef QUERY_MERGE_H
#define QUERY_MERGE_H

#include "query/recording.h"

#define MERGE_MAX 1000 /* recordings at once: each is read by a thread of its own */

/**
 * merge_run() - the recordings at @paths, of any kind, into @to as if one process had done it
 * all: threads and blocks stay apart, equal stacks become one row in who reads it, RSS is the
 * sum of what the processes had at that moment. Time 0 is the first one's start; the others
 * stand where the clock says (that of the boot where they have one, else the wall clock). What a
 * process had not freed at its end stays. Addresses of the n-th process (from 0) have n << 47
 * added, so that none lies in another's. Recordings that are samples, have left short-lived
 * blocks out, are merged themselves or of one process: -EINVAL; being written: -EBUSY. @ears:
 * NULL, or who hears of progress and of what could not be read in which, on this thread. Memory:
 * what reading those takes that ran at the same time, at most 64 MiB of events that wait, 4
 * bytes for each definition and live block.
 */
int merge_run(const char *const *paths, size_t count, struct sink *to,
	      const struct recording_ears *ears, struct err *err);

#endif
