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

/** struct family_member - one program's run, and what is in its recording. */
struct family_member {
	char *path;     /* of its recording; the first where it was divided */
	uint32_t files; /* of which it is made: MAX_SIZE */
	/* place of who started it among the members; FAMILY_NOBODY: it is not among them */
	uint32_t parent;
	uint32_t depth;           /* 0: below nobody */
	uint32_t pid, parent_pid; /* 0: not known */
	char *exe, *cmdline;      /* arguments end in NUL */
	size_t cmdline_bytes;
	uint64_t start_realtime_ns, runtime_ns;
	uint64_t start_monotonic_ns; /* of its file: what its times count from */
	int ended, complete, exit_status,
		goes_on; /* exit_status as waitpid() tells, -1 not known */
	char *trouble;   /* why its figures are not known; NULL: they are */
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
	size_t others; /* recordings in the same folder that do not belong to them */
};

#endif
