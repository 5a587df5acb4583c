/* SPDX-License-Identifier: Apache-2.0 */
/* net_reprocess.h - decode what a store keeps sealed, once the identity is known. */
#ifndef CMD_NET_REPROCESS_H
#define CMD_NET_REPROCESS_H

#include <stdint.h>

#include "net/conn.h"
#include "store/store.h"

/** Where the results go: @sink takes rows and messages, @unseal chunks that came to light (they replace sealed ones). */
struct net_reprocess {
	const struct net_keyring *keyring;
	uint64_t first_connection; /* number in the store of the sink's connection 0 */
	double difficulty;
	struct message_sink *sink;
	int (*unseal)(void *ctx, const struct message_chunk *chunk, struct err *err);
	/* Asked for each connection: it is being recorded still, so the new one is taken over instead of closed. May be NULL. */
	int (*take_over)(void *ctx, uint64_t connection, struct net_conn *conn, struct err *err);
	int (*is_live)(void *ctx, uint64_t connection);
	void *ctx;
	uint64_t connections, chunks; /* counted: those that could be opened */
};

/** net_reprocess_run() - all sealed connections of the store that @reader reads whose key is in the ring. */
int net_reprocess_run(struct net_reprocess *job, struct store_reader *reader, struct err *err);

#endif
