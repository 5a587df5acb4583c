/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - how many rows there are in stretches of time. */
#include <errno.h>
#include <stdio.h>

#include "store/internal.h"

struct tally {
	sqlite3 *db;
	const char *table;
	const uint64_t *edges;
	size_t count;
	uint64_t *rows;
	/* ids that there are: they are given out without gaps, and go from the oldest on */
	uint64_t lo, hi;
};

/* The stretch that @time_ns lies in, (edges[i], edges[i + 1]]; @count: behind all, or before. */
static size_t stretch_of(const struct tally *t, uint64_t time_ns)
{
	size_t lo = 0, hi = t->count;
	if (time_ns <= t->edges[0])
		return t->count;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (t->edges[mid + 1] < time_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int each_row(const struct tally *t, uint64_t lo, uint64_t hi, struct err *err)
{
	char sql[96];
	sqlite3_stmt *s = NULL;
	snprintf(sql, sizeof(sql), "SELECT time_ns FROM %s WHERE id BETWEEN ?1 AND ?2", t->table);
	int rc = store_prepare(t->db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)lo);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)hi);
	while ((rc = store_step(s, "read times", err)) > 0) {
		size_t i = stretch_of(t, (uint64_t)sqlite3_column_int64(s, 0));
		if (i < t->count)
			t->rows[i]++;
	}
	sqlite3_finalize(s);
	return rc;
}

/* A block of ids whose times all lie within one stretch is not looked at. */
static int each_block(const struct tally *t, sqlite3_stmt *s, struct err *err)
{
	uint64_t lo = (uint64_t)sqlite3_column_int64(s, 0) * STORE_BLOCK_IDS,
		 hi = lo + STORE_BLOCK_IDS - 1;
	size_t first = stretch_of(t, (uint64_t)sqlite3_column_int64(s, 1)),
	       last = stretch_of(t, (uint64_t)sqlite3_column_int64(s, 2));
	lo = lo < t->lo ? t->lo : lo;
	hi = hi > t->hi ? t->hi : hi;
	if (hi < lo)
		return 0;
	if (first != last || first == t->count)
		return each_row(t, lo, hi, err);
	t->rows[first] += hi - lo + 1;
	return 0;
}

int store_tally(struct store_reader *reader, enum store_table table, const uint64_t *edges,
		size_t count, uint64_t *rows, struct err *err)
{
	struct tally t = { .db = reader->db,
			   .table = table == STORE_LOGS ? "log" : "message",
			   .edges = edges,
			   .count = count,
			   .rows = rows };
	char sql[128];
	sqlite3_stmt *s = NULL;
	if (!count)
		return 0;
	snprintf(sql, sizeof(sql), "SELECT min(id) FROM %s", t.table);
	int rc = store_number(t.db, sql, 0, &t.lo, err);
	snprintf(sql, sizeof(sql), "SELECT max(id) FROM %s", t.table);
	if (rc == 0)
		rc = store_number(t.db, sql, 0, &t.hi, err);
	snprintf(sql, sizeof(sql),
		 "SELECT number, min_ns, max_ns FROM %s_block WHERE max_ns > ?1 AND min_ns <= ?2",
		 t.table);
	if (rc == 0)
		rc = store_prepare(t.db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)edges[0]);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)edges[count]);
	while (rc == 0 && (rc = store_step(s, "read the blocks of times", err)) > 0)
		rc = each_block(&t, s, err);
	sqlite3_finalize(s);
	return rc;
}
