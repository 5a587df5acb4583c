/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pageown_walk.h - one walk over a process's page tables: pageown_walk.c takes the pages,
 * pageown_rows.c makes a reading of them.
 */
#ifndef SOURCE_PAGEOWN_WALK_H
#define SOURCE_PAGEOWN_WALK_H

#include "source/pageown_impl.h"

#define PAGEOWN_CHUNK 65536u /* entries of the page table that are read at once: 512 KiB */

enum { COUNTED = PAGES_HUGETLB + 1 }; /* kinds that stand in page tables */

/* Pages of one stack, or without one for one reason (MISSING | reason), in mappings of one name. */
struct cell {
	uint32_t label, stack;
	uint32_t pages[COUNTED];
	/* those of them that another process has, too, and was asked before */
	uint32_t again[COUNTED];
};
#define MISSING (1u << 31)

/* A mapping. */
struct mapping {
	uint64_t start, end;
	/* number of its name */
	uint32_t label;
	uint8_t is_file, hugetlb, shmem_known, shmem;
};

struct walk {
	struct pageown *p;
	struct followed *f;
	struct mapping *mappings;
	size_t count, cap;
	struct intern labels;
	struct cell *cells;
	struct idtab cell_tab;
	size_t cell_count, cell_cap, cell_last;
	int no_memory;
	/* waits for pages that are being moved */
	unsigned settling;
	/* of f among the processes */
	size_t at;
	/* numbers of the kernel side, and room for those to come */
	uint32_t stacks;
	struct sticky *fresh;
	struct sticky_block *old_block, *new_block;
	uint64_t block_number;
	struct wire_pages_window window, window_before;
	/* of window; window_before is the one below */
	uint64_t window_number;
	/* the window whose pages' folio was asked for last */
	uint64_t folio_number;
	uint32_t folio_stack;
	/* the 2 MiB whose owner was asked for last */
	uint64_t huge_number;
	uint32_t huge_stack;
	uint64_t *entries;
	struct page_process *fresh_process;
	/* pages of a stack that somebody has mapped; over all processes */
	uint32_t *seen_cache, *seen_anon, *seen_kernel;
};

/**
 * pageown_walk() - list the mappings of @w->f and take all their pages into cells. 0, -ESRCH where
 * it is ending, or negative errno.
 */
int pageown_walk(struct walk *w, struct err *err);

#endif
