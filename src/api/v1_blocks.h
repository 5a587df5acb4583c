/* SPDX-License-Identifier: Apache-2.0 */
/* v1_blocks.h - what the routes on single blocks share. */
#ifndef API_V1_BLOCKS_H
#define API_V1_BLOCKS_H

#include "api/v1_internal.h"
#include "query/blocks.h"

/**
 * v1_blocks_get() - all blocks of the source, whatever is selected; held by call->reading. As
 * v1_read().
 */
int v1_blocks_get(struct v1_call *call, const struct blocks **blocks, struct err *err);
/**
 * v1_is_gone() - asked with each piece of a scan: -ECANCELED once the client has hung up, looked at
 * every 256th time.
 */
int v1_is_gone(const struct v1_call *call, uint64_t *looks, struct err *err);

void v1_col_time(struct v1_column *column, uint64_t time_ns);
void v1_col_addr(struct v1_column *column, uint64_t addr);

/** struct v1_stacks - the stacks that rows name, numbered in order of first use. */
struct v1_stacks {
	struct v1_call *call;
	struct v1_frames frames;
	uint32_t *rows, row_count;
	/* by node of the folded tree */
	uint32_t *number, *list;
	uint32_t count;
};
/**
 * v1_stacks_init() - @rows of the names, which v1_stack() will be asked for: sorted here, lent
 * until v1_stacks_fini().
 */
int v1_stacks_init(struct v1_stacks *stacks, struct v1_call *call, uint32_t *rows, uint32_t count,
		   struct err *err);
/**
 * v1_stack() - the number of the stack with row @row of the names; -1: it is empty, or not one of
 * them.
 */
int64_t v1_stack(struct v1_stacks *stacks, uint32_t row);
/** v1_stacks_put() - `stacks`, `frames`, `modules`, `files`. */
void v1_stacks_put(struct v1_stacks *stacks);
void v1_stacks_fini(struct v1_stacks *stacks);
/**
 * struct v1_map - a mapping that the program made; gone_ns BLOCK_NEVER: it was there at the end.
 */
struct v1_map {
	uint64_t addr, bytes, made_ns, gone_ns;
	/* stack: row of the names */
	uint32_t prot, flags, stack, tid;
	int is_break;
};
/**
 * v1_maps_get() - all of them, in the order of their making; held by call->reading. As v1_read().
 */
int v1_maps_get(struct v1_call *call, const struct v1_map **rows, size_t *count, struct err *err);
/** v1_map_name() - "[heap]", a module's base name, or NULL. */
const char *v1_map_name(const struct prof *names, const struct v1_map *map);
/** v1_blocks_unapplied() - words that say nothing of single blocks. */
void v1_blocks_unapplied(struct v1_call *call);
/** v1_block_rows() - `allocations`: columns. */
void v1_block_rows(struct v1_call *call, struct v1_stacks *stacks, const struct block_row *rows,
		   size_t count, uint64_t end_ns, const struct blocks *blocks);

/* v1_groups.c: blocks by the stack that allocated them. */

/** struct v1_groups - whole groups, by stack row of the names. */
struct v1_groups {
	struct block_group *all;
	uint32_t count;
};
/**
 * v1_groups_get() - @sums whose product is struct v1_groups, by the stack rows that @rows, the
 * reading of the blocks, has, too; shelf_put() it. As v1_read().
 */
int v1_groups_get(struct v1_call *call, const struct reading *rows, struct reading **sums,
		  struct err *err);
/** v1_groups_add() - what one replay does for whole groups, for a row that matches. */
void v1_groups_add(struct block_group *group, const struct block_row *row);
struct v1_group_key {
	uint64_t value;
	uint32_t stack;
};
/** v1_groups_sort() - by value, then stack. */
void v1_groups_sort(struct v1_group_key *keys, size_t count, int is_descending);
/** v1_groups() - the answer of `allocations?group=stack`. */
int v1_groups(struct v1_call *call, struct err *err);

#endif
