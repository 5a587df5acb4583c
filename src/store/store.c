/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - life of a store: folder, lock, schema, transactions. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/internal.h"

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS address(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
	"CREATE TABLE IF NOT EXISTS connection(id INTEGER PRIMARY KEY, started_ns INTEGER NOT "
	"NULL, closed_ns INTEGER,"
	" initiator INTEGER NOT NULL, remote_addr TEXT, local_peer_id TEXT, remote_peer_id TEXT, "
	"comments TEXT NOT NULL,"
	" chunks_local INTEGER, chunks_remote INTEGER, undecrypted_local INTEGER, "
	"undecrypted_remote INTEGER,"
	" gaps INTEGER, gap_bytes INTEGER, attached_late INTEGER, close_reason TEXT, last_chunk "
	"INTEGER);"
	"CREATE INDEX IF NOT EXISTS connection_by_start ON connection(started_ns);"
	"CREATE TABLE IF NOT EXISTS chunk(id INTEGER PRIMARY KEY, connection INTEGER NOT NULL, "
	"sender INTEGER NOT NULL,"
	" counter INTEGER, time_ns INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT "
	"NULL,"
	" raw_len INTEGER NOT NULL, plain_len INTEGER);"
	"CREATE INDEX IF NOT EXISTS chunk_by_connection ON chunk(connection, counter, sender);"
	"CREATE TABLE IF NOT EXISTS message(id INTEGER PRIMARY KEY, connection INTEGER NOT NULL, "
	"time_ns INTEGER NOT NULL,"
	" type INTEGER NOT NULL, si INTEGER NOT NULL, address INTEGER NOT NULL, tag INTEGER, "
	"first_chunk INTEGER,"
	" last_chunk INTEGER, chunk INTEGER, first_offset INTEGER, plain_len INTEGER, preview "
	"TEXT, error TEXT);"
	"CREATE TABLE IF NOT EXISTS message_set(kind INTEGER, a INTEGER, b INTEGER, block INTEGER,"
	" ids TEXT NOT NULL, PRIMARY KEY(kind, a, b, block)) WITHOUT ROWID;"
	"CREATE INDEX IF NOT EXISTS message_set_by_block ON message_set(block);"
	"CREATE TABLE IF NOT EXISTS message_block(number INTEGER PRIMARY KEY, min_ns INTEGER, "
	"max_ns INTEGER, min_chunk INTEGER);"
	"CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, level "
	"INTEGER NOT NULL,"
	" section TEXT NOT NULL, message TEXT NOT NULL);"
	"CREATE INDEX IF NOT EXISTS log_by_level ON log(level);"
	"CREATE TABLE IF NOT EXISTS log_block(number INTEGER PRIMARY KEY, min_ns INTEGER, max_ns "
	"INTEGER, arrived_ns INTEGER);"
	"CREATE VIRTUAL TABLE IF NOT EXISTS log_text USING fts5(message, content='log', "
	"content_rowid='id',"
	" tokenize='unicode61 remove_diacritics 0');";

int store_fail(sqlite3 *db, struct err *err, const char *what)
{
	int code = sqlite3_errcode(db);
	int errno_code = code == SQLITE_FULL                               ? -ENOSPC
			 : code == SQLITE_NOMEM                            ? -ENOMEM
			 : code == SQLITE_INTERRUPT                        ? -ETIMEDOUT
			 : code == SQLITE_BUSY                             ? -EBUSY
			 : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? -EBADMSG
									   : -EIO;
	if (errno_code == -ETIMEDOUT) {
		err_set(err, errno_code, "cannot %s", what);
		return err_hint(err, "ask for less: fewer words, or a shorter time");
	}
	return err_set(err, errno_code, "cannot %s: %s", what, sqlite3_errmsg(db));
}

int store_sql(sqlite3 *db, const char *sql, struct err *err)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : store_fail(db, err, "use the database");
}

int store_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql, struct err *err)
{
	return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK
		       ? 0
		       : store_fail(db, err, "prepare a statement");
}

int store_step(sqlite3_stmt *s, const char *what, struct err *err)
{
	int step = sqlite3_step(s);
	return step == SQLITE_ROW    ? 1
	       : step == SQLITE_DONE ? 0
				     : store_fail(sqlite3_db_handle(s), err, what);
}

int store_number(sqlite3 *db, const char *sql, uint64_t otherwise, uint64_t *out, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = store_prepare(db, &stmt, sql, err);
	*out = otherwise;
	if (rc == 0)
		rc = store_step(stmt, "read a number", err);
	if (rc > 0 && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
		*out = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return rc < 0 ? rc : 0;
}

int store_open_segment(int dir_fd, uint64_t number, int flags)
{
	char name[32];
	snprintf(name, sizeof(name), "segment-%08llu", (unsigned long long)number);
	return openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int store_is(const char *path)
{
	char file[4096];
	struct stat st;
	return (size_t)snprintf(file, sizeof(file), "%s/store.sqlite", path) < sizeof(file) &&
	       stat(file, &st) == 0 && S_ISREG(st.st_mode);
}

static int open_db(const char *path, int flags, sqlite3 **db, struct err *err)
{
	char file[4096];
	if ((size_t)snprintf(file, sizeof(file), "%s/store.sqlite", path) >= sizeof(file))
		return err_set(err, -ENAMETOOLONG, "cannot open store '%s'", path);
	if (sqlite3_open_v2(file, db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
		int rc = err_set(err, -EIO, "cannot open store '%s': %s", path,
				 *db ? sqlite3_errmsg(*db) : "no memory");
		sqlite3_close(*db);
		*db = NULL;
		return rc;
	}
	sqlite3_busy_timeout(*db, 2000);
	return 0;
}

/* Segment bytes behind the last committed row were never promised to anybody. */
static int settle_segment(struct store *store, struct err *err)
{
	int rc = store_number(store->db, "SELECT segment FROM chunk ORDER BY id DESC LIMIT 1", 1,
			      &store->segment, err);
	if (rc == 0)
		rc = store_number(store->db,
				  "SELECT offset + raw_len + coalesce(plain_len, 0) FROM chunk "
				  "ORDER BY id DESC LIMIT 1",
				  0, &store->segment_len, err);
	if (rc < 0)
		return rc;
	if (store->segment_fd >= 0)
		close(store->segment_fd);
	store->segment_fd = store_open_segment(store->dir_fd, store->segment, O_RDWR | O_CREAT);
	if (store->segment_fd < 0 || ftruncate(store->segment_fd, (off_t)store->segment_len) < 0 ||
	    lseek(store->segment_fd, 0, SEEK_END) < 0)
		return err_set(err, -errno, "cannot open segment %llu of store '%s'",
			       (unsigned long long)store->segment, store->path);
	int stale = store_open_segment(store->dir_fd, store->segment + 1, O_RDWR | O_TRUNC);
	if (stale >= 0)
		close(stale);
	return 0;
}

/* The first stores of version 2 and those of version 1 did not keep when log lines arrived. */
static int add_arrival(struct store *store, struct err *err)
{
	uint64_t there;
	int rc = store_number(
		store->db,
		"SELECT count(*) FROM pragma_table_info('log_block') WHERE name='arrived_ns'", 0,
		&there, err);
	return rc < 0 || there
		       ? rc
		       : store_sql(store->db, "ALTER TABLE log_block ADD COLUMN arrived_ns INTEGER",
				   err);
}

static int prepare_schema(struct store *store, uint64_t *version, struct err *err)
{
	int rc = store_sql(store->db,
			   /*
		 * auto_vacuum comes first: it is refused in silence once the file has its first
		 * page
		 */
			   "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA "
			   "synchronous=NORMAL; PRAGMA cache_size=-65536;"
			   "PRAGMA wal_autocheckpoint=8000; PRAGMA temp_store=MEMORY;",
			   err);
	if (rc == 0)
		rc = store_number(store->db, "PRAGMA user_version", 0, version, err);
	if (rc < 0)
		return rc;
	if (*version > STORE_VERSION)
		return err_set(
			err, -EINVAL,
			"cannot use store '%s': version %llu is newer than this program's %d",
			store->path, (unsigned long long)*version, STORE_VERSION);
	char sql[64];
	snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", STORE_VERSION);
	rc = store_sql(store->db, schema, err);
	if (rc == 0)
		rc = add_arrival(store, err);
	/*
	 * nobody else writes: a connection that is open here was left so by a recorder that was
	 * killed
	 */
	if (rc == 0)
		rc = store_sql(store->db,
			       "UPDATE connection SET close_reason='the recorder ended', "
			       "closed_ns=coalesce((SELECT max(time_ns) FROM chunk WHERE "
			       "chunk.connection=connection.id), started_ns) WHERE close_reason IS "
			       "NULL",
			       err);
	/* an older one gets the number once it is what the number says */
	return rc < 0 || *version ? rc : store_sql(store->db, sql, err);
}

/* Numbers go on behind what is committed. */
static int resume(struct store *store, struct err *err)
{
	int rc = settle_segment(store, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT max(id) + 1 FROM message", 0,
				  &store->next_message, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT max(id) + 1 FROM log", 0, &store->next_log,
				  err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT max(id) + 1 FROM chunk", 0, &store->next_chunk,
				  err);
	if (rc == 0)
		rc = store_write_resume(store, err);
	return rc < 0 ? rc : store_sql(store->db, "BEGIN", err);
}

/*
 * What peers said is nobody else's to read: SQLite would create the file by the umask alone, and
 * gives its log and its shared memory the mode that the file has.
 */
static int create_db(struct store *store, struct err *err)
{
	int fd = openat(store->dir_fd, "store.sqlite",
			O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st = { 0 };
	int rc = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
	/*
	 * nobody has the database open yet, so no lock of this process is lost by closing it here
	 */
	if (fd >= 0)
		close(fd);
	return rc < 0 ? err_set(err, rc, "cannot open 'store.sqlite' of store '%s'", store->path)
		      : 0;
}

static int start(struct store *store, struct err *err)
{
	uint64_t version;
	int rc = mkdir(store->path, 0700) < 0 && errno != EEXIST ? -errno : 0;
	if (rc == 0) {
		store->dir_fd = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		store->lock_fd = store->dir_fd < 0
					 ? -1
					 : openat(store->dir_fd, "lock",
						  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		rc = store->lock_fd < 0 ? -errno : 0;
	}
	if (rc < 0)
		return err_set(err, rc, "cannot open store '%s'", store->path);
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		err_set(err, -EBUSY, "cannot open store '%s' for writing", store->path);
		return err_hint(err,
				"another recorder writes to it: give each its own 'db' folder");
	}
	rc = create_db(store, err);
	/*
	 * what a large search sorts: what peers said lies in stores only, and the recorder reaches
	 * nothing else
	 */
	if (rc == 0 && !sqlite3_temp_directory)
		sqlite3_temp_directory = sqlite3_mprintf("%s", store->path);
	if (rc == 0)
		rc = open_db(store->path, SQLITE_OPEN_READWRITE, &store->db, err);
	if (rc == 0)
		rc = prepare_schema(store, &version, err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT max(id) + 1 FROM connection", 0,
				  &store->first_connection, err);
	store->next_connection = store->first_connection;
	if (rc == 0)
		rc = store_write_init(store, err);
	if (rc == 0 && version == 1)
		rc = store_sets_migrate(store, err);
	return rc < 0 ? rc : resume(store, err);
}

static void release(struct store *store)
{
	store_write_fini(store);
	sqlite3_close(store->db);
	if (store->segment_fd >= 0)
		close(store->segment_fd);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	if (store->dir_fd >= 0)
		close(store->dir_fd);
	free(store->pending);
	free(store->path);
	free(store);
}

/*
 * Retention drops whole segments: a small store has small ones. A message with its chunks takes
 * some hundred bytes.
 */
static uint64_t segment_bytes(const struct store_limits *limits)
{
	uint64_t bytes = STORE_SEGMENT_BYTES;
	if (limits->messages && limits->messages < bytes / 64)
		bytes = limits->messages * 64;
	if (limits->payload_bytes && limits->payload_bytes / 8 < bytes)
		bytes = limits->payload_bytes / 8;
	return bytes < STORE_SEGMENT_BYTES_MIN ? STORE_SEGMENT_BYTES_MIN : bytes;
}

int store_open(const char *path, const struct store_limits *limits, struct store **out,
	       struct err *err)
{
	struct store *store = calloc(1, sizeof(*store));
	if (!store || !(store->path = strdup(path))) {
		free(store);
		return err_set(err, -ENOMEM, "cannot allocate a store");
	}
	store->lock_fd = store->dir_fd = store->segment_fd = -1;
	if (limits)
		store->limits = *limits;
	store->segment_bytes = segment_bytes(&store->limits);
	int rc = start(store, err);
	if (rc < 0) {
		release(store);
		return rc;
	}
	*out = store;
	return 0;
}

#define RETAIN_IDLE_SECONDS 10

/* Age goes on while nothing comes in. */
static int age_is_due(struct store *store)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!store->limits.age_ns || now.tv_sec - store->retained_s < RETAIN_IDLE_SECONDS)
		return 0;
	store->retained_s = now.tv_sec;
	return 1;
}

int store_flush(struct store *store, struct err *err)
{
	if (!store->rows && !age_is_due(store))
		return 0;
	/* bytes first: a committed row never names bytes that are not in the file */
	int rc = store_write_pending(store, err);
	if (rc == 0)
		rc = store_write_blocks(store, err);
	if (rc == 0)
		rc = store_retain(store, err);
	if (rc == 0)
		rc = store_sql(store->db, "COMMIT; BEGIN", err);
	if (rc < 0)
		return rc;
	store->rows = 0;
	rc = store->dropped ? store_drop_segments(store, err) : 0;
	store->dropped = 0;
	return rc;
}

int store_recover(struct store *store, uint64_t *lost, struct err *err)
{
	*lost = 0;
	/* most failures leave the transaction as it was: nothing is lost, the call is done again */
	if (!sqlite3_get_autocommit(store->db))
		return 0;
	*lost = store->rows;
	store->rows = 0;
	store->dropped = 0;
	store->pending_len = 0;
	return resume(store, err);
}

uint64_t store_first_connection(const struct store *store)
{
	return store->first_connection;
}

int store_compact(struct store *store, struct err *err)
{
	int rc = store_flush(store, err);
	if (rc == 0)
		rc = store_sql(
			store->db,
			"COMMIT; PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE); BEGIN",
			err);
	return rc;
}

static int stats_of(sqlite3 *db, int dir_fd, struct store_stats *stats, struct err *err)
{
	uint64_t pages = 0, page_bytes = 0, first = 0, last = 0;
	const struct {
		const char *sql;
		uint64_t *to;
	} want[] = {
		{ "SELECT (SELECT max(id) FROM message) - (SELECT min(id) FROM message) + 1",
		  &stats->messages },
		{ "SELECT (SELECT max(id) FROM log) - (SELECT min(id) FROM log) + 1",
		  &stats->logs },
		{ "SELECT (SELECT max(id) FROM chunk) - (SELECT min(id) FROM chunk) + 1",
		  &stats->chunks },
		{ "SELECT count(*) FROM connection", &stats->connections },
		{ "PRAGMA page_count", &pages },
		{ "PRAGMA page_size", &page_bytes },
		{ "SELECT segment FROM chunk ORDER BY id LIMIT 1", &first },
		{ "SELECT segment FROM chunk ORDER BY id DESC LIMIT 1", &last },
	};
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		int rc = store_number(db, want[i].sql, 0, want[i].to, err);
		if (rc < 0)
			return rc;
	}
	stats->database_bytes = pages * page_bytes;
	stats->segment_bytes = 0;
	/* one more than is committed: the writer may have begun it */
	for (uint64_t n = first; n <= last + 1; n++) {
		int fd = store_open_segment(dir_fd, n, O_RDONLY);
		struct stat st;
		if (fd >= 0 && fstat(fd, &st) == 0)
			stats->segment_bytes += (uint64_t)st.st_size;
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

int store_stats(struct store *store, struct store_stats *stats, struct err *err)
{
	return stats_of(store->db, store->dir_fd, stats, err);
}

int store_reader_stats(struct store_reader *reader, struct store_stats *stats, struct err *err)
{
	return stats_of(reader->db, reader->dir_fd, stats, err);
}

int store_close(struct store *store, struct err *err)
{
	if (!store)
		return 0;
	int rc = store_flush(store, err);
	if (rc == 0)
		rc = store_sql(store->db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", err);
	release(store);
	return rc;
}

/* Whether what is under way has to end; SQLite asks each so many steps. */
#define STEPS_BETWEEN_LOOKS 10000

static int is_over(void *ctx)
{
	const struct store_reader *reader = ctx;
	return (reader->stop && atomic_load_explicit(reader->stop, memory_order_relaxed)) ||
	       (reader->deadline_ns && clock_ns(CLOCK_MONOTONIC) > reader->deadline_ns);
}

void store_reader_allow(struct store_reader *reader, uint64_t ns, const atomic_int *stop)
{
	reader->deadline_ns = ns ? clock_ns(CLOCK_MONOTONIC) + ns : 0;
	reader->stop = stop;
	sqlite3_progress_handler(reader->db, ns || stop ? STEPS_BETWEEN_LOOKS : 0, is_over, reader);
}

int store_reader_open(const char *path, struct store_reader **out, struct err *err)
{
	struct store_reader *reader = calloc(1, sizeof(*reader));
	uint64_t version;
	if (!reader || !(reader->path = strdup(path))) {
		free(reader);
		return err_set(err, -ENOMEM, "cannot allocate a store reader");
	}
	reader->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = reader->dir_fd < 0 ? err_set(err, -errno, "cannot open store '%s'", path)
				    : open_db(path, SQLITE_OPEN_READWRITE, &reader->db, err);
	/* writable for the WAL's shared memory only */
	if (rc == 0)
		rc = store_sql(reader->db,
			       "PRAGMA query_only=1; PRAGMA trusted_schema=OFF; PRAGMA "
			       "cell_size_check=ON; PRAGMA cache_size=-32768",
			       err);
	if (rc == 0)
		rc = store_number(reader->db, "PRAGMA user_version", 0, &version, err);
	if (rc == 0 && version != STORE_VERSION)
		rc = err_set(err, -EINVAL, "cannot read store '%s': it is of version %llu, not %d",
			     path, (unsigned long long)version, STORE_VERSION);
	if (rc < 0) {
		store_reader_close(reader);
		return rc;
	}
	*out = reader;
	return 0;
}

void store_reader_close(struct store_reader *reader)
{
	if (!reader)
		return;
	sqlite3_finalize(reader->message);
	sqlite3_finalize(reader->log);
	sqlite3_close(reader->db);
	if (reader->dir_fd >= 0)
		close(reader->dir_fd);
	free(reader->path);
	free(reader);
}
