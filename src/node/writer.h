/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the thread that stores a node's rows, behind bounded queues: decoding and receiving
 * never wait for a disk longer than the disk makes progress. While the store cannot be written
 * (full disk, locked database) rows wait in the queue; when that is full they are dropped and
 * counted, and decoding stays in step.
 */
#ifndef NODE_WRITER_H
#define NODE_WRITER_H

#include <stdint.h>

#include "base/err.h"
#include "model/message.h"
#include "net/syslog.h"
#include "store/store.h"

struct node_writer;

struct node_writer_stats {
	uint64_t queue_bytes, queue_bytes_max, queue_high_water, queue_delay_ns, flushes;
	uint64_t failures, rows_lost;
	/* "" = the store can be written */
	char trouble[256];
};

/** Told when the store fails and when it works again; on the writer's thread. */
typedef void (*node_writer_say)(void *ctx, const char *text);

/** node_writer_new() - takes @store over, starts the thread. */
int node_writer_new(struct store *store, const char *name, node_writer_say say, void *ctx,
		    struct node_writer **out, struct err *err);
/** node_writer_sink() - queues what it is given; its calls never fail. One thread. */
struct message_sink *node_writer_sink(struct node_writer *writer);
/**
 * node_writer_unseal() - queue a chunk that is stored already, sealed (store_unseal_chunk()). The
 * sink's thread.
 */
int node_writer_unseal(struct node_writer *writer, const struct message_chunk *chunk);
/** node_writer_log() - queue a log line; nonzero = no room (the caller counts it). Any thread. */
int node_writer_log(struct node_writer *writer, const struct log_line *line);
/**
 * node_writer_sync() - wait until all that was queued before is committed; -EBUSY where that takes
 * over @wait_ms.
 */
int node_writer_sync(struct node_writer *writer, int wait_ms, struct err *err);
/** node_writer_compact() - the same, then store_compact(). Any thread. */
int node_writer_compact(struct node_writer *writer, int wait_ms, struct err *err);
/** node_writer_stats() - any thread. */
void node_writer_stats(struct node_writer *writer, struct node_writer_stats *stats);
/**
 * node_writer_close() - store what is queued (a store that fails is tried for 5 s), close the
 * store, release. @last, unless NULL, is what the writer did in all.
 */
int node_writer_close(struct node_writer *writer, struct node_writer_stats *last, struct err *err);

#endif
