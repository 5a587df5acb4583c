/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - several sources of ids, each in order, read as one. */
#ifndef STORE_MERGE_H
#define STORE_MERGE_H

#include "store/internal.h"

#define STORE_CURSORS_MAX 128

/** An inclusive range of ids. */
struct store_range {
	uint64_t lo, hi;
};

struct store_cursor {
	sqlite3_stmt *stmt;
	/* its rows are blocks of ids, else single ids */
	int is_set;
	/* UINT64_MAX at the end */
	uint64_t head;
	/* of the block at hand */
	uint64_t base;
	uint16_t *offsets;
	unsigned count, at;
};

/** struct store_merge - zero-initialised but for @forward; released by store_merge_fini(). */
struct store_merge {
	struct store_cursor cursor[STORE_CURSORS_MAX];
	struct store_range range;
	unsigned count;
	int forward;
};

/** store_merge_add() - one more source: @sql gives ids between ?1 and ?2 in the merge's order. */
int store_merge_add(struct store_reader *reader, struct store_merge *merge, const char *sql,
		    struct err *err);
/** store_merge_add_set() - the ids that the sets of that name hold. */
int store_merge_add_set(struct store_reader *reader, struct store_merge *merge,
			enum store_set_kind kind, uint64_t a, unsigned b, struct err *err);
/** store_merge_range() - begin to read @range from the sets, or else from the other sources. */
int store_merge_range(struct store_merge *merge, struct store_range range, int sets,
		      struct err *err);
/** store_merge_take() - the next id in order, UINT64_MAX at the end. */
int store_merge_take(struct store_merge *merge, uint64_t *id, struct err *err);
void store_merge_fini(struct store_merge *merge);

#endif
