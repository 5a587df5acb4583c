/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - nodes, their readers, and the table of routes. */
#include "api/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/net_internal.h"
#include "api/network-recorder-openapi.h"
#include "base/clock.h"
#include "node/nodes.h"
#include "out/metrics.h"

#define DEFAULT_NODE "tezedge" /* what older clients mean without node_name */

/* ---- JSON in memory -------------------------------------------------------------------------- */

int json_text_begin(struct json_text *json)
{
	json->text = NULL;
	json->len = 0;
	json->file = open_memstream(&json->text, &json->len);
	if (!json->file)
		return -ENOMEM;
	jsonw_init(&json->w, json->file);
	return 0;
}

void json_text_done(struct json_text *json, struct buf *out)
{
	int failed = ferror(json->file);
	if (fclose(json->file) != 0 || failed)
		out->failed = 1;
	else
		buf_put(out, json->text, json->len);
	free(json->text);
}

/* ---- readers --------------------------------------------------------------------------------- */

struct store_reader *net_reader_take(struct net_node *node, struct err *err)
{
	struct store_reader *reader = NULL;
	const atomic_int *stopping = &node->net->stopping;
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + NET_WAIT_NS;
	struct timespec until = clock_time(until_ns);
	int rc = 0;
	pthread_mutex_lock(&node->lock);
	while (node->taken == NET_READERS && rc == 0 && !atomic_load(stopping))
		rc = pthread_cond_timedwait(&node->given, &node->lock, &until);
	if (node->taken == NET_READERS || atomic_load(stopping)) {
		pthread_mutex_unlock(&node->lock);
		err_set(err, -EAGAIN, "too many questions are under way");
		err_hint(err, "ask again in a moment");
		return NULL;
	}
	node->taken++;
	if (node->idle_count)
		reader = node->idle[--node->idle_count];
	pthread_mutex_unlock(&node->lock);
	if (!reader && store_reader_open(node->store_path, &reader, err) < 0)
		net_reader_give(node, NULL);
	if (reader)
		store_reader_allow(reader, NET_QUERY_NS, stopping);
	return reader;
}

void net_reader_give(struct net_node *node, struct store_reader *reader)
{
	pthread_mutex_lock(&node->lock);
	node->taken--;
	if (reader)
		node->idle[node->idle_count++] = reader;
	pthread_cond_signal(&node->given);
	pthread_mutex_unlock(&node->lock);
}

int api_net_tally(struct api_net *net, size_t node, int logs, const uint64_t *edges, size_t count,
		  uint64_t *rows, struct err *err)
{
	struct store_reader *reader = net_reader_take(&net->nodes[node], err);
	if (!reader)
		return err->code;
	int rc = store_tally(reader, logs ? STORE_LOGS : STORE_MESSAGES, edges, count, rows, err);
	net_reader_give(&net->nodes[node], reader);
	return rc;
}

void net_latency_add(struct net_node *node, uint64_t start_ns)
{
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - start_ns;
	unsigned bucket = 0;
	while (bucket < NET_LATENCY_BUCKETS - 1 && took > 250000ull << bucket)
		bucket++;
	atomic_fetch_add(&node->latency[bucket], 1);
	atomic_fetch_add(&node->latency_ns, took);
	atomic_fetch_add(&node->queries, 1);
}

/* ---- life ------------------------------------------------------------------------------------ */

void api_net_stop(struct api_net *net)
{
	if (!net)
		return;
	atomic_store(&net->stopping, 1);
	for (size_t i = 0; i < net->node_count; i++) {
		pthread_mutex_lock(&net->nodes[i].lock);
		pthread_cond_broadcast(&net->nodes[i].given);
		pthread_mutex_unlock(&net->nodes[i].lock);
	}
}

void api_net_free(struct api_net *net)
{
	if (!net)
		return;
	for (size_t i = 0; net->nodes && i < net->node_count; i++) {
		struct net_node *node = &net->nodes[i];
		while (node->idle_count)
			store_reader_close(node->idle[--node->idle_count]);
		pthread_mutex_destroy(&node->lock);
		pthread_cond_destroy(&node->given);
		free(node->name);
		free(node->store_path);
	}
	free(net->nodes);
	free(net->version);
	free(net);
}

struct api_net *api_net_new(const struct api_net_opt *opt, struct err *err)
{
	struct api_net *net = calloc(1, sizeof(*net));
	int ok = net && (net->nodes = calloc(opt->node_count, sizeof(*net->nodes))) &&
		 (net->version = strdup(opt->version));
	if (ok) {
		net->opt = *opt;
		net->opt.nodes = NULL;
		net->node_count = opt->node_count;
	}
	for (size_t i = 0; ok && i < opt->node_count; i++) {
		struct net_node *node = &net->nodes[i];
		node->net = net;
		node->index = i;
		node->no_search = opt->nodes[i].no_search;
		pthread_mutex_init(&node->lock, NULL);
		pthread_condattr_t monotonic;
		pthread_condattr_init(&monotonic);
		pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
		pthread_cond_init(&node->given, &monotonic);
		pthread_condattr_destroy(&monotonic);
		node->name = strdup(opt->nodes[i].name);
		node->store_path = strdup(opt->nodes[i].store_path);
		ok = node->name && node->store_path;
	}
	if (ok)
		return net;
	api_net_free(net);
	err_set(err, -ENOMEM, "cannot allocate the network routes");
	return NULL;
}

struct net_node *net_node_of(struct api_net *net, const struct http_request *request,
			     struct http_reply *reply)
{
	const char *asked = http_request_arg(request, "node_name");
	const char *name = asked ? asked : DEFAULT_NODE;
	for (size_t i = 0; i < net->node_count; i++) {
		if (strcmp(net->nodes[i].name, name) == 0)
			return &net->nodes[i];
	}
	if (!asked && net->node_count)
		return &net->nodes[0];
	http_reply_error(reply, 404, "no such node: \"%.100s\"", name);
	return NULL;
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* Handlers of v2 find the node first; those of v3 have it. */
#define V2(name)                                                             \
	static void v2_##name(void *ctx, const struct http_request *request, \
			      struct http_reply *reply)                      \
	{                                                                    \
		struct net_node *node = net_node_of(ctx, request, reply);    \
		if (node)                                                    \
			net_##name(node, request, reply);                    \
	}
#define V3(name)                                                             \
	static void v3_##name(void *ctx, const struct http_request *request, \
			      struct http_reply *reply)                      \
	{                                                                    \
		net_##name(ctx, request, reply);                             \
	}
V2(messages)
V2(message)
V2(messages_stream)
V2(logs)
V2(logs_stream)
V3(messages)
V3(message)
V3(messages_stream)
V3(logs)
V3(logs_stream)
V3(connections)
V3(connection)
V3(chunks)
V3(chunk)

static void version(struct api_net *net, struct http_reply *reply)
{
	struct json_text json;
	if (json_text_begin(&json) < 0) {
		http_reply_error(reply, 500, "out of memory");
		return;
	}
	jsonw_str(&json.w, NULL, net->version);
	json_text_done(&json, &reply->body);
}

static void v2_version(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)request;
	version(ctx, reply);
}

static void v3_version(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)request;
	version(((struct net_node *)ctx)->net, reply);
}

static void openapi(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx, (void)request;
	buf_put(&reply->body, network_recorder_openapi, sizeof(network_recorder_openapi) - 1);
}

static void v2_status(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)request;
	net_status(ctx, NULL, reply);
}

static void v3_status(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	struct net_node *node = ctx;
	(void)request;
	net_status(node->net, node, reply);
}

static void v2_metrics(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)request;
	reply->content_type = METRICS_CONTENT_TYPE;
	net_metrics(ctx, NULL, &reply->body);
}

static void v3_metrics(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	struct net_node *node = ctx;
	(void)request;
	reply->content_type = METRICS_CONTENT_TYPE;
	net_metrics(node->net, node, &reply->body);
}

static void compact(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	struct api_net *net = ctx;
	struct err err = { 0 };
	struct net_node *node = net_node_of(net, request, reply);
	if (!node)
		return;
	if (!net->opt.recorder)
		http_reply_error(reply, 501, "nothing is being recorded into this store");
	else if (nodes_compact(net->opt.recorder, node->index, &err) < 0)
		http_reply_err(reply, &err);
	else
		buf_puts(&reply->body, "0");
}

static size_t copy_routes(const struct http_route *from, size_t count, void *ctx,
			  struct http_route *to)
{
	for (size_t i = 0; i < count; i++) {
		to[i] = from[i];
		to[i].ctx = ctx;
	}
	return count;
}

size_t api_net_v2_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX])
{
	static const struct http_route table[] = {
		{ "/v2/p2p", v2_messages, NULL },
		{ "/v2/p2p/", v2_message, NULL },
		{ "/v2/p2p/stream", v2_messages_stream, NULL },
		{ "/v2/log", v2_logs, NULL },
		{ "/v2/log/stream", v2_logs_stream, NULL },
		{ "/v2/version", v2_version, NULL },
		{ "/v2/version/", v2_version, NULL }, /* as the published front end asks */
		{ "/v3/status", v2_status, NULL },
		{ "/metrics", v2_metrics, NULL },
		{ "/openapi/network-recorder-openapi.json", openapi, NULL },
	};
	return copy_routes(table, ARRAY_LEN(table), net, routes);
}

size_t api_net_v3_routes(struct api_net *net, size_t node,
			 struct http_route routes[API_NET_ROUTES_MAX])
{
	static const struct http_route table[] = {
		{ "/v3/messages", v3_messages, NULL },
		{ "/v3/messages/stream", v3_messages_stream, NULL },
		{ "/v3/message/", v3_message, NULL },
		{ "/v3/logs", v3_logs, NULL },
		{ "/v3/logs/stream", v3_logs_stream, NULL },
		{ "/v3/connections", v3_connections, NULL },
		{ "/v3/connection/", v3_connection, NULL },
		{ "/v3/chunks", v3_chunks, NULL },
		{ "/v3/chunk/", v3_chunk, NULL },
		{ "/v3/status", v3_status, NULL },
		{ "/v2/version", v3_version, NULL },
		{ "/v2/version/", v3_version, NULL },
		{ "/metrics", v3_metrics, NULL },
		{ "/openapi/network-recorder-openapi.json", openapi, NULL },
	};
	return copy_routes(table, ARRAY_LEN(table), &net->nodes[node], routes);
}

size_t api_net_compact_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX])
{
	routes[0] = (struct http_route){
		.path = "/compact", .handler = compact, .ctx = net, .posts = HTTP_POST_ONLY
	};
	return 1;
}
