/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_chunks.c - the list of all chunks: connection by connection, in each by counter, then what
 * was never cut.
 */
#include <errno.h>

#include "store/internal.h"

struct listing {
	struct store_reader *reader;
	const struct store_chunk_query *query;
	store_chunk_fn fn;
	void *ctx;
	uint64_t left;
	/* the connection at hand is the cursor's */
	int from_cursor;
};

static int count_down(void *ctx, const struct store_chunk_row *chunk)
{
	struct listing *list = ctx;
	list->left--;
	return list->fn(list->ctx, chunk);
}

/*
 * One kind of rows of one connection. @sql has the connection as ?1, the limit as ?2, bounds from
 * ?3.
 */
static int part(struct listing *list, const char *sql, uint64_t connection, uint64_t started_ns,
		int64_t a, int64_t b, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	if (!list->left)
		return 0;
	int rc = store_prepare(list->reader->db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)connection);
	sqlite3_bind_int64(s, 2, list->left > INT64_MAX ? INT64_MAX : (sqlite3_int64)list->left);
	sqlite3_bind_int64(s, 3, a);
	sqlite3_bind_int64(s, 4, b);
	return store_each_chunk(list->reader, s, started_ns, count_down, list, err);
}

/*
 * Bounds of the two parts of a connection: counter and sender, and id of the pieces without a
 * counter; signed, so that the place before the first of them has a number too.
 */
struct bounds {
	/* does the part have rows on that side of the cursor */
	int cut, uncut;
	int64_t counter, sender, id;
};

static struct bounds bounds_of(const struct listing *list)
{
	const struct store_chunk_query *query = list->query;
	const struct store_chunk_place *at = &query->cursor;
	int64_t id = at->id < INT64_MAX ? (int64_t)at->id : INT64_MAX - 1;
	int step = query->exclusive ? query->backward ? -1 : 1 : 0;
	if (!list->from_cursor)
		return query->backward ? (struct bounds){ 1, 1, INT64_MAX, 1, INT64_MAX }
				       : (struct bounds){ 1, 1, 0, 0, 0 };
	if (at->counter == MESSAGE_NO_COUNTER)
		return (struct bounds){ query->backward, 1, INT64_MAX, 1, id + step };
	return (struct bounds){ 1, !query->backward, (int64_t)at->counter,
				(int64_t)at->sender + step, 0 };
}

static int forward(struct listing *list, uint64_t connection, uint64_t started_ns, struct err *err)
{
	struct bounds bounds = bounds_of(list);
	int rc = 0;
	if (bounds.cut)
		rc = part(list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter >= ?3 AND "
					      "(counter > ?3 OR sender >= ?4)"
					      " ORDER BY counter, sender LIMIT ?2",
			  connection, started_ns, bounds.counter, bounds.sender, err);
	if (rc == 0 && bounds.uncut)
		rc = part(list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter IS NULL AND id >= ?3"
					      " ORDER BY id LIMIT ?2",
			  connection, started_ns, bounds.id, 0, err);
	return rc;
}

static int backward(struct listing *list, uint64_t connection, uint64_t started_ns, struct err *err)
{
	struct bounds bounds = bounds_of(list);
	int rc = 0;
	if (bounds.uncut)
		rc = part(list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter IS NULL AND id <= ?3"
					      " ORDER BY id DESC LIMIT ?2",
			  connection, started_ns, bounds.id, 0, err);
	if (rc == 0 && bounds.cut)
		rc = part(list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter <= ?3 AND "
					      "(counter < ?3 OR sender <= ?4)"
					      " ORDER BY counter DESC, sender DESC LIMIT ?2",
			  connection, started_ns, bounds.counter, bounds.sender, err);
	return rc;
}

int store_list_chunks(struct store_reader *reader, const struct store_chunk_query *query,
		      store_chunk_fn fn, void *ctx, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	struct listing list = { reader, query, fn, ctx, query->limit, 0 };
	uint64_t lo = 0, hi = INT64_MAX;
	if (query->has_connection)
		lo = hi = query->connection;
	if (query->has_cursor && query->backward && query->cursor.connection < hi)
		hi = query->cursor.connection;
	if (query->has_cursor && !query->backward && query->cursor.connection > lo)
		lo = query->cursor.connection;
	if (lo > hi || lo > INT64_MAX)
		return 0;
	int rc = store_prepare(reader->db, &s,
			       query->backward ? "SELECT id, started_ns FROM connection WHERE id "
						 "BETWEEN ?1 AND ?2 ORDER BY id DESC"
					       : "SELECT id, started_ns FROM connection WHERE id "
						 "BETWEEN ?1 AND ?2 ORDER BY id",
			       err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)lo);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)hi);
	while (rc == 0 && list.left && (rc = store_step(s, "read the connections", err)) > 0) {
		uint64_t id = (uint64_t)sqlite3_column_int64(s, 0),
			 started_ns = (uint64_t)sqlite3_column_int64(s, 1);
		list.from_cursor = query->has_cursor && id == query->cursor.connection;
		rc = query->backward ? backward(&list, id, started_ns, err)
				     : forward(&list, id, started_ns, err);
	}
	return rc;
}

int store_sender_chunks(struct store_reader *reader, uint64_t connection,
			enum message_sender sender, const struct store_chunk_place *after,
			uint64_t limit, store_chunk_fn fn, void *ctx, struct err *err)
{
	struct listing list = { reader, NULL, fn, ctx, limit, 0 };
	int cut = !after || after->counter != MESSAGE_NO_COUNTER, rc = 0;
	if (cut)
		rc = part(&list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter >= ?3 AND sender=?4"
					      " ORDER BY counter LIMIT ?2",
			  connection, 0, after ? (int64_t)after->counter + 1 : 0, sender, err);
	if (rc == 0)
		rc = part(&list,
			  STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter IS NULL AND "
					      "id >= ?3 AND sender=?4 ORDER BY id LIMIT ?2",
			  connection, 0, cut ? 0 : (int64_t)after->id + 1, sender, err);
	return rc;
}

int store_sealed_chunks(struct store_reader *reader, uint64_t connection,
			enum message_sender sender, uint64_t limit, store_chunk_fn fn, void *ctx,
			struct err *err)
{
	struct listing list = { reader, NULL, fn, ctx, limit, 0 };
	return part(&list,
		    STORE_CHUNK_COLUMNS "WHERE connection=?1 AND counter > 0 AND sender=?3 AND "
					"plain_len IS NULL ORDER BY counter LIMIT ?2",
		    connection, 0, sender, 0, err);
}

int store_has_opened(struct store_reader *reader, uint64_t connection, enum message_sender sender,
		     uint64_t from, uint64_t to, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	int rc = store_prepare(reader->db, &s,
			       "SELECT 1 FROM chunk WHERE connection=?1 AND counter BETWEEN ?2 AND "
			       "?3 AND sender=?4 AND plain_len IS NOT NULL LIMIT 1",
			       err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)connection);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)from);
	sqlite3_bind_int64(s, 3, to > INT64_MAX ? INT64_MAX : (sqlite3_int64)to);
	sqlite3_bind_int64(s, 4, sender);
	return store_step(s, "look for a chunk", err);
}
