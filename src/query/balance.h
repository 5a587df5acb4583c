/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.h - the balance sheet (view/explain.h) of a process as it is, or of a recording at one of
 * its snapshots, with names.
 */
#ifndef QUERY_BALANCE_H
#define QUERY_BALANCE_H

#include <sys/types.h>

#include "model/instant.h"
#include "query/query.h"
#include "query/recording.h"
#include "view/explain.h"

/** struct balance - zero-initialised; balance_fini() in any case. */
struct balance {
	/* what it is of */
	struct instant instant;
	struct explain *explain;
};

/**
 * balance_read() - of the recording @path, at the snapshot nearest to @time, as instant_read()
 * finds it. @ears may be NULL. 0; -ENODATA where it has no snapshot; negative errno.
 */
int balance_read(struct balance *balance, const char *path, const struct query_time *time,
		 const struct recording_ears *ears, const struct explain_opt *opt, struct err *err);
/**
 * balance_of_process() - of process @pid, as instant_of_process() reads it; ->explain->why_not says
 * why it has no blocks.
 */
int balance_of_process(struct balance *balance, pid_t pid, int freeze,
		       const struct recording_ears *ears, const struct explain_opt *opt,
		       struct err *err);
void balance_fini(struct balance *balance);

#endif
