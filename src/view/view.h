/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - pure functions of a reading: rows for tables and JSON, a call tree for flame graphs and
 * text trees.
 */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"

enum view_by {
	VIEW_BY_STACK = 0,
	VIEW_BY_FUNCTION,
	VIEW_BY_MODULE,
	VIEW_BY_FILE,
	VIEW_BY_LINE,
	VIEW_BY_THREAD
};
enum view_cost {
	VIEW_COST_PEAK = 0,
	VIEW_COST_ALLOCATIONS,
	VIEW_COST_ALLOCATED,
	VIEW_COST_TEMPORARY,
	VIEW_COST_LEAKED,
	VIEW_COST_LIVE
};

/** view_by_parse(), view_cost_parse() - docs/rules.md's words; else -EINVAL, which lists them. */
int view_by_parse(const char *word, enum view_by *by, struct err *err);
int view_cost_parse(const char *word, enum view_cost *cost, struct err *err);
/** view_cost_name() - the word for it. */
const char *view_cost_name(enum view_cost cost);
/** view_cost_of() - the column that @which names. */
uint64_t view_cost_of(const struct cost *cost, enum view_cost which);

/** One frame as shown: inlined frames already unfolded. Strings are lent from the prof. */
struct view_frame {
	/* NULL = unknown */
	const char *function;
	/* base name; NULL = unknown */
	const char *module;
	uint64_t offset;
	/* NULL = unknown */
	const char *file;
	uint32_t line;
	uint8_t inlined;
	/* stands for all functions without a name that @module has there: @offset is one example */
	uint8_t folded;
};

/**
 * struct view_programs - the programs of two readings that are compared, as their modules are
 * called: builds of one program have names of their own. view_programs() - NULLs where they are
 * called alike, or one is not known. Lent of both.
 */
struct view_programs {
	const char *before, *after;
};
struct view_programs view_programs(const struct prof *before, const struct prof *after);
/** view_program_module() - what @module of the reading before is called in the one after. */
const char *view_program_module(const struct view_programs *programs, const char *module);

/** view_frame_key() - what names the group that @frame is in (docs/api.md 2). O(its texts). */
uint64_t view_frame_key(const struct view_frame *frame, enum view_by by);
/**
 * view_frames() - the frames of @stack, innermost first, inlined ones unfolded, allocator wrappers
 * (operator new, operator new[]; the rule is in view/frames.c) at the inner end left out: the first
 * is the caller of the outermost allocator call. Return: the number written, at most @max; @stop
 * receives the reason a partial stack ended (0 complete).
 */
size_t view_frames(const struct prof *prof, struct stack_id stack, struct view_frame *out,
		   size_t max, unsigned *stop);

/**
 * view_is_wrapper() - 1 for a function that is itself an allocator call (operator new and its
 * mangled names, malloc and its kin): at the inner end of a stack it is left out.
 */
int view_is_wrapper(const char *function);
/**
 * view_stop_label() - "[partial: too_deep]": the outermost entry of a stack that ended early; NULL
 * for 0.
 */
const char *view_stop_label(unsigned stop);

/** What a function tells about why memory is held. */
enum view_role {
	VIEW_OWN,      /* the program's, or a library's own work */
	VIEW_HELPER,   /* allocates for others: xmalloc, g_strdup, sqlite3DbMallocZero */
	VIEW_STANDARD, /* inside the language's standard library */
	VIEW_START     /* what stands above main in every stack */
};
/** view_role() - by its name alone, which may be NULL: VIEW_OWN. */
enum view_role view_role(const char *function);

/**
 * struct view_skip - which functions do not count as who asked: helpers and the standard library,
 * at the inner end of a stack. view_skip_new() - these and what matches one of @count POSIX
 * extended patterns; with @off only the latter. -EINVAL for a bad pattern. view_skip_freep()
 * accepts NULL. A NULL one means the known ones.
 */
struct view_skip;
struct view_skip *view_skip_new(int off, const char *const *regexes, size_t count, struct err *err);
void view_skip_freep(struct view_skip **skip);
/** view_skip_role() - view_role() under @skip: VIEW_HELPER for what matches. */
enum view_role view_skip_role(const struct view_skip *skip, const char *function);
/**
 * view_skip_count() - how many of @frames, innermost first, are skipped; 0 where none of them would
 * be left.
 */
size_t view_skip_count(const struct view_skip *skip, const struct view_frame *frames, size_t count);

struct view_row {
	/* own: of the stacks whose innermost frame is this one */
	struct cost cost;
	/* of all stacks in which it stands, each once; groups of frames only */
	struct cost inclusive;
	/* VIEW_BY_STACK: the stack; others: one example */
	struct stack_id stack;
	/* the group's frame; unused for stack and thread */
	struct view_frame frame;
	/* VIEW_BY_THREAD */
	uint32_t tid;
	const char *thread_name;
	unsigned stop;
};
/** struct view_opt - what a table is made of; all zero: stacks by their peak. */
struct view_opt {
	enum view_by by;
	enum view_cost cost;
	/* sort by the inclusive figures */
	int inclusive;
	/* spell out at most so many rows; 0 = all */
	size_t limit;
	/* lent; NULL: the known ones */
	const struct view_skip *skip;
};
struct view_table {
	/* the first @count of @total; sorted descending by the asked cost, then by frames */
	struct view_row *rows;
	/* groups with all-zero costs are left out of both */
	size_t count, total;
	/* of @total: that have any of the cost they are sorted by */
	size_t nonzero;
	enum view_by by;
	enum view_cost cost;
};
/** view_by_frames() - 1 for groups of frames: their rows have inclusive figures. */
static inline int view_by_frames(enum view_by by)
{
	return by != VIEW_BY_STACK && by != VIEW_BY_THREAD;
}
/**
 * view_table_new() - group the stacks; O(frames of stacks). Rows that differ only in hidden
 * allocator calls are merged. view_table_free() accepts NULL.
 */
struct view_table *view_table_new(const struct prof *prof, const struct view_opt *opt,
				  struct err *err);
void view_table_free(struct view_table *table);
void view_table_freep(struct view_table **table);

/**
 * view_each() - call @row for every group in order without holding them all: what an unlimited JSON
 * needs. A nonzero return of @row ends the walk and is returned; negative errno with @err where
 * grouping fails.
 */
int view_each(const struct prof *prof, const struct view_opt *opt,
	      int (*row)(void *ctx, const struct view_row *row), void *ctx, struct err *err);

/**
 * Call paths as their source shows them: stacks whose frames are the same functions at the same
 * lines. Two calls on one line are one path, and so is what differs within skipped wrappers only by
 * its line. Where a function has no line, its name stands for it; functions without a name are told
 * apart as in a tree with VIEW_TREE_FOLD_UNNAMED.
 */
struct view_path {
	struct cost cost;
	/* one example */
	struct stack_id stack;
};
struct view_paths {
	struct view_path *items;
	size_t count;
	struct cost whole;
	/* by module */
	uint8_t *fold;
};
/** view_paths_new() - O(stack rows); 12 bytes for each. @skip: NULL means the known ones. */
struct view_paths *view_paths_new(const struct prof *prof, const struct view_skip *skip,
				  struct err *err);
void view_paths_freep(struct view_paths **paths);
/** view_path_frames() - as view_frames(), neighbours without a name folded. */
size_t view_path_frames(const struct prof *prof, const struct view_paths *paths,
			struct stack_id stack, struct view_frame *out, size_t max, unsigned *stop);

/**
 * A call tree: node 0 is the root, a parent comes before its children. A compiler has more than a
 * million nodes, but a tenth of them allocate, and some ten thousand frames: both stand beside the
 * nodes.
 */
struct view_node {
	/* of the tree's cost, what hangs below included */
	uint64_t total;
	uint32_t parent;
	/* of view_tree.children */
	uint32_t first_child, child_count;
	/* of view_tree.frames; the root's is empty */
	uint32_t frame : 31;
	/* stacks come through other lines of it than its frame's, too */
	uint32_t other_lines : 1;
	/* of view_tree.selfs; 0 = nothing was allocated by this node itself */
	uint32_t self;
};
struct view_self {
	struct cost cost;
	uint32_t node;
	/* 1: callers further out were left out (view_tree.cut) */
	uint32_t cut;
};
struct view_tree {
	struct view_node *nodes;
	/* numbers of nodes: each node's together, descending by total */
	uint32_t *children;
	/* each at least once; 0 is empty */
	struct view_frame *frames;
	/* 0 is empty */
	struct view_self *selfs;
	uint32_t count, frame_count, self_count;
	enum view_cost cost;
	int inverted;
	/* call paths whose outer callers found no room, VIEW_TREE_INVERTED_MAX */
	uint32_t cut;
	/* of all stacks */
	struct cost whole;
};
enum { VIEW_TREE_INVERTED = 1, VIEW_TREE_FOLD_UNNAMED = 2 };
/**
 * Nodes of an inverted tree, at most. A compiler's has fewer, but where a program recurses deeply
 * and allocates on each level each call path would have as many of its own as it is deep: they
 * share out the room, and the outermost callers of the longest are left out.
 */
#define VIEW_TREE_INVERTED_MAX (1u << 22)
#define VIEW_CUT_LABEL "[callers left out]"
/**
 * view_tree_new() - fold stacks into a tree of functions (same function, module: same node),
 * callers on top unless
 * @how has VIEW_TREE_INVERTED. Stacks that ended early hang below a node named view_stop_label().
 * O(stacks), inverted
 * O(stacks * depth). VIEW_TREE_FOLD_UNNAMED makes one node (view_frame.folded) of neighbours
 * without a name in one module, for readers to whom an address between names says nothing; a module
 * without any names where much is allocated keeps its addresses, as there is nothing else to tell
 * its call paths apart.
 */
struct view_tree *view_tree_new(const struct prof *prof, enum view_cost cost, unsigned how,
				struct err *err);
/** view_node_frame() - what @node shows. */
static inline const struct view_frame *view_node_frame(const struct view_tree *tree, uint32_t node)
{
	return &tree->frames[tree->nodes[node].frame];
}
/** view_node_self() - what @node itself allocated, without what hangs below. */
static inline const struct cost *view_node_self(const struct view_tree *tree, uint32_t node)
{
	return &tree->selfs[tree->nodes[node].self].cost;
}
/** view_node_child() - its @i-th child, the costliest first; @i below child_count. */
static inline uint32_t view_node_child(const struct view_tree *tree, uint32_t node, uint32_t i)
{
	return tree->children[tree->nodes[node].first_child + i];
}
void view_tree_free(struct view_tree *tree);
void view_tree_freep(struct view_tree **tree);

#endif
