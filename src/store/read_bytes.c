/* SPDX-License-Identifier: Apache-2.0 */
/* read_bytes.c - connections, chunks with their payload bytes, and text search of logs. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/internal.h"

#define COMMENTS_MAX 16
#define CHUNK_BYTES_MAX (64u << 20) /* of one row; a raw piece is never larger */

static uint64_t column_u64(sqlite3_stmt *s, int column)
{
	return (uint64_t)sqlite3_column_int64(s, column);
}

/* ---- connections ----------------------------------------------------------------------------- */

#define CONNECTION_COLUMNS                                                           \
	"SELECT id, started_ns, closed_ns, initiator, remote_addr, local_peer_id, "  \
	"remote_peer_id, comments, chunks_local, chunks_remote, undecrypted_local, " \
	"undecrypted_remote, gaps, gap_bytes, attached_late, close_reason FROM connection "

static int each_connection(struct store_reader *reader, const char *sql, uint64_t cursor,
			   uint64_t limit, store_connection_fn fn, void *ctx, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	int rc = store_prepare(reader->db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)(cursor > INT64_MAX ? INT64_MAX : cursor));
	sqlite3_bind_int64(s, 2, (sqlite3_int64)(limit > INT64_MAX ? INT64_MAX : limit));
	CLEANUP(buf_fini) struct buf text = { 0 };
	while (rc == 0 && (rc = store_step(s, "read the connections", err)) > 0) {
		const char *comments[COMMENTS_MAX];
		size_t count = 0;
		buf_clear(&text);
		buf_puts(&text,
			 sqlite3_column_text(s, 7) ? (const char *)sqlite3_column_text(s, 7) : "");
		char *next = (char *)buf_cstr(&text), *line;
		while (count < COMMENTS_MAX && (line = strsep(&next, "\n")) && line[0])
			comments[count++] = line;
		struct message_connection row = {
			.id = column_u64(s, 0),
			.started_ns = column_u64(s, 1),
			.closed_ns = column_u64(s, 2),
			.initiator = (enum message_sender)(column_u64(s, 3) & 1),
			.remote_addr = (const char *)sqlite3_column_text(s, 4),
			.local_peer_id = (const char *)sqlite3_column_text(s, 5),
			.remote_peer_id = (const char *)sqlite3_column_text(s, 6),
			.comments = comments,
			.comment_count = count,
			.chunks = { column_u64(s, 8), column_u64(s, 9) },
			.undecrypted = { column_u64(s, 10), column_u64(s, 11) },
			.gaps = { column_u64(s, 12), 0 },
			.gap_bytes = { column_u64(s, 13), 0 },
			.attached_late = sqlite3_column_int(s, 14),
			.close_reason = (const char *)sqlite3_column_text(s, 15),
		};
		rc = fn(ctx, &row);
	}
	return rc;
}

int store_connections(struct store_reader *reader, uint64_t cursor, uint64_t limit,
		      store_connection_fn fn, void *ctx, struct err *err)
{
	return each_connection(reader, CONNECTION_COLUMNS "WHERE id >= ?1 ORDER BY id LIMIT ?2",
			       cursor, limit, fn, ctx, err);
}

int store_connections_back(struct store_reader *reader, uint64_t cursor, uint64_t limit,
			   store_connection_fn fn, void *ctx, struct err *err)
{
	return each_connection(reader,
			       CONNECTION_COLUMNS "WHERE id <= ?1 ORDER BY id DESC LIMIT ?2",
			       cursor, limit, fn, ctx, err);
}

int store_sealed_connections(struct store_reader *reader, store_connection_fn fn, void *ctx,
			     struct err *err)
{
	return each_connection(reader,
			       CONNECTION_COLUMNS
			       "WHERE id >= ?1 AND undecrypted_local + undecrypted_remote > 0 "
			       "AND NOT attached_late ORDER BY id LIMIT ?2",
			       0, UINT64_MAX, fn, ctx, err);
}

static int connection_by_start(struct store_reader *reader, const char *sql, uint64_t started_ns,
			       uint64_t *id, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	int rc = store_prepare(reader->db, &s, sql, err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, started_ns > INT64_MAX ? INT64_MAX : (sqlite3_int64)started_ns);
	rc = store_step(s, "look for a connection", err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return err_set(err, -ENOENT, "cannot find the connection that began at %llu ns",
			       (unsigned long long)started_ns);
	*id = column_u64(s, 0);
	return 0;
}

int store_connection_at(struct store_reader *reader, uint64_t started_ns, uint64_t *id,
			struct err *err)
{
	return connection_by_start(reader, "SELECT id FROM connection WHERE started_ns=?1",
				   started_ns, id, err);
}

int store_connection_near(struct store_reader *reader, uint64_t started_ns, int backward,
			  uint64_t *id, struct err *err)
{
	return connection_by_start(reader,
				   backward ? "SELECT id FROM connection WHERE started_ns <= ?1 "
					      "ORDER BY started_ns DESC LIMIT 1"
					    : "SELECT id FROM connection WHERE started_ns >= ?1 "
					      "ORDER BY started_ns LIMIT 1",
				   started_ns, id, err);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/*
 * Read @len bytes of a segment. A short file is an error, for rows never precede their bytes;
 * without a file, -ENOENT with no message: retention may have taken it since the row was read.
 */
static int read_bytes(struct store_reader *reader, uint64_t segment, uint64_t offset, size_t len,
		      struct buf *out, struct err *err)
{
	buf_clear(out);
	if (len > CHUNK_BYTES_MAX || !buf_reserve(out, len + 1))
		return err_set(err, -ENOMEM, "cannot allocate %zu bytes of a chunk", len);
	int fd = store_open_segment(reader->dir_fd, segment, O_RDONLY);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0)
		return err_set(err, -errno, "cannot open segment %llu of store '%s'",
			       (unsigned long long)segment, reader->path);
	int rc = 0;
	while (out->len < len && rc == 0) {
		ssize_t n =
			pread(fd, out->data + out->len, len - out->len, (off_t)(offset + out->len));
		if (n > 0)
			out->len += (size_t)n;
		else if (n == 0)
			rc = err_set(err, -EBADMSG, "segment %llu of store '%s' ends early",
				     (unsigned long long)segment, reader->path);
		else if (errno != EINTR)
			rc = err_set(err, -errno, "cannot read segment %llu of store '%s'",
				     (unsigned long long)segment, reader->path);
	}
	close(fd);
	return rc;
}

int store_each_chunk(struct store_reader *reader, sqlite3_stmt *s, uint64_t started_ns,
		     store_chunk_fn fn, void *ctx, struct err *err)
{
	CLEANUP(buf_fini) struct buf bytes = { 0 };
	int rc = 0;
	while (rc == 0 && (rc = store_step(s, "read the chunks", err)) > 0) {
		int sealed = sqlite3_column_type(s, 8) == SQLITE_NULL;
		size_t raw_len = (size_t)column_u64(s, 7),
		       plain_len = sealed ? 0 : (size_t)column_u64(s, 8), len;
		if (__builtin_add_overflow(raw_len, plain_len, &len))
			return err_set(err, -EBADMSG, "chunk row %llu of store '%s' is damaged",
				       (unsigned long long)column_u64(s, 0), reader->path);
		rc = read_bytes(reader, column_u64(s, 5), column_u64(s, 6), len, &bytes, err);
		int gone = rc == -ENOENT;
		if (gone)
			raw_len = plain_len = 0;
		else if (rc < 0)
			return rc;
		struct store_chunk_row row = {
			.id = column_u64(s, 0),
			.connection = column_u64(s, 1),
			.sender = (enum message_sender)(column_u64(s, 2) & 1),
			.counter = sqlite3_column_type(s, 3) == SQLITE_NULL ? MESSAGE_NO_COUNTER
									    : column_u64(s, 3),
			.time_ns = column_u64(s, 4),
			.started_ns = started_ns,
			.raw = (const uint8_t *)bytes.data,
			.raw_len = raw_len,
			.plain = sealed || gone ? NULL : (const uint8_t *)bytes.data + raw_len,
			.plain_len = plain_len,
			.gone = gone,
		};
		rc = fn(ctx, &row);
	}
	return rc;
}

int store_message_chunks(struct store_reader *reader, const struct store_message_row *message,
			 store_chunk_fn fn, void *ctx, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	int rc = store_prepare(
		reader->db, &s,
		STORE_CHUNK_COLUMNS
		"WHERE connection=?1 AND counter BETWEEN ?2 AND ?3 AND sender=?4 ORDER BY counter",
		err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)message->connection);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)message->first_chunk);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)message->last_chunk);
	sqlite3_bind_int64(s, 4, message->sender);
	return store_each_chunk(reader, s, 0, fn, ctx, err);
}

/* ---- text search ----------------------------------------------------------------------------- */

/* A word as an FTS5 string: quoted, inner quotes doubled. */
static void put_word(struct buf *out, const char *word, size_t len)
{
	buf_putc(out, '"');
	for (size_t i = 0; i < len; i++) {
		if (word[i] == '"')
			buf_putc(out, '"');
		buf_putc(out, word[i]);
	}
	buf_putc(out, '"');
}

/*
 * FTS5 wants letters in a string; a word of punctuation only would match nothing and break the
 * expression.
 */
static int has_letters(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (isalnum((unsigned char)word[i]) || (unsigned char)word[i] >= 0x80)
			return 1;
	}
	return 0;
}

/*
 * The query language: words are alternatives, +word must occur, -word must not. Hits must hold all
 * + words, or, where there are none, at least one plain word (with + words the plain ones only
 * raise the rank, as in the former index).
 */
static int search_expression(const char *text, struct buf *out)
{
	CLEANUP(buf_fini) struct buf any = { 0 };
	CLEANUP(buf_fini) struct buf all = { 0 };
	CLEANUP(buf_fini) struct buf none = { 0 };
	unsigned words = 0;
	for (const char *p = text; *p;) {
		while (isspace((unsigned char)*p))
			p++;
		char sign = *p == '+' || *p == '-' ? *p++ : 0;
		const char *word = p;
		size_t len;
		if (*p == '"') {
			word = ++p;
			len = strcspn(p, "\"");
			p += len + (p[len] == '"');
		} else {
			len = strcspn(p, " \t\n\r\v\f");
			p += len;
		}
		if (!has_letters(word, len))
			continue;
		if (++words > STORE_SEARCH_WORDS)
			return -E2BIG;
		struct buf *to = sign == '+' ? &all : sign == '-' ? &none : &any;
		if (to->len)
			buf_puts(to, sign == '+' ? " AND " : " OR ");
		put_word(to, word, len);
	}
	if (all.len && any.len)
		buf_printf(out, "((%s) AND ((%s) OR (%s)))", buf_cstr(&all), buf_cstr(&any),
			   buf_cstr(&all));
	else if (all.len || any.len)
		buf_printf(out, "(%s)", all.len ? buf_cstr(&all) : buf_cstr(&any));
	else
		return -EINVAL;
	if (none.len)
		buf_printf(out, " NOT (%s)", buf_cstr(&none));
	return buf_failed(out) ? -ENOMEM : 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_log_row *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? 1 : -1;
	return x->id < y->id ? 1 : x->id > y->id ? -1 : 0;
}

int store_search_logs(struct store_reader *reader, const char *text, int as_phrase, uint64_t limit,
		      struct store_page **out, struct err *err)
{
	CLEANUP(buf_fini) struct buf expression = { 0 };
	int rc = -EINVAL;
	if (as_phrase && has_letters(text, strlen(text))) {
		buf_putc(&expression, '"');
		for (const char *p = text; *p; p++) {
			if (*p != '"')
				buf_putc(&expression, *p);
		}
		buf_putc(&expression, '"');
		rc = 0;
	} else if (!as_phrase) {
		rc = search_expression(text, &expression);
	}
	if (rc == -E2BIG) {
		err_set(err, -EINVAL, "cannot search for more than %d words at once",
			STORE_SEARCH_WORDS);
		return err_hint(err, "fewer words, or a phrase without no_quotes");
	}
	if (rc < 0)
		return err_set(err, rc, "cannot search for '%s': no word in it", text);
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	rc = store_prepare(reader->db, &s,
			   "SELECT log.id, time_ns, level, section, log.message FROM log_text JOIN "
			   "log ON log.id = log_text.rowid"
			   " WHERE log_text MATCH ?1 ORDER BY rank LIMIT ?2",
			   err);
	if (rc < 0)
		return rc;
	struct store_page *page = calloc(1, sizeof(*page));
	if (!page)
		return err_set(err, -ENOMEM, "cannot allocate a page");
	sqlite3_bind_text(s, 1, buf_cstr(&expression), -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)(limit > INT64_MAX ? INT64_MAX : limit));
	while (rc == 0 && (rc = store_step(s, "search the logs", err)) > 0)
		rc = store_take_log(page, s, err);
	if (rc < 0) {
		store_page_free(page);
		return rc;
	}
	if (page->count)
		qsort(page->logs, page->count, sizeof(*page->logs), newest_first);
	*out = page;
	return 0;
}
