/* SPDX-License-Identifier: Apache-2.0 */
#include "node/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/queue.h"

#define QUEUE_BYTES (32u << 20) /* and as much again that the thread is storing */
#define LOG_QUEUE_BYTES (8u << 20)
#define FLUSH_NS 100000000u
#define RETRY_NS 200000000L
#define LAST_TRIES_S 5    /* for a store that fails while the recorder ends */
#define PREVIEW_BYTES 104 /* of a message's JSON: the store keeps 100, cut at a character border */
#define TEXT_PARTS_MAX 24

enum op { OP_CONNECTION, OP_CHUNK, OP_UNSEAL, OP_MESSAGE, OP_LOG, OP_SYNC, OP_COMPACT };

struct node_writer {
	struct message_sink sink;
	struct store *store;
	struct queue *rows, *logs;
	pthread_t thread;
	char name[64];
	node_writer_say say;
	void *ctx;
	atomic_int failing, closing;
	atomic_uint_fast64_t failures, rows_lost, delay_ns, flushes;
	struct buf taken, logs_taken;
	uint64_t flushed_ns, closing_ns, oldest_ns;
	/* tickets of sync and compact: one number each, done in order */
	pthread_mutex_t lock;
	pthread_cond_t done;
	uint64_t asked, finished;
	struct err ticket_err;
	char trouble[256];
};

/* ---- into the queue -------------------------------------------------------------------------- */

/* Waits for room as long as the store takes rows; what finds none is counted. */
static int put(struct node_writer *w, const struct iovec *parts, size_t count)
{
	int rc;
	do {
		rc = queue_put(w->rows, parts, count, atomic_load(&w->failing) ? 0 : 200);
	} while (rc == -EAGAIN && !atomic_load(&w->failing));
	if (rc < 0)
		atomic_fetch_add(&w->rows_lost, 1);
	return rc;
}

static struct iovec part(const void *bytes, size_t len)
{
	return (struct iovec){ (void *)bytes, len };
}

/* A string with its NUL; nothing at all for NULL, which the pointer in the record tells. */
static struct iovec text(const char *s)
{
	return part(s, s ? strlen(s) + 1 : 0);
}

static int put_connection(struct message_sink *sink, const struct message_connection *row,
			  struct err *err)
{
	struct node_writer *w = (struct node_writer *)sink;
	enum op op = OP_CONNECTION;
	struct message_connection copy = *row;
	struct iovec parts[6 + TEXT_PARTS_MAX] = {
		part(&op, sizeof(op)),    part(&copy, sizeof(copy)), text(row->remote_addr),
		text(row->local_peer_id), text(row->remote_peer_id), text(row->close_reason)
	};
	(void)err;
	if (copy.comment_count > TEXT_PARTS_MAX)
		copy.comment_count = TEXT_PARTS_MAX;
	for (size_t i = 0; i < copy.comment_count; i++)
		parts[6 + i] = text(row->comments[i]);
	put(w, parts, 6 + copy.comment_count);
	return 0;
}

static int queue_chunk(struct node_writer *w, enum op op, const struct message_chunk *chunk)
{
	struct iovec parts[] = { part(&op, sizeof(op)), part(chunk, sizeof(*chunk)),
				 part(chunk->raw, chunk->raw_len),
				 part(chunk->plain, chunk->plain ? chunk->plain_len : 0) };
	return put(w, parts, ARRAY_LEN(parts));
}

static int put_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)err;
	queue_chunk((struct node_writer *)sink, OP_CHUNK, chunk);
	return 0;
}

int node_writer_unseal(struct node_writer *w, const struct message_chunk *chunk)
{
	return queue_chunk(w, OP_UNSEAL, chunk);
}

static int put_message(struct message_sink *sink, const struct message *m, struct err *err)
{
	enum op op = OP_MESSAGE;
	struct message copy = *m;
	(void)err;
	/* the bytes are in the chunks; of the text only the preview is kept */
	copy.plain = NULL;
	if (copy.json && copy.json_len > PREVIEW_BYTES)
		copy.json_len = PREVIEW_BYTES;
	struct iovec parts[] = { part(&op, sizeof(op)), part(&copy, sizeof(copy)),
				 part(copy.json, copy.json ? copy.json_len : 0),
				 text(copy.remote_addr), text(copy.error) };
	put((struct node_writer *)sink, parts, ARRAY_LEN(parts));
	return 0;
}

int node_writer_log(struct node_writer *w, const struct log_line *line)
{
	enum op op = OP_LOG;
	struct log_line copy = *line;
	struct iovec parts[] = { part(&op, sizeof(op)), part(&copy, sizeof(copy)),
				 part(line->section, line->section_len),
				 part(line->message, line->message_len) };
	return queue_put(w->logs, parts, ARRAY_LEN(parts), 0);
}

/* ---- out of it ------------------------------------------------------------------------------- */

/* The string at @at, advanced behind its NUL; NULL where the record has none. */
static const char *take_text(const char **at, const char *there)
{
	const char *s = *at;
	if (!there)
		return NULL;
	*at += strlen(s) + 1;
	return s;
}

static int store_connection(struct node_writer *w, const char *at, struct err *err)
{
	struct message_connection row;
	const char *comments[TEXT_PARTS_MAX];
	struct message_sink *sink = store_message_sink(w->store);
	memcpy(&row, at, sizeof(row));
	at += sizeof(row);
	row.remote_addr = take_text(&at, row.remote_addr);
	row.local_peer_id = take_text(&at, row.local_peer_id);
	row.remote_peer_id = take_text(&at, row.remote_peer_id);
	row.close_reason = take_text(&at, row.close_reason);
	for (size_t i = 0; i < row.comment_count; i++)
		comments[i] = take_text(&at, "");
	row.comments = comments;
	return sink->connection(sink, &row, err);
}

static int store_chunk(struct node_writer *w, enum op op, const char *at, struct err *err)
{
	struct message_chunk chunk;
	struct message_sink *sink = store_message_sink(w->store);
	memcpy(&chunk, at, sizeof(chunk));
	chunk.raw = (const uint8_t *)at + sizeof(chunk);
	if (chunk.plain)
		chunk.plain = chunk.raw + chunk.raw_len;
	return op == OP_UNSEAL ? store_unseal_chunk(w->store, &chunk, err)
			       : sink->chunk(sink, &chunk, err);
}

static int store_message(struct node_writer *w, const char *at, struct err *err)
{
	struct message m;
	struct message_sink *sink = store_message_sink(w->store);
	memcpy(&m, at, sizeof(m));
	at += sizeof(m);
	if (m.json) {
		m.json = at;
		at += m.json_len;
	}
	m.remote_addr = take_text(&at, m.remote_addr);
	m.error = take_text(&at, m.error);
	return sink->message(sink, &m, err);
}

static int store_log(struct node_writer *w, const char *at, struct err *err)
{
	struct log_line line;
	memcpy(&line, at, sizeof(line));
	at += sizeof(line);
	struct store_log log = { .time_ns = line.time_ns,
				 .level = line.level,
				 .section = at,
				 .section_len = line.section_len,
				 .message = at + line.section_len,
				 .message_len = line.message_len };
	return store_put_log(w->store, &log, err);
}

static int flush(struct node_writer *w, struct err *err)
{
	int rc = store_flush(w->store, err);
	if (rc < 0)
		return rc;
	w->flushed_ns = clock_ns(CLOCK_MONOTONIC);
	if (w->oldest_ns) {
		atomic_store(&w->delay_ns, w->flushed_ns - w->oldest_ns);
		atomic_fetch_add(&w->flushes, 1);
	}
	w->oldest_ns = 0;
	return 0;
}

static int apply(struct node_writer *w, enum op op, const char *at, struct err *err)
{
	switch (op) {
	case OP_CONNECTION:
		return store_connection(w, at, err);
	case OP_CHUNK:
	case OP_UNSEAL:
		return store_chunk(w, op, at, err);
	case OP_MESSAGE:
		return store_message(w, at, err);
	case OP_LOG:
		return store_log(w, at, err);
	case OP_SYNC:
		return flush(w, err);
	default:
		return store_compact(w->store, err);
	}
}

static void trouble(struct node_writer *w, const struct err *err)
{
	char text_[400];
	atomic_fetch_add(&w->failures, 1);
	pthread_mutex_lock(&w->lock);
	snprintf(w->trouble, sizeof(w->trouble), "%s", err ? err->msg : "");
	pthread_mutex_unlock(&w->lock);
	if (atomic_exchange(&w->failing, 1))
		return;
	snprintf(text_, sizeof(text_),
		 "node '%s': %s; rows wait in memory (up to %u MiB), further ones are lost and "
		 "counted until it can be written",
		 w->name, err->msg, QUEUE_BYTES >> 20);
	w->say(w->ctx, text_);
}

static void works_again(struct node_writer *w)
{
	char text_[160];
	if (!atomic_exchange(&w->failing, 0))
		return;
	pthread_mutex_lock(&w->lock);
	w->trouble[0] = '\0';
	pthread_mutex_unlock(&w->lock);
	snprintf(text_, sizeof(text_),
		 "node '%s': the store is written again; %llu rows lost so far", w->name,
		 (unsigned long long)atomic_load(&w->rows_lost));
	w->say(w->ctx, text_);
}

/* 1 = try again, 0 = give the row up. */
static int wait_for_store(struct node_writer *w, struct err *err)
{
	struct timespec pause = { .tv_nsec = RETRY_NS };
	uint64_t lost = 0;
	struct err why = { 0 };
	trouble(w, err);
	if (store_recover(w->store, &lost, &why) < 0)
		trouble(w, &why);
	atomic_fetch_add(&w->rows_lost, lost);
	if (atomic_load(&w->closing) &&
	    clock_ns(CLOCK_MONOTONIC) - w->closing_ns > LAST_TRIES_S * NS_PER_S)
		return 0;
	nanosleep(&pause, NULL);
	return 1;
}

static void do_record(struct node_writer *w, enum op op, const char *at)
{
	struct err err = { 0 };
	int rc;
	while ((rc = apply(w, op, at, &err)) < 0) {
		/* nothing makes such a row storable */
		if (rc == -EINVAL || rc == -E2BIG || !wait_for_store(w, &err)) {
			atomic_fetch_add(&w->rows_lost, op < OP_SYNC);
			break;
		}
		err_init(&err);
	}
	if (rc == 0)
		works_again(w);
	if (op >= OP_SYNC) {
		pthread_mutex_lock(&w->lock);
		w->finished++;
		w->ticket_err = err;
		pthread_cond_broadcast(&w->done);
		pthread_mutex_unlock(&w->lock);
	}
}

static void do_all(struct node_writer *w, const struct buf *taken)
{
	size_t at = 0, len;
	const char *record;
	while ((record = queue_next(taken, &at, &len))) {
		enum op op;
		memcpy(&op, record, sizeof(op));
		do_record(w, op, record + sizeof(op));
	}
}

static void flush_if_due(struct node_writer *w, int now)
{
	struct err err = { 0 };
	if (!now && clock_ns(CLOCK_MONOTONIC) - w->flushed_ns < FLUSH_NS)
		return;
	while (flush(w, &err) < 0) {
		if (!wait_for_store(w, &err))
			return;
		err_init(&err);
		if (!now)
			return; /* rows go on coming in meanwhile: the next round tries again */
	}
	works_again(w);
}

static void *run(void *arg)
{
	struct node_writer *w = arg;
	for (;;) {
		uint64_t since = 0;
		long rows = queue_take(w->rows, &w->taken, &since, 50);
		if (rows > 0 && !w->oldest_ns)
			w->oldest_ns = since;
		do_all(w, &w->taken);
		long logs = queue_take(w->logs, &w->logs_taken, &since, 0);
		if (logs > 0 && !w->oldest_ns)
			w->oldest_ns = since;
		do_all(w, &w->logs_taken);
		if (rows == -EPIPE && logs == -EPIPE)
			break;
		flush_if_due(w, 0);
	}
	flush_if_due(w, 1);
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void release(struct node_writer *w)
{
	queue_free(w->rows);
	queue_free(w->logs);
	buf_fini(&w->taken);
	buf_fini(&w->logs_taken);
	pthread_cond_destroy(&w->done);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int node_writer_new(struct store *store, const char *name, node_writer_say say, void *ctx,
		    struct node_writer **out, struct err *err)
{
	struct node_writer *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	if (!w)
		return err_set(err, -ENOMEM, "cannot allocate a writer");
	w->sink = (struct message_sink){ put_connection, put_chunk, put_message };
	w->store = store;
	w->say = say;
	w->ctx = ctx;
	snprintf(w->name, sizeof(w->name), "%s", name);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->done, &attr);
	pthread_condattr_destroy(&attr);
	w->rows = queue_new(QUEUE_BYTES);
	w->logs = queue_new(LOG_QUEUE_BYTES);
	int rc = w->rows && w->logs ? 0 : -ENOMEM;
	if (rc == 0)
		rc = -pthread_create(&w->thread, NULL, run, w);
	if (rc < 0) {
		release(w);
		return err_set(err, rc, "cannot start a writer");
	}
	pthread_setname_np(w->thread, "store");
	*out = w;
	return 0;
}

struct message_sink *node_writer_sink(struct node_writer *w)
{
	return &w->sink;
}

static int ticket(struct node_writer *w, enum op op, int wait_ms, struct err *err)
{
	struct iovec parts[] = { part(&op, sizeof(op)) };
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + (uint64_t)wait_ms * 1000000u;
	struct timespec until = clock_time(deadline);
	int rc;
	pthread_mutex_lock(&w->lock);
	rc = queue_put(w->rows, parts, 1, 0);
	uint64_t mine = rc == 0 ? ++w->asked : 0;
	while (rc == 0 && w->finished < mine)
		rc = -pthread_cond_timedwait(&w->done, &w->lock, &until);
	if (rc == 0 && w->ticket_err.code < 0) {
		*err = w->ticket_err;
		rc = err->code;
	} else if (rc < 0) {
		rc = err_set(err, -EBUSY, "cannot write the store of node '%s' in time", w->name);
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int node_writer_sync(struct node_writer *w, int wait_ms, struct err *err)
{
	return ticket(w, OP_SYNC, wait_ms, err);
}

int node_writer_compact(struct node_writer *w, int wait_ms, struct err *err)
{
	return ticket(w, OP_COMPACT, wait_ms, err);
}

void node_writer_stats(struct node_writer *w, struct node_writer_stats *stats)
{
	*stats = (struct node_writer_stats){
		.queue_bytes_max = QUEUE_BYTES,
		.queue_delay_ns = atomic_load(&w->delay_ns),
		.flushes = atomic_load(&w->flushes),
		.failures = atomic_load(&w->failures),
		.rows_lost = atomic_load(&w->rows_lost),
	};
	queue_fill(w->rows, &stats->queue_bytes, &stats->queue_high_water);
	pthread_mutex_lock(&w->lock);
	snprintf(stats->trouble, sizeof(stats->trouble), "%s", w->trouble);
	pthread_mutex_unlock(&w->lock);
}

int node_writer_close(struct node_writer *w, struct node_writer_stats *last, struct err *err)
{
	if (!w)
		return 0;
	w->closing_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_store(&w->closing, 1);
	queue_close(w->rows);
	queue_close(w->logs);
	pthread_join(w->thread, NULL);
	if (last)
		node_writer_stats(w, last);
	int rc = store_close(w->store, err);
	release(w);
	return rc;
}
