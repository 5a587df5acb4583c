/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - resident pages as a call tree: a pure function of a reading (model/pages.h), whose
 * frames have been named, or are where they are shown.
 */
#ifndef VIEW_PAGES_H
#define VIEW_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/pages.h"

/**
 * struct pages_tree_opt - zero-initialised: callees on top, functions, all of RSS and the page
 * cache that was caused.
 */
struct pages_tree_opt {
	/* bits 1 << enum pages_kind; 0 = PAGES_TREE_KINDS */
	uint32_t kinds;
	/* outermost frames on top, callees below */
	int reverse;
	/* each call site is a node of its own; else each function */
	int by_site;
	/* children with less are added up; 0: none is */
	uint64_t threshold_bytes;
	/* levels; 0 = all */
	unsigned depth;
	/* children of a node; 0 = all */
	size_t limit;
	/*
	 * Look up the names of @count frames (any may come again), before they are told apart.
	 * Asked level by level, for what hangs below nodes that are shown: of most stacks a few
	 * frames. NULL: all are named.
	 */
	void (*name)(void *ctx, const struct page_frame *const *frames, size_t count);
	void *name_ctx;
};
#define PAGES_TREE_KINDS \
	(1u << PAGES_ANON | 1u << PAGES_SHMEM | 1u << PAGES_FILE | 1u << PAGES_CACHE)
/**
 * pages_kind_is_cache() - whether such pages stand in the page cache: mapped files, shared memory,
 * and what nobody has mapped.
 */
int pages_kind_is_cache(unsigned kind);

/** struct pages_node - sums of all that hangs below, @self of what ends here. */
struct pages_node {
	uint64_t bytes, cache_bytes;
	uint64_t self_bytes, self_cache_bytes;
	/* children below the threshold or beyond limit and depth */
	uint64_t under_bytes, under_cache_bytes;
	/* of the root: pages without a stack */
	uint64_t unknown_bytes, unknown_cache_bytes;
	/* one of them; NULL: the root */
	const struct page_frame *frame;
	/* NULL: no name is known */
	const struct symbol *symbol;
	/* largest first */
	struct pages_node **children;
	uint32_t count;
	/*
	 * the same for the same path in every tree of one source, as far as 32 bits tell paths
	 * apart
	 */
	uint32_t id;
};

struct pages_tree;
/** pages_tree_new() - of @process. O(stacks x depth of what is shown). NULL with @err -ENOMEM. */
struct pages_tree *pages_tree_new(const struct page_process *process,
				  const struct pages_tree_opt *opt, struct err *err);
const struct pages_node *pages_tree_root(const struct pages_tree *tree);
void pages_tree_free(struct pages_tree *tree);
void pages_tree_freep(struct pages_tree **tree);

/**
 * pages_growth() - what @now has more than @then (NULL: nothing was there), row by row, as a
 * process whose sums are those of its rows; what became less is left out. NULL without memory;
 * page_process_put() lets it go.
 */
struct page_process *pages_growth(const struct page_process *now, const struct page_process *then);

/**
 * pages_stack_first() - where in @stack who asked stands: the innermost frame that is no library's
 * and no helper's; else 0.
 */
uint16_t pages_stack_first(const struct page_stack *stack);

/**
 * pages_category() - "nodeRust", "nodeCpp" (the main executable) or "systemLib"; of TezEdge's
 * words.
 */
const char *pages_category(const struct page_frame *frame, const struct symbol *symbol,
			   const struct page_module *program);

#endif
