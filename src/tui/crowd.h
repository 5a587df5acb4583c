/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.h - processes on the terminal by what they hold, once a second, until the reader picks one
 * or has seen enough. One thread.
 */
#ifndef TUI_CROWD_H
#define TUI_CROWD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/processes.h"

#define CROWD_ROWS_MAX 65536

struct crowd_opt {
	/* the processes now, in any order: at most @room; how many, or negative errno with @err */
	int (*read)(void *ctx, struct process_row *rows, size_t room, struct err *err);
	void *ctx;
	/* what is shown; NULL: all */
	const char *words;
	/* between two readings */
	uint64_t delay_ns;
};

struct crowd;
struct crowd *crowd_new(const struct crowd_opt *opt, struct err *err);
/**
 * crowd_run() - take the screen. The process that was picked, 0: the reader leaves; negative errno
 * with @err.
 */
pid_t crowd_run(struct crowd *crowd, struct err *err);
/** crowd_say() - below the rows, until the next key. */
void crowd_say(struct crowd *crowd, const char *said);
void crowd_free(struct crowd *crowd);

#endif
