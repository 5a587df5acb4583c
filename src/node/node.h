/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - one recorded node: its identities, its open connections, its counters. Everything but
 * node_live() and the log counters happens on the recorder's thread.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <pthread.h>
#include <stdint.h>

#include "net/conn.h"
#include "node/config.h"
#include "node/counters.h"
#include "node/writer.h"
#include "source/netcap.h"

struct node_conn; /* one open connection */

/** A file that holds an identity, or will. */
struct node_identity_file {
	const char *path;
	int64_t mtime_ns;
	uint64_t inode, size;
	int known, complained;
};

struct node {
	/* counts, then hands on to the writer */
	struct message_sink sink;
	const struct node_config *config;
	struct node_writer *writer;
	uint64_t first_connection, connection_ids;
	node_writer_say say;
	void *say_ctx;
	struct node_identity_file files[NODE_IDENTITIES_MAX];
	/* all that were ever loaded */
	struct net_identity **identities;
	struct net_keyring keyring;
	/* the caller may set one that nodes share */
	struct net_budget *budget, own_budget;
	/* the caller may set its turn */
	struct net_seek_limit seek;
	size_t identity_cap;
	/* a new identity may open what is stored */
	int sealed_seen;
	/* it came */
	int reprocess;
	/* under way, of what @job_reader reads */
	struct node_reprocess *job;
	struct store_reader *job_reader;
	struct node_conn *conns;
	/* the one that bytes came for just now */
	struct node_conn *feeding;
	/* those that search, or have not seen all that came */
	struct node_conn *queue, **queue_end;
	/* what came for them meanwhile */
	size_t queue_bytes;
	/* the one whose last row is being reported */
	struct node_conn *closing;
	/* by the capture's number */
	struct node_conn *table[4096];
	/* of live, between this thread and those of the server */
	pthread_mutex_t lock;
	struct node_counts live;
};

int node_init(struct node *node, const struct node_config *config, struct store *store,
	      node_writer_say say, void *ctx, struct err *err);
/**
 * node_identities() - look whether a file is new or has changed; cheap, once a second and at each
 * new connection.
 */
void node_identities(struct node *node);
/**
 * node_reprocess() - decode some of what is stored sealed, if an identity came: a few milliseconds'
 * worth, for the capture goes on meanwhile. Call it again while it returns 1. @may_begin: else only
 * what is under way goes on.
 */
int node_reprocess(struct node *node, int may_begin);
/* What the capture says; @conn is the capture's number. */
int node_open(struct node *node, const struct netcap_conn *conn, struct err *err);
int node_data(struct node *node, uint64_t conn, int outgoing, uint64_t time_ns, const void *bytes,
	      size_t len, struct err *err);
int node_gap(struct node *node, uint64_t conn, int outgoing, uint64_t time_ns, uint64_t lost,
	     struct err *err);
int node_close(struct node *node, uint64_t conn, uint64_t time_ns, const char *reason,
	       struct err *err);
/**
 * node_work() - connections that search for their way back (net/conn.h) take turns: one slice for
 * the next of them. What comes for them meanwhile waits, NODE_INBOX_MAX bytes each and
 * NODE_INBOXES_MAX in all; then the search is given up. Return: 1 = there are more, 0 = none
 * searches, negative errno.
 */
int node_work(struct node *node, struct err *err);
#define NODE_INBOX_MAX (4u << 20)
#define NODE_INBOXES_MAX (64u << 20)
int node_process(struct node *node, enum netcap_process what, uint32_t pid, uint64_t time_ns);
/** node_report() - store the rows of open connections as they are now. */
void node_report(struct node *node);
/** node_has() - is this connection of the capture one of this node's. */
int node_has(const struct node *node, uint64_t conn);
/** node_live() - counters; any thread. */
void node_live(struct node *node, struct node_counts *live);
/**
 * node_fini() - close what is open, store everything, wipe the keys. @err: the store could not be
 * written to its end.
 */
int node_fini(struct node *node, struct err *err);

#endif
