/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - a capture decoded without a kernel, and kept in a store where one is named. In order
 * of use: node_replay_new() reads the identities and opens the store, node_replay_run() reads the
 * capture to its end, node_replay_free(). One thread.
 */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include <stddef.h>

#include "base/err.h"
#include "model/message.h"
#include "net/conn.h"
#include "net/tcp.h"
#include "source/capture.h"

struct node_replay;

/** struct node_replay_opt - texts and @sink are lent as long as the replay. */
struct node_replay_opt {
	/* a pcap, pcapng or .jsonl file */
	const char *input;
	const char *const *identity_paths;
	size_t identity_count;
	/* ADDR or ADDR:PORT: which side is ours; NULL = not given */
	const char *local;
	/* the same, read; port 0 = any */
	struct net_addr local_addr;
	enum net_role role;
	/* NULL: none */
	const char *store_path;
	/* receives all that is decoded, behind the store */
	struct message_sink *sink;
};

/**
 * node_replay_new() - NULL with @err: an identity that cannot be read, a store that cannot be
 * opened.
 */
struct node_replay *node_replay_new(const struct node_replay_opt *opt, struct err *err);
/**
 * node_replay_run() - returns when all is in the store; a store that fails ends it: the input is
 * there still. 0 or negative errno.
 */
int node_replay_run(struct node_replay *replay, struct capture_stats *stats, struct err *err);
/** node_replay_local_seen() - 1: a connection had the address of opt->local. */
int node_replay_local_seen(const struct node_replay *replay);
void node_replay_free(struct node_replay *replay);
void node_replay_freep(struct node_replay **replay);

#endif
