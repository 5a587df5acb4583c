/* SPDX-License-Identifier: Apache-2.0 */
#include "store/merge.h"

#include <errno.h>
#include <stdlib.h>

int store_merge_add(struct store_reader *reader, struct store_merge *merge, const char *sql,
		    struct err *err)
{
	if (merge->count == STORE_CURSORS_MAX)
		return err_set(err, -E2BIG, "cannot combine so many filters");
	return store_prepare(reader->db, &merge->cursor[merge->count++].stmt, sql, err);
}

int store_merge_add_set(struct store_reader *reader, struct store_merge *merge,
			enum store_set_kind kind, uint64_t a, unsigned b, struct err *err)
{
	int rc = store_merge_add(
		reader, merge,
		merge->forward
			? "SELECT block, ids FROM message_set WHERE kind=?3 AND a=?4 AND b=?5 "
			  "AND block BETWEEN ?1 AND ?2 ORDER BY block ASC"
			: "SELECT block, ids FROM message_set WHERE kind=?3 AND a=?4 AND b=?5 "
			  "AND block BETWEEN ?1 AND ?2 ORDER BY block DESC",
		err);
	if (rc < 0)
		return rc;
	struct store_cursor *cursor = &merge->cursor[merge->count - 1];
	cursor->is_set = 1;
	sqlite3_bind_int64(cursor->stmt, 3, kind);
	sqlite3_bind_int64(cursor->stmt, 4, (sqlite3_int64)a);
	sqlite3_bind_int64(cursor->stmt, 5, b);
	return 0;
}

/* The numbers of a JSON list, as far as they can be offsets. */
static unsigned parse_offsets(const char *text, uint16_t offsets[STORE_SET_IDS])
{
	unsigned count = 0;
	while (*text && count < STORE_SET_IDS) {
		unsigned value = 0;
		if (*text < '0' || *text > '9') {
			text++;
			continue;
		}
		for (; *text >= '0' && *text <= '9'; text++)
			value = value < STORE_SET_IDS ? value * 10 + (unsigned)(*text - '0')
						      : value;
		if (value < STORE_SET_IDS)
			offsets[count++] = (uint16_t)value;
	}
	return count;
}

/* -ENODATA at the end. */
static int next_row(struct store_cursor *cursor, struct err *err)
{
	int rc = store_step(cursor->stmt, "read the index", err);
	return rc > 0 ? 0 : rc == 0 ? -ENODATA : rc;
}

static int next_block(struct store_cursor *cursor, struct err *err)
{
	int rc = next_row(cursor, err);
	if (rc < 0)
		return rc;
	if (!cursor->offsets &&
	    !(cursor->offsets = malloc(STORE_SET_IDS * sizeof(cursor->offsets[0]))))
		return err_set(err, -ENOMEM, "cannot allocate a query");
	const char *ids = (const char *)sqlite3_column_text(cursor->stmt, 1);
	cursor->base = (uint64_t)sqlite3_column_int64(cursor->stmt, 0) * STORE_SET_IDS;
	cursor->count = ids ? parse_offsets(ids, cursor->offsets) : 0;
	cursor->at = 0;
	return 0;
}

static int next_of_set(const struct store_merge *merge, struct store_cursor *cursor,
		       struct err *err)
{
	for (;;) {
		while (cursor->at < cursor->count) {
			unsigned at = cursor->at++;
			uint64_t id = cursor->base +
				      cursor->offsets[merge->forward ? at : cursor->count - 1 - at];
			if (id >= merge->range.lo && id <= merge->range.hi) {
				cursor->head = id;
				return 0;
			}
		}
		int rc = next_block(cursor, err);
		if (rc < 0)
			return rc;
	}
}

static int next(const struct store_merge *merge, struct store_cursor *cursor, struct err *err)
{
	int rc = cursor->is_set ? next_of_set(merge, cursor, err) : next_row(cursor, err);
	if (rc == 0 && !cursor->is_set)
		cursor->head = (uint64_t)sqlite3_column_int64(cursor->stmt, 0);
	if (rc < 0)
		cursor->head = UINT64_MAX;
	return rc == -ENODATA ? 0 : rc;
}

int store_merge_range(struct store_merge *merge, struct store_range range, int sets,
		      struct err *err)
{
	int rc = 0;
	merge->range = range;
	for (unsigned i = 0; rc == 0 && i < merge->count; i++) {
		struct store_cursor *cursor = &merge->cursor[i];
		uint64_t unit = cursor->is_set ? STORE_SET_IDS : 1;
		cursor->head = UINT64_MAX;
		cursor->at = cursor->count = 0;
		if (!!cursor->is_set != !!sets || range.lo > range.hi)
			continue;
		sqlite3_reset(cursor->stmt);
		sqlite3_bind_int64(cursor->stmt, 1, (sqlite3_int64)(range.lo / unit));
		sqlite3_bind_int64(cursor->stmt, 2, (sqlite3_int64)(range.hi / unit));
		rc = next(merge, cursor, err);
	}
	return rc;
}

int store_merge_take(struct store_merge *merge, uint64_t *id, struct err *err)
{
	struct store_cursor *best = NULL;
	*id = UINT64_MAX;
	for (unsigned i = 0; i < merge->count; i++) {
		uint64_t head = merge->cursor[i].head;
		if (head != UINT64_MAX &&
		    (!best || (merge->forward ? head < best->head : head > best->head)))
			best = &merge->cursor[i];
	}
	if (!best)
		return 0;
	*id = best->head;
	return next(merge, best, err);
}

void store_merge_fini(struct store_merge *merge)
{
	for (unsigned i = 0; i < merge->count; i++) {
		sqlite3_finalize(merge->cursor[i].stmt);
		free(merge->cursor[i].offsets);
	}
}
