/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - pages of messages and log lines.
 *
 * Every filter is turned into cursors over sets of ids (messages; sets.c) or an index whose entries
 * end in the id (logs), one cursor for each combination of the filter's values; the cursors are
 * merged by id. So a page costs what it gives, however many rows a filter passes over, and an IN
 * list never sorts. Times become ranges of ids through the blocks' lowest and highest times, with
 * the time itself checked on the row: clocks may step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/merge.h"

/** What one of the two tables is like, for the code they share. */
struct table {
	const char *name, *block;
};

void store_page_free(struct store_page *page)
{
	if (!page)
		return;
	arena_fini(&page->arena);
	free(page->messages);
	free(page->logs);
	free(page);
}

size_t store_page_count(const struct store_page *page)
{
	return page->count;
}

const struct store_message_row *store_page_message(const struct store_page *page, size_t i)
{
	return &page->messages[i];
}

const struct store_log_row *store_page_log(const struct store_page *page, size_t i)
{
	return &page->logs[i];
}

const char *store_keep_text(struct store_page *page, sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);
	return text ? arena_memdup(&page->arena, text, (size_t)sqlite3_column_bytes(s, column))
		    : NULL;
}

/* ---- ranges of ids --------------------------------------------------------------------------- */

/* The blocks that may hold rows of the asked times, as ranges in the order of reading. */
static int time_ranges(struct store_reader *reader, const struct table *table,
		       const struct store_query *query, struct store_range bound,
		       struct store_range **out, size_t *count, struct err *err)
{
	*out = NULL;
	*count = 0;
	size_t cap = 0;
	char sql[320];
	snprintf(sql, sizeof(sql),
		 "SELECT number FROM %s WHERE max_ns >= ?1 AND min_ns <= ?2 AND number BETWEEN ?3 "
		 "AND ?4 ORDER BY number %s",
		 table->block, query->forward ? "ASC" : "DESC");
	sqlite3_stmt *s = NULL;
	int rc = store_prepare(reader->db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, query->has_from ? (sqlite3_int64)query->from_ns : 0);
	sqlite3_bind_int64(s, 2, query->has_to ? (sqlite3_int64)query->to_ns : INT64_MAX);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)(bound.lo / STORE_BLOCK_IDS));
	sqlite3_bind_int64(s, 4, (sqlite3_int64)(bound.hi / STORE_BLOCK_IDS));
	while (rc == 0 && (rc = store_step(s, "read the blocks of times", err)) > 0) {
		rc = 0;
		uint64_t lo = (uint64_t)sqlite3_column_int64(s, 0) * STORE_BLOCK_IDS,
			 hi = lo + STORE_BLOCK_IDS - 1;
		if (lo < bound.lo)
			lo = bound.lo;
		if (hi > bound.hi)
			hi = bound.hi;
		struct store_range *last = *count ? &(*out)[*count - 1] : NULL;
		if (last && query->forward && last->hi + 1 == lo) {
			last->hi = hi;
			continue;
		}
		if (last && !query->forward && hi + 1 == last->lo) {
			last->lo = lo;
			continue;
		}
		if (*count == cap) {
			cap = cap ? cap * 2 : 8;
			struct store_range *more = realloc(*out, cap * sizeof(*more));
			if (!more) {
				rc = err_set(err, -ENOMEM, "cannot allocate a query");
				break;
			}
			*out = more;
		}
		(*out)[(*count)++] = (struct store_range){ lo, hi };
	}
	sqlite3_finalize(s);
	return rc;
}

static int ranges_of(struct store_reader *reader, const struct table *table,
		     const struct store_query *query, struct store_range **out, size_t *count,
		     struct err *err)
{
	struct store_range bound = { 0, INT64_MAX };
	char sql[64];
	snprintf(sql, sizeof(sql), "SELECT min(id) FROM %s", table->name);
	/* sets may name rows that retention has taken since */
	int rc = store_number(reader->db, sql, 0, &bound.lo, err);
	if (rc < 0)
		return rc;
	if (query->has_cursor) {
		uint64_t cursor = query->cursor > INT64_MAX ? INT64_MAX : query->cursor;
		if (!query->forward)
			bound.hi = cursor;
		else if (cursor > bound.lo)
			bound.lo = cursor;
	}
	if (query->has_from || query->has_to)
		return time_ranges(reader, table, query, bound, out, count, err);
	*out = malloc(sizeof(**out));
	if (!*out)
		return err_set(err, -ENOMEM, "cannot allocate a query");
	**out = bound;
	*count = 1;
	return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int address_number(struct store_reader *reader, const char *text, int64_t *id,
			  struct err *err)
{
	sqlite3_stmt *s = NULL;
	int rc = store_prepare(reader->db, &s, "SELECT id FROM address WHERE text=?1", err);
	*id = 0;
	if (rc == 0) {
		sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
		rc = store_step(s, "look for an address", err);
		if (rc > 0)
			*id = sqlite3_column_int64(s, 0);
	}
	sqlite3_finalize(s);
	return rc < 0 ? rc : 0;
}

static int side_fits(const struct store_query *query, unsigned si)
{
	return (!query->has_incoming || (si >> 1) == (query->incoming ? 1u : 0u)) &&
	       (!query->has_initiator || (si & 1) == (unsigned)query->initiator);
}

/*
 * The sets of every combination of the filter's values; of three filters one is left to the rows.
 */
static int add_sets(struct store_reader *reader, const struct store_query *query, int64_t address,
		    struct store_merge *merge, struct err *err)
{
	size_t types = query->types ? query->type_count : 1;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < types; i++) {
		if (address && query->types) {
			rc = store_merge_add_set(reader, merge, STORE_SET_ADDRESS_TYPE,
						 (uint64_t)address, query->types[i], err);
			continue;
		}
		for (unsigned si = 0; rc == 0 && si < 4; si++) {
			if (!side_fits(query, si))
				continue;
			if (address)
				rc = store_merge_add_set(reader, merge, STORE_SET_ADDRESS_SIDE,
							 (uint64_t)address, si, err);
			else if (query->types)
				rc = store_merge_add_set(reader, merge, STORE_SET_TYPE,
							 query->types[i], si, err);
			else
				rc = store_merge_add_set(reader, merge, STORE_SET_SIDE, si, 0, err);
		}
	}
	return rc;
}

/* The newest block has no sets yet: all its messages are looked at. */
static int add_scan(struct store_reader *reader, const struct store_query *query, int64_t address,
		    struct store_merge *merge, struct err *err)
{
	CLEANUP(buf_fini) struct buf sql = { 0 };
	buf_puts(&sql, "SELECT id FROM message WHERE id BETWEEN ?1 AND ?2");
	if (address)
		buf_printf(&sql, " AND address=%lld", (long long)address);
	for (size_t i = 0; query->types && i < query->type_count; i++)
		buf_printf(&sql, "%s%u", i ? "," : " AND type IN (", query->types[i]);
	buf_puts(&sql, query->types && query->type_count ? ")" : "");
	if (query->has_incoming)
		buf_printf(&sql, " AND si>>1=%d", query->incoming ? 1 : 0);
	if (query->has_initiator)
		buf_printf(&sql, " AND (si&1)=%d", (int)query->initiator);
	buf_printf(&sql, " ORDER BY id %s", query->forward ? "ASC" : "DESC");
	if (buf_failed(&sql))
		return err_set(err, -ENOMEM, "cannot allocate a query");
	return store_merge_add(reader, merge, buf_cstr(&sql), err);
}

static int message_cursors(struct store_reader *reader, const struct store_query *query,
			   struct store_merge *merge, struct err *err)
{
	int64_t address = 0;
	int rc = 0, filtered = query->remote_addr || query->types || query->has_incoming ||
			       query->has_initiator;
	if (query->remote_addr) {
		rc = address_number(reader, query->remote_addr, &address, err);
		if (rc < 0 || !address)
			return rc; /* nobody of that name: no cursors, no rows */
	}
	if (query->types && !query->type_count)
		return 0;
	rc = add_scan(reader, query, address, merge, err);
	return rc < 0 || !filtered ? rc : add_sets(reader, query, address, merge, err);
}

static int time_fits(const struct store_query *query, uint64_t time_ns)
{
	return (!query->has_from || time_ns >= query->from_ns) &&
	       (!query->has_to || time_ns <= query->to_ns);
}

int store_page_grow(struct store_page *page, size_t row_bytes, void **rows, struct err *err)
{
	if (page->count < page->cap)
		return 0;
	size_t cap = page->cap ? page->cap * 2 : 128;
	void *more = realloc(*rows, cap * row_bytes);
	if (!more)
		return err_set(err, -ENOMEM, "cannot allocate a page");
	*rows = more;
	page->cap = cap;
	return 0;
}

/* 1 taken, 0 passed over. */
static int take_message(struct store_reader *reader, const struct store_query *query,
			struct store_page *page, uint64_t id, struct err *err)
{
	sqlite3_stmt *s = reader->message;
	sqlite3_reset(s);
	sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
	int rc = store_step(s, "read a message", err);
	if (rc <= 0)
		return rc;
	unsigned si = (unsigned)sqlite3_column_int(s, 3);
	uint64_t time_ns = (uint64_t)sqlite3_column_int64(s, 1);
	if (!time_fits(query, time_ns) || !side_fits(query, si))
		return 0;
	rc = store_page_grow(page, sizeof(*page->messages), (void **)&page->messages, err);
	if (rc < 0)
		return rc;
	struct store_message_row *row = &page->messages[page->count++];
	*row = (struct store_message_row){
		.id = id,
		.connection = (uint64_t)sqlite3_column_int64(s, 0),
		.time_ns = time_ns,
		.type = (unsigned)sqlite3_column_int(s, 2),
		.sender = (enum message_sender)(si >> 1),
		.initiator = (enum message_sender)(si & 1),
		.tag = (unsigned)sqlite3_column_int(s, 4),
		.first_chunk = (uint64_t)sqlite3_column_int64(s, 5),
		.last_chunk = (uint64_t)sqlite3_column_int64(s, 6),
		.first_offset = (uint64_t)sqlite3_column_int64(s, 7),
		.plain_len = (uint64_t)sqlite3_column_int64(s, 8),
		.preview = store_keep_text(page, s, 9),
		.error = store_keep_text(page, s, 10),
		.remote_addr = store_keep_text(page, s, 11),
	};
	return 1;
}

int store_take_log(struct store_page *page, sqlite3_stmt *s, struct err *err)
{
	int rc = store_page_grow(page, sizeof(*page->logs), (void **)&page->logs, err);
	if (rc < 0)
		return rc;
	page->logs[page->count++] =
		(struct store_log_row){ .id = (uint64_t)sqlite3_column_int64(s, 0),
					.time_ns = (uint64_t)sqlite3_column_int64(s, 1),
					.level = (unsigned)sqlite3_column_int(s, 2),
					.section = store_keep_text(page, s, 3),
					.section_len = (size_t)sqlite3_column_bytes(s, 3),
					.message = store_keep_text(page, s, 4),
					.message_len = (size_t)sqlite3_column_bytes(s, 4) };
	return 0;
}

static int take_log(struct store_reader *reader, const struct store_query *query,
		    struct store_page *page, uint64_t id, struct err *err)
{
	sqlite3_stmt *s = reader->log;
	sqlite3_reset(s);
	sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
	int rc = store_step(s, "read a log line", err);
	if (rc <= 0)
		return rc;
	if (!time_fits(query, (uint64_t)sqlite3_column_int64(s, 1)))
		return 0;
	rc = store_take_log(page, s, err);
	return rc < 0 ? rc : 1;
}

static int prepare_rows(struct store_reader *reader, struct err *err)
{
	int rc = 0;
	if (!reader->message)
		rc = store_prepare(reader->db, &reader->message,
				   "SELECT connection, time_ns, type, si, tag, first_chunk, "
				   "last_chunk, first_offset, plain_len,"
				   " preview, error, (SELECT text FROM address WHERE id=address) "
				   "FROM message WHERE id=?1",
				   err);
	if (rc == 0 && !reader->log)
		rc = store_prepare(
			reader->db, &reader->log,
			"SELECT id, time_ns, level, section, message FROM log WHERE id=?1", err);
	return rc;
}

typedef int (*take_fn)(struct store_reader *reader, const struct store_query *query,
		       struct store_page *page, uint64_t id, struct err *err);

/* Rows of one range, from the sets or from the table's own order. */
static int fill_range(struct store_reader *reader, const struct store_query *query,
		      struct store_merge *merge, struct store_range range, int sets, take_fn take,
		      struct store_page *page, struct err *err)
{
	uint64_t id = 0;
	int rc = store_merge_range(merge, range, sets, err);
	while (rc >= 0 && page->count < query->limit) {
		rc = store_merge_take(merge, &id, err);
		if (rc < 0 || id == UINT64_MAX)
			break;
		rc = take(reader, query, page, id, err);
	}
	return rc < 0 ? rc : 0;
}

/* Ids from @unset on are in no set. */
static int first_unset(struct store_reader *reader, const struct store_merge *merge,
		       uint64_t *unset, struct err *err)
{
	*unset = 0;
	for (unsigned i = 0; i < merge->count; i++) {
		if (!merge->cursor[i].is_set)
			continue;
		int rc = store_number(reader->db, "SELECT max(id) FROM message", 0, unset, err);
		*unset -= *unset % STORE_SET_IDS;
		return rc;
	}
	return 0;
}

static int fill(struct store_reader *reader, const struct table *table,
		const struct store_query *query, struct store_merge *merge, take_fn take,
		struct store_page *page, struct err *err)
{
	struct store_range *ranges = NULL;
	size_t count = 0;
	uint64_t unset;
	int rc = ranges_of(reader, table, query, &ranges, &count, err);
	if (rc == 0)
		rc = first_unset(reader, merge, &unset, err);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		for (int turn = 0; rc == 0 && turn < 2 && page->count < query->limit; turn++) {
			int sets = turn == !query->forward;
			struct store_range part = ranges[i];
			if (sets && !unset)
				continue;
			if (sets && part.hi >= unset)
				part.hi = unset - 1;
			if (!sets && part.lo < unset)
				part.lo = unset;
			if (part.lo <= part.hi)
				rc = fill_range(reader, query, merge, part, sets, take, page, err);
		}
	}
	free(ranges);
	return rc;
}

static int page_of(struct store_reader *reader, const struct table *table,
		   const struct store_query *query,
		   int (*cursors)(struct store_reader *, const struct store_query *,
				  struct store_merge *, struct err *),
		   take_fn take, struct store_page **out, struct err *err)
{
	struct store_page *page = calloc(1, sizeof(*page));
	if (!page)
		return err_set(err, -ENOMEM, "cannot allocate a page");
	struct store_merge merge = { .forward = query->forward };
	int rc = prepare_rows(reader, err);
	/* one snapshot for ranges, cursors and rows */
	if (rc == 0)
		rc = store_sql(reader->db, "BEGIN", err);
	if (rc == 0) {
		if (query->limit)
			rc = cursors(reader, query, &merge, err);
		if (rc == 0 && merge.count)
			rc = fill(reader, table, query, &merge, take, page, err);
		store_merge_fini(&merge);
		sqlite3_reset(reader->message);
		sqlite3_reset(reader->log);
		struct err ignored;
		store_sql(reader->db, "COMMIT", &ignored);
	}
	if (rc < 0) {
		store_page_free(page);
		return rc;
	}
	*out = page;
	return 0;
}

int store_messages(struct store_reader *reader, const struct store_query *query,
		   struct store_page **out, struct err *err)
{
	static const struct table table = { "message", "message_block" };
	return page_of(reader, &table, query, message_cursors, take_message, out, err);
}

/* ---- logs ------------------------------------------------------------------------------------ */

static int log_cursors(struct store_reader *reader, const struct store_query *query,
		       struct store_merge *merge, struct err *err)
{
	const char *order = query->forward ? "ASC" : "DESC";
	char sql[200];
	if (!query->levels) {
		snprintf(sql, sizeof(sql),
			 "SELECT id FROM log WHERE id BETWEEN ?1 AND ?2 ORDER BY id %s", order);
		return store_merge_add(reader, merge, sql, err);
	}
	int rc = 0;
	for (unsigned level = 1; rc == 0 && level <= 64; level <<= 1) {
		if (!(query->levels & level))
			continue;
		snprintf(sql, sizeof(sql),
			 "SELECT id FROM log INDEXED BY log_by_level WHERE level=%u AND id BETWEEN "
			 "?1 AND ?2 ORDER BY id %s",
			 level, order);
		rc = store_merge_add(reader, merge, sql, err);
	}
	return rc;
}

int store_logs(struct store_reader *reader, const struct store_query *query,
	       struct store_page **out, struct err *err)
{
	static const struct table table = { "log", "log_block" };
	return page_of(reader, &table, query, log_cursors, take_log, out, err);
}
