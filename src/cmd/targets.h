/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h - the processes that a command is about: -p PID, -n NAME, --container NAME|ID, --cgroup PATH (contract 2). */
#ifndef CMD_TARGETS_H
#define CMD_TARGETS_H

#include <argp.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define TARGETS_GIVEN_MAX 64

/** struct targets - what the command line said; zero-initialised, the child parser's input. Texts are argv's. */
struct targets {
	pid_t pids[TARGETS_GIVEN_MAX];
	unsigned pid_count;
	const char *name;      /* base name of the executable, or a glob */
	const char *container; /* name or id */
	const char *cgroup;    /* path below /sys/fs/cgroup, or absolute */
};

/** targets_argp - a child parser for -p, -n, --container and --cgroup. */
extern const struct argp targets_argp;

/** targets_given() - whether the command line names any. */
int targets_given(const struct targets *targets);

struct target_list {
	pid_t *pids;
	size_t count;
};
void target_list_fini(struct target_list *list);

/**
 * targets_find() - the processes that run now, in the order given, then by PID; each once. A name that nothing carries is
 * waited for until a program of that name is executed, which stderr says; an empty cgroup or container is an error.
 */
int targets_find(const struct targets *targets, struct target_list *list, struct err *err);

#endif
