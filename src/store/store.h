/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - append-only tables of connections, chunks, messages and log lines: SQLite (WAL) for
 * rows and indexes, segment files for payload bytes. docs/store.md describes the schema so that
 * people can query it.
 *
 * One writer (struct store, one thread), any number of readers (struct store_reader, one thread
 * each). Rows and their index entries become visible together at store_flush(); payload bytes are
 * written before the rows that name them. After SIGKILL the store opens with all flushed rows and
 * nothing half.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/message.h"

struct store;
struct store_reader;

/** struct store_limits - 0 = unlimited. What goes takes everything with it that belongs to it. */
struct store_limits {
	/* newest rows kept */
	uint64_t messages, logs;
	/* of segment files, to one segment (64 MiB, an eighth of this if less) */
	uint64_t payload_bytes;
	uint64_t age_ns;
	/* log lines are not indexed by their words */
	int no_search;
};

/**
 * store_open() - open or create the store in folder @path (created with mode 0700) for writing.
 * -EBUSY where another recorder holds it. Release with store_close().
 */
int store_open(const char *path, const struct store_limits *limits, struct store **out,
	       struct err *err);
/**
 * store_message_sink() - takes connections, chunks and messages; ids are given out densely from the
 * largest stored one.
 */
struct message_sink *store_message_sink(struct store *store);

/** A log line to be stored; strings are copied. */
struct store_log {
	uint64_t time_ns;
	/* one bit, net/syslog.h */
	unsigned level;
	const char *section, *message;
	size_t section_len, message_len;
};
int store_put_log(struct store *store, const struct store_log *log, struct err *err);
/**
 * store_flush() - commit what was put and apply the limits; call it about ten times a second and
 * when idle.
 */
int store_flush(struct store *store, struct err *err);
/**
 * store_recover() - after a put or flush that failed: where SQLite gave up the open transaction (a
 * full disk), go on behind the last committed row; @lost rows of it are gone. Otherwise nothing is
 * lost and the failed call may be done again.
 */
int store_recover(struct store *store, uint64_t *lost, struct err *err);
/**
 * store_unseal_chunk() - put a chunk that is stored already, sealed: the plaintext came to light
 * later. The former row goes, so that a chunk never stands twice. @chunk->connection counts like
 * those of the sink; numbers of earlier runs are negative (wrapped).
 */
int store_unseal_chunk(struct store *store, const struct message_chunk *chunk, struct err *err);
/** store_first_connection() - the number in the database of the sink's connection 0. */
uint64_t store_first_connection(const struct store *store);
/** store_compact() - give free pages back to the file system; slow. */
int store_compact(struct store *store, struct err *err);
/** struct store_stats - rows held and bytes on disk. */
struct store_stats {
	uint64_t messages, logs, chunks, connections;
	uint64_t database_bytes, segment_bytes;
};
int store_stats(struct store *store, struct store_stats *stats, struct err *err);
/** store_close() - flush and release; the store is closed even where this fails. */
int store_close(struct store *store, struct err *err);

/* ---- reading --------------------------------------------------------------------------------- */

/** store_is() - 1 if @path is a folder that holds a store. */
int store_is(const char *path);
int store_reader_open(const char *path, struct store_reader **out, struct err *err);
void store_reader_close(struct store_reader *reader);
/**
 * store_reader_allow() - what is asked from here on, until the next such call, may take @ns
 * together (0: as long as it will), and ends at once where *@stop (may be NULL, lent) is not 0: it
 * fails with -ETIMEDOUT then.
 */
void store_reader_allow(struct store_reader *reader, uint64_t ns, const atomic_int *stop);
/** store_reader_stats() - the same as store_stats(), of what is committed. */
int store_reader_stats(struct store_reader *reader, struct store_stats *stats, struct err *err);

/** Filters combine by AND, words of one filter by OR, cursor and filters come first. */
struct store_query {
	/* cursor is inclusive; without it from the newest (or oldest) */
	int has_cursor, forward;
	uint64_t cursor;
	/* 0 = nothing */
	uint64_t limit;
	/* enum message_type values; NULL = all */
	const unsigned char *types;
	size_t type_count;
	/* sender */
	int has_incoming, incoming;
	int has_initiator;
	enum message_sender initiator;
	/* NULL = all */
	const char *remote_addr;
	/* logs: bits; 0 = all */
	unsigned levels;
	int has_from, has_to;
	/* inclusive */
	uint64_t from_ns, to_ns;
};

struct store_message_row {
	uint64_t id, connection, time_ns;
	unsigned type, tag;
	enum message_sender sender, initiator;
	uint64_t first_chunk, last_chunk;
	/* where the message begins in its first chunk's plaintext */
	uint64_t first_offset;
	uint64_t plain_len;
	/* NULL = none; lent from the page */
	const char *remote_addr, *preview, *error;
};
struct store_log_row {
	uint64_t id, time_ns;
	unsigned level;
	/* may hold NULs */
	const char *section, *message;
	size_t section_len, message_len;
};
struct store_page; /* owns all rows of an answer */
void store_page_free(struct store_page *page);
size_t store_page_count(const struct store_page *page);
const struct store_message_row *store_page_message(const struct store_page *page, size_t i);
const struct store_log_row *store_page_log(const struct store_page *page, size_t i);

/**
 * store_messages(), store_logs() - a page; cost grows with the rows given, not with the rows passed
 * over, but for what one index cannot tell: with an address, types and a side all at once the side
 * is looked at on the rows, and so are times within a block of ids.
 */
int store_messages(struct store_reader *reader, const struct store_query *query,
		   struct store_page **out, struct err *err);
int store_logs(struct store_reader *reader, const struct store_query *query,
	       struct store_page **out, struct err *err);
/**
 * store_tally() - how many rows of @table there are in each of @count stretches, (edges[i], edges[i
 * + 1]], which follow each other in time; added to @rows. What it costs: blocks of ids that lie
 * across an edge are read, the others counted.
 */
enum store_table { STORE_MESSAGES, STORE_LOGS };
int store_tally(struct store_reader *reader, enum store_table table, const uint64_t *edges,
		size_t count, uint64_t *rows, struct err *err);
/**
 * store_search_logs() - the best @limit hits for @text, newest first. @as_phrase: the text is one
 * phrase; else words are alternatives, +word must occur, -word must not. -EINVAL where nothing is
 * left to search for, or there are more words than STORE_SEARCH_WORDS.
 */
#define STORE_SEARCH_WORDS 64
int store_search_logs(struct store_reader *reader, const char *text, int as_phrase, uint64_t limit,
		      struct store_page **out, struct err *err);

/** One chunk or raw piece; bytes are lent to the callback. Negative errno stops. */
struct store_chunk_row {
	/* counter MESSAGE_NO_COUNTER: not cut */
	uint64_t id, connection, counter, time_ns;
	/* of its connection; store_list_chunks() only */
	uint64_t started_ns;
	enum message_sender sender;
	/* plain NULL = sealed */
	const uint8_t *raw, *plain;
	size_t raw_len, plain_len;
	/* retention took the bytes between the row and them: lengths are 0 */
	int gone;
};
typedef int (*store_chunk_fn)(void *ctx, const struct store_chunk_row *chunk);
/** store_message_chunks() - the chunks that hold @message, in order. */
int store_message_chunks(struct store_reader *reader, const struct store_message_row *message,
			 store_chunk_fn fn, void *ctx, struct err *err);

/**
 * Where a chunk stands among all: by connection, then counter, then sender; pieces without a
 * counter behind the others of their connection, by @id.
 */
struct store_chunk_place {
	uint64_t connection, counter;
	enum message_sender sender;
	uint64_t id;
};
struct store_chunk_query {
	/* of this one only */
	int has_connection;
	uint64_t connection;
	int has_cursor, backward;
	/* begin behind the cursor, whether there still is a chunk or not; else at it */
	int exclusive;
	struct store_chunk_place cursor;
	uint64_t limit;
};
/** store_list_chunks() - in the order of struct store_chunk_place. */
int store_list_chunks(struct store_reader *reader, const struct store_chunk_query *query,
		      store_chunk_fn fn, void *ctx, struct err *err);
/**
 * store_sender_chunks() - of one connection what one side sent: by counter, then pieces without a
 * counter by id. @after is the place of the last one that was seen, NULL = from the first on.
 */
int store_sender_chunks(struct store_reader *reader, uint64_t connection,
			enum message_sender sender, const struct store_chunk_place *after,
			uint64_t limit, store_chunk_fn fn, void *ctx, struct err *err);
/**
 * store_sealed_chunks() - of these the ones that have a counter, but for the connection chunk, and
 * no plaintext.
 */
int store_sealed_chunks(struct store_reader *reader, uint64_t connection,
			enum message_sender sender, uint64_t limit, store_chunk_fn fn, void *ctx,
			struct err *err);
/**
 * store_has_opened() - 1 where a chunk from counter @from to @to of that side is stored with its
 * plaintext, else 0.
 */
int store_has_opened(struct store_reader *reader, uint64_t connection, enum message_sender sender,
		     uint64_t from, uint64_t to, struct err *err);

typedef int (*store_connection_fn)(void *ctx, const struct message_connection *row);
/** store_connections() - oldest first from @cursor on. */
int store_connections(struct store_reader *reader, uint64_t cursor, uint64_t limit,
		      store_connection_fn fn, void *ctx, struct err *err);
/** store_connections_back() - the same, newest first. */
int store_connections_back(struct store_reader *reader, uint64_t cursor, uint64_t limit,
			   store_connection_fn fn, void *ctx, struct err *err);
/** store_sealed_connections() - those with chunks that were not decrypted, oldest first. */
int store_sealed_connections(struct store_reader *reader, store_connection_fn fn, void *ctx,
			     struct err *err);
/**
 * store_connection_at() - the connection that began at @started_ns; -ENOENT where there is none.
 */
int store_connection_at(struct store_reader *reader, uint64_t started_ns, uint64_t *id,
			struct err *err);
/**
 * store_connection_near() - the first that began then or later, with @backward the last that began
 * then or earlier.
 */
int store_connection_near(struct store_reader *reader, uint64_t started_ns, int backward,
			  uint64_t *id, struct err *err);

#endif
