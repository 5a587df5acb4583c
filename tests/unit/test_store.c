/* SPDX-License-Identifier: Apache-2.0 */
/* The store against a naive list: every filter, both directions, cursors, limits, retention, a second start. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/store.h"

#define ROWS 10000 /* two whole blocks of the index of messages and a part of one */

struct naive {
	uint64_t id, time_ns;
	unsigned type, level;
	enum message_sender sender, initiator;
	char addr[32];
};

static struct naive rows[ROWS];
static char dir[64];

static void fresh_dir(void)
{
	strcpy(dir, "/tmp/byteledger-store-XXXXXX");
	assert_non_null(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[128];
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

#define CHECK(call)                                        \
	do {                                               \
		struct err e_ = { 0 };                     \
		struct err *err = &e_;                     \
		if ((call) < 0)                            \
			fail_msg("%s: %s", #call, e_.msg); \
	} while (0)

static void put_row(struct store *store, struct naive *row)
{
	struct message_sink *sink = store_message_sink(store);
	char plain[64];
	int len = snprintf(plain, sizeof(plain), "plain %llu", (unsigned long long)row->id);
	struct message_chunk chunk = { .connection = 0,
				       .counter = row->id,
				       .sender = row->sender,
				       .time_ns = row->time_ns,
				       .raw = (const uint8_t *)"RAW",
				       .raw_len = 3,
				       .plain = (const uint8_t *)plain,
				       .plain_len = (size_t)len };
	CHECK(sink->chunk(sink, &chunk, err));
	struct message message = { .time_ns = row->time_ns,
				   .sender = row->sender,
				   .initiator = row->initiator,
				   .remote_addr = row->addr,
				   .type = row->type,
				   .first_chunk = row->id,
				   .last_chunk = row->id,
				   .plain = chunk.plain,
				   .plain_len = chunk.plain_len,
				   .json = "{}",
				   .json_len = 2 };
	CHECK(sink->message(sink, &message, err));
	char text[64];
	snprintf(text, sizeof(text), "line %llu %s", (unsigned long long)row->id,
		 row->id % 3 ? "apple pear" : "pear plum");
	struct store_log log = { .time_ns = row->time_ns,
				 .level = row->level,
				 .section = "s",
				 .section_len = 1,
				 .message = text,
				 .message_len = strlen(text) };
	CHECK(store_put_log(store, &log, err));
}

static void fill(struct store *store)
{
	srand(11);
	for (uint64_t i = 0; i < ROWS; i++) {
		struct naive *row = &rows[i];
		row->id = i;
		/* mostly forward, with steps back of the clock */
		row->time_ns = 1000000000000ULL + i * 1000 + (i % 977 < 20 ? 0 : 500000) -
			       (uint64_t)(rand() % 300);
		row->type = rand() % 100 < 90 ? 16 : (unsigned)(rand() % 29);
		row->level = 1u << (rand() % 7);
		row->sender = (enum message_sender)(rand() % 2);
		row->initiator = (enum message_sender)(rand() % 10 == 0);
		snprintf(row->addr, sizeof(row->addr), "10.0.0.%d:9732",
			 rand() % 50 == 0 ? 1 + rand() % 200 : 7);
		put_row(store, row);
	}
	CHECK(store_flush(store, err));
}

static int fits(const struct naive *row, const struct store_query *q, int logs)
{
	if (q->has_cursor && (q->forward ? row->id < q->cursor : row->id > q->cursor))
		return 0;
	if ((q->has_from && row->time_ns < q->from_ns) || (q->has_to && row->time_ns > q->to_ns))
		return 0;
	if (logs)
		return !q->levels || (q->levels & row->level);
	if (q->types) {
		int found = 0;
		for (size_t i = 0; i < q->type_count; i++)
			found |= q->types[i] == row->type;
		if (!found)
			return 0;
	}
	return (!q->has_incoming || (row->sender == MESSAGE_REMOTE) == !!q->incoming) &&
	       (!q->has_initiator || row->initiator == q->initiator) &&
	       (!q->remote_addr || strcmp(q->remote_addr, row->addr) == 0);
}

static void compare(struct store_reader *reader, const struct store_query *q, int logs)
{
	struct store_page *page = NULL;
	if (logs)
		CHECK(store_logs(reader, q, &page, err));
	else
		CHECK(store_messages(reader, q, &page, err));
	size_t n = 0;
	for (uint64_t k = 0; k < ROWS && n < q->limit; k++) {
		const struct naive *row = &rows[q->forward ? k : ROWS - 1 - k];
		if (!fits(row, q, logs))
			continue;
		assert_true(n < store_page_count(page));
		uint64_t id = logs ? store_page_log(page, n)->id : store_page_message(page, n)->id;
		assert_int_equal(id, row->id);
		if (!logs)
			assert_string_equal(store_page_message(page, n)->remote_addr, row->addr);
		n++;
	}
	assert_int_equal(store_page_count(page), n);
	store_page_free(page);
}

/* Any query gives what the naive filter gives. */
static void compare_many(int count)
{
	struct store_reader *reader;
	CHECK(store_reader_open(dir, &reader, err));
	for (int i = 0; i < count; i++) {
		unsigned char types[4];
		char addr[32];
		struct store_query q = { .forward = rand() % 2,
					 .limit = (uint64_t)(rand() % 3 ? rand() % 130
									: rand() % 3) };
		if (rand() % 2) {
			q.has_cursor = 1;
			q.cursor = (uint64_t)(rand() % (ROWS + 100));
		}
		if (rand() % 3 == 0) {
			/* distinct types, as the filter's parser gives them */
			q.type_count = 1 + (size_t)rand() % 4;
			unsigned char first = (unsigned char)(rand() % 25);
			for (size_t t = 0; t < q.type_count; t++)
				types[t] = (unsigned char)(first + t);
			q.types = types;
		}
		if (rand() % 3 == 0) {
			q.has_incoming = 1;
			q.incoming = rand() % 2;
		}
		if (rand() % 3 == 0) {
			q.has_initiator = 1;
			q.initiator = (enum message_sender)(rand() % 2);
		}
		if (rand() % 3 == 0) {
			snprintf(addr, sizeof(addr), "10.0.0.%d:9732",
				 rand() % 3 ? 7 : 1 + rand() % 220);
			q.remote_addr = addr;
		}
		if (rand() % 3 == 0) {
			q.has_from = rand() % 2;
			q.has_to = rand() % 2;
			q.from_ns = 1000000000000ULL + (uint64_t)(rand() % (ROWS * 1100));
			q.to_ns = q.from_ns + (uint64_t)(rand() % 900000);
		}
		if (rand() % 2)
			q.levels = (unsigned)(rand() % 128);
		compare(reader, &q, i % 4 == 0);
	}
	store_reader_close(reader);
}

static void any_query_gives_what_a_naive_filter_gives(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	CHECK(store_open(dir, NULL, &store, err));
	fill(store);
	compare_many(4000);
	CHECK(store_close(store, err));
	remove_dir();
}

/* @sql on the database itself, its first number. */
static sqlite3_int64 ask_database(const char *sql)
{
	char path[128];
	sqlite3 *db;
	sqlite3_stmt *s;
	sqlite3_int64 number = -1;
	snprintf(path, sizeof(path), "%s/store.sqlite", dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	while (*sql) {
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, &sql), SQLITE_OK);
		if (sqlite3_step(s) == SQLITE_ROW)
			number = sqlite3_column_int64(s, 0);
		assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
	}
	sqlite3_close(db);
	return number;
}

static void a_store_of_version_1_is_brought_up_to_date_by_its_first_writer(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	struct store_reader *reader;
	struct err why = { 0 };
	CHECK(store_open(dir, NULL, &store, err));
	fill(store);
	CHECK(store_close(store, err));
	ask_database("DROP TABLE message_set; CREATE INDEX message_by_type ON message(type, si);"
		     "CREATE INDEX message_by_side ON message(si);"
		     "CREATE INDEX message_by_address ON message(address, si);"
		     "CREATE INDEX message_by_address_type ON message(address, type);"
		     "PRAGMA user_version=1");
	assert_int_equal(store_reader_open(dir, &reader, &why), -EINVAL);
	assert_non_null(strstr(why.msg, "version 1"));
	CHECK(store_open(dir, NULL, &store, err));
	compare_many(1000);
	CHECK(store_close(store, err));
	assert_int_equal(ask_database("PRAGMA user_version"), 2);
	assert_int_equal(ask_database("SELECT count(*) FROM sqlite_schema WHERE name LIKE "
				      "'message_by_%'"),
			 0);
	CHECK(store_open(dir, NULL, &store, err));
	compare_many(500);
	CHECK(store_close(store, err));
	ask_database("PRAGMA user_version=3");
	assert_int_equal(store_open(dir, NULL, &store, &why), -EINVAL);
	assert_non_null(strstr(why.msg, "newer"));
	remove_dir();
}

/* The newest block's sets are in memory only: a start in its middle takes them up again. */
static void starts_in_the_middle_of_a_block_lose_nothing_of_the_index(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	CHECK(store_open(dir, NULL, &store, err));
	fill(store);
	CHECK(store_close(store, err));
	/* what a recorder that was killed after 5,000 rows leaves, started again for the other half */
	ask_database(
		"DELETE FROM message WHERE id >= 5000; DELETE FROM message_set WHERE block >= 1;"
		"DELETE FROM log WHERE id >= 5000; DELETE FROM chunk WHERE id >= 5000");
	for (uint64_t from = 5000; from < ROWS; from += 2500) {
		CHECK(store_open(dir, NULL, &store, err));
		for (uint64_t i = from; i < from + 2500; i++)
			put_row(store, &rows[i]);
		CHECK(store_close(store, err));
	}
	compare_many(1000);
	/* each message of the whole blocks in one set of each of the four kinds */
	assert_int_equal(ask_database("SELECT count(*) FROM message_set, json_each(ids)"),
			 4 * (ROWS - ROWS % 4096));
	remove_dir();
}

static int see_start(void *ctx, const struct message_connection *row)
{
	uint64_t **at = ctx;
	*(*at)++ = row->started_ns;
	return 0;
}

static void connections_that_began_at_one_moment_have_names_of_their_own(void **state)
{
	(void)state;
	fresh_dir();
	for (int run = 0; run < 2; run++) {
		struct store *store;
		CHECK(store_open(dir, NULL, &store, err));
		struct message_sink *sink = store_message_sink(store);
		for (uint64_t i = 0; i < 3; i++) {
			struct message_connection row = { .id = i, .started_ns = i < 2 ? 7 : 8 };
			CHECK(sink->connection(sink, &row, err));
			/* said again: it keeps its name */
			row.close_reason = "closed";
			CHECK(sink->connection(sink, &row, err));
		}
		CHECK(store_close(store, err));
	}
	struct store_reader *reader;
	uint64_t starts[6], *at = starts, id;
	static const uint64_t want[6] = { 7, 8, 9, 10, 11, 12 };
	CHECK(store_reader_open(dir, &reader, err));
	CHECK(store_connections(reader, 0, 100, see_start, &at, err));
	assert_int_equal(at - starts, 6);
	assert_memory_equal(starts, want, sizeof(want));
	for (uint64_t i = 0; i < 6; i++) {
		CHECK(store_connection_at(reader, want[i], &id, err));
		assert_int_equal(id, i);
	}
	store_reader_close(reader);
	remove_dir();
}

static int see_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	char *text = ctx;
	assert_int_equal(chunk->raw_len, 3);
	assert_memory_equal(chunk->raw, "RAW", 3);
	memcpy(text, chunk->plain, chunk->plain_len);
	text[chunk->plain_len] = '\0';
	return 0;
}

static void bytes_come_back_and_ids_go_on_after_a_second_start(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	CHECK(store_open(dir, NULL, &store, err));
	fill(store);
	struct store *second = NULL;
	struct err why = { 0 };
	assert_true(store_open(dir, NULL, &second, &why) < 0);
	assert_non_null(strstr(why.hint, "another recorder"));
	CHECK(store_close(store, err));
	CHECK(store_open(dir, NULL, &store, err));
	struct naive more = rows[0];
	more.id = ROWS;
	put_row(store, &more);
	CHECK(store_flush(store, err));
	struct store_reader *reader;
	CHECK(store_reader_open(dir, &reader, err));
	struct store_query q = { .limit = 2 };
	struct store_page *page;
	CHECK(store_messages(reader, &q, &page, err));
	assert_int_equal(store_page_message(page, 0)->id, ROWS);
	assert_int_equal(store_page_message(page, 1)->id, ROWS - 1);
	char text[64] = "";
	CHECK(store_message_chunks(reader, store_page_message(page, 1), see_chunk, text, err));
	assert_string_equal(text, "plain 9999");
	store_page_free(page);
	store_reader_close(reader);
	CHECK(store_close(store, err));
	remove_dir();
}

static void limits_drop_the_oldest_rows_with_all_that_belongs_to_them(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	struct store_limits limits = { .messages = 1000, .logs = 500 };
	CHECK(store_open(dir, &limits, &store, err));
	fill(store);
	struct store_stats stats;
	CHECK(store_stats(store, &stats, err));
	assert_int_equal(stats.messages, 1000);
	assert_int_equal(stats.logs, 500);
	/* chunks go by the block that needs them: at most one block more than the messages */
	assert_in_range(stats.chunks, 1000, 1000 + 1024);
	/* the index of whole blocks goes with the messages: id 9,000 is in the third */
	assert_int_equal(ask_database("SELECT count(*) FROM message_set WHERE block < 2"), 0);
	struct store_reader *reader;
	struct store_page *page;
	CHECK(store_reader_open(dir, &reader, err));
	CHECK(store_search_logs(reader, "line 10", 1, 100, &page, err));
	assert_int_equal(store_page_count(page), 0);
	store_page_free(page);
	CHECK(store_search_logs(reader, "line 9999", 1, 100, &page, err));
	assert_int_equal(store_page_count(page), 1);
	store_page_free(page);
	store_reader_close(reader);
	CHECK(store_close(store, err));
	remove_dir();
}

static int count_row(void *ctx, const struct message_connection *row)
{
	(void)row;
	++*(int *)ctx;
	return 0;
}

static int count_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	assert_int_equal(chunk->raw_len, 2000);
	++*(int *)ctx;
	return 0;
}

/* Sealed traffic: chunks, closed connections, and hardly a message. */
static void put_sealed(struct store *store, uint64_t connections)
{
	static uint8_t raw[2000];
	struct message_sink *sink = store_message_sink(store);
	for (uint64_t c = 0; c < connections; c++) {
		struct message_connection row = { .id = c, .started_ns = 1000000000 + c };
		CHECK(sink->connection(sink, &row, err));
		for (uint64_t n = 0; n < 100; n++) {
			struct message_chunk chunk = { .connection = c,
						       .counter = n,
						       .time_ns = row.started_ns,
						       .raw = raw,
						       .raw_len = sizeof(raw) };
			CHECK(sink->chunk(sink, &chunk, err));
		}
		row.close_reason = "closed";
		CHECK(sink->connection(sink, &row, err));
		if (c % 8 == 7)
			CHECK(store_flush(store, err));
	}
	CHECK(store_flush(store, err));
}

static void limits_of_bytes_and_age_drop_chunks_that_no_message_needs_too(void **state)
{
	(void)state;
	const struct store_limits limits[] = { { .payload_bytes = 4 << 20 },
					       { .age_ns = 3600000000000u } };
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct store *store;
		struct store_stats stats;
		struct store_reader *reader;
		struct store_chunk_query all = { .limit = UINT64_MAX };
		int connections = 0, chunks = 0;
		fresh_dir();
		CHECK(store_open(dir, &limits[i], &store, err));
		put_sealed(store, 64);
		CHECK(store_stats(store, &stats, err));
		CHECK(store_reader_open(dir, &reader, err));
		CHECK(store_connections(reader, 0, 1000, count_row, &connections, err));
		/* what is left can be read, byte for byte */
		CHECK(store_list_chunks(reader, &all, count_chunk, &chunks, err));
		assert_int_equal(chunks, stats.chunks);
		if (limits[i].payload_bytes) {
			assert_in_range(stats.segment_bytes, 2 << 20, 5 << 20);
			assert_in_range(connections, 10, 30);
		} else {
			assert_int_equal(chunks, 0);
			assert_int_equal(connections, 0);
		}
		store_reader_close(reader);
		CHECK(store_close(store, err));
		remove_dir();
	}
}

static void search_knows_phrases_must_and_must_not(void **state)
{
	(void)state;
	fresh_dir();
	struct store *store;
	CHECK(store_open(dir, NULL, &store, err));
	fill(store);
	struct store_reader *reader;
	CHECK(store_reader_open(dir, &reader, err));
	const struct {
		const char *text;
		int phrase;
		size_t count;
	} cases[] = { { "apple pear", 1, 6666 },       { "pear apple", 1, 0 },
		      { "apple plum", 0, 10000 },      { "+pear -plum", 0, 6666 },
		      { "+pear +plum", 0, 3334 },      { "plum", 0, 3334 },
		      { "\"apple\" pear\"", 1, 6666 }, { "9999 nothing", 0, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store_page *page;
		CHECK(store_search_logs(reader, cases[i].text, cases[i].phrase, 10000, &page, err));
		assert_int_equal(store_page_count(page), cases[i].count);
		store_page_free(page);
	}
	struct store_page *page;
	struct err why = { 0 };
	assert_true(store_search_logs(reader, "+ - !!", 0, 10, &page, &why) < 0);
	store_reader_close(reader);
	CHECK(store_close(store, err));
	remove_dir();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_query_gives_what_a_naive_filter_gives),
		cmocka_unit_test(a_store_of_version_1_is_brought_up_to_date_by_its_first_writer),
		cmocka_unit_test(starts_in_the_middle_of_a_block_lose_nothing_of_the_index),
		cmocka_unit_test(connections_that_began_at_one_moment_have_names_of_their_own),
		cmocka_unit_test(bytes_come_back_and_ids_go_on_after_a_second_start),
		cmocka_unit_test(limits_drop_the_oldest_rows_with_all_that_belongs_to_them),
		cmocka_unit_test(limits_of_bytes_and_age_drop_chunks_that_no_message_needs_too),
		cmocka_unit_test(search_knows_phrases_must_and_must_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
