/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - rows in: connections, chunks with their bytes, messages, log lines. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/internal.h"

#define PENDING_MAX (4u << 20)

static int change(sqlite3_stmt *stmt, const char *what, struct err *err)
{
	int rc = store_step(stmt, what, err);
	sqlite3_reset(stmt);
	return rc;
}

/* The same where the statement completes a row: these are counted, whatever else belongs to one. */
static int step(struct store *store, sqlite3_stmt *stmt, const char *what, struct err *err)
{
	int rc = change(stmt, what, err);
	if (rc == 0)
		store->rows++;
	return rc;
}

/*
 * Room in the transaction, made before anything of a row is written: a put that fails can be done
 * again.
 */
static int make_room(struct store *store, struct err *err)
{
	return store->rows >= STORE_BATCH_ROWS ? store_flush(store, err) : 0;
}

/*
 * SQLite's numbers are signed: what is larger (a time behind the year 2262) becomes the largest,
 * never negative.
 */
static uint64_t storable(uint64_t value)
{
	return value < INT64_MAX ? value : INT64_MAX;
}

static void bind_u64(sqlite3_stmt *stmt, int at, uint64_t value)
{
	sqlite3_bind_int64(stmt, at, (sqlite3_int64)storable(value));
}

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	if (text && text[0])
		sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(stmt, at);
}

/*
 * When a connection began is its name in the API: two must not share one, whatever the clock of a
 * capture can tell apart. The one of row @id stays what it is; a new one is moved on by nanoseconds
 * until nobody has it.
 */
static int start_of(struct store *store, uint64_t id, uint64_t asked_ns, uint64_t *started_ns,
		    struct err *err)
{
	sqlite3_stmt *s = store->insert.connection_start;
	bind_u64(s, 1, id);
	int step = sqlite3_step(s);
	*started_ns = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : asked_ns;
	sqlite3_reset(s);
	if (step != SQLITE_DONE)
		return step == SQLITE_ROW ? 0 : store_fail(store->db, err, "store a connection");
	/* many in a row may ask for the same: those of a capture without times */
	if (store->start_given_ns && asked_ns == store->start_asked_ns)
		*started_ns = store->start_given_ns + 1;
	s = store->insert.connection_taken;
	do {
		bind_u64(s, 1, *started_ns);
		step = sqlite3_step(s);
		sqlite3_reset(s);
	} while (step == SQLITE_ROW && ++*started_ns);
	store->start_asked_ns = asked_ns;
	store->start_given_ns = *started_ns;
	return step == SQLITE_DONE ? 0 : store_fail(store->db, err, "store a connection");
}

static int put_connection(struct message_sink *sink, const struct message_connection *row,
			  struct err *err)
{
	struct store *store = (struct store *)sink;
	sqlite3_stmt *s = store->insert.connection;
	int rc = make_room(store, err);
	if (rc < 0)
		return rc;
	char comments[4096];
	size_t len = 0;
	/* a line a comment: none holds a newline */
	for (size_t i = 0; i < row->comment_count; i++) {
		size_t n = strlen(row->comments[i]);
		if (len + n + 1 >= sizeof(comments))
			break;
		memcpy(comments + len, row->comments[i], n);
		comments[len + n] = '\n';
		len += n + 1;
	}
	uint64_t id = store->first_connection + row->id, started_ns;
	rc = start_of(store, id, row->started_ns, &started_ns, err);
	if (rc < 0)
		return rc;
	if (id >= store->next_connection)
		store->next_connection = id + 1;
	bind_u64(s, 1, id);
	bind_u64(s, 2, started_ns);
	if (row->close_reason)
		bind_u64(s, 3, row->closed_ns);
	else
		sqlite3_bind_null(s, 3);
	bind_u64(s, 4, row->initiator);
	bind_text(s, 5, row->remote_addr);
	bind_text(s, 6, row->local_peer_id);
	bind_text(s, 7, row->remote_peer_id);
	sqlite3_bind_text(s, 8, comments, (int)len, SQLITE_STATIC);
	for (int i = 0; i < 2; i++) {
		bind_u64(s, 9 + i, row->chunks[i]);
		bind_u64(s, 11 + i, row->undecrypted[i]);
	}
	bind_u64(s, 13, row->gaps[0] + row->gaps[1]);
	bind_u64(s, 14, row->gap_bytes[0] + row->gap_bytes[1]);
	bind_u64(s, 15, (uint64_t)row->attached_late);
	bind_text(s, 16, row->close_reason);
	bind_u64(s, 17, store->next_chunk);
	return step(store, s, "store a connection", err);
}

int store_write_pending(struct store *store, struct err *err)
{
	size_t done = 0;
	while (done < store->pending_len) {
		ssize_t n =
			write(store->segment_fd, store->pending + done, store->pending_len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int code = -errno;
			memmove(store->pending, store->pending + done, store->pending_len - done);
			store->pending_len -= done;
			return err_set(err, code, "cannot write segment %llu of store '%s'",
				       (unsigned long long)store->segment, store->path);
		}
		done += (size_t)n;
	}
	store->pending_len = 0;
	return 0;
}

static int next_segment(struct store *store, struct err *err)
{
	int rc = store_write_pending(store, err);
	if (rc < 0)
		return rc;
	int fd = store_open_segment(store->dir_fd, store->segment + 1, O_RDWR | O_CREAT | O_TRUNC);
	if (fd < 0)
		return err_set(err, -errno, "cannot create a segment of store '%s'", store->path);
	close(store->segment_fd);
	store->segment_fd = fd;
	store->segment++;
	store->segment_len = 0;
	return 0;
}

/* Room for @len more payload bytes. */
static int reserve_bytes(struct store *store, size_t len, struct err *err)
{
	if (store->pending_len + len > PENDING_MAX) {
		int rc = store_write_pending(store, err);
		if (rc < 0)
			return rc;
	}
	if (store->pending_len + len > store->pending_cap) {
		size_t cap = store->pending_len + len > PENDING_MAX ? store->pending_len + len
								    : PENDING_MAX;
		char *pending = realloc(store->pending, cap);
		if (!pending)
			return err_set(err, -ENOMEM, "cannot allocate the segment buffer");
		store->pending = pending;
		store->pending_cap = cap;
	}
	return 0;
}

static void put_bytes(struct store *store, const void *bytes, size_t len)
{
	if (len)
		memcpy(store->pending + store->pending_len, bytes, len);
	store->pending_len += len;
	store->segment_len += len;
}

static struct store_recent *recent_slot(struct store *store, uint64_t connection, unsigned sender,
					uint64_t counter)
{
	uint64_t h = (connection * 0x9e3779b97f4a7c15ULL) ^
		     (counter * 2 + sender) * 0xff51afd7ed558ccdULL;
	return &store->recent[(h >> 40) % ARRAY_LEN(store->recent)];
}

static int put_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct store *store = (struct store *)sink;
	size_t len;
	if (__builtin_add_overflow(chunk->raw_len, chunk->plain ? chunk->plain_len : 0, &len))
		return err_set(err, -EINVAL, "cannot store a chunk of such a length");
	int rc = make_room(store, err);
	if (rc == 0 && store->segment_len >= store->segment_bytes)
		rc = next_segment(store, err);
	if (rc == 0)
		rc = reserve_bytes(store, len, err);
	if (rc < 0)
		return rc;
	uint64_t offset = store->segment_len;
	put_bytes(store, chunk->raw, chunk->raw_len);
	if (chunk->plain)
		put_bytes(store, chunk->plain, chunk->plain_len);
	sqlite3_stmt *s = store->insert.chunk;
	uint64_t row = store->next_chunk;
	bind_u64(s, 1, row);
	bind_u64(s, 2, store->first_connection + chunk->connection);
	bind_u64(s, 3, chunk->sender);
	if (chunk->counter == MESSAGE_NO_COUNTER)
		sqlite3_bind_null(s, 4);
	else
		bind_u64(s, 4, chunk->counter);
	bind_u64(s, 5, chunk->time_ns);
	bind_u64(s, 6, store->segment);
	bind_u64(s, 7, offset);
	bind_u64(s, 8, chunk->raw_len);
	if (chunk->plain)
		bind_u64(s, 9, chunk->plain_len);
	else
		sqlite3_bind_null(s, 9);
	*recent_slot(store, chunk->connection, chunk->sender, chunk->counter) =
		(struct store_recent){ chunk->connection, chunk->counter, row, chunk->sender };
	rc = step(store, s, "store a chunk", err);
	if (rc < 0) {
		store->pending_len -= len;
		store->segment_len -= len;
		return rc;
	}
	store->next_chunk++;
	return 0;
}

int store_unseal_chunk(struct store *store, const struct message_chunk *chunk, struct err *err)
{
	sqlite3_stmt *s = store->insert.unseal;
	int rc = make_room(store, err);
	if (rc < 0)
		return rc;
	bind_u64(s, 1, store->first_connection + chunk->connection);
	bind_u64(s, 2, chunk->counter);
	bind_u64(s, 3, chunk->sender);
	rc = change(s, "replace a sealed chunk", err);
	return rc < 0 ? rc : put_chunk(&store->sink, chunk, err);
}

/* Number of an address; the table of addresses grows with peers, not with messages. */
static int address_id(struct store *store, const char *text, int64_t *id, struct err *err)
{
	unsigned h = 5381;
	for (const char *p = text; *p; p++)
		h = h * 33 + (unsigned char)*p;
	size_t slot = h % ARRAY_LEN(store->addresses);
	if (strcmp(store->addresses[slot].text, text) == 0 && store->addresses[slot].id) {
		*id = store->addresses[slot].id;
		return 0;
	}
	sqlite3_stmt *s = store->insert.address;
	sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
	int rc = change(s, "store an address", err);
	if (rc < 0)
		return rc;
	s = store->insert.address_id;
	sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
	rc = store_step(s, "look for an address", err);
	*id = rc > 0 ? sqlite3_column_int64(s, 0) : 0;
	sqlite3_reset(s);
	if (rc < 0)
		return rc;
	if (strlen(text) < sizeof(store->addresses[slot].text)) {
		strcpy(store->addresses[slot].text, text);
		store->addresses[slot].id = *id;
	}
	return 0;
}

static void widen(struct store_block *block, uint64_t time_ns, uint64_t chunk)
{
	time_ns = storable(time_ns);
	if (!block->any || time_ns < block->min_ns)
		block->min_ns = time_ns;
	if (!block->any || time_ns > block->max_ns)
		block->max_ns = time_ns;
	if (!block->any || chunk < block->min_chunk)
		block->min_chunk = chunk;
	block->any = block->dirty = 1;
}

static int write_block(sqlite3_stmt *s, struct store_block *block, int with_chunk, struct err *err)
{
	if (!block->dirty)
		return 0;
	bind_u64(s, 1, block->number);
	bind_u64(s, 2, block->min_ns);
	bind_u64(s, 3, block->max_ns);
	bind_u64(s, 4, with_chunk ? block->min_chunk : block->arrived_ns);
	int rc = change(s, "store a block of times", err);
	if (rc == 0)
		block->dirty = 0;
	return rc;
}

int store_write_blocks(struct store *store, struct err *err)
{
	int rc = write_block(store->insert.message_block, &store->message_block, 1, err);
	return rc < 0 ? rc : write_block(store->insert.log_block, &store->log_block, 0, err);
}

/* The block that @id belongs to; the former one is written when it is left. */
static int enter_block(struct store_block *block, sqlite3_stmt *s, int with_chunk, uint64_t id,
		       struct err *err)
{
	if (block->number == id / STORE_BLOCK_IDS)
		return 0;
	int rc = write_block(s, block, with_chunk, err);
	if (rc == 0)
		*block = (struct store_block){ .number = id / STORE_BLOCK_IDS };
	return rc;
}

static size_t preview_len(const char *json, size_t len)
{
	if (len <= STORE_PREVIEW_BYTES)
		return len;
	size_t cut = STORE_PREVIEW_BYTES;
	while (cut && ((unsigned char)json[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

static int put_message(struct message_sink *sink, const struct message *m, struct err *err)
{
	struct store *store = (struct store *)sink;
	int64_t address = 0;
	uint64_t id = store->next_message;
	int rc = make_room(store, err);
	if (rc == 0)
		rc = address_id(store, m->remote_addr ? m->remote_addr : "", &address, err);
	if (rc == 0)
		rc = enter_block(&store->message_block, store->insert.message_block, 1, id, err);
	if (rc == 0)
		rc = store_sets_enter(store, id, err);
	if (rc < 0)
		return rc;
	const struct store_recent *recent =
		recent_slot(store, m->connection, m->sender, m->first_chunk);
	int known = recent->connection == m->connection && recent->sender == (unsigned)m->sender &&
		    recent->counter == m->first_chunk;
	/*
	 * the row of the first chunk, or (after very many chunks in between) one that is certainly
	 * not later
	 */
	uint64_t chunk = known                      ? recent->row
			 : store->message_block.any ? store->message_block.min_chunk
						    : 0;
	widen(&store->message_block, m->time_ns, chunk);
	sqlite3_stmt *s = store->insert.message;
	bind_u64(s, 1, id);
	bind_u64(s, 2, store->first_connection + m->connection);
	bind_u64(s, 3, m->time_ns);
	bind_u64(s, 4, m->type);
	bind_u64(s, 5, STORE_SI(m->sender, m->initiator));
	sqlite3_bind_int64(s, 6, address);
	bind_u64(s, 7, m->tag);
	bind_u64(s, 8, m->first_chunk);
	bind_u64(s, 9, m->last_chunk);
	bind_u64(s, 10, chunk);
	bind_u64(s, 11, m->first_offset);
	bind_u64(s, 12, m->plain_len);
	if (m->json)
		sqlite3_bind_text(s, 13, m->json, (int)preview_len(m->json, m->json_len),
				  SQLITE_STATIC);
	else
		sqlite3_bind_null(s, 13);
	bind_text(s, 14, m->error);
	rc = step(store, s, "store a message", err);
	if (rc < 0)
		return rc;
	store_sets_add(store, id, m->type, STORE_SI(m->sender, m->initiator), (uint64_t)address);
	store->next_message++;
	return 0;
}

int store_put_log(struct store *store, const struct store_log *log, struct err *err)
{
	uint64_t id = store->next_log;
	int rc = make_room(store, err);
	if (rc == 0)
		rc = enter_block(&store->log_block, store->insert.log_block, 0, id, err);
	if (rc < 0)
		return rc;
	uint64_t now_ns = clock_ns(CLOCK_REALTIME_COARSE);
	widen(&store->log_block, log->time_ns, 0);
	if (now_ns > store->log_block.arrived_ns)
		store->log_block.arrived_ns = now_ns;
	sqlite3_stmt *s = store->insert.log;
	bind_u64(s, 1, id);
	bind_u64(s, 2, log->time_ns);
	bind_u64(s, 3, log->level);
	sqlite3_bind_text(s, 4, log->section ? log->section : "", (int)log->section_len,
			  SQLITE_STATIC);
	sqlite3_bind_text(s, 5, log->message, (int)log->message_len, SQLITE_STATIC);
	rc = change(s, "store a log line", err);
	if (rc == 0 && !store->limits.no_search) {
		s = store->insert.log_text;
		bind_u64(s, 1, id);
		sqlite3_bind_text(s, 2, log->message, (int)log->message_len, SQLITE_STATIC);
		rc = change(s, "index a log line", err);
	}
	if (rc < 0)
		return rc;
	store->next_log++;
	store->rows++;
	return 0;
}

/* After a restart the newest block goes on where it was. */
static int load_block(struct store *store, const char *sql, uint64_t number,
		      struct store_block *block, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int rc = store_prepare(store->db, &s, sql, err);
	*block = (struct store_block){ .number = number };
	if (rc == 0) {
		bind_u64(s, 1, number);
		rc = store_step(s, "read a block of times", err);
		if (rc > 0) {
			block->min_ns = (uint64_t)sqlite3_column_int64(s, 0);
			block->max_ns = (uint64_t)sqlite3_column_int64(s, 1);
			block->min_chunk = (uint64_t)sqlite3_column_int64(s, 2);
			block->arrived_ns = (uint64_t)sqlite3_column_int64(s, 3);
			block->any = 1;
		}
	}
	sqlite3_finalize(s);
	return rc < 0 ? rc : 0;
}

int store_write_init(struct store *store, struct err *err)
{
	struct store_insert *in = &store->insert;
	const struct {
		sqlite3_stmt **stmt;
		const char *sql;
	} want[] = {
		{ &in->connection,
		  "INSERT OR REPLACE INTO connection "
		  "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)" },
		{ &in->connection_start, "SELECT started_ns FROM connection WHERE id=?1" },
		{ &in->connection_taken, "SELECT 1 FROM connection WHERE started_ns=?1" },
		{ &in->chunk, "INSERT INTO chunk VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)" },
		{ &in->message,
		  "INSERT INTO message VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)" },
		{ &in->message_set, "INSERT OR REPLACE INTO message_set VALUES(?1,?2,?3,?4,?5)" },
		{ &in->unseal,
		  "DELETE FROM chunk WHERE connection=?1 AND counter=?2 AND sender=?3" },
		/* a line whose text could not be indexed is put again under its number */
		{ &in->log, "INSERT OR REPLACE INTO log VALUES(?1,?2,?3,?4,?5)" },
		{ &in->log_text, "INSERT INTO log_text(rowid, message) VALUES(?1,?2)" },
		{ &in->message_block, "INSERT OR REPLACE INTO message_block VALUES(?1,?2,?3,?4)" },
		{ &in->log_block, "INSERT OR REPLACE INTO log_block VALUES(?1,?2,?3,?4)" },
		{ &in->address, "INSERT OR IGNORE INTO address(text) VALUES(?1)" },
		{ &in->address_id, "SELECT id FROM address WHERE text=?1" },
	};
	store->sink = (struct message_sink){ put_connection, put_chunk, put_message };
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		int rc = store_prepare(store->db, want[i].stmt, want[i].sql, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int store_write_resume(struct store *store, struct err *err)
{
	memset(store->addresses, 0, sizeof(store->addresses));
	memset(store->recent, 0, sizeof(store->recent));
	int rc = load_block(
		store, "SELECT min_ns, max_ns, min_chunk, 0 FROM message_block WHERE number=?1",
		store->next_message / STORE_BLOCK_IDS, &store->message_block, err);
	if (rc == 0)
		rc = store_sets_resume(store, err);
	return rc < 0 ? rc
		      : load_block(store,
				   "SELECT min_ns, max_ns, 0, arrived_ns FROM log_block WHERE "
				   "number=?1",
				   store->next_log / STORE_BLOCK_IDS, &store->log_block, err);
}

void store_write_fini(struct store *store)
{
	sqlite3_stmt **all = (sqlite3_stmt **)&store->insert;
	for (size_t i = 0; i < sizeof(store->insert) / sizeof(*all); i++)
		sqlite3_finalize(all[i]);
	free(store->sets);
}

struct message_sink *store_message_sink(struct store *store)
{
	return &store->sink;
}
