/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - several processes on one sheet: each shared page counted once, by PSS, so that the
 * processes of a container add up to what they have together; beside it what their cgroup is
 * charged for that no process maps. A full one has classes and what is held; a quick one, for a
 * table that is made again and again, sums of processes only.
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
	/* sockets: UINT64_MAX: not told */
	uint64_t virtual_bytes, socket_bytes, oom_bytes;
	/* -1: not told */
	int oom_score;
	/* of PSS since it was first looked at, in a quick one */
	int64_t grown_bytes;
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
	/* version 0: of none, or of several */
	struct cgroup_memory cgroup;
	/* 0, 1, or 2: more than one */
	int cgroups;
	/*
	 * files that are open and that none of them maps, each counted once however many hold it
	 * (see ledger_sort())
	 */
	uint64_t held_bytes, held_count;
	struct held_file *held, *mapped;
	size_t held_listed, mapped_count;
	/* processes that could not be read */
	uint64_t unread;
	int quick;
};

#define LEDGER_CLASSES_MAX 4096u

/** ledger_add() - one full reading more, with its beside. -ENOMEM. */
int ledger_add(struct ledger *ledger, const struct breakdown *breakdown);
/**
 * ledger_add_quick() - the sums that status and smaps_rollup tell of @target; all rows of one
 * ledger are of the same kind. Some 10 ms for each GiB of 4 KiB pages; the target's mmap() may pass
 * in between.
 */
int ledger_add_quick(struct ledger *ledger, const struct target *target, struct err *err);
/**
 * ledger_grown() - what each has more than in @before, which was sorted or not; who was not there
 * keeps 0.
 */
void ledger_grown(struct ledger *ledger, const struct ledger *before);
/**
 * ledger_sort() - processes and classes by @sort, the largest first; what is held by several is
 * counted once. Once, behind the last one.
 */
void ledger_sort(struct ledger *ledger, enum regions_sort sort);
/** ledger_text() - @title: what they have in common, "container 'x'". */
void ledger_text(struct buf *to, const struct ledger *ledger, const char *title,
		 const struct regions_text_opt *opt);
/**
 * ledger_live_text() - a quick one: a head line, a line of the cgroup and a table. @lines: at most
 * so many rows; 0: opt's top.
 */
void ledger_live_text(struct buf *to, const struct ledger *ledger, const char *title, size_t lines,
		      const struct regions_text_opt *opt);
/** ledger_sums() - of all rows. */
struct ledger_row ledger_sums(const struct ledger *ledger);
void ledger_fini(struct ledger *ledger);

#endif
