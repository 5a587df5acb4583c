/* SPDX-License-Identifier: Apache-2.0 */
/* instant.h - a recording at the moment of one of its snapshots: model/instant.h made. */
#ifndef QUERY_INSTANT_H
#define QUERY_INSTANT_H

#include <sys/types.h>

#include "model/instant.h"
#include "query/query.h"

/**
 * instant_is_there() - has the recording @path any snapshot? 1, 0; negative errno where it cannot
 * be read. Reads the heads of all blocks.
 */
int instant_is_there(const char *path);

/**
 * instant_read() - of the recording @path the snapshot nearest to @time (NULL, none, peak: that
 * with the most memory), what lived then, and what later ones say. @source: where the events come
 * from, NULL: the file itself. Names are not resolved. Cost: a replay up to there; 24 bytes a live
 * block, and the reader's own. 0; -ENODATA with a hint where it has no snapshot; negative errno,
 * and
 * @instant is empty.
 */
int instant_read(const char *path, const struct query_time *time, const struct query_source *source,
		 struct instant *instant, struct err *err);

/**
 * instant_join() - the blocks that the recording @path holds at instant->snapshot's moment, in the
 * place of what was there. As instant_read().
 */
int instant_join(const char *path, struct instant *instant, struct err *err);
/**
 * instant_of_process() - process @pid as it is now, with the blocks that its recording holds at
 * that moment where it is recorded: then the recorder is waited for, some seconds at most. @freeze:
 * its threads stop meanwhile. *@why_not: why there are no blocks, NULL where there are. 0 or
 * negative errno, and @instant is to be released in any case.
 */
int instant_of_process(pid_t pid, int freeze, struct instant *instant, const char **why_not,
		       struct err *err);
/** instant_zero() - CLOCK_REALTIME at the recording's time 0; 0: not known. */
uint64_t instant_zero(const char *path);

#endif
