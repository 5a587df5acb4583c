/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processes.h - the processes of this machine that hold memory, each in a row, for a table of them.
 */
#ifndef PROC_PROCESSES_H
#define PROC_PROCESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct process_row {
	pid_t pid;
	/* peak_bytes: 0 where nobody tells */
	uint64_t rss_bytes, peak_bytes;
	/* of whoever keeps the rows: RSS at the reading that changes are told from */
	uint64_t before_bytes;
	char name[120];
};

/**
 * processes_read() - those whose program's name @glob matches (NULL: any), in the order of /proc;
 * at most @room. Three files are read of each. Return: how many, or negative errno with @err.
 */
int processes_read(const char *glob, struct process_row *rows, size_t room, struct err *err);

#endif
