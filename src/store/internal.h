/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of store/ share. */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <sqlite3.h>

#include "base/arena.h"
#include "store/store.h"

#define STORE_VERSION 2
#define STORE_SEGMENT_BYTES (64u << 20) /* smaller where limits ask for less */
#define STORE_SEGMENT_BYTES_MIN (1u << 20)
#define STORE_BLOCK_IDS \
	1024 /* ids whose lowest and highest time share one row: times become ranges of ids */
#define STORE_SET_IDS 4096 /* ids of one block of the index of messages */
#define STORE_BATCH_ROWS 16384
#define STORE_PREVIEW_BYTES 100

/** Sender and initiator in one number, so that one index serves every pair of them. */
#define STORE_SI(sender, initiator) ((unsigned)(sender) << 1 | (unsigned)(initiator))

/** Lowest and highest time of a block of ids, in memory for the newest block. */
struct store_block {
	/* id / STORE_BLOCK_IDS */
	uint64_t number;
	uint64_t min_ns, max_ns;
	/* of messages */
	uint64_t min_chunk;
	/* of logs: the latest arrival; what a line itself says is its sender's clock */
	uint64_t arrived_ns;
	int dirty, any;
};

/** What a set of the index of messages holds: those with a = ... and b = ... (docs/store.md). */
enum store_set_kind {
	STORE_SET_SIDE,         /* a = si */
	STORE_SET_TYPE,         /* a = type, b = si */
	STORE_SET_ADDRESS_SIDE, /* a = address, b = si */
	STORE_SET_ADDRESS_TYPE, /* a = address, b = type */
};
struct store_sets; /* those of the newest block, not written yet */

struct store_insert {
	sqlite3_stmt *connection, *connection_start, *connection_taken, *chunk, *unseal, *message,
		*message_set, *log, *log_text, *message_block, *log_block, *address, *address_id;
};

struct store {
	struct message_sink sink;
	char *path;
	sqlite3 *db;
	int lock_fd, dir_fd, segment_fd;
	struct store_limits limits;
	/* ids of this run start behind the stored ones */
	uint64_t next_message, next_log, next_chunk, first_connection;
	/* when empty ones were last looked for */
	uint64_t next_connection, connections_swept;
	/* a new one begins at @segment_bytes */
	uint64_t segment, segment_len, segment_bytes;
	/* when age was last looked at, monotonic */
	int64_t retained_s;
	/* payload bytes not yet written to the segment */
	char *pending;
	size_t pending_len, pending_cap;
	/* in the open transaction */
	unsigned rows;
	/* chunks went in it: segments may follow once it is committed */
	int dropped;
	struct store_block message_block, log_block;
	struct store_sets *sets;
	/* of the newest connection */
	uint64_t start_asked_ns, start_given_ns;
	struct store_insert insert;
	/* when those that nothing names were last looked for */
	uint64_t addresses_kept;
	/* addresses seen lately */
	struct {
		char text[64];
		int64_t id;
	} addresses[256];
	/* first chunk row of each sender's message under way is found by this */
	struct store_recent {
		uint64_t connection, counter, row;
		unsigned sender;
	} recent[4096];
};

struct store_reader {
	sqlite3 *db;
	char *path;
	int dir_fd;
	sqlite3_stmt *message, *log;
	/* CLOCK_MONOTONIC; 0: none */
	uint64_t deadline_ns;
	const atomic_int *stop;
};

struct store_page {
	/* texts */
	struct arena arena;
	struct store_message_row *messages;
	struct store_log_row *logs;
	size_t count, cap;
};

/** store_take_log() - one more row of a page of log lines: id, time_ns, level, section, message. */
int store_take_log(struct store_page *page, sqlite3_stmt *s, struct err *err);
/** store_keep_text() - a column's text in the page's arena; NULL for NULL. */
const char *store_keep_text(struct store_page *page, sqlite3_stmt *s, int column);
/** store_page_grow() - room for one more row of @row_bytes in *@rows. */
int store_page_grow(struct store_page *page, size_t row_bytes, void **rows, struct err *err);

/** store_sql() - run statements without results. */
int store_sql(sqlite3 *db, const char *sql, struct err *err);
/** store_fail() - turn SQLite's last error on @db into @err. */
int store_fail(sqlite3 *db, struct err *err, const char *what);
int store_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql, struct err *err);
/**
 * store_step() - 1 = a row, 0 = there is none any more; what SQLite could not read or write is
 * never taken for the end.
 */
int store_step(sqlite3_stmt *s, const char *what, struct err *err);
/**
 * store_number() - first column of the first row of a statement without parameters; @otherwise
 * where there is none.
 */
int store_number(sqlite3 *db, const char *sql, uint64_t otherwise, uint64_t *out, struct err *err);
int store_open_segment(int dir_fd, uint64_t number, int flags);

static inline void store_finalizep(sqlite3_stmt **s)
{
	sqlite3_finalize(*s);
}

#define STORE_CHUNK_COLUMNS                                                                     \
	"SELECT id, connection, sender, counter, time_ns, segment, offset, raw_len, plain_len " \
	"FROM chunk "
/**
 * store_each_chunk() - hand over the rows of @s (STORE_CHUNK_COLUMNS) with their bytes; 1 from @fn
 * ends it early.
 */
int store_each_chunk(struct store_reader *reader, sqlite3_stmt *s, uint64_t started_ns,
		     store_chunk_fn fn, void *ctx, struct err *err);

/* write.c */
int store_write_init(struct store *store, struct err *err);
/**
 * store_write_resume() - forget what is remembered of rows: after a start and behind a rollback.
 */
int store_write_resume(struct store *store, struct err *err);
void store_write_fini(struct store *store);
int store_write_pending(struct store *store, struct err *err);
int store_write_blocks(struct store *store, struct err *err);

/* sets.c */
/**
 * store_sets_enter() - call before message @id is stored: writes the sets of the block that it
 * leaves.
 */
int store_sets_enter(struct store *store, uint64_t id, struct err *err);
void store_sets_add(struct store *store, uint64_t id, unsigned type, unsigned si, uint64_t address);
/**
 * store_sets_resume() - take up the messages of the newest block again: after a start and behind a
 * rollback.
 */
int store_sets_resume(struct store *store, struct err *err);
/**
 * store_sets_migrate() - a store of version 1 had SQLite indexes of messages instead; leaves it
 * whole or as it was.
 */
int store_sets_migrate(struct store *store, struct err *err);

/* retain.c */
int store_retain(struct store *store, struct err *err);
/** store_drop_segments() - remove files that no committed row names; call behind the commit. */
int store_drop_segments(struct store *store, struct err *err);

#endif
