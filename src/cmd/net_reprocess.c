/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/net_reprocess.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/net_job.h"
#include "cmd/net_limits.h"

/* What is needed of a row to feed its chunks to a new connection. */
struct sealed {
	uint64_t id, started_ns, closed_ns;
	enum message_sender initiator;
	char remote_addr[64], close_reason[64];
	int closed;
};

struct sealed_list {
	struct sealed *rows;
	size_t count, cap;
};

/* Passes on only what is new: opened chunks and what is in them. The rest is stored already. */
struct filter {
	struct message_sink sink;
	struct net_reprocess *job;
	struct net_conn *conn;
	int quiet; /* rows of the connection are not complete yet */
	int gap_told;
	struct err *err;
};

static int note_row(void *ctx, const struct message_connection *row)
{
	struct sealed_list *list = ctx;
	if (list->count == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 64;
		struct sealed *rows = realloc(list->rows, cap * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		list->rows = rows;
		list->cap = cap;
	}
	struct sealed *to = &list->rows[list->count++];
	*to = (struct sealed){ .id = row->id,
			       .started_ns = row->started_ns,
			       .closed_ns = row->closed_ns,
			       .initiator = row->initiator,
			       .closed = row->close_reason != NULL };
	if (row->remote_addr)
		strncpy(to->remote_addr, row->remote_addr, sizeof(to->remote_addr) - 1);
	if (row->close_reason)
		strncpy(to->close_reason, row->close_reason, sizeof(to->close_reason) - 1);
	return 0;
}

/* ---- does a key of the ring fit --------------------------------------------------------------------------------- */

struct hello {
	const struct net_keyring *keyring;
	int fits;
};

static int look_at_hello(void *ctx, const struct store_chunk_row *chunk)
{
	struct hello *hello = ctx;
	if (chunk->counter != 0 || chunk->sender != MESSAGE_LOCAL ||
	    chunk->raw_len < NET_CONNECTION_CHUNK_MIN)
		return 0;
	for (size_t i = 0; i < hello->keyring->count; i++)
		hello->fits |= memcmp(net_identity_public_key(hello->keyring->identities[i]),
				      chunk->raw + 4, 32) == 0;
	return 0;
}

static int key_fits(struct net_reprocess *job, struct store_reader *reader, uint64_t id,
		    struct err *err)
{
	struct hello hello = { job->keyring, 0 };
	struct store_chunk_query first = { .has_connection = 1, .connection = id, .limit = 2 };
	int rc = store_list_chunks(reader, &first, look_at_hello, &hello, err);
	return rc < 0 ? rc : hello.fits;
}

/* ---- feeding ------------------------------------------------------------------------------------------------------- */

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct filter *f = (struct filter *)sink;
	return f->quiet ? 0 : f->job->sink->connection(f->job->sink, row, err);
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct filter *f = (struct filter *)sink;
	if (!chunk->plain || chunk->counter == 0 || chunk->counter == MESSAGE_NO_COUNTER)
		return 0;
	f->job->chunks++;
	return f->job->unseal(f->job->ctx, chunk, err);
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct filter *f = (struct filter *)sink;
	if (message->type == MESSAGE_CONNECTION)
		return 0;
	return f->job->sink->message(f->job->sink, message, err);
}

static int feed(void *ctx, const struct store_chunk_row *chunk)
{
	struct filter *f = ctx;
	int from_initiator = chunk->sender == net_conn_row(f->conn)->initiator;
	/* pieces that were not cut lie behind a place where bytes are missing */
	if (chunk->counter == MESSAGE_NO_COUNTER && !f->gap_told) {
		f->gap_told = 1;
		int rc = net_conn_gap(f->conn, from_initiator, chunk->time_ns, 0, f->err);
		if (rc < 0)
			return rc;
	}
	return net_conn_feed(f->conn, from_initiator, chunk->time_ns, chunk->raw, chunk->raw_len,
			     f->err);
}

static int one(struct net_reprocess *job, struct store_reader *reader, const struct sealed *row,
	       struct err *err)
{
	struct filter filter = {
		.sink = { on_connection, on_chunk, on_message }, .job = job, .quiet = 1, .err = err
	};
	/* numbers of earlier runs lie below the first of this one: the difference wraps, and wraps back in the store */
	struct net_conn_opt opt = { .id = row->id - job->first_connection,
				    .started_ns = row->started_ns,
				    .role = row->initiator == MESSAGE_LOCAL ? NET_ROLE_INITIATOR
									    : NET_ROLE_RESPONDER,
				    .remote_addr = row->remote_addr,
				    .keyring = job->keyring,
				    .sink = &filter.sink,
				    .difficulty = job->difficulty,
				    .seek_budget = NET_REPLAY_SEEK_BUDGET };
	int live = job->is_live && job->is_live(job->ctx, row->id);
	filter.conn = net_conn_new(&opt, err);
	if (!filter.conn)
		return err->code;
	int rc = store_connection_chunks(reader, row->id, feed, &filter, err);
	if (rc < 0) {
		net_conn_free(filter.conn);
		return rc;
	}
	job->connections++;
	filter.quiet = 0;
	if (live)
		return job->take_over(job->ctx, row->id, filter.conn, err);
	return net_conn_close(filter.conn, row->closed_ns,
			      row->closed ? row->close_reason : "the recorder ended", err);
}

int net_reprocess_run(struct net_reprocess *job, struct store_reader *reader, struct err *err)
{
	struct sealed_list list = { 0 };
	int rc = store_sealed_connections(reader, note_row, &list, err);
	for (size_t i = 0; rc >= 0 && i < list.count; i++) {
		rc = key_fits(job, reader, list.rows[i].id, err);
		if (rc > 0)
			rc = one(job, reader, &list.rows[i], err);
	}
	free(list.rows);
	return rc < 0 ? rc : 0;
}

/* ---- `byteledger net reprocess` ------------------------------------------------------------------------------------ */

static int unseal(void *ctx, const struct message_chunk *chunk, struct err *err)
{
	return store_unseal_chunk(ctx, chunk, err);
}

static int whole_store(const struct net_job *options, struct net_reprocess *job, struct err *err)
{
	struct store *store = NULL;
	struct store_reader *reader = NULL;
	int rc = store_open(options->store_path, NULL, &store, err);
	if (rc < 0)
		return rc;
	job->first_connection = store_first_connection(store);
	job->sink = store_message_sink(store);
	job->unseal = unseal;
	job->ctx = store;
	rc = store_reader_open(options->store_path, &reader, err);
	if (rc == 0)
		rc = net_reprocess_run(job, reader, err);
	store_reader_close(reader);
	struct err ignored = { 0 };
	int closed = store_close(store, rc < 0 ? &ignored : err);
	return rc < 0 ? rc : closed;
}

int net_reprocess(const struct net_job *options, struct err *err)
{
	struct net_identity *identities[NET_IDENTITIES_MAX];
	struct net_keyring keyring = { identities, 0 };
	struct net_reprocess job = { .keyring = &keyring, .difficulty = NET_POW_DIFFICULTY };
	int rc = net_seal_init(err);
	while (rc == 0 && keyring.count < options->identity_count) {
		struct net_identity *identity =
			net_identity_load(options->identity_paths[keyring.count], err);
		if (identity)
			identities[keyring.count++] = identity;
		else
			rc = err->code;
	}
	if (rc == 0)
		rc = whole_store(options, &job, err);
	while (keyring.count)
		net_identity_free(identities[--keyring.count]);
	if (rc == 0)
		printf("{\"connections\":%llu,\"chunks\":%llu}\n",
		       (unsigned long long)job.connections, (unsigned long long)job.chunks);
	return rc;
}
