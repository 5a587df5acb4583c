/* SPDX-License-Identifier: Apache-2.0 */
#include "node/reprocess.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "node/limits.h"

#define SIDE_ROWS 64            /* of each side, read from the store at a time */
#define SIDE_BYTES (512u << 10) /* the same in bytes, and one more chunk */
#define PROBE_ROWS \
	64 /* sealed chunks of a side that are tried before it is believed that none opens */
#define BEGIN_BYTES (64u << 10) /* what a look at a connection counts as */

/* What is needed of a row to feed its chunks to a new connection. */
struct sealed {
	uint64_t id, started_ns, closed_ns;
	enum message_sender initiator;
	char remote_addr[64], close_reason[64];
	int closed;
	uint64_t gaps[2], gap_bytes[2];
};

struct node_reprocess_list {
	struct sealed *rows;
	size_t count, cap, next;
};

/* A stored chunk or piece that is fed next. */
struct row {
	uint64_t id, counter, time_ns;
	/* in the side's bytes */
	size_t at, len;
};

/* One sender's chunks, and what is known of them. */
struct side {
	/* read from the store last */
	struct store_chunk_place last;
	int any;
	struct row rows[SIDE_ROWS];
	size_t count, next;
	struct buf bytes;
	uint64_t next_counter;
	int gap_told;
	/* a chunk was opened, the latest is number @newest */
	int fresh;
	uint64_t newest;
};

/* Passes on only what is new: opened chunks and what is in them. The rest is stored already. */
struct node_reprocess_work {
	struct message_sink sink;
	struct node_reprocess *job;
	struct store_reader *reader;
	struct sealed row;
	struct net_conn *conn;
	/* by enum message_sender */
	struct side side[2];
	/* rows of the connection are not complete yet */
	int quiet;
	/* an earlier attempt was broken off: some chunks are open already */
	int begun_before;
	int synced;
};

static void to_sealed(struct sealed *to, const struct message_connection *row)
{
	*to = (struct sealed){ .id = row->id,
			       .started_ns = row->started_ns,
			       .closed_ns = row->closed_ns,
			       .initiator = row->initiator,
			       .closed = row->close_reason != NULL };
	memcpy(to->gaps, row->gaps, sizeof(to->gaps));
	memcpy(to->gap_bytes, row->gap_bytes, sizeof(to->gap_bytes));
	if (row->remote_addr)
		snprintf(to->remote_addr, sizeof(to->remote_addr), "%s", row->remote_addr);
	if (row->close_reason)
		snprintf(to->close_reason, sizeof(to->close_reason), "%s", row->close_reason);
}

static int note_row(void *ctx, const struct message_connection *row)
{
	struct node_reprocess_list *list = ctx;
	if (list->count == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 64;
		struct sealed *rows = realloc(list->rows, cap * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		list->rows = rows;
		list->cap = cap;
	}
	to_sealed(&list->rows[list->count++], row);
	return 0;
}

/* ---- is there anything that a key of the ring opens ------------------------------------------ */

struct probe {
	struct buf hello[2];
	struct net_key *key;
	uint8_t nonce[2][NET_NONCE_BYTES];
	struct buf plain;
};

static int keep_hello(void *ctx, const struct store_chunk_row *chunk)
{
	struct probe *probe = ctx;
	struct buf *hello = &probe->hello[chunk->sender];
	if (chunk->counter == 0 && !hello->len)
		buf_put(hello, chunk->raw, chunk->raw_len);
	return buf_failed(hello) ? -ENOMEM : 0;
}

static int try_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	struct probe *probe = ctx;
	uint8_t nonce[NET_NONCE_BYTES];
	if (chunk->raw_len < 2 + NET_AUTH_BYTES)
		return 0;
	buf_clear(&probe->plain);
	if (!buf_reserve(&probe->plain, chunk->raw_len))
		return -ENOMEM;
	memcpy(nonce, probe->nonce[chunk->sender], sizeof(nonce));
	net_nonce_add(nonce, chunk->counter - 1);
	return net_open(probe->key, nonce, chunk->raw + 2, chunk->raw_len - 2,
			(uint8_t *)probe->plain.data) == 0;
}

static void make_key(struct probe *probe, const struct net_keyring *keyring,
		     enum message_sender initiator)
{
	const struct buf *local = &probe->hello[MESSAGE_LOCAL],
			 *remote = &probe->hello[MESSAGE_REMOTE];
	if (local->len < NET_CONNECTION_CHUNK_MIN || remote->len < NET_CONNECTION_CHUNK_MIN)
		return;
	for (size_t i = 0; !probe->key && i < keyring->count; i++) {
		if (memcmp(net_identity_public_key(keyring->identities[i]), local->data + 4, 32) ==
		    0)
			probe->key = net_key_new(keyring->identities[i],
						 (const uint8_t *)remote->data + 4);
	}
	const struct buf *first = &probe->hello[initiator], *second = &probe->hello[!initiator];
	net_start_nonces((const uint8_t *)first->data, first->len, (const uint8_t *)second->data,
			 second->len, probe->nonce[initiator], probe->nonce[!initiator]);
}

/*
 * 1 where a sealed chunk of the connection can be opened. With a key that the recorder had at once
 * what is sealed is damaged, and what was fed again would give the same messages a second time.
 */
static int can_open(struct node_reprocess *job, struct store_reader *reader,
		    const struct sealed *row, struct err *err)
{
	struct probe probe = { 0 };
	struct store_chunk_query first = { .has_connection = 1, .connection = row->id, .limit = 2 };
	int rc = store_list_chunks(reader, &first, keep_hello, &probe, err);
	if (rc == 0)
		make_key(&probe, job->keyring, row->initiator);
	for (int sender = 0; rc == 0 && probe.key && sender < 2; sender++)
		rc = store_sealed_chunks(reader, row->id, (enum message_sender)sender, PROBE_ROWS,
					 try_chunk, &probe, err);
	buf_fini(&probe.hello[0]);
	buf_fini(&probe.hello[1]);
	buf_fini(&probe.plain);
	net_key_free(probe.key);
	return rc == -ENOMEM ? err_set(err, rc, "cannot allocate a chunk") : rc;
}

/* ---- what comes out -------------------------------------------------------------------------- */

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct node_reprocess_work *w = (struct node_reprocess_work *)sink;
	return w->quiet ? 0 : w->job->sink->connection(w->job->sink, row, err);
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct node_reprocess_work *w = (struct node_reprocess_work *)sink;
	struct side *side = &w->side[chunk->sender];
	if (!chunk->plain || chunk->counter == 0 || chunk->counter == MESSAGE_NO_COUNTER)
		return 0;
	if (w->begun_before) {
		int rc = store_has_opened(w->reader, w->row.id, chunk->sender, chunk->counter,
					  chunk->counter, err);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	side->fresh = 1;
	side->newest = chunk->counter;
	w->job->chunks++;
	return w->job->unseal(w->job->ctx, chunk, err);
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct node_reprocess_work *w = (struct node_reprocess_work *)sink;
	const struct side *side = &w->side[message->sender];
	if (message->type == MESSAGE_CONNECTION || !side->fresh ||
	    side->newest < message->first_chunk)
		return 0;
	return w->job->sink->message(w->job->sink, message, err);
}

/* ---- feeding --------------------------------------------------------------------------------- */

static int keep_row(void *ctx, const struct store_chunk_row *chunk)
{
	struct side *side = ctx;
	side->rows[side->count++] = (struct row){ chunk->id, chunk->counter, chunk->time_ns,
						  side->bytes.len, chunk->raw_len };
	buf_put(&side->bytes, chunk->raw, chunk->raw_len);
	side->last = (struct store_chunk_place){ chunk->connection, chunk->counter, chunk->sender,
						 chunk->id };
	side->any = 1;
	return buf_failed(&side->bytes) ? -ENOMEM : side->bytes.len >= SIDE_BYTES;
}

static int refill(struct node_reprocess_work *w, enum message_sender sender, struct err *err)
{
	struct side *side = &w->side[sender];
	if (side->next < side->count)
		return 0;
	side->next = side->count = 0;
	buf_clear(&side->bytes);
	int rc = store_sender_chunks(w->reader, w->row.id, sender, side->any ? &side->last : NULL,
				     SIDE_ROWS, keep_row, side, err);
	return rc == -ENOMEM ? err_set(err, rc, "cannot allocate a chunk") : rc < 0 ? rc : 0;
}

/*
 * The side whose next chunk came first: messages get their numbers in order of time. Both
 * connection chunks come first.
 */
static struct side *earlier(struct node_reprocess_work *w)
{
	struct side *a = &w->side[0], *b = &w->side[1];
	if (a->next == a->count || b->next == b->count)
		return a->next < a->count ? a : b->next < b->count ? b : NULL;
	const struct row *x = &a->rows[a->next], *y = &b->rows[b->next];
	if (!x->counter != !y->counter)
		return x->counter ? b : a;
	return y->time_ns < x->time_ns || (y->time_ns == x->time_ns && y->id < x->id) ? b : a;
}

static int feed(struct node_reprocess_work *w, struct side *side, struct err *err)
{
	const struct row *row = &side->rows[side->next++];
	enum message_sender sender = (enum message_sender)(side - w->side);
	int from_initiator = sender == w->row.initiator, rc = 0;
	/*
	 * uncut pieces lie behind the place where bytes are missing, if any are; then the search
	 * tells where it goes on
	 */
	int missing = row->counter != MESSAGE_NO_COUNTER
			      ? row->counter > side->next_counter
			      : !side->gap_told && w->row.gaps[0] + w->row.gaps[1];
	if (row->counter == MESSAGE_NO_COUNTER)
		side->gap_told = 1;
	else
		side->next_counter = row->counter + 1;
	if (missing)
		rc = net_conn_gap(w->conn, from_initiator, row->time_ns, 0, err);
	return rc < 0 ? rc
		      : net_conn_feed(w->conn, from_initiator, row->time_ns,
				      side->bytes.data + row->at, row->len, err);
}

/* 1 = @left is used up, 0 = all that is stored was fed. */
static int feed_some(struct node_reprocess_work *w, size_t *left, struct err *err)
{
	for (;;) {
		int rc = refill(w, MESSAGE_LOCAL, err);
		if (rc == 0)
			rc = refill(w, MESSAGE_REMOTE, err);
		if (rc < 0)
			return rc;
		struct side *side = earlier(w);
		if (!side)
			return 0;
		if (!*left)
			return 1;
		size_t len = side->rows[side->next].len;
		*left -= len < *left ? len : *left;
		rc = feed(w, side, err);
		if (rc < 0)
			return rc;
	}
}

static void work_free(struct node_reprocess_work *w)
{
	if (!w)
		return;
	net_conn_free(w->conn);
	buf_fini(&w->side[0].bytes);
	buf_fini(&w->side[1].bytes);
	free(w);
}

/* 1 = there is something to do on it, now under way. */
static int begin(struct node_reprocess *job, struct store_reader *reader, const struct sealed *row,
		 struct err *err)
{
	int rc = can_open(job, reader, row, err);
	if (rc <= 0)
		return rc;
	struct node_reprocess_work *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "cannot allocate a connection");
	w->sink = (struct message_sink){ on_connection, on_chunk, on_message };
	w->job = job;
	w->row = *row;
	w->quiet = 1;
	for (int sender = 0; rc >= 0 && !w->begun_before && sender < 2; sender++)
		rc = w->begun_before = store_has_opened(
			reader, row->id, (enum message_sender)sender, 1, UINT64_MAX, err);
	/*
	 * numbers of earlier runs lie below the first of this one: the difference wraps, and wraps
	 * back in the store
	 */
	struct net_conn_opt opt = { .id = row->id - job->first_connection,
				    .started_ns = row->started_ns,
				    .role = row->initiator == MESSAGE_LOCAL ? NET_ROLE_INITIATOR
									    : NET_ROLE_RESPONDER,
				    .remote_addr = row->remote_addr,
				    .keyring = job->keyring,
				    .sink = &w->sink,
				    .difficulty = job->difficulty,
				    .budget = job->budget,
				    .seek = job->seek };
	if (rc >= 0 && !(w->conn = net_conn_new(&opt, err)))
		rc = err->code;
	if (rc < 0) {
		work_free(w);
		return rc;
	}
	job->work = w;
	return 1;
}

static int read_again(void *ctx, const struct message_connection *row)
{
	struct sealed *sealed = ctx;
	if (row->id == sealed->id)
		to_sealed(sealed, row);
	return 0;
}

/* Everything was fed: 0 = finished, -EBUSY = what is recorded still has to be stored first. */
static int finish(struct node_reprocess_work *w, struct err *err)
{
	struct node_reprocess *job = w->job;
	int rc = 0;
	if (!w->row.closed && job->sync && !w->synced) {
		rc = job->sync(job->ctx, err);
		w->synced = rc == 0;
		return rc < 0 ? rc : 1;
	}
	if (!w->row.closed)
		rc = store_connections(w->reader, w->row.id, 1, read_again, &w->row, err);
	if (rc < 0)
		return rc;
	struct net_conn *conn = w->conn;
	w->conn = NULL;
	w->quiet = 0;
	job->connections++;
	if (job->is_live && job->is_live(job->ctx, w->row.id))
		return job->take_over(job->ctx, w->row.id, conn, err);
	net_conn_set_gaps(conn, w->row.gaps, w->row.gap_bytes);
	return net_conn_close(conn, w->row.closed_ns,
			      w->row.closed ? w->row.close_reason : "the recorder ended", err);
}

int node_reprocess_begin(struct node_reprocess *job, struct store_reader *reader, struct err *err)
{
	job->list = calloc(1, sizeof(*job->list));
	if (!job->list)
		return err_set(err, -ENOMEM, "cannot allocate a list");
	int rc = store_sealed_connections(reader, note_row, job->list, err);
	return rc == -ENOMEM ? err_set(err, rc, "cannot allocate a list") : rc;
}

int node_reprocess_step(struct node_reprocess *job, struct store_reader *reader, size_t bytes,
			struct err *err)
{
	struct node_reprocess_list *list = job->list;
	int rc = 0;
	/* what was recorded since the last step is not stored for certain */
	if (job->work)
		job->work->synced = 0;
	while (rc >= 0 && bytes) {
		if (!job->work) {
			if (list->next == list->count)
				return 0;
			rc = begin(job, reader, &list->rows[list->next++], err);
			bytes -= bytes < BEGIN_BYTES ? bytes : BEGIN_BYTES;
			continue;
		}
		job->work->reader = reader;
		rc = feed_some(job->work, &bytes, err);
		if (rc != 0)
			continue;
		rc = finish(job->work, err);
		if (rc == -EBUSY)
			return 1;
		if (rc > 0)
			continue;
		work_free(job->work);
		job->work = NULL;
	}
	return rc < 0 ? rc : 1;
}

void node_reprocess_end(struct node_reprocess *job)
{
	work_free(job->work);
	if (job->list)
		free(job->list->rows);
	free(job->list);
	job->work = NULL;
	job->list = NULL;
}
