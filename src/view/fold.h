/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold.h - stacks of one or two readings folded into one tree of keys: what the page, `top` and
 * comparisons look at.
 *
 * The tree is made once, of names alone; sums of any cost are added to it afterwards and cost
 * O(stacks + nodes). Two readings meet where their keys do, by symbol and not by address. What is
 * shown is picked from it: the costliest nodes, turned around where that is asked for without ever
 * building the turned tree.
 */
#ifndef VIEW_FOLD_H
#define VIEW_FOLD_H

#include "view/key.h"
#include "view/view.h"

#define FOLD_STEPS_MAX 32
#define FOLD_SIDES_MAX 2
#define FOLD_NODES_MAX (1u << 22) /* call paths beyond are cut where the room ends (fold.cut) */
#define FOLD_NONE UINT32_MAX
#define FOLD_MORE_MAX 4

enum fold_op { FOLD_HIDE = 1, FOLD_MODULE, FOLD_FOCUS, FOLD_DROP };
struct fold_step {
	enum fold_op op;
	/* but for FOLD_MODULE */
	uint64_t key;
	/* FOLD_MODULE: base name */
	const char *module;
};
/** struct fold_opt - zero-initialised: by stack, which folds as by function. */
struct fold_opt {
	enum view_by by;
	unsigned step_count;
	/* applied in order, outermost frame first */
	struct fold_step steps[FOLD_STEPS_MAX];
	/* after them: a frame on the path goes on there */
	int rec;
};
/**
 * struct fold_side - a reading: its names, and the stacks that have sums ("accounts"), as rows of
 * @names.
 */
struct fold_side {
	const struct prof *names;
	const uint32_t *stacks;
	uint32_t count;
};

struct fold_frame {
	uint64_t key;
	/* NULL = unknown; lent from the names */
	const char *function, *module, *path, *file;
	uint64_t offset;
	uint32_t line;
	/* stands for @module: "[module]" */
	uint8_t folded;
	/* not a frame: why stacks below it are partial */
	uint8_t reason;
	/* part of its caller's code wherever it was met */
	uint8_t inlined;
	/* nodes with this frame */
	uint32_t passes;
};
struct fold_node {
	uint64_t key;
	uint32_t parent, frame;
	/* 0 = none */
	uint32_t first_child, next;
	/* its frame stands on the path above it, too */
	uint8_t recurs;
};
struct fold {
	/* 0 is the root's: empty */
	struct fold_frame *frames;
	/* 0 is the root, a parent comes before its children */
	struct fold_node *nodes;
	uint32_t frame_count, node_count;
	/* by account; FOLD_NONE: the transforms leave it out */
	uint32_t *node_of[FOLD_SIDES_MAX];
	/* for fold_own_sums() */
	struct fold_owners *owners;
	uint32_t accounts[FOLD_SIDES_MAX];
	/* accounts whose inner frames found no room */
	uint32_t cut;
	enum view_by by;
};

/**
 * fold_new() - names and stacks of @sides must outlive the tree. O(stacks of the readings); NULL
 * with @err -ENOMEM.
 */
struct fold *fold_new(const struct fold_opt *opt, const struct fold_side *sides, unsigned count,
		      struct err *err);
void fold_free(struct fold *fold);
void fold_freep(struct fold **fold);

/** struct fold_sums - of one cost, by node: asked for here, and passing here. */
struct fold_sums {
	uint64_t *self, *total;
};
/**
 * fold_sum() - @values by account of @side, NULL for nothing but zeroes. -ENOMEM; release with
 * fold_sums_fini().
 */
int fold_sum(const struct fold *fold, unsigned side, const uint64_t *values, struct fold_sums *sums,
	     struct err *err);
void fold_sums_fini(struct fold_sums *sums);
/**
 * fold_own_sums() - by frame: what it asked for itself; @values by account of @side. @own is added
 * to. The frame that asked is the innermost that is no helper or of the standard library
 * (view_role()) where there is one. Any thread; the first call looks at each stack. -ENOMEM.
 */
int fold_own_sums(const struct fold *fold, unsigned side, const uint64_t *values, uint64_t *own,
		  struct err *err);
/**
 * fold_inclusive_sums() - by frame: what passes through it, a stack once however often it stands
 * there. Added to.
 */
void fold_inclusive_sums(const struct fold *fold, const struct fold_sums *sums,
			 uint64_t *inclusive);
/** fold_frame_of() - the frame with @key; FOLD_NONE: there is none. O(frames). */
uint32_t fold_frame_of(const struct fold *fold, uint64_t key);

/** struct fold_pick - a node that is shown. */
struct fold_pick {
	uint64_t key;
	uint64_t total, self, blocks, rest;
	uint64_t base, base_self;
	/* totals of fold_ask.more */
	uint64_t more[FOLD_MORE_MAX];
	uint32_t frame, depth;
	/* among the picks; FOLD_NONE for the first */
	uint32_t parent;
	/* all of them, picked or not */
	uint32_t children;
	/* frames above it that it stands for as well */
	uint32_t trunk;
};
struct fold_picks {
	/* depth first, children by cost, then by key */
	struct fold_pick *all;
	uint32_t count;
	/* above the first, outermost first: key, frame and total alone */
	struct fold_pick *path;
	uint32_t path_count;
};
struct fold_ask {
	/* @blocks, @base: empty where there are none */
	struct fold_sums cost, blocks, base;
	/* further costs that are told of what is picked; empty where there are none */
	struct fold_sums more[FOLD_MORE_MAX];
	/* from the allocating functions outwards */
	int inverted;
	/* of @function, from its outermost place outwards */
	int callers;
	/* or what stands below its outermost places, as one tree */
	int callees;
	uint64_t function;
	int has_node;
	/* begin there */
	uint64_t node;
	uint32_t nodes_max;
	int trunk;
};
/**
 * fold_choose() - the @nodes_max costliest nodes from the root (or ask->node) on. Cost: with
 * callers on top O(nodes_max log nodes_max), turned around O(nodes_max * stacks through them), at
 * most; callees O(nodes of the tree). Keys of callees count from the function, as if FOLD_FOCUS
 * were the last transform. -ENOENT: no such node or function; -ENOMEM.
 */
int fold_choose(const struct fold *fold, const struct fold_ask *ask, struct fold_picks *picks,
		struct err *err);
void fold_picks_fini(struct fold_picks *picks);

#endif
