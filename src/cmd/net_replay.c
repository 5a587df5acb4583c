/* SPDX-License-Identifier: Apache-2.0 */
/* net_replay.c - `byteledger net replay`: decode a capture without a kernel. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/intern.h"
#include "base/jsonw.h"
#include "cmd/net_job.h"
#include "net/conn.h"
#include "node/limits.h"
#include "node/writer.h"
#include "out/messages.h"
#include "source/capture.h"
#include "store/store.h"

#define SYNC_MS \
	3600000 /* a queue of 32 MiB is stored in a second; a failing store is told sooner */

struct open_conn {
	struct open_conn *next; /* in its bucket */
	uint64_t conn;          /* the capture's number */
	struct net_conn *net;
};

struct replay {
	struct capture_sink capture;
	struct message_sink messages;
	const struct net_job *job;
	struct node_writer *writer; /* the store, on its own thread; NULL = none */
	struct message_sink *stored;
	atomic_int store_failed;
	struct net_identity *identities[NET_IDENTITIES_MAX];
	struct net_keyring keyring;
	struct net_budget budget;
	struct net_seek_limit seek;
	uint64_t seek_bursts;
	struct open_conn *open[16384]; /* by a hash of the capture's number */
	uint64_t conn_ids, message_ids;
	int local_seen; /* a connection has the address of --local */
	struct jsonw json;
	/* rows of closed connections, written as text at once: the list is printed behind the messages */
	FILE *rows;
	char *rows_text;
	size_t rows_len;
	struct jsonw rows_json;
};

/* ---- what was decoded ---------------------------------------------------------------------------------------- */

static struct replay *of_messages(struct message_sink *sink)
{
	return (struct replay *)((char *)sink - offsetof(struct replay, messages));
}

/* On the store's thread. */
static void on_trouble(void *ctx, const char *text)
{
	(void)text;
	atomic_store(&((struct replay *)ctx)->store_failed, 1);
}

/* A replay has its input still: it ends where the live recorder would wait and count. */
static int store_works(struct replay *replay, struct err *err)
{
	struct node_writer_stats stats;
	if (!atomic_load(&replay->store_failed))
		return 0;
	node_writer_stats(replay->writer, &stats);
	if (!stats.trouble[0]) {
		atomic_store(&replay->store_failed, 0);
		return 0; /* it passed, nothing was lost */
	}
	return err_set(err, -EIO, "cannot fill store '%s': %s", replay->job->store_path,
		       stats.trouble);
}

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct replay *replay = of_messages(sink);
	int rc = replay->stored ? replay->stored->connection(replay->stored, row, err) : 0;
	if (rc < 0 || !row->close_reason)
		return rc;
	if (replay->job->format == NET_FORMAT_TABLE)
		out_connection_table(replay->rows, row);
	else
		out_connection_json(&replay->rows_json, row);
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct replay *replay = of_messages(sink);
	return replay->stored ? replay->stored->chunk(replay->stored, chunk, err) : 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct replay *replay = of_messages(sink);
	char sha256[65];
	uint64_t id = replay->message_ids++;
	int rc = replay->stored ? replay->stored->message(replay->stored, message, err) : 0;
	if (rc == 0)
		rc = store_works(replay, err);
	if (rc < 0)
		return rc;
	if (replay->job->format == NET_FORMAT_TABLE) {
		out_message_table_row(stdout, message, id);
	} else {
		net_sha256_hex(message->plain, message->plain_len, sha256);
		out_message_json(&replay->json, message, id, sha256);
		jsonw_line(&replay->json);
	}
	return ferror(stdout) ? err_set(err, -EIO, "cannot write the messages") : 0;
}

/* ---- what the capture says ------------------------------------------------------------------------------------ */

/* 1 if "ip:port" @text is the address that the user named, with or without a port. */
static int is_local(const struct replay *replay, const char *text)
{
	const struct net_addr *local = &replay->job->local_addr;
	struct net_addr addr;
	return text && net_addr_parse(text, &addr) == 0 &&
	       memcmp(addr.ip, local->ip, sizeof(addr.ip)) == 0 &&
	       (!local->port || addr.port == local->port);
}

/* Where the connection's link is, or would be. */
static struct open_conn **find_conn(struct replay *replay, uint64_t conn)
{
	struct open_conn **at =
		&replay->open[hash_u64(conn, 0, hash_seed()) % ARRAY_LEN(replay->open)];
	while (*at && (*at)->conn != conn)
		at = &(*at)->next;
	return at;
}

static int on_open(struct capture_sink *sink, const struct capture_conn *info, struct err *err)
{
	struct replay *replay = (struct replay *)sink;
	enum net_role role = replay->job->role;
	if (replay->job->local) {
		if (is_local(replay, info->initiator_addr))
			role = NET_ROLE_INITIATOR;
		else if (is_local(replay, info->responder_addr))
			role = NET_ROLE_RESPONDER;
		replay->local_seen |= role != replay->job->role;
	}
	struct net_conn_opt opt = { .id = replay->conn_ids++,
				    .started_ns = info->time_ns,
				    .role = role,
				    .remote_addr = role == NET_ROLE_RESPONDER
							   ? info->initiator_addr
							   : info->responder_addr,
				    .local_addr = role == NET_ROLE_RESPONDER ? info->responder_addr
									     : info->initiator_addr,
				    .keyring = &replay->keyring,
				    .budget = &replay->budget,
				    .sink = &replay->messages,
				    .difficulty = NODE_POW_DIFFICULTY,
				    .seek = &replay->seek,
				    .attached_late = info->attached_late };
	struct open_conn **at = find_conn(replay, info->conn);
	struct open_conn *open = calloc(1, sizeof(*open));
	if (!open)
		return err_set(err, -ENOMEM, "cannot allocate a connection");
	open->net = net_conn_new(&opt, err);
	if (!open->net) {
		free(open);
		return err->code;
	}
	open->conn = info->conn;
	open->next = *at;
	*at = open;
	return 0;
}

static int on_data(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		   const void *bytes, size_t len, struct err *err)
{
	struct open_conn *open = *find_conn((struct replay *)sink, conn);
	return open ? net_conn_feed(open->net, from_initiator, time_ns, bytes, len, err) : 0;
}

static int on_gap(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	struct open_conn *open = *find_conn((struct replay *)sink, conn);
	return open ? net_conn_gap(open->net, from_initiator, time_ns, lost, err) : 0;
}

static int on_close(struct capture_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct replay *replay = (struct replay *)sink;
	struct open_conn **at = find_conn(replay, conn), *open = *at;
	if (!open)
		return 0;
	struct net_conn *net = open->net;
	*at = open->next;
	free(open);
	return net_conn_close(net, time_ns, reason, err);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int start_store(struct replay *replay, struct err *err)
{
	struct store *store;
	int rc = store_open(replay->job->store_path, NULL, &store, err);
	if (rc < 0)
		return rc;
	rc = node_writer_new(store, "replay", on_trouble, replay, &replay->writer, err);
	if (rc < 0) {
		struct err ignored = { 0 };
		store_close(store, &ignored);
		return rc;
	}
	replay->stored = node_writer_sink(replay->writer);
	return 0;
}

/* All that was decoded is in the store, or it is said that it is not. */
static int finish_store(struct replay *replay, struct err *err)
{
	struct node_writer_stats done = { 0 };
	int rc = node_writer_close(replay->writer, &done, err);
	replay->writer = NULL;
	if (rc == 0 && done.rows_lost)
		rc = err_set(err, -EIO, "cannot fill store '%s': %llu rows could not be stored",
			     replay->job->store_path, (unsigned long long)done.rows_lost);
	return rc;
}

static int run(struct replay *replay, struct err *err)
{
	int rc = net_seal_init(err);
	for (size_t i = 0; rc >= 0 && i < replay->job->identity_count; i++) {
		replay->identities[i] = net_identity_load(replay->job->identity_paths[i], err);
		if (!replay->identities[i])
			return err->code;
		replay->keyring.count++;
	}
	if (rc < 0)
		return rc;
	replay->keyring.identities = replay->identities;
	if (replay->job->store_path && (rc = start_store(replay, err)) < 0)
		return rc;
	replay->rows = open_memstream(&replay->rows_text, &replay->rows_len);
	if (!replay->rows)
		return err_set(err, -errno, "cannot allocate the summary");
	jsonw_init(&replay->json, stdout);
	jsonw_init(&replay->rows_json, replay->rows);
	if (replay->job->format == NET_FORMAT_JSON) {
		jsonw_object(&replay->json, NULL);
		jsonw_array(&replay->json, "messages");
	} else if (replay->job->format == NET_FORMAT_TABLE) {
		out_message_table_head(stdout);
	}
	if (replay->job->format != NET_FORMAT_TABLE) {
		jsonw_object(&replay->rows_json, NULL);
		jsonw_array(&replay->rows_json, "connections");
	}
	struct capture_stats stats = { 0 };
	rc = capture_read(replay->job->input, &replay->capture, &stats, err);
	if (rc < 0)
		return rc;
	rc = finish_store(replay, err);
	if (rc < 0)
		return rc;
	if (replay->job->format != NET_FORMAT_TABLE) {
		jsonw_array_end(&replay->rows_json);
		jsonw_u64(&replay->rows_json, "records", stats.records);
		jsonw_u64(&replay->rows_json, "payload_bytes", stats.payload_bytes);
		jsonw_u64(&replay->rows_json, "not_tcp", stats.not_tcp);
		jsonw_u64(&replay->rows_json, "damaged", stats.damaged);
		jsonw_u64(&replay->rows_json, "fragments", stats.fragments);
		jsonw_object_end(&replay->rows_json);
	}
	if (fflush(replay->rows) != 0)
		return err_set(err, -ENOMEM, "cannot allocate the summary");
	if (replay->job->format == NET_FORMAT_TABLE) {
		fwrite(replay->rows_text, 1, replay->rows_len, stdout);
	} else {
		if (replay->job->format == NET_FORMAT_JSON)
			jsonw_array_end(&replay->json);
		else
			jsonw_object(&replay->json, NULL);
		jsonw_raw(&replay->json, "summary", replay->rows_text, replay->rows_len);
		jsonw_object_end(&replay->json);
		jsonw_line(&replay->json);
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_set(err, -EIO, "cannot write the messages");
	if (replay->job->local && !replay->local_seen)
		fprintf(stderr,
			"byteledger: no connection of '%s' has the address '%s' of --local: "
			"it was passed over\n",
			replay->job->input, replay->job->local);
	if (stats.damaged)
		fprintf(stderr,
			"byteledger: %llu damaged or cut-off records of '%s' were passed over\n",
			(unsigned long long)stats.damaged, replay->job->input);
	return 0;
}

static void release(struct replay *replay)
{
	for (size_t i = 0; i < ARRAY_LEN(replay->open); i++) {
		while (replay->open[i]) {
			struct open_conn *open = replay->open[i];
			replay->open[i] = open->next;
			net_conn_free(open->net);
			free(open);
		}
	}
	for (size_t i = 0; i < replay->keyring.count; i++)
		net_identity_free(replay->identities[i]);
	net_budget_fini(&replay->budget);
	struct err ignored = { 0 };
	node_writer_close(replay->writer, NULL, &ignored);
	if (replay->rows)
		fclose(replay->rows);
	free(replay->rows_text);
}

int net_replay(const struct net_job *job, struct err *err)
{
	struct replay replay = { .capture = { on_open, on_data, on_gap, on_close },
				 .messages = { on_connection, on_chunk, on_message },
				 .job = job,
				 .seek = NODE_REPLAY_SEEK(&replay.seek_bursts),
				 .seek_bursts = NODE_REPLAY_BURSTS };
	int rc = run(&replay, err);
	release(&replay);
	return rc;
}
