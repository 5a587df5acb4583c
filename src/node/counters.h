/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h - what the network recorder counts: one table that feeds /v3/status, /metrics and
 * docs/counters.md. A new counter is a row here; a test compares the page.
 */
#ifndef NODE_COUNTERS_H
#define NODE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "source/netcap.h"

#define NODE_TYPES 30 /* message types with a counter: 0 to 28 and unknown */

/*
 * What the recorder of a node counts, in the order of /v3/status: SHAPE(field, section, key,
 * family, is_gauge, unit, help, loss), see struct node_counter. A row here and the line that counts
 * are all that a counter needs.
 */
#define NODE_COUNTERS(ONE, TWO, NS, BY_TYPE)                                                      \
	ONE(identities, NULL, "identities", NULL, 1, "identities", "Identities that were loaded", \
	    NULL)                                                                                 \
	ONE(connections_open, "connections", "open", "byteledger_net_connections_open", 1,        \
	    "connections", "Connections that are recorded now", NULL)                             \
	ONE(connections_opened, "connections", "opened", "byteledger_net_connections_total", 0,   \
	    "connections", "Connections recorded", NULL)                                          \
	ONE(connections_late, "connections", "attached_late", NULL, 0, "connections",             \
	    "Of them open before the recorder was", "their beginning")                            \
	ONE(connections_sealed, "connections", "sealed",                                          \
	    "byteledger_net_connections_sealed_total", 0, "connections",                          \
	    "Connections with a chunk that was not decrypted when it came", NULL)                 \
	TWO(stream_bytes, NULL, "stream_bytes", "byteledger_net_stream_bytes_total", 0, "bytes",  \
	    "Bytes of recorded TCP streams", NULL)                                                \
	TWO(gaps, NULL, "gaps", "byteledger_net_gaps_total", 0, "gaps",                           \
	    "Places where bytes of a stream are missing", "bytes of a stream")                    \
	TWO(gap_bytes, NULL, "gap_bytes", "byteledger_net_gap_bytes_total", 0, "bytes",           \
	    "Bytes known to be missing", "bytes of a stream")                                     \
	TWO(resyncs, NULL, "resyncs", "byteledger_net_resyncs_total", 0, "times",                 \
	    "Times that the way back was found", NULL)                                            \
	TWO(chunks, NULL, "chunks", "byteledger_net_chunks_total", 0, "chunks", "Chunks cut",     \
	    NULL)                                                                                 \
	TWO(chunks_sealed, NULL, "chunks_not_decrypted", "byteledger_net_chunks_sealed_total", 0, \
	    "chunks", "Chunks that were not decrypted", "what they say, until an identity comes") \
	TWO(pieces, NULL, "raw_pieces", "byteledger_net_raw_pieces_total", 0, "pieces",           \
	    "Pieces that could not be cut into chunks", "messages in them")                       \
	ONE(reprocessed_chunks, NULL, "reprocessed_chunks", NULL, 0, "chunks",                    \
	    "Stored chunks that were decrypted later", NULL)                                      \
	BY_TYPE(messages, NULL, "messages", "byteledger_net_messages_total", 0, "messages",       \
		"Messages by type", NULL)                                                         \
	ONE(undecodable, NULL, "undecodable", "byteledger_net_undecodable_total", 0, "messages",  \
	    "Messages whose body was not understood", "their fields; the bytes are kept")         \
	ONE(logs_received, "logs", "received", "byteledger_log_lines_total", 0, "lines",          \
	    "Log datagrams and lines received", NULL)                                             \
	ONE(logs_bytes, "logs", "bytes", NULL, 0, "bytes", "Bytes of them", NULL)                 \
	ONE(logs_malformed, "logs", "malformed", "byteledger_log_malformed_total", 0, "lines",    \
	    "Of them not UTF-8", NULL)                                                            \
	ONE(logs_dropped, "logs", "dropped", "byteledger_log_dropped_total", 0, "lines",          \
	    "Of them lost for want of room", "log lines")                                         \
	ONE(logs_truncated, "logs", "truncated", "byteledger_log_truncated_total", 0, "lines",    \
	    "Of them cut at 64 KiB or by their sender", "their ends")                             \
	ONE(logs_refused_senders, "logs", "refused_senders",                                      \
	    "byteledger_log_refused_senders_total", 0, "senders",                                 \
	    "TCP senders closed for a new one beyond 32", "what they went on to send")            \
	ONE(queue_bytes, "writer", "queue_bytes", "byteledger_net_queue_bytes", 1, "bytes",       \
	    "Rows waiting to be stored, in bytes", NULL)                                          \
	ONE(queue_bytes_max, "writer", "queue_bytes_max", NULL, 1, "bytes", "Room for such rows", \
	    NULL)                                                                                 \
	ONE(queue_high_water, "writer", "queue_high_water", NULL, 1, "bytes",                     \
	    "Most that ever waited", NULL)                                                        \
	NS(queue_delay_ns, "writer", "delay_ns", "byteledger_net_queue_delay_seconds", 1,         \
	   "nanoseconds", "How long the rows stored last had waited", NULL)                       \
	ONE(flushes, "writer", "flushes", NULL, 0, "times", "Times that rows were committed",     \
	    NULL)                                                                                 \
	ONE(store_failures, "writer", "failures", "byteledger_net_store_failures_total", 0,       \
	    "times", "Writes to the store that failed", NULL)                                     \
	ONE(rows_lost, "writer", "rows_lost", "byteledger_net_rows_lost_total", 0, "rows",        \
	    "Rows that could not be stored", "chunks, messages, log lines")

#define NODE_COUNTS_ONE(field, ...) uint64_t field;
#define NODE_COUNTS_TWO(field, ...) uint64_t field[2]; /* [0] incoming, [1] outgoing */
#define NODE_COUNTS_BY_TYPE(field, ...) uint64_t field[NODE_TYPES];

/** What the recorder of a node has counted since it started. */
struct node_counts {
	/* node processes now */
	uint32_t pids[16];
	size_t pid_count;
	/* wall clock; 0 = no process yet */
	uint64_t attached_since_ns;
	/* why rows cannot be written just now; "" = they can */
	NODE_COUNTERS(NODE_COUNTS_ONE, NODE_COUNTS_TWO, NODE_COUNTS_ONE, NODE_COUNTS_BY_TYPE)
	char store_trouble[256];
};

/** What the capture has counted, all nodes together. */
struct node_capture {
	/* NULL = nothing is captured */
	const char *backend;
	/* why it is not the usual one; NULL = it is */
	const char *backend_reason;
	struct netcap_stats stats;
};

enum node_counter_shape {
	NODE_COUNTER_ONE,    /* a uint64_t */
	NODE_COUNTER_TWO,    /* [0] incoming, [1] outgoing */
	NODE_COUNTER_NS,     /* nanoseconds; Prometheus has seconds */
	NODE_COUNTER_BY_TYPE /* NODE_TYPES of them, node_type_word() names each */
};

struct node_counter {
	/* object of /v3/status that it stands in; NULL: the node's own, or the capture's */
	const char *section;
	/* in it; NULL: not shown there */
	const char *key;
	/* of Prometheus; NULL: not shown there */
	const char *family;
	/* it may fall */
	int is_gauge;
	/* "bytes", "chunks" ... for people */
	const char *unit;
	/* one line, without a full stop */
	const char *help;
	/* what is missing when it is not 0; NULL: nothing */
	const char *loss;
	/* in struct node_counts, or in struct netcap_stats */
	size_t offset;
	enum node_counter_shape shape;
};

/* In the order of /v3/status. */
extern const struct node_counter node_counters[];
extern const size_t node_counter_count;
extern const struct node_counter capture_counters[];
extern const size_t capture_counter_count;

/**
 * node_counter_at() - the first number of @counter in @counts, a struct node_counts or
 * netcap_stats.
 */
static inline const uint64_t *node_counter_at(const struct node_counter *counter,
					      const void *counts)
{
	return (const uint64_t *)(const void *)((const char *)counts + counter->offset);
}
/** node_type_word() - "connection_message" ... "unknown", for the index of a type. */
const char *node_type_word(unsigned index);

#endif
