/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nodes.h - the network recorder's life: the nodes of a configuration, captured, decoded and
 * stored, log lines beside them.
 *
 * In order of use: nodes_open(), nodes_run() until nodes_stop(), nodes_drain(), nodes_close().
 * While it runs any thread may ask for counters and compaction; servers that do so are started
 * behind nodes_open() and stopped before nodes_close().
 *
 * Threads: the caller's drains the capture and decodes; "logs" receives log lines; one a node
 * stores rows (writer.h).
 */
#ifndef NODE_NODES_H
#define NODE_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/message.h"
#include "node/counters.h"

struct buf;
struct nodes;
struct nodes_config;

/** Told what is worth knowing and no failure: one line, on any of the threads. */
typedef void (*nodes_say)(void *ctx, const char *text);

/**
 * nodes_open() - attach the capture, bind the log sockets, open the stores, read the identities.
 * @config is lent until nodes_close(). Privileges that are not needed any more are dropped from the
 * calling thread before others are started. Return: 0, or negative errno with @err: nothing is left
 * open.
 */
int nodes_open(const struct nodes_config *config, nodes_say say, void *ctx, struct nodes **nodes,
	       struct err *err);
/** nodes_captures() - 1: connections are recorded; 0: log lines only. */
int nodes_captures(const struct nodes *nodes);
/**
 * nodes_run() - record until nodes_stop(); looks at the clock four times a second. 0, or negative
 * errno with @err.
 */
int nodes_run(struct nodes *nodes, struct err *err);
/** nodes_stop() - let nodes_run() end within a quarter of a second; signal handlers too. */
void nodes_stop(struct nodes *nodes);
/**
 * nodes_drain() - nothing more is captured; what was is decoded (for 5 s at most) and handed to the
 * writers.
 */
int nodes_drain(struct nodes *nodes, struct err *err);
/**
 * nodes_close() - store what is queued and release. NULL is fine. 0, or the first failure with
 * @err.
 */
int nodes_close(struct nodes *nodes, struct err *err);

/** nodes_counts() - of node @index of the configuration; any thread. */
void nodes_counts(struct nodes *nodes, size_t index, struct node_counts *counts);
/** nodes_capture() - of all of them; a quarter of a second old at most. Any thread. */
void nodes_capture(struct nodes *nodes, struct node_capture *capture);
/**
 * nodes_compact() - give the room of deleted rows back; waits for the writer, two minutes at most.
 * Any thread.
 */
int nodes_compact(struct nodes *nodes, size_t index, struct err *err);

/**
 * nodes_decode() - append the JSON of a whole message to @json; -EBADMSG with the reason in @error.
 * @plain as in struct message.
 */
int nodes_decode(enum message_type type, unsigned tag, const uint8_t *plain, size_t len,
		 struct buf *json, char error[128]);

#endif
