/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breakdown.h - where a process's memory is, at one moment: every mapping classified, the classes
 * adding up to RSS exactly, threads with their stacks, and the kernel's own sums beside ours.
 */
#ifndef PROC_BREAKDOWN_H
#define PROC_BREAKDOWN_H

/*
 * A circle of files: beside and owned fill members of struct breakdown, and breakdown.c asks them
 * to.
 */

#include "base/err.h"
#include "base/intern.h"
#include "proc/allocator.h"
#include "proc/classify.h"
#include "proc/names.h"
#include "proc/region.h"
#include "proc/smaps.h"
#include "proc/stacks.h"
#include "proc/target.h"
#include "proc/threads.h"

struct beside;
struct heap_files;
struct numa;
struct owned;
struct settings;
struct units;

/** struct class_row - sums over the mappings of one class and label. */
struct class_row {
	/* how: of the largest mapping in it */
	unsigned class, how;
	const char *label;
	uint64_t rss_bytes, pss_bytes, virtual_bytes, swap_bytes, hugetlb_bytes, count;
	uint64_t private_bytes, shared_bytes, dirty_bytes, thp_bytes, lazy_free_bytes, ksm_bytes,
		locked_bytes, referenced_bytes;
	/* RSS of the mapping that @how comes from */
	uint64_t largest_bytes;
};

/** class_row_add() - add a mapping's figures to a zeroed or earlier row. */
void class_row_add(struct class_row *row, const struct region *region);

struct breakdown_opt {
	/* maps + pagemap instead of smaps: RSS and swap, no PSS, hardly any stall */
	int quick;
	/*
	 * All that pagemap knows beside: which pages are a file's, huge, mapped by others, too.
	 * Without the pauses of a quick reading. Where the kernel tells less (before Linux 6.11) it
	 * is a full one instead.
	 */
	int parts;
	/* leave threads out; stacks are then known by their shape only */
	int no_threads;
	/* leave status and smaps_rollup out: the latter walks all pages once more */
	int no_checks;
	/* smaps_rollup only where the kernel's counters differ from the sum by more than 1 % */
	int doubt_only;
	/* how many mappings to keep, the largest by RSS; 0 = every one, by address */
	size_t keep;
	/* rows of classes; what comes later goes to "(other)" of its class. 0 = 4096 */
	uint32_t labels_max;
	/* by BPF, of threads that run; may be NULL */
	threads_facts_fn facts;
	/* see struct classifier */
	const struct module_extent *modules;
	size_t module_count;
	/* of libbyteledger's table; needed only if not every mapping is kept */
	const struct names *names;
};

struct breakdown {
	pid_t pid;
	char comm[32];
	/* CLOCK_REALTIME at the start of the reading */
	uint64_t time_ns;
	/* CLOCK_MONOTONIC */
	uint64_t start_ns, end_ns;
	/* PSS and all that stands in smaps is known */
	int full;
	/*
	 * for allocators as well: gently for who asked has time (quick), nobody raised where
	 * readings come by themselves while others work (parts)
	 */
	enum turns_how turns;
	struct reading reading;

	/* sums over all mappings; reserved (no access) is part of virtual */
	uint64_t rss_bytes, pss_bytes, virtual_bytes, reserved_bytes, swap_bytes, hugetlb_bytes,
		own_rss_bytes;
	/* UINT64_MAX: not read */
	uint64_t rollup_rss_bytes, rollup_pss_bytes;
	struct proc_totals totals;

	/* largest RSS first, then by virtual size and label */
	struct class_row *classes;
	size_t class_count;
	/* by address if every one was kept, else by RSS */
	struct region *regions;
	size_t region_count;
	/* how many mappings there were */
	uint64_t region_total;
	/* of libbyteledger\'s table: valid, and against the rules */
	size_t names_used, names_dropped;
	/* by tid */
	struct thread_stack *threads;
	size_t thread_count;
	/* that wait in glibc's cache, where a mapping holds several stacks */
	struct stack_blocks idle_stacks;
	/* filled by heaps_read(); malloc'd */
	struct allocator_reading *allocators;
	size_t allocator_count;
	/*
	 * negative errno: what is resident may not be asked, so no allocator and no stack is told;
	 * 0
	 */
	int heaps_refused;
	/* proc/settings.h; malloc'd, NULL: not asked */
	struct settings *settings;
	/* proc/numa.h; malloc'd, NULL: not asked */
	struct numa *numa;
	/* proc/beside.h; malloc'd, NULL: not asked */
	struct beside *beside;
	/* CLOCK_MONOTONIC of the reading of allocators that labels rest on; 0: by rules alone */
	uint64_t named_ns;
	/* proc/owned.h: by whom, as heaps_read() was told. NULL: not asked */
	struct owned *owned;
	/*
	 * heaps/files.h: by whom heaps_read() asks for names in files; lent, NULL: by nobody. And
	 * of whom, during it
	 */
	const struct heap_files *files;
	const struct target *files_of;
	/* heaps/units.h: who wants to know what they hold sets it before heaps_read(); lent */
	struct units *units;

	/* Private: owns the text of regions and rows. */
	int keeps_all;
	struct intern names;
	struct idtab rows;
	uint32_t last_row[REGION_CLASS_COUNT];
	uint32_t labels_max;
	size_t class_cap, region_cap;
};

/**
 * breakdown_read() - look at @target once; it is not stopped (but see smaps_each()). Memory: 300
 * bytes a kept mapping and its names, 200 bytes a label, 64 KiB. Return: release with
 * breakdown_free(); NULL with @err: -ESRCH (ended), -EACCES or
 * -EPERM (not permitted), -ENOMEM, -EBADMSG (the kernel's text is not understood).
 */
struct breakdown *breakdown_read(const struct target *target, const struct breakdown_opt *opt,
				 struct err *err);
void breakdown_free(struct breakdown *breakdown);
void breakdown_freep(struct breakdown **breakdown);

/**
 * breakdown_find() - index of the kept mapping that holds @addr, or region_count; only where every
 * one was kept. O(log n).
 */
size_t breakdown_find(const struct breakdown *breakdown, uint64_t addr);
/**
 * breakdown_relabel() - a reader of allocators or owners knows better what mapping @index is;
 * @label and @owner (may be NULL) are copied. Call breakdown_sum() once behind the last one.
 * -ENOMEM.
 */
int breakdown_relabel(struct breakdown *breakdown, size_t index, enum region_class class,
		      const char *label, const char *owner, enum region_how how);
/**
 * breakdown_cut() - put @names over the mappings that @wants (NULL: all) chooses, cutting them
 * where a name covers a part. Call breakdown_sum() behind it. Only where every one was kept.
 * -ENOMEM.
 */
int breakdown_cut(struct breakdown *breakdown, const struct target *target,
		  const struct names *names, int (*wants)(const struct region *region));
/**
 * breakdown_sum() - compute classes and totals anew from the mappings; only where every one was
 * kept.
 */
int breakdown_sum(struct breakdown *breakdown, struct err *err);

#endif
