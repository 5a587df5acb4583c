/* SPDX-License-Identifier: Apache-2.0 */
/* What the limits of a store take and what they leave, search switched on and off, and a store that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(search_may_be_switched_off_and_on_under_a_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
