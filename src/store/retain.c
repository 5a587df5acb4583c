/* SPDX-License-Identifier: Apache-2.0 */
/* retain.c - what grows beyond the limits goes, oldest first, with everything that belongs to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/internal.h"

#define STEP_ROWS \
	1024 /* rows are dropped in steps, so that a flush costs little while the store is full */

/* A statement whose only parameter is @value. */
static int run(struct store *store, struct err *err, const char *sql, uint64_t value)
{
	sqlite3_stmt *s = NULL;
	int rc = store_prepare(store->db, &s, sql, err);
	if (rc == 0) {
		sqlite3_bind_int64(s, 1, (sqlite3_int64)value);
		if (sqlite3_step(s) != SQLITE_DONE)
			rc = store_fail(store->db, err, "drop old rows");
	}
	sqlite3_finalize(s);
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
	if (rc == 0 && limits->age_ns && now_ns > limits->age_ns) {
		char sql[200];
		uint64_t by_age;
		/* blocks whose newest row is too old go whole */
		snprintf(sql, sizeof(sql),
			 "SELECT max(number) + 1 FROM message_block WHERE max_ns < %llu",
			 (unsigned long long)(now_ns - limits->age_ns));
		rc = store_number(store->db, sql, 0, &by_age, err);
		if (by_age * STORE_BLOCK_IDS > *first)
			*first = by_age * STORE_BLOCK_IDS;
	}
	return rc;
}

static int drop_messages(struct store *store, uint64_t first, struct err *err)
{
	int rc = run(store, err, "DELETE FROM message WHERE id < ?1", first);
	return rc < 0 ? rc
		      : run(store, err, "DELETE FROM message_block WHERE number < ?1",
			    first / STORE_BLOCK_IDS);
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
	if (rc == 0)
		rc = store_sql(
			store->db,
			"DELETE FROM address WHERE id NOT IN (SELECT DISTINCT address FROM message)"
			" AND (SELECT count(*) FROM address) > 100000",
			err);
	return rc;
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

/* Lowest chunk row to keep so that the segments stay within the limit. */
static int first_chunk_by_bytes(struct store *store, uint64_t *first, struct err *err)
{
	uint64_t segments = store->limits.payload_bytes / STORE_SEGMENT_BYTES;
	*first = 0;
	if (!store->limits.payload_bytes || store->segment < segments + 1)
		return 0;
	char sql[128];
	snprintf(sql, sizeof(sql), "SELECT max(id) + 1 FROM chunk WHERE segment < %llu",
		 (unsigned long long)(store->segment - (segments ? segments - 1 : 0)));
	return store_number(store->db, sql, 0, first, err);
}

static int retain_messages(struct store *store, uint64_t now_ns, struct err *err)
{
	uint64_t first, oldest, by_bytes, needed;
	int rc = first_message(store, now_ns, &first, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(id) FROM message", store->next_message,
				  &oldest, err);
	if (rc == 0)
		rc = first_chunk_by_bytes(store, &by_bytes, err);
	if (rc < 0)
		return rc;
	if (by_bytes) {
		char sql[160];
		uint64_t last;
		snprintf(sql, sizeof(sql),
			 "SELECT (max(number) + 1) * %d FROM message_block WHERE min_chunk < %llu",
			 STORE_BLOCK_IDS, (unsigned long long)by_bytes);
		rc = store_number(store->db, sql, 0, &last, err);
		if (rc < 0)
			return rc;
		if (last > store->next_message)
			last = store->next_message;
		if (last > first)
			first = last;
	}
	if (first <= oldest && !by_bytes)
		return 0;
	/* hold on until a step's worth has gathered, unless the store is small anyway */
	uint64_t step =
		store->limits.messages && store->limits.messages < 16 * STEP_ROWS ? 1 : STEP_ROWS;
	if (first - oldest < step && !by_bytes)
		return 0;
	rc = drop_messages(store, first, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(min_chunk) FROM message_block",
				  store->next_chunk, &needed, err);
	if (rc == 0 && by_bytes > needed)
		needed = by_bytes;
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
	if (rc == 0 && store->limits.age_ns && now_ns > store->limits.age_ns) {
		char sql[160];
		uint64_t by_age;
		snprintf(sql, sizeof(sql),
			 "SELECT max(number) + 1 FROM log_block WHERE max_ns < %llu",
			 (unsigned long long)(now_ns - store->limits.age_ns));
		rc = store_number(store->db, sql, 0, &by_age, err);
		if (by_age * STORE_BLOCK_IDS > first)
			first = by_age * STORE_BLOCK_IDS;
	}
	uint64_t step = store->limits.logs && store->limits.logs < 16 * STEP_ROWS ? 1 : STEP_ROWS;
	if (rc < 0 || first < oldest + step)
		return rc;
	rc = run(store, err,
		 "INSERT INTO log_text(log_text, rowid, message) SELECT 'delete', id, message FROM "
		 "log WHERE id < ?1",
		 first);
	if (rc == 0)
		rc = run(store, err, "DELETE FROM log WHERE id < ?1", first);
	return rc < 0 ? rc
		      : run(store, err, "DELETE FROM log_block WHERE number < ?1",
			    first / STORE_BLOCK_IDS);
}

int store_retain(struct store *store, struct err *err)
{
	const struct store_limits *limits = &store->limits;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	int rc = 0;
	if (limits->messages || limits->payload_bytes || limits->age_ns)
		rc = retain_messages(store, now_ns, err);
	if (rc == 0 && (limits->logs || limits->age_ns))
		rc = retain_logs(store, now_ns, err);
	return rc;
}
