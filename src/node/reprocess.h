/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reprocess.h - decode what a store keeps sealed, once the identity is known; bit by bit, so that a
 * recorder can go on.
 */
#ifndef NODE_REPROCESS_H
#define NODE_REPROCESS_H

#include <stdint.h>

#include "net/conn.h"
#include "store/store.h"

struct node_reprocess_list; /* the connections to be looked at */
struct node_reprocess_work; /* the one at hand */

/**
 * struct node_reprocess - the first part is filled by the caller. Only what is new goes to @sink
 * and @unseal: chunks that are stored sealed, and the messages that need one of them.
 */
struct node_reprocess {
	const struct net_keyring *keyring;
	/* number in the store of the sink's connection 0 */
	uint64_t first_connection;
	double difficulty;
	/* of the connections it opens, as in net_conn_opt; outlives what is taken over */
	struct net_budget *budget;
	/* the same; NULL for a recorder that must not stop */
	const struct net_seek_limit *seek;
	struct message_sink *sink;
	int (*unseal)(void *ctx, const struct message_chunk *chunk, struct err *err);
	/*
	 * Of a connection that is being recorded still: the new one takes its place instead of
	 * being closed. May be NULL.
	 */
	int (*take_over)(void *ctx, uint64_t connection, struct net_conn *conn, struct err *err);
	int (*is_live)(void *ctx, uint64_t connection);
	/* 0 once all that was recorded until now can be read, -EBUSY = ask again. NULL = it can. */
	int (*sync)(void *ctx, struct err *err);
	void *ctx;
	/* counted: those that could be opened */
	uint64_t connections, chunks;
	/* private */
	struct node_reprocess_list *list;
	struct node_reprocess_work *work;
};

/**
 * node_reprocess_begin() - look which connections are not decrypted; node_reprocess_end() whatever
 * it returns.
 */
int node_reprocess_begin(struct node_reprocess *job, struct store_reader *reader, struct err *err);
/** node_reprocess_step() - decode about @bytes of them; 1 = go on, 0 = all is done. */
int node_reprocess_step(struct node_reprocess *job, struct store_reader *reader, size_t bytes,
			struct err *err);
/** node_reprocess_end() - release; what was begun and not finished is found by the next one. */
void node_reprocess_end(struct node_reprocess *job);

/**
 * node_reprocess_store() - all of the store @path with these identities, when nobody records into
 * it. How much could be opened is counted. 0 or negative errno.
 */
int node_reprocess_store(const char *path, const char *const *identity_paths, size_t identity_count,
			 uint64_t *connections, uint64_t *chunks, struct err *err);

#endif
