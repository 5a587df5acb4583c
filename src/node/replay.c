/* SPDX-License-Identifier: Apache-2.0 */
#include "node/replay.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/intern.h"
#include "node/identities.h"
#include "node/limits.h"
#include "node/writer.h"

struct open_conn {
	/* in its bucket */
	struct open_conn *next;
	/* the capture's number */
	uint64_t conn;
	struct net_conn *net;
};

struct node_replay {
	struct capture_sink capture;
	struct message_sink messages;
	struct node_replay_opt opt;
	/* the store, on its own thread; NULL = none */
	struct node_writer *writer;
	struct message_sink *stored;
	atomic_int store_failed;
	struct node_identities identities;
	struct net_budget budget;
	struct net_seek_limit seek;
	uint64_t seek_bursts;
	/* by a hash of the capture's number */
	struct open_conn *open[16384];
	uint64_t conn_ids;
	/* a connection has the address of --local */
	int local_seen;
};

/* ---- what was decoded ------------------------------------------------------------------------ */

static struct node_replay *of_messages(struct message_sink *sink)
{
	return (struct node_replay *)((char *)sink - offsetof(struct node_replay, messages));
}

/* On the store's thread. */
static void on_trouble(void *ctx, const char *text)
{
	(void)text;
	atomic_store(&((struct node_replay *)ctx)->store_failed, 1);
}

/* A replay has its input still: it ends where the live recorder would wait and count. */
static int store_works(struct node_replay *replay, struct err *err)
{
	struct node_writer_stats stats;
	if (!atomic_load(&replay->store_failed))
		return 0;
	node_writer_stats(replay->writer, &stats);
	if (!stats.trouble[0]) {
		atomic_store(&replay->store_failed, 0);
		return 0; /* it passed, nothing was lost */
	}
	return err_set(err, -EIO, "cannot fill store '%s': %s", replay->opt.store_path,
		       stats.trouble);
}

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct node_replay *replay = of_messages(sink);
	int rc = replay->stored ? replay->stored->connection(replay->stored, row, err) : 0;
	return rc < 0 ? rc : replay->opt.sink->connection(replay->opt.sink, row, err);
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct node_replay *replay = of_messages(sink);
	int rc = replay->stored ? replay->stored->chunk(replay->stored, chunk, err) : 0;
	return rc < 0 ? rc : replay->opt.sink->chunk(replay->opt.sink, chunk, err);
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct node_replay *replay = of_messages(sink);
	int rc = replay->stored ? replay->stored->message(replay->stored, message, err) : 0;
	if (rc == 0)
		rc = store_works(replay, err);
	return rc < 0 ? rc : replay->opt.sink->message(replay->opt.sink, message, err);
}

/* ---- what the capture says ------------------------------------------------------------------- */

/* 1 if "ip:port" @text is the address that the user named, with or without a port. */
static int is_local(const struct node_replay *replay, const char *text)
{
	const struct net_addr *local = &replay->opt.local_addr;
	struct net_addr addr;
	return text && net_addr_parse(text, &addr) == 0 &&
	       memcmp(addr.ip, local->ip, sizeof(addr.ip)) == 0 &&
	       (!local->port || addr.port == local->port);
}

/* Where the connection's link is, or would be. */
static struct open_conn **find_conn(struct node_replay *replay, uint64_t conn)
{
	struct open_conn **at =
		&replay->open[hash_u64(conn, 0, hash_seed()) % ARRAY_LEN(replay->open)];
	while (*at && (*at)->conn != conn)
		at = &(*at)->next;
	return at;
}

static int on_open(struct capture_sink *sink, const struct capture_conn *info, struct err *err)
{
	struct node_replay *replay = (struct node_replay *)sink;
	enum net_role role = replay->opt.role;
	if (replay->opt.local) {
		if (is_local(replay, info->initiator_addr))
			role = NET_ROLE_INITIATOR;
		else if (is_local(replay, info->responder_addr))
			role = NET_ROLE_RESPONDER;
		replay->local_seen |= role != replay->opt.role;
	}
	struct net_conn_opt opt = { .id = replay->conn_ids++,
				    .started_ns = info->time_ns,
				    .role = role,
				    .remote_addr = role == NET_ROLE_RESPONDER
							   ? info->initiator_addr
							   : info->responder_addr,
				    .local_addr = role == NET_ROLE_RESPONDER ? info->responder_addr
									     : info->initiator_addr,
				    .keyring = &replay->identities.keyring,
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
	struct open_conn *open = *find_conn((struct node_replay *)sink, conn);
	return open ? net_conn_feed(open->net, from_initiator, time_ns, bytes, len, err) : 0;
}

static int on_gap(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	struct open_conn *open = *find_conn((struct node_replay *)sink, conn);
	return open ? net_conn_gap(open->net, from_initiator, time_ns, lost, err) : 0;
}

static int on_close(struct capture_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct node_replay *replay = (struct node_replay *)sink;
	struct open_conn **at = find_conn(replay, conn), *open = *at;
	if (!open)
		return 0;
	struct net_conn *net = open->net;
	*at = open->next;
	free(open);
	return net_conn_close(net, time_ns, reason, err);
}

/* ---- its life -------------------------------------------------------------------------------- */

static int start_store(struct node_replay *replay, struct err *err)
{
	struct store *store;
	int rc = store_open(replay->opt.store_path, NULL, &store, err);
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
static int finish_store(struct node_replay *replay, struct err *err)
{
	struct node_writer_stats done = { 0 };
	int rc = node_writer_close(replay->writer, &done, err);
	replay->writer = NULL;
	if (rc == 0 && done.rows_lost)
		rc = err_set(err, -EIO, "cannot fill store '%s': %llu rows could not be stored",
			     replay->opt.store_path, (unsigned long long)done.rows_lost);
	return rc;
}

struct node_replay *node_replay_new(const struct node_replay_opt *opt, struct err *err)
{
	struct node_replay *replay = calloc(1, sizeof(*replay));
	if (!replay) {
		err_set(err, -ENOMEM, "cannot replay '%s'", opt->input);
		return NULL;
	}
	replay->capture = (struct capture_sink){ on_open, on_data, on_gap, on_close };
	replay->messages = (struct message_sink){ on_connection, on_chunk, on_message };
	replay->opt = *opt;
	replay->seek = (struct net_seek_limit)NODE_REPLAY_SEEK(&replay->seek_bursts);
	replay->seek_bursts = NODE_REPLAY_BURSTS;
	int rc = node_identities_load(&replay->identities, opt->identity_paths, opt->identity_count,
				      err);
	if (rc == 0 && opt->store_path)
		rc = start_store(replay, err);
	if (rc == 0)
		return replay;
	node_replay_free(replay);
	return NULL;
}

int node_replay_run(struct node_replay *replay, struct capture_stats *stats, struct err *err)
{
	int rc = capture_read(replay->opt.input, &replay->capture, stats, err);
	return rc < 0 ? rc : finish_store(replay, err);
}

int node_replay_local_seen(const struct node_replay *replay)
{
	return replay->local_seen;
}

void node_replay_free(struct node_replay *replay)
{
	if (!replay)
		return;
	for (size_t i = 0; i < ARRAY_LEN(replay->open); i++) {
		while (replay->open[i]) {
			struct open_conn *open = replay->open[i];
			replay->open[i] = open->next;
			net_conn_free(open->net);
			free(open);
		}
	}
	node_identities_fini(&replay->identities);
	net_budget_fini(&replay->budget);
	struct err ignored = { 0 };
	node_writer_close(replay->writer, NULL, &ignored);
	free(replay);
}

void node_replay_freep(struct node_replay **replay)
{
	node_replay_free(*replay);
	*replay = NULL;
}
