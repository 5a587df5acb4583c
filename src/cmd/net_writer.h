/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_writer.h - the thread that stores a node's rows, behind bounded queues: decoding and receiving never wait for a disk
 * longer than the disk makes progress. While the store cannot be written (full disk, locked database) rows wait in the
 * queue; when that is full they are dropped and counted, and decoding stays in step.
 */
#ifndef CMD_NET_WRITER_H
#define CMD_NET_WRITER_H

#include <stdint.h>

#include "base/err.h"
#include "model/message.h"
#include "net/syslog.h"
#include "store/store.h"

struct net_writer;

struct net_writer_stats {
	uint64_t queue_bytes, queue_bytes_max, queue_high_water, queue_delay_ns, flushes;
	uint64_t failures, rows_lost;
	char trouble[256]; /* "" = the store can be written */
};

/** Told when the store fails and when it works again; on the writer's thread. */
typedef void (*net_writer_say)(void *ctx, const char *text);

/** net_writer_new() - takes @store over, starts the thread. */
int net_writer_new(struct store *store, const char *name, net_writer_say say, void *ctx,
		   struct net_writer **out, struct err *err);
/** net_writer_sink() - queues what it is given; its calls never fail. One thread. */
struct message_sink *net_writer_sink(struct net_writer *writer);
/** net_writer_unseal() - queue a chunk that is stored already, sealed (store_unseal_chunk()). The sink's thread. */
int net_writer_unseal(struct net_writer *writer, const struct message_chunk *chunk);
/** net_writer_log() - queue a log line; nonzero = no room (the caller counts it). Any thread. */
int net_writer_log(struct net_writer *writer, const struct log_line *line);
/** net_writer_sync() - wait until all that was queued before is committed; -EBUSY where that takes over @wait_ms. */
int net_writer_sync(struct net_writer *writer, int wait_ms, struct err *err);
/** net_writer_compact() - the same, then store_compact(). Any thread. */
int net_writer_compact(struct net_writer *writer, int wait_ms, struct err *err);
/** net_writer_stats() - any thread. */
void net_writer_stats(struct net_writer *writer, struct net_writer_stats *stats);
/**
 * net_writer_close() - store what is queued (a store that fails is tried for 5 s), close the store, release. @last, unless
 * NULL, is what the writer did in all.
 */
int net_writer_close(struct net_writer *writer, struct net_writer_stats *last, struct err *err);

#endif
