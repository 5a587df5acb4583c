/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retain.c - what grows beyond the limits goes, oldest first, with everything that belongs to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/internal.h"

#define STEP_ROWS \
	1024 /* rows are dropped in steps, so that a flush costs little while the store is full */

#define ADDRESSES_KEPT 100000

/* A statement whose only parameter is @value. */
static int run(struct store *store, struct err *err, const char *sql, uint64_t value)
{
	sqlite3_stmt *s = NULL;
	int rc = store_prepare(store->db, &s, sql, err);
	if (rc == 0) {
		sqlite3_bind_int64(s, 1, (sqlite3_int64)value);
		rc = store_step(s, "drop old rows", err);
	}
	sqlite3_finalize(s);
	return rc;
}

/*
 * The first id that age leaves, by blocks: those before the first block that has a young row go
 * whole. Rows are in order of arrival, so an old time among young ones is a clock that stepped and
 * takes nothing with it. @newest_ns: SQL, the newest time of a block.
 */
static int first_young(struct store *store, const char *blocks, const char *newest_ns,
		       uint64_t now_ns, uint64_t *first, struct err *err)
{
	char sql[240];
	*first = 0;
	if (!store->limits.age_ns || now_ns <= store->limits.age_ns)
		return 0;
	snprintf(sql, sizeof(sql),
		 "SELECT coalesce((SELECT number FROM %s WHERE %s >= %llu ORDER BY number LIMIT 1),"
		 " (SELECT max(number) + 1 FROM %s))",
		 blocks, newest_ns, (unsigned long long)(now_ns - store->limits.age_ns), blocks);
	int rc = store_number(store->db, sql, 0, first, err);
	*first *= STORE_BLOCK_IDS;
	return rc;
}

/* Lowest message id to keep: by count and by age. */
static int first_message(struct store *store, uint64_t now_ns, uint64_t *first, struct err *err)
{
	const struct store_limits *limits = &store->limits;
	uint64_t oldest;
	int rc = store_number(store->db, "SELECT min(id) FROM message", store->next_message,
			      &oldest, err);
	*first = oldest;
	if (rc == 0 && limits->messages && store->next_message > limits->messages &&
	    store->next_message - limits->messages > *first)
		*first = store->next_message - limits->messages;
	uint64_t by_age = 0;
	if (rc == 0)
		rc = first_young(store, "message_block", "max_ns", now_ns, &by_age, err);
	if (by_age > *first)
		*first = by_age;
	return rc;
}

static int drop_messages(struct store *store, uint64_t first, struct err *err)
{
	int rc = run(store, err, "DELETE FROM message WHERE id < ?1", first);
	if (rc == 0)
		rc = run(store, err, "DELETE FROM message_set WHERE block < ?1",
			 first / STORE_SET_IDS);
	return rc < 0 ? rc
		      : run(store, err, "DELETE FROM message_block WHERE number < ?1",
			    first / STORE_BLOCK_IDS);
}

/*
 * Addresses that no message has any more; looked for when there are many, and then twice as many.
 */
static int drop_addresses(struct store *store, struct err *err)
{
	uint64_t count;
	int rc = store_number(store->db, "SELECT count(*) FROM address", 0, &count, err);
	if (rc < 0 || count <= ADDRESSES_KEPT || count / 2 < store->addresses_kept)
		return rc;
	rc = store_sql(store->db,
		       "DELETE FROM address WHERE id NOT IN (SELECT address FROM message)", err);
	memset(store->addresses, 0, sizeof(store->addresses));
	return rc < 0 ? rc
		      : store_number(store->db, "SELECT count(*) FROM address", 0,
				     &store->addresses_kept, err);
}

/* Chunks below the lowest one that a kept message needs, and connections that ended before it. */
static int drop_chunks(struct store *store, uint64_t first, struct err *err)
{
	int rc = run(store, err, "DELETE FROM chunk WHERE id < ?1", first);
	if (rc == 0)
		rc = run(store, err,
			 "DELETE FROM connection WHERE close_reason IS NOT NULL AND last_chunk <= "
			 "?1",
			 first);
	return rc < 0 ? rc : drop_addresses(store, err);
}

/* Segment files that no chunk names any more. */
int store_drop_segments(struct store *store, struct err *err)
{
	uint64_t first;
	int rc = store_number(store->db, "SELECT segment FROM chunk ORDER BY id LIMIT 1",
			      store->segment, &first, err);
	for (uint64_t n = first; rc == 0 && n-- > 0;) {
		char name[32];
		snprintf(name, sizeof(name), "segment-%08llu", (unsigned long long)n);
		if (unlinkat(store->dir_fd, name, 0) < 0)
			break; /* older ones went before */
	}
	return rc;
}

/*
 * Chunks that no message needs (nobody had the key) are bounded by the number of messages too,
 * generously: a message has one chunk as a rule.
 */
static int first_chunk_by_count(struct store *store, uint64_t *first, struct err *err)
{
	uint64_t oldest, keep;
	*first = 0;
	if (!store->limits.messages || __builtin_mul_overflow(store->limits.messages, 16, &keep) ||
	    __builtin_add_overflow(keep, 64 * STEP_ROWS, &keep) || store->next_chunk <= keep)
		return 0;
	int rc = store_number(store->db, "SELECT min(id) FROM chunk", store->next_chunk, &oldest,
			      err);
	if (rc == 0 && store->next_chunk - keep >= oldest + STEP_ROWS)
		*first = store->next_chunk - keep;
	return rc;
}

/*
 * The same by age: chunks come in order of time but for steps of the clock, so the first that is
 * young enough ends it.
 */
static int first_chunk_by_age(struct store *store, uint64_t now_ns, uint64_t *first,
			      struct err *err)
{
	char sql[128];
	uint64_t young = 0, needed = 0;
	*first = 0;
	if (!store->limits.age_ns || now_ns <= store->limits.age_ns)
		return 0;
	snprintf(sql, sizeof(sql), "SELECT id FROM chunk WHERE time_ns >= %llu ORDER BY id LIMIT 1",
		 (unsigned long long)(now_ns - store->limits.age_ns));
	int rc = store_number(store->db, sql, store->next_chunk, &young, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(min_chunk) FROM message_block",
				  store->next_chunk, &needed, err);
	*first = young < needed ? young : needed;
	return rc;
}

/* Lowest chunk row to keep so that the segments stay within the limit. */
static int first_chunk_by_bytes(struct store *store, uint64_t *first, struct err *err)
{
	uint64_t segments = store->limits.payload_bytes / store->segment_bytes;
	*first = 0;
	if (!store->limits.payload_bytes || store->segment < segments + 1)
		return 0;
	/* segments ascend with the rows: the first row of a kept one ends what goes */
	char sql[128];
	snprintf(sql, sizeof(sql), "SELECT id FROM chunk WHERE segment >= %llu ORDER BY id LIMIT 1",
		 (unsigned long long)(store->segment - (segments ? segments - 1 : 0)));
	return store_number(store->db, sql, store->next_chunk, first, err);
}

/* Lowest chunk row to keep, whatever needs the ones before it; 0 = none has to go. */
static int chunk_floor(struct store *store, uint64_t *floor, struct err *err)
{
	uint64_t by_bytes = 0, by_count = 0, oldest;
	int rc = first_chunk_by_bytes(store, &by_bytes, err);
	if (rc == 0)
		rc = first_chunk_by_count(store, &by_count, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(id) FROM chunk", store->next_chunk,
				  &oldest, err);
	*floor = by_bytes > by_count ? by_bytes : by_count;
	if (rc < 0 || *floor <= oldest)
		*floor = 0;
	return rc;
}

/* Messages that need a chunk below @floor go with it. */
static int first_message_above(struct store *store, uint64_t floor, uint64_t *first,
			       struct err *err)
{
	char sql[160];
	uint64_t last;
	snprintf(sql, sizeof(sql),
		 "SELECT (max(number) + 1) * %d FROM message_block WHERE min_chunk < %llu",
		 STORE_BLOCK_IDS, (unsigned long long)floor);
	int rc = store_number(store->db, sql, 0, &last, err);
	if (last > store->next_message)
		last = store->next_message;
	if (last > *first)
		*first = last;
	return rc;
}

static int retain_messages(struct store *store, uint64_t now_ns, struct err *err)
{
	uint64_t first, oldest, floor = 0, by_age = 0, oldest_chunk, needed;
	int rc = first_message(store, now_ns, &first, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(id) FROM message", store->next_message,
				  &oldest, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(id) FROM chunk", store->next_chunk,
				  &oldest_chunk, err);
	if (rc == 0)
		rc = chunk_floor(store, &floor, err);
	if (rc == 0 && floor)
		rc = first_message_above(store, floor, &first, err);
	if (rc == 0)
		rc = first_chunk_by_age(store, now_ns, &by_age, err);
	if (rc < 0)
		return rc;
	/* by count: hold on until a step's worth has gathered, unless the store is small anyway */
	uint64_t step = !store->limits.age_ns && !floor && store->limits.messages >= 16 * STEP_ROWS
				? STEP_ROWS
				: 1;
	int messages_go = first > oldest && first - oldest >= step;
	if (!messages_go && !floor && by_age <= oldest_chunk)
		return 0;
	if (messages_go)
		rc = drop_messages(store, first, err);
	/*
	 * chunks that no message needs go up to the first that one does; without messages only
	 * @floor and age speak
	 */
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(min_chunk) FROM message_block", 0, &needed,
				  err);
	if (rc == 0 && by_age > needed)
		needed = by_age;
	if (rc == 0 && floor > needed)
		needed = floor;
	if (rc == 0)
		rc = drop_chunks(store, needed, err);
	store->dropped = 1;
	return rc;
}

static int retain_logs(struct store *store, uint64_t now_ns, struct err *err)
{
	uint64_t oldest, first;
	int rc = store_number(store->db, "SELECT min(id) FROM log", store->next_log, &oldest, err);
	first = oldest;
	if (store->limits.logs && store->next_log > store->limits.logs &&
	    store->next_log - store->limits.logs > first)
		first = store->next_log - store->limits.logs;
	uint64_t by_age = 0;
	if (rc == 0)
		rc = first_young(store, "log_block", "coalesce(arrived_ns, max_ns)", now_ns,
				 &by_age, err);
	if (by_age > first)
		first = by_age;
	uint64_t step =
		!store->limits.age_ns && store->limits.logs >= 16 * STEP_ROWS ? STEP_ROWS : 1;
	if (rc < 0 || first < oldest + step)
		return rc;
	/*
	 * FTS5 breaks its index when it is told to forget a row that it never had, and lines that
	 * came while search was disabled are in the log only. Its own list of what it has (a row
	 * for each, documented) tells them apart.
	 */
	rc = run(store, err,
		 "INSERT INTO log_text(log_text, rowid, message) SELECT 'delete', id, message FROM "
		 "log WHERE id < ?1 AND EXISTS (SELECT 1 FROM log_text_docsize AS has WHERE "
		 "has.id = log.id)",
		 first);
	if (rc == 0)
		rc = run(store, err, "DELETE FROM log WHERE id < ?1", first);
	return rc < 0 ? rc
		      : run(store, err, "DELETE FROM log_block WHERE number < ?1",
			    first / STORE_BLOCK_IDS);
}

/*
 * Connections over which nothing came (most are refused ones) have no chunk whose going would take
 * them along.
 */
static int drop_empty_connections(struct store *store, uint64_t now_ns, struct err *err)
{
	static const char by_age[] =
		"DELETE FROM connection WHERE started_ns < ?1 AND closed_ns < ?1 AND close_reason "
		"IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chunk WHERE connection = connection.id)";
	static const char by_count[] =
		"DELETE FROM connection WHERE id < ?1 AND close_reason IS NOT NULL AND NOT EXISTS "
		"(SELECT 1 FROM chunk WHERE connection = connection.id)";
	const struct store_limits *limits = &store->limits;
	uint64_t keep = UINT64_MAX, next = store->next_connection;
	int rc = 0;
	if (limits->age_ns && now_ns > limits->age_ns)
		rc = run(store, err, by_age, now_ns - limits->age_ns);
	if (limits->messages)
		keep = limits->messages;
	/* a row takes some hundred bytes */
	if (limits->payload_bytes && limits->payload_bytes / STEP_ROWS < keep)
		keep = limits->payload_bytes / STEP_ROWS;
	if (rc < 0 || next <= keep || next - store->connections_swept < STEP_ROWS)
		return rc;
	store->connections_swept = next;
	return run(store, err, by_count, next - keep);
}

int store_retain(struct store *store, struct err *err)
{
	const struct store_limits *limits = &store->limits;
	uint64_t now_ns = clock_ns(CLOCK_REALTIME);
	int rc = 0;
	if (limits->messages || limits->payload_bytes || limits->age_ns)
		rc = retain_messages(store, now_ns, err);
	if (rc == 0)
		rc = drop_empty_connections(store, now_ns, err);
	if (rc == 0 && (limits->logs || limits->age_ns))
		rc = retain_logs(store, now_ns, err);
	return rc;
}
