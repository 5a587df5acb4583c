/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - routes of the network and log recorder: messages, connections, chunks, log lines, status (net-recorder reference
 * 10 and 12), out of the stores that recorders write. docs/network.md describes them for people.
 *
 * Every node has a small pool of store readers; a request takes one for as long as it reads. What only the recorder knows
 * (counters, compaction, how a plaintext is decoded) comes as functions from cmd.
 */
#ifndef API_NET_H
#define API_NET_H

#include <stddef.h>
#include <stdint.h>

#include "api/http.h"
#include "model/message.h"

#define API_NET_TYPES 30 /* message types with a counter: 0 to 28 and unknown */

/** struct api_net_node - strings are copied. */
struct api_net_node {
	const char *name;       /* value of node_name */
	const char *store_path; /* folder of its store */
	int no_search;          /* log lines are not indexed */
};

/** What the recorder of a node has counted since it started; [0] incoming, [1] outgoing. */
struct api_net_live {
	uint32_t pids[16]; /* node processes now */
	size_t pid_count;
	uint64_t attached_since_ns; /* wall clock; 0 = no process yet */
	uint64_t connections_open, connections_opened, connections_late;
	uint64_t connections_sealed; /* with a chunk that was not decrypted when it came */
	uint64_t stream_bytes[2], gaps[2], gap_bytes[2], resyncs[2];
	uint64_t chunks[2], chunks_sealed[2], pieces[2]; /* cut, of them not decrypted; never cut */
	uint64_t messages[API_NET_TYPES], undecodable;
	uint64_t identities, reprocessed_chunks;
	uint64_t logs_received, logs_malformed, logs_dropped, logs_bytes;
	uint64_t logs_truncated, logs_refused_senders;
	uint64_t queue_bytes, queue_bytes_max, queue_high_water, queue_delay_ns, flushes;
	uint64_t store_failures, rows_lost; /* of chunks, messages and log lines */
	char store_trouble[256];            /* why rows cannot be written just now; "" = they can */
};

/** What the capture has counted, all nodes together. */
struct api_net_capture {
	const char *backend;        /* NULL = nothing is captured */
	const char *backend_reason; /* why it is not the usual one; NULL = it is */
	uint64_t segments[2], bytes[2], delivered_bytes[2], lost_segments[2], lost_bytes[2];
	uint64_t duplicate_bytes[2], gaps[2], gap_bytes[2];
	uint64_t unreadable, refused_connections, lost_events, nodes;
	uint64_t bad_records,
		unknown_segments; /* of the ring: broke a rule, of no known connection */
	uint64_t ring_bytes, ring_high_water;
	uint64_t dropped_packets, unowned_connections, hidden_nodes; /* by packet sockets */
};

struct api_net_opt {
	const struct api_net_node *nodes;
	size_t node_count;
	const char *version; /* what /v2/version says */
	/**
	 * @decode: append the JSON of a whole message to @json; -EBADMSG with the reason in @error. @plain as in struct message.
	 */
	int (*decode)(enum message_type type, unsigned tag, const uint8_t *plain, size_t len,
		      struct buf *json, char error[128]);
	/* May be NULL: nothing is being recorded. Called on server threads. */
	void (*live)(void *ctx, size_t node, struct api_net_live *live);
	void (*capture)(void *ctx, struct api_net_capture *capture);
	int (*compact)(void *ctx, size_t node, struct err *err);
	void *ctx;
};

struct api_net;

/** api_net_new() - NULL without memory. The stores are opened when they are asked for. */
struct api_net *api_net_new(const struct api_net_opt *opt, struct err *err);
/** api_net_free() - after every server that has its routes was stopped. */
void api_net_free(struct api_net *net);

#define API_NET_ROUTES_MAX 24
/**
 * api_net_v2_routes(), api_net_v3_routes() - routes of all nodes (node_name selects), or of one; returns their number, at
 * most API_NET_ROUTES_MAX. They are valid as long as @net.
 */
size_t api_net_v2_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX]);
size_t api_net_v3_routes(struct api_net *net, size_t node,
			 struct http_route routes[API_NET_ROUTES_MAX]);
/** api_net_compact_routes() - the one route of the port above http_v2. */
size_t api_net_compact_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX]);

#endif
