/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - routes of the network and log recorder: messages, connections, chunks, log lines, status
 * (net-recorder reference 10 and 12), out of the stores that recorders write. docs/network.md
 * describes them for people.
 *
 * Every node has a small pool of store readers; a request takes one for as long as it reads. What
 * only the recorder knows, counters and compaction, it is asked for (node/nodes.h).
 */
#ifndef API_NET_H
#define API_NET_H

#include <stddef.h>
#include <stdint.h>

#include "api/http.h"

/** struct api_net_node - strings are copied. */
struct api_net_node {
	/* value of node_name */
	const char *name;
	/* folder of its store */
	const char *store_path;
	/* log lines are not indexed */
	int no_search;
};

struct nodes;

struct api_net_opt {
	const struct api_net_node *nodes;
	size_t node_count;
	/* what /v2/version says */
	const char *version;
	/*
	 * Who records them, in the same order: asked on server threads for counters and compaction.
	 * NULL: nobody.
	 */
	struct nodes *recorder;
};

struct api_net;

/** api_net_new() - NULL without memory. The stores are opened when they are asked for. */
struct api_net *api_net_new(const struct api_net_opt *opt, struct err *err);
/**
 * api_net_stop() - before the servers are stopped: questions under way end soon, and no new ones
 * begin. Any thread.
 */
void api_net_stop(struct api_net *net);
/** api_net_free() - after every server that has its routes was stopped. */
void api_net_free(struct api_net *net);

/**
 * api_net_tally() - how many messages, with @logs log lines, that node's store has in each of
 * @count stretches (store_tally()); added to @rows. Any thread.
 */
int api_net_tally(struct api_net *net, size_t node, int logs, const uint64_t *edges, size_t count,
		  uint64_t *rows, struct err *err);

#define API_NET_ROUTES_MAX 24
/**
 * api_net_v2_routes(), api_net_v3_routes() - routes of all nodes (node_name selects), or of one;
 * returns their number, at most API_NET_ROUTES_MAX. They are valid as long as @net.
 */
size_t api_net_v2_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX]);
size_t api_net_v3_routes(struct api_net *net, size_t node,
			 struct http_route routes[API_NET_ROUTES_MAX]);
/** api_net_compact_routes() - the one route of the port above http_v2. */
size_t api_net_compact_routes(struct api_net *net, struct http_route routes[API_NET_ROUTES_MAX]);

#endif
