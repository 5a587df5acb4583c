/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - the processes that something is about: ids, a name, a container, a cgroup, and what
 * they have started.
 */
#ifndef WATCH_TARGETS_H
#define WATCH_TARGETS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "proc/ledger.h"
#include "watch/container.h"

#define TARGETS_GIVEN_MAX 64

/** struct targets - what is looked for; zero-initialised: nothing. Texts are lent. */
struct targets {
	pid_t pids[TARGETS_GIVEN_MAX];
	unsigned pid_count;
	/* of the executable, comm or argv[0], without folders; or a glob */
	const char *name;
	/* name or id */
	const char *container;
	/* path below /sys/fs/cgroup, or absolute */
	const char *cgroup;
	int follow_children;
	/* a name that nothing carries yet is waited for by who follows: watchers_run() */
	int at_once;
	/* targets_find() waits for a program of that name; may be NULL */
	void (*waiting)(const char *name);
	/*
	 * process @pid is called so by @by ("comm", "argv[0]"), and its executable is called @exe;
	 * may be NULL
	 */
	void (*called)(pid_t pid, const char *by, const char *exe);
	/* once targets_find() has asked */
	char container_id[CONTAINER_ID_MAX + 1];
};

/** targets_given() - whether the command line names any. */
int targets_given(const struct targets *targets);

struct target_list {
	pid_t *pids;
	size_t count;
};
void target_list_fini(struct target_list *list);
/**
 * target_list_add() - each process is listed once. -EINVAL where there are more than any machine
 * has, -ENOMEM.
 */
int target_list_add(struct target_list *list, pid_t pid, struct err *err);

/**
 * targets_find() - the processes that run now, in the order given, then by PID; each once. A name
 * that nothing carries is waited for until a program of that name is executed, which waiting() is
 * told, or until @until_ns of CLOCK_MONOTONIC (0: for ever): then -EINVAL. An empty cgroup or
 * container is an error.
 */
int targets_find(struct targets *targets, uint64_t until_ns, struct target_list *list,
		 struct err *err);

/**
 * targets_follow() - whether others can come: those of a name, container or cgroup, or children.
 */
int targets_follow(const struct targets *targets);
/**
 * targets_more() - append to @list, which holds what is looked at now, what a name, a container or
 * a cgroup holds beside, and, where children are followed, all descendants of what is in the list.
 * None is no error.
 */
int targets_more(const struct targets *targets, struct target_list *list, struct err *err);
/**
 * targets_more_due() - when to look for more again after a look that took @cpu_ns: a second, or 0.1
 * % of one CPU.
 */
uint64_t targets_more_due(uint64_t cpu_ns);

/** targets_title() - who is meant, for a heading: "container 'web'". */
void targets_title(const struct targets *targets, struct buf *title);
/**
 * targets_cgroup() - a folder that was named is what is asked about, and holds those of the
 * processes: its sums stand in @ledger.
 */
void targets_cgroup(const struct targets *targets, struct ledger *ledger);

#endif
