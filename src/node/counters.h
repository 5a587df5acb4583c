/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h - what the network recorder counts: one table that feeds /v3/status, /metrics and docs/counters.md. A new counter
 * is a field and a row here; a test compares the page.
 */
#ifndef NODE_COUNTERS_H
#define NODE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "source/netcap.h"

#define NODE_TYPES 30 /* message types with a counter: 0 to 28 and unknown */

/** What the recorder of a node has counted since it started; [0] incoming, [1] outgoing. */
struct node_counts {
	uint32_t pids[16]; /* node processes now */
	size_t pid_count;
	uint64_t attached_since_ns; /* wall clock; 0 = no process yet */
	uint64_t connections_open, connections_opened, connections_late;
	uint64_t connections_sealed; /* with a chunk that was not decrypted when it came */
	uint64_t stream_bytes[2], gaps[2], gap_bytes[2], resyncs[2];
	uint64_t chunks[2], chunks_sealed[2], pieces[2]; /* cut, of them not decrypted; never cut */
	uint64_t messages[NODE_TYPES], undecodable;
	uint64_t identities, reprocessed_chunks;
	uint64_t logs_received, logs_malformed, logs_dropped, logs_bytes;
	uint64_t logs_truncated, logs_refused_senders;
	uint64_t queue_bytes, queue_bytes_max, queue_high_water, queue_delay_ns, flushes;
	uint64_t store_failures, rows_lost; /* of chunks, messages and log lines */
	char store_trouble[256];            /* why rows cannot be written just now; "" = they can */
};

/** What the capture has counted, all nodes together. */
struct node_capture {
	const char *backend;        /* NULL = nothing is captured */
	const char *backend_reason; /* why it is not the usual one; NULL = it is */
	struct netcap_stats stats;
};

enum node_counter_shape {
	NODE_COUNTER_ONE,    /* a uint64_t */
	NODE_COUNTER_TWO,    /* [0] incoming, [1] outgoing */
	NODE_COUNTER_NS,     /* nanoseconds; Prometheus has seconds */
	NODE_COUNTER_BY_TYPE /* NODE_TYPES of them, node_type_word() names each */
};

struct node_counter {
	const char *
		section; /* object of /v3/status that it stands in; NULL: the node's own, or the capture's */
	const char *key;    /* in it; NULL: not shown there */
	const char *family; /* of Prometheus; NULL: not shown there */
	int is_gauge;       /* it may fall */
	const char *unit;   /* "bytes", "chunks" ... for people */
	const char *help;   /* one line, without a full stop */
	const char *loss;   /* what is missing when it is not 0; NULL: nothing */
	size_t offset;      /* in struct node_counts, or in struct netcap_stats */
	enum node_counter_shape shape;
};

/* In the order of /v3/status. */
extern const struct node_counter node_counters[];
extern const size_t node_counter_count;
extern const struct node_counter capture_counters[];
extern const size_t capture_counter_count;

/** node_counter_at() - the first number of @counter in @counts, a struct node_counts or netcap_stats. */
static inline const uint64_t *node_counter_at(const struct node_counter *counter,
					      const void *counts)
{
	return (const uint64_t *)(const void *)((const char *)counts + counter->offset);
}
/** node_type_word() - "connection_message" ... "unknown", for the index of a type. */
const char *node_type_word(unsigned index);

#endif
