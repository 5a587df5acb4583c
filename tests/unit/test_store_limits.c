/* SPDX-License-Identifier: Apache-2.0 */
/* What the limits of a store take and what they leave, search switched on and off, and a store that cannot be read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/store.h"

static char dir[64];

static int fresh_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/byteledger-store-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char cmd[128];
	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd);
}

#define CHECK(call)                                        \
	do {                                               \
		struct err e_ = { 0 };                     \
		struct err *err = &e_;                     \
		if ((call) < 0)                            \
			fail_msg("%s: %s", #call, e_.msg); \
	} while (0)

static sqlite3 *open_file(void)
{
	char path[96];
	sqlite3 *db;
	snprintf(path, sizeof(path), "%s/store.sqlite", dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

/* Lines @from to @to, one word each, with a flush every hundred as the recorder does it. */
static void put_lines(struct store *store, unsigned from, unsigned to, uint64_t time_ns)
{
	for (unsigned i = from; i < to; i++) {
		char text[64];
		snprintf(text, sizeof(text), "word%u", i);
		struct store_log log = {
			.time_ns = time_ns, .level = 4, .message = text, .message_len = strlen(text)
		};
		CHECK(store_put_log(store, &log, err));
		if (i % 100 == 99)
			CHECK(store_flush(store, err));
	}
	CHECK(store_flush(store, err));
}

static size_t hits(struct store_reader *reader, const char *text)
{
	struct store_page *page;
	CHECK(store_search_logs(reader, text, 1, 10, &page, err));
	size_t count = store_page_count(page);
	store_page_free(page);
	return count;
}

static void search_may_be_switched_off_and_on_under_a_limit(void **state)
{
	(void)state;
	const int no_search[] = { 1, 0, 1, 0 };
	struct store_reader *reader;
	struct store_stats stats;
	for (unsigned i = 0; i < ARRAY_LEN(no_search); i++) {
		struct store_limits limits = { .logs = 500, .no_search = no_search[i] };
		struct store *store;
		CHECK(store_open(dir, &limits, &store, err));
		/* the third run leaves indexed lines that the fourth drops among others */
		put_lines(store, i * 1000, i * 1000 + (i == 2 ? 300 : 1000), 1);
		CHECK(store_stats(store, &stats, err));
		assert_int_equal(stats.logs, 500);
		CHECK(store_close(store, err));
	}
	CHECK(store_reader_open(dir, &reader, err));
	assert_int_equal(hits(reader, "word3999"), 1);
	assert_int_equal(hits(reader, "word3499"), 0);
	assert_int_equal(hits(reader, "word1999"), 0);
	store_reader_close(reader);
	sqlite3 *db = open_file();
	char *why = NULL;
	if (sqlite3_exec(db, "INSERT INTO log_text(log_text) VALUES('integrity-check')", NULL, NULL,
			 &why) != SQLITE_OK)
		fail_msg("index of words: %s", why);
	sqlite3_close(db);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_messages(struct store *store, unsigned from, unsigned to, uint64_t time_ns)
{
	struct message_sink *sink = store_message_sink(store);
	for (unsigned i = from; i < to; i++) {
		struct message_chunk chunk = { .counter = i,
					       .time_ns = time_ns,
					       .raw = (const uint8_t *)"RAW",
					       .raw_len = 3 };
		struct message message = { .time_ns = time_ns,
					   .type = MESSAGE_OPERATION,
					   .first_chunk = i,
					   .last_chunk = i };
		CHECK(sink->chunk(sink, &chunk, err));
		CHECK(sink->message(sink, &message, err));
	}
	CHECK(store_flush(store, err));
}

#define HOUR_NS 3600000000000u
#define IN_2020_NS 1577836800000000000u

static void age_keeps_what_came_lately_whatever_time_it_bears(void **state)
{
	(void)state;
	struct store_limits limits = { .age_ns = HOUR_NS };
	struct store *store;
	struct store_stats stats;
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, 0, 1100, now_ns());
	put_lines(store, 1100, 3148, IN_2020_NS);
	/* messages have the capture's clock, which may step: what stands before young ones goes, what stands behind stays */
	put_messages(store, 0, 2048, IN_2020_NS);
	put_messages(store, 2048, 3148, now_ns());
	put_messages(store, 3148, 5196, IN_2020_NS);
	CHECK(store_stats(store, &stats, err));
	assert_int_equal(stats.logs, 3148);
	assert_int_equal(stats.messages, 3148);
	CHECK(store_close(store, err));
}

static void age_takes_lines_that_came_long_ago_whatever_time_they_bear(void **state)
{
	(void)state;
	struct store_limits limits = { .age_ns = HOUR_NS };
	struct store *store;
	struct store_stats stats;
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, 0, 3000, now_ns() + 1000 * (uint64_t)HOUR_NS);
	CHECK(store_close(store, err));
	sqlite3 *db = open_file();
	assert_int_equal(sqlite3_exec(db, "UPDATE log_block SET arrived_ns = 1", NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, 3000, 3001, IN_2020_NS);
	CHECK(store_stats(store, &stats, err));
	/* the block that the last line shares with older ones stays */
	assert_int_equal(stats.logs, 3001 - 2048);
	CHECK(store_close(store, err));
}

/* All lines of @from_ns and later, by the index of times. */
static size_t lines_since(uint64_t from_ns)
{
	struct store_reader *reader;
	struct store_page *page;
	struct store_query q = { .limit = 10000, .has_from = 1, .from_ns = from_ns };
	CHECK(store_reader_open(dir, &reader, err));
	CHECK(store_logs(reader, &q, &page, err));
	size_t count = store_page_count(page);
	store_page_free(page);
	store_reader_close(reader);
	return count;
}

static void a_time_beyond_what_sqlite_can_hold_hides_nothing(void **state)
{
	(void)state;
	struct store_limits limits = { .age_ns = HOUR_NS };
	struct store *store;
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, 0, 1500, now_ns());
	put_lines(store, 1500, 1501, UINT64_MAX);
	put_lines(store, 1501, 3011, now_ns());
	assert_int_equal(lines_since(now_ns() - HOUR_NS), 3011);
	assert_int_equal(lines_since(INT64_MAX), 1);
	CHECK(store_close(store, err));
}

static void a_store_that_does_not_know_arrivals_yet_is_brought_up_to_date(void **state)
{
	(void)state;
	struct store *store;
	CHECK(store_open(dir, NULL, &store, err));
	put_lines(store, 0, 2000, now_ns());
	CHECK(store_close(store, err));
	sqlite3 *db = open_file();
	assert_int_equal(
		sqlite3_exec(db, "ALTER TABLE log_block DROP COLUMN arrived_ns", NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	struct store_limits limits = { .age_ns = HOUR_NS };
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, 2000, 2001, now_ns());
	assert_int_equal(lines_since(now_ns() - HOUR_NS), 2001);
	CHECK(store_close(store, err));
}

static void sql(const char *text)
{
	sqlite3 *db = open_file();
	char *why = NULL;
	if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", text, why);
	sqlite3_close(db);
}

static int put_line(struct store *store, const char *text, struct err *err)
{
	struct store_log log = {
		.time_ns = now_ns(), .level = 4, .message = text, .message_len = strlen(text)
	};
	return store_put_log(store, &log, err);
}

static void a_block_of_times_that_could_not_be_written_is_written_by_the_next_try(void **state)
{
	(void)state;
	struct store *store;
	struct err why = { 0 };
	uint64_t lost = 1;
	int failures = 0;
	CHECK(store_open(dir, NULL, &store, err));
	CHECK(store_close(store, err));
	/* FAIL keeps what the statement has done so far: the trigger fires once */
	sql("CREATE TRIGGER once BEFORE INSERT ON log_block WHEN NOT EXISTS (SELECT 1 FROM meta) "
	    "BEGIN INSERT INTO meta VALUES('seen', 1); SELECT RAISE(FAIL, 'once'); END");
	CHECK(store_open(dir, NULL, &store, err));
	for (int i = 0; i < 1500; i++) {
		if (put_line(store, "line", &why) == 0)
			continue;
		failures++;
		CHECK(store_recover(store, &lost, err));
		assert_int_equal(lost, 0);
		CHECK(put_line(store, "line", err));
	}
	CHECK(store_flush(store, err));
	assert_int_equal(failures, 1);
	assert_int_equal(lines_since(now_ns() - HOUR_NS), 1500);
	CHECK(store_close(store, err));
}

static void rows_of_a_transaction_that_was_given_up_are_counted_once_each(void **state)
{
	(void)state;
	struct store *store;
	struct err why = { 0 };
	uint64_t lost = 0;
	CHECK(store_open(dir, NULL, &store, err));
	CHECK(store_close(store, err));
	sql("CREATE TRIGGER back BEFORE INSERT ON log WHEN NEW.message = 'poison' "
	    "BEGIN SELECT RAISE(ROLLBACK, 'as on a full disk'); END");
	CHECK(store_open(dir, NULL, &store, err));
	put_lines(store, 0, 100, now_ns());
	for (int i = 0; i < 50; i++)
		CHECK(put_line(store, "line", err));
	assert_true(put_line(store, "poison", &why) < 0);
	CHECK(store_recover(store, &lost, err));
	assert_int_equal(lost, 50);
	CHECK(store_flush(store, err));
	assert_int_equal(lines_since(now_ns() - HOUR_NS), 100);
	CHECK(store_close(store, err));
}

/* Overwrite the first (or the last) leaf of a table. */
static void damage(const char *table, int last)
{
	sqlite3 *db = open_file();
	sqlite3_stmt *s;
	char path[96];
	uint8_t page[65536], at[4];
	assert_int_equal(sqlite3_prepare_v2(db,
					    "SELECT rootpage, page_size FROM sqlite_master, "
					    "pragma_page_size WHERE name=?1",
					    -1, &s, NULL),
			 SQLITE_OK);
	sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	long number = sqlite3_column_int(s, 0), size = sqlite3_column_int(s, 1);
	sqlite3_finalize(s);
	sqlite3_close(db);
	snprintf(path, sizeof(path), "%s/store.sqlite", dir);
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	for (;;) {
		fseek(file, (number - 1) * size, SEEK_SET);
		assert_int_equal(fread(page, 1, (size_t)size, file), size);
		if (page[0] != 5)
			break; /* not an inner page of a table */
		memcpy(at, last ? page + 8 : page + (page[12] << 8 | page[13]), 4);
		number = (long)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
	}
	assert_int_equal(page[0], 13);
	memset(page, 0xa5, (size_t)size);
	fseek(file, (number - 1) * size, SEEK_SET);
	fwrite(page, 1, (size_t)size, file);
	assert_int_equal(fclose(file), 0);
}

static int no_row(void *ctx, const struct message_connection *row)
{
	(void)ctx;
	(void)row;
	return 0;
}

static void what_cannot_be_read_is_an_error_and_never_the_end_of_the_rows(void **state)
{
	(void)state;
	struct store *store = NULL;
	struct store_reader *reader;
	struct store_page *page;
	struct store_query every = { .limit = 10000 };
	struct err why = { 0 };
	CHECK(store_open(dir, NULL, &store, err));
	put_lines(store, 0, 3000, now_ns());
	put_messages(store, 0, 3000, now_ns());
	for (uint64_t i = 0; i < 3000; i++) {
		struct message_sink *sink = store_message_sink(store);
		struct message_connection row = { .id = i, .started_ns = i + 1 };
		CHECK(sink->connection(sink, &row, err));
	}
	CHECK(store_close(store, err));
	damage("log", 0);
	damage("connection", 0);
	damage("message", 0);
	CHECK(store_reader_open(dir, &reader, err));
	assert_int_equal(store_logs(reader, &every, &page, &why), -EBADMSG);
	assert_int_equal(store_messages(reader, &every, &page, &why), -EBADMSG);
	assert_non_null(strstr(why.msg, "malformed"));
	assert_int_equal(store_connections_back(reader, 3000, 3000, no_row, NULL, &why), -EBADMSG);
	store_reader_close(reader);
	/* numbers must not begin again at 0 */
	damage("log", 1);
	assert_int_equal(store_open(dir, NULL, &store, &why), -EBADMSG);
}

static void files_are_their_owners_and_no_link_is_followed(void **state)
{
	(void)state;
	const char *names[] = { "store.sqlite", "store.sqlite-wal", "store.sqlite-shm",
				"segment-00000001", "lock" };
	struct store *store = NULL;
	struct stat st;
	struct err why = { 0 };
	char path[96], other[96];
	mode_t before = umask(0);
	CHECK(store_open(dir, NULL, &store, err));
	put_messages(store, 0, 10, now_ns());
	umask(before);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (stat(path, &st) < 0 || (st.st_mode & 0777) != 0600)
			fail_msg("%s has mode %o", names[i], st.st_mode & 0777);
	}
	CHECK(store_close(store, err));
	for (size_t i = 0; i < ARRAY_LEN(names); i += 4) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		snprintf(other, sizeof(other), "%s/other", dir);
		assert_int_equal(rename(path, other), 0);
		assert_int_equal(symlink("other", path), 0);
		assert_int_equal(store_open(dir, NULL, &store, &why), -ELOOP);
		assert_int_equal(rename(other, path), 0);
	}
	CHECK(store_open(dir, NULL, &store, err));
	CHECK(store_close(store, err));
}

static void a_question_ends_at_its_deadline_or_when_the_server_does(void **state)
{
	(void)state;
	struct store *store = NULL;
	struct store_reader *reader = NULL;
	struct store_page *page = NULL;
	struct err e = { 0 };
	atomic_int stop = 0;
	CHECK(store_open(dir, NULL, &store, err));
	for (unsigned i = 0; i < 60000; i++) {
		struct store_log log = {
			.time_ns = i, .level = 4, .message = "one two three", .message_len = 13
		};
		CHECK(store_put_log(store, &log, err));
	}
	CHECK(store_flush(store, err));
	CHECK(store_reader_open(dir, &reader, err));
	store_reader_allow(reader, 1, &stop);
	assert_int_equal(store_search_logs(reader, "one two", 0, 100000, &page, &e), -ETIMEDOUT);
	assert_string_equal(e.msg, "cannot search the logs: Connection timed out");
	assert_string_equal(e.hint, "ask for less: fewer words, or a shorter time");
	store_reader_allow(reader, 0, &stop);
	CHECK(store_search_logs(reader, "one two", 0, 100000, &page, err));
	assert_int_equal(store_page_count(page), 60000);
	store_page_free(page);
	stop = 1;
	assert_int_equal(store_search_logs(reader, "one two", 0, 100000, &page, &e), -ETIMEDOUT);
	store_reader_close(reader);
	CHECK(store_close(store, err));
}

static void a_search_for_very_many_words_is_refused(void **state)
{
	(void)state;
	struct store *store = NULL;
	struct store_reader *reader = NULL;
	struct store_page *page = NULL;
	struct err e = { 0 };
	char words[STORE_SEARCH_WORDS * 8 + 16] = "";
	CHECK(store_open(dir, NULL, &store, err));
	put_lines(store, 0, 10, 1);
	CHECK(store_reader_open(dir, &reader, err));
	for (unsigned i = 0; i < STORE_SEARCH_WORDS; i++)
		snprintf(words + strlen(words), sizeof(words) - strlen(words), "word%u ", i);
	CHECK(store_search_logs(reader, words, 0, 100, &page, err));
	assert_int_equal(store_page_count(page), 10);
	store_page_free(page);
	strcat(words, "more");
	assert_int_equal(store_search_logs(reader, words, 0, 100, &page, &e), -EINVAL);
	assert_string_equal(e.msg, "cannot search for more than 64 words at once");
	store_reader_close(reader);
	CHECK(store_close(store, err));
}

static void connections_without_bytes_go_by_every_limit(void **state)
{
	(void)state;
	const struct {
		struct store_limits limits;
		uint64_t least, most;
	} cases[] = { { { .messages = 1000 }, 1001, 1000 + 1024 + 101 },
		      { { .payload_bytes = 4 << 20 }, 4097, 4096 + 1024 + 101 },
		      { { .age_ns = HOUR_NS }, 2, 2 },
		      { { .logs = 5 }, 8002, 8002 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store *store;
		struct store_stats stats;
		remove_dir(NULL);
		fresh_dir(NULL);
		CHECK(store_open(dir, &cases[i].limits, &store, err));
		struct message_sink *sink = store_message_sink(store);
		/* an open one stays, and so does one that has a chunk which a message needs */
		struct message_connection open = { .id = 1, .started_ns = 1 };
		struct message_connection held = { .closed_ns = 2, .close_reason = "closed" };
		CHECK(sink->connection(sink, &open, err));
		CHECK(sink->connection(sink, &held, err));
		put_messages(store, 0, 1, now_ns());
		for (uint64_t c = 2; c < 8002; c++) {
			struct message_connection refused = { .id = c,
							      .started_ns = IN_2020_NS + c,
							      .closed_ns = IN_2020_NS + c + 1,
							      .close_reason = "refused" };
			CHECK(sink->connection(sink, &refused, err));
			if (c % 100 == 99)
				CHECK(store_flush(store, err));
		}
		CHECK(store_flush(store, err));
		CHECK(store_stats(store, &stats, err));
		assert_in_range(stats.connections, cases[i].least, cases[i].most);
		struct store_reader *reader;
		uint64_t id;
		CHECK(store_reader_open(dir, &reader, err));
		CHECK(store_connection_at(reader, 1, &id, err));
		CHECK(store_connection_at(reader, 0, &id, err));
		store_reader_close(reader);
		CHECK(store_close(store, err));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh_dir, remove_dir)

#define TALLY_STRETCHES 7u

/* What the rows themselves say of @edges, one by one. */
static void check_tally(struct store_reader *reader, enum store_table table, const uint64_t *edges)
{
	uint64_t rows[TALLY_STRETCHES] = { 5 }; /* added to what is there */
	sqlite3 *db = open_file();
	CHECK(store_tally(reader, table, edges, TALLY_STRETCHES, rows, err));
	rows[0] -= 5;
	for (unsigned i = 0; i < TALLY_STRETCHES; i++) {
		char sql[160];
		sqlite3_stmt *s;
		snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM %s WHERE time_ns > %llu AND time_ns <= %llu",
			 table == STORE_LOGS ? "log" : "message", (unsigned long long)edges[i],
			 (unsigned long long)edges[i + 1]);
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_step(s), SQLITE_ROW);
		if ((uint64_t)sqlite3_column_int64(s, 0) != rows[i])
			fail_msg("table %d, stretch %u: %llu rows, told %llu", table, i,
				 (unsigned long long)sqlite3_column_int64(s, 0),
				 (unsigned long long)rows[i]);
		sqlite3_finalize(s);
	}
	sqlite3_close(db);
}

/* Edges of all widths, some of no width, over @from_ns and @span_ns and beyond. */
static void check_tallies(uint64_t from_ns, uint64_t span_ns)
{
	struct store_reader *reader;
	CHECK(store_reader_open(dir, &reader, err));
	for (unsigned turn = 0; turn < 40; turn++) {
		uint64_t edges[TALLY_STRETCHES + 1] = { from_ns + span_ns * turn / 50 };
		for (unsigned i = 1; i <= TALLY_STRETCHES; i++)
			edges[i] =
				edges[i - 1] + (turn + i) % 3 * span_ns / (turn % 4 ? turn * 8 : 4);
		check_tally(reader, STORE_LOGS, edges);
		check_tally(reader, STORE_MESSAGES, edges);
	}
	store_reader_close(reader);
}

static void a_tally_counts_the_rows_that_limits_left(void **state)
{
	(void)state;
	const unsigned rounds = 60, each = 100;
	struct store_limits limits = { .logs = 2500, .messages = 2300 };
	struct store *store;
	CHECK(store_open(dir, &limits, &store, err));
	for (unsigned i = 0; i < rounds; i++) {
		/* one of ten was told late: blocks of ids lie over each other in time */
		uint64_t time_ns = IN_2020_NS + (i % 10 == 9 ? i - 7 : i) * 1000000u;
		put_lines(store, i * each, (i + 1) * each, time_ns);
		put_messages(store, i * each, (i + 1) * each, time_ns + 500);
		if (i % 15 == 3)
			check_tallies(IN_2020_NS - 1000000, (uint64_t)(i + 2) * 1000000);
	}
	struct store_stats stats;
	CHECK(store_stats(store, &stats, err));
	assert_true(stats.logs < 3000 && stats.messages < 3000); /* the others have gone */
	check_tallies(IN_2020_NS, rounds * 1000000u);
	CHECK(store_close(store, err));
	/* a second start goes on in the middle of a block, with a limit by age that leaves none */
	limits = (struct store_limits){ .age_ns = HOUR_NS };
	CHECK(store_open(dir, &limits, &store, err));
	put_lines(store, rounds * each, rounds * each + 50, now_ns());
	put_messages(store, rounds * each, rounds * each + 50, now_ns());
	check_tallies(IN_2020_NS, rounds * 1000000u);
	check_tallies(now_ns() - HOUR_NS, 2 * (uint64_t)HOUR_NS);
	CHECK(store_close(store, err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(search_may_be_switched_off_and_on_under_a_limit),
		TEST(age_keeps_what_came_lately_whatever_time_it_bears),
		TEST(age_takes_lines_that_came_long_ago_whatever_time_they_bear),
		TEST(a_time_beyond_what_sqlite_can_hold_hides_nothing),
		TEST(a_store_that_does_not_know_arrivals_yet_is_brought_up_to_date),
		TEST(a_block_of_times_that_could_not_be_written_is_written_by_the_next_try),
		TEST(rows_of_a_transaction_that_was_given_up_are_counted_once_each),
		TEST(what_cannot_be_read_is_an_error_and_never_the_end_of_the_rows),
		TEST(a_question_ends_at_its_deadline_or_when_the_server_does),
		TEST(a_search_for_very_many_words_is_refused),
		TEST(connections_without_bytes_go_by_every_limit),
		TEST(a_tally_counts_the_rows_that_limits_left),
		TEST(files_are_their_owners_and_no_link_is_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
