/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_internal.h - what net.c (nodes, routes), net_rows.c (lists), net_parts.c (single things),
 * net_status.c share.
 */
#ifndef API_NET_INTERNAL_H
#define API_NET_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/net.h"
#include "api/net_query.h"
#include "base/jsonw.h"

#define NET_READERS 8              /* of a node, at once: the next request waits for one */
#define NET_WAIT_NS 2000000000ull  /* for one of them; then 503 */
#define NET_QUERY_NS 5000000000ull /* a question may take so long */
#define NET_PAGE_ROWS 500          /* rows that lie in memory at once, however many are asked for */
#define NET_LATENCY_BUCKETS 12

struct net_node {
	struct api_net *net;
	size_t index;
	char *name, *store_path;
	int no_search;
	pthread_mutex_t lock;
	pthread_cond_t given;
	struct store_reader *idle[NET_READERS];
	/* taken + idle <= NET_READERS */
	size_t idle_count, taken;
	/* how long pages took: at most 2^i * 0.25 ms */
	atomic_uint_fast64_t latency[NET_LATENCY_BUCKETS], latency_ns, queries;
};

struct api_net {
	struct net_node *nodes;
	size_t node_count;
	char *version;
	/* details of large messages under way */
	atomic_int big;
	atomic_int stopping;
	struct api_net_opt opt;
};

/**
 * A thing to be written as JSON in memory: open, write, then json_text_done() appends it to a
 * buffer.
 */
struct json_text {
	struct jsonw w;
	FILE *file;
	char *text;
	size_t len;
};
int json_text_begin(struct json_text *json);
/** json_text_done() - append what was written to @out and release; a failure makes @out failed. */
void json_text_done(struct json_text *json, struct buf *out);

/**
 * net_reader_take() - a reader of the node's store for this thread, soon to be given back with
 * net_reader_give(): what it is asked ends after NET_QUERY_NS. NULL with @err: -EAGAIN where none
 * was given back within NET_WAIT_NS, or the server ends.
 */
struct store_reader *net_reader_take(struct net_node *node, struct err *err);
void net_reader_give(struct net_node *node, struct store_reader *reader);
/** net_latency_add() - a query began at @start_ns (monotonic) and ended now. */
void net_latency_add(struct net_node *node, uint64_t start_ns);
/** net_node_of() - the node that node_name selects; NULL with a 404 in @reply. */
struct net_node *net_node_of(struct api_net *net, const struct http_request *request,
			     struct http_reply *reply);

/* net_rows.c: @node is fixed (v3); the v2 forms find it by node_name. */
void net_messages(struct net_node *node, const struct http_request *request,
		  struct http_reply *reply);
void net_logs(struct net_node *node, const struct http_request *request, struct http_reply *reply);
void net_messages_stream(struct net_node *node, const struct http_request *request,
			 struct http_reply *reply);
void net_logs_stream(struct net_node *node, const struct http_request *request,
		     struct http_reply *reply);
/* net_parts.c */
void net_message(struct net_node *node, const struct http_request *request,
		 struct http_reply *reply);
void net_connections(struct net_node *node, const struct http_request *request,
		     struct http_reply *reply);
void net_connection(struct net_node *node, const struct http_request *request,
		    struct http_reply *reply);
void net_chunks(struct net_node *node, const struct http_request *request,
		struct http_reply *reply);
void net_chunk(struct net_node *node, const struct http_request *request, struct http_reply *reply);
/* net_status.c: @node NULL = all. */
void net_status(struct api_net *net, struct net_node *node, struct http_reply *reply);
void net_metrics(struct api_net *net, struct net_node *node, struct buf *out);

#endif
