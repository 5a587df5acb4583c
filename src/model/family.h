/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.h - processes that were recorded together: a program and all that it started
 * (--follow-children), a recording each. query/family.h finds them, out/family.h writes them.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <stddef.h>
#include <stdint.h>

#include "model/prof.h"

#define FAMILY_NOBODY 0xffffffffu
/*
 * Behind what a process was recorded by (DEF_PROCESS): that so many of its children are not
 * recorded, and, last, the program that it became by exec ("" = it is not known which).
 */
#define FAMILY_UNRECORDED "; unrecorded children: "
#define FAMILY_BECAME "; became "

/** struct family_member - one program's run, and what is in its recording. */
struct family_member {
	/* of its recording; the first where it was divided */
	char *path;
	/* of which it is made: MAX_SIZE */
	uint32_t files;
	/* place of who started it among the members; FAMILY_NOBODY: it is not among them */
	uint32_t parent;
	/* 0: below nobody */
	uint32_t depth;
	/* 0: not known */
	uint32_t pid, parent_pid;
	/* arguments end in NUL */
	char *exe, *cmdline;
	size_t cmdline_bytes;
	uint64_t start_realtime_ns, runtime_ns;
	/* of its file: what its times count from */
	uint64_t start_monotonic_ns;
	/* exit_status as waitpid() tells, -1 not known */
	int ended, complete, exit_status, goes_on;
	/* what it became by exec, where nobody recorded that; "" = not known what; NULL: nothing */
	char *became;
	/* of its children */
	uint32_t unrecorded;
	/* the library wrote it, since no recorder could be started */
	int is_raw;
	/* why its figures are not known; NULL: they are */
	char *trouble;
	struct prof_totals totals;
};

/**
 * struct family - members stand behind who started them, those of one parent in the order of their
 * start.
 */
struct family {
	char *folder;
	struct family_member *members;
	size_t count;
	/* recordings in the same folder that do not belong to them */
	size_t others;
};

#endif
