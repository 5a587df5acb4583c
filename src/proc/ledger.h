/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - several processes on one sheet: each shared page counted once, by PSS, so that the processes of a container add up to
 * what they have together; beside it what their cgroup is charged for that no process maps.
 */
#ifndef PROC_LEDGER_H
#define PROC_LEDGER_H

#include "base/buf.h"
#include "base/intern.h"
#include "proc/beside.h"
#include "proc/breakdown.h"
#include "proc/text.h"
#include "proc/verdict.h"

/** struct ledger_row - one process. */
struct ledger_row {
	pid_t pid;
	char comm[32];
	uint64_t rss_bytes, pss_bytes, swap_bytes, page_table_bytes, mappings, private_bytes;
	struct verdict verdict;
};

/** struct ledger_class - of all of them, by PSS. */
struct ledger_class {
	unsigned class;
	const char *label;
	uint64_t rss_bytes, pss_bytes, swap_bytes, count, processes;
	pid_t last;
};

/** struct ledger - zeroed is empty. */
struct ledger {
	struct ledger_row *rows;
	size_t count, room;
	struct ledger_class *classes;
	size_t class_count, class_room;
	struct intern names;
	struct idtab index;
	struct cgroup_memory cgroup; /* version 0: of none, or of several */
	int cgroups;                 /* 0, 1, or 2: more than one */
	uint64_t held_bytes, held_count;
	uint64_t unread; /* processes that could not be read */
};

#define LEDGER_CLASSES_MAX 4096u

/** ledger_add() - one full reading more, with its beside. -ENOMEM. */
int ledger_add(struct ledger *ledger, const struct breakdown *breakdown);
/** ledger_sort() - processes and classes by @sort (growth: rss), the largest first. Once, behind the last one. */
void ledger_sort(struct ledger *ledger, enum regions_sort sort);
/** ledger_text() - @title: what they have in common, "container 'x'". */
void ledger_text(struct buf *to, const struct ledger *ledger, const char *title,
		 const struct regions_text_opt *opt);
void ledger_fini(struct ledger *ledger);

#endif
