/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_node.h - one recorded node: its identities, its open connections, its counters. Everything but net_node_live() and
 * the log counters happens on the recorder's thread.
 */
#ifndef CMD_NET_NODE_H
#define CMD_NET_NODE_H

#include <pthread.h>
#include <stdint.h>

#include "api/net.h"
#include "cmd/net_config.h"
#include "cmd/net_writer.h"
#include "net/conn.h"
#include "source/netcap.h"

struct net_node_conn; /* one open connection */

/** A file that holds an identity, or will. */
struct net_identity_file {
	const char *path;
	int64_t mtime_ns;
	uint64_t inode, size;
	int known, complained;
};

#define NODE_PIDS_MAX 16

struct net_rec_node {
	struct message_sink sink; /* counts, then hands on to the writer */
	const struct net_config_node *config;
	struct net_writer *writer;
	uint64_t first_connection, connection_ids;
	net_writer_say say;
	void *say_ctx;
	struct net_identity_file files[NET_CONFIG_IDENTITIES_MAX];
	struct net_identity **identities; /* all that were ever loaded */
	struct net_keyring keyring;
	struct net_budget budget;
	size_t identity_cap;
	int sealed_seen;           /* a new identity may open what is stored */
	int reprocess;             /* it came */
	struct net_reprocess *job; /* under way, of what @job_reader reads */
	struct store_reader *job_reader;
	struct net_node_conn *conns;
	struct net_node_conn *feeding;     /* the one that bytes came for just now */
	struct net_node_conn *closing;     /* the one whose last row is being reported */
	struct net_node_conn *table[4096]; /* by the capture's number */
	pthread_mutex_t lock; /* of live, between this thread and those of the server */
	struct api_net_live live;
};

int net_node_init(struct net_rec_node *node, const struct net_config_node *config,
		  struct store *store, net_writer_say say, void *ctx, struct err *err);
/** net_node_identities() - look whether a file is new or has changed; cheap, once a second and at each new connection. */
void net_node_identities(struct net_rec_node *node);
/**
 * net_node_reprocess() - decode some of what is stored sealed, if an identity came: a few milliseconds' worth, for the
 * capture goes on meanwhile. Call it again while it returns 1. @may_begin: else only what is under way goes on.
 */
int net_node_reprocess(struct net_rec_node *node, int may_begin);
/* What the capture says; @conn is the capture's number. */
int net_node_open(struct net_rec_node *node, const struct netcap_conn *conn, struct err *err);
int net_node_data(struct net_rec_node *node, uint64_t conn, int outgoing, uint64_t time_ns,
		  const void *bytes, size_t len, struct err *err);
int net_node_gap(struct net_rec_node *node, uint64_t conn, int outgoing, uint64_t time_ns,
		 uint64_t lost, struct err *err);
int net_node_close(struct net_rec_node *node, uint64_t conn, uint64_t time_ns, const char *reason,
		   struct err *err);
int net_node_process(struct net_rec_node *node, enum netcap_process what, uint32_t pid,
		     uint64_t time_ns);
/** net_node_report() - store the rows of open connections as they are now. */
void net_node_report(struct net_rec_node *node);
/** net_node_has() - is this connection of the capture one of this node's. */
int net_node_has(const struct net_rec_node *node, uint64_t conn);
/** net_node_live() - counters; any thread. */
void net_node_live(struct net_rec_node *node, struct api_net_live *live);
/** net_node_fini() - close what is open, store everything, wipe the keys. @err: the store could not be written to its end. */
int net_node_fini(struct net_rec_node *node, struct err *err);

#endif
