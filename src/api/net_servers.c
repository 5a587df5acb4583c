/* SPDX-License-Identifier: Apache-2.0 */
#include "api/net_servers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/net.h"
#include "api/page_live.h"

#define SERVERS_MAX (NODES_MAX + 2)

struct net_servers {
	const struct nodes_config *config;
	struct nodes *recorder;
	void (*say)(void *ctx, const char *text);
	void *ctx;
	struct api_net *api;
	struct http_server *servers[SERVERS_MAX];
	struct http_route routes[SERVERS_MAX][API_NET_ROUTES_MAX + PAGE_LIVE_ROUTES_MAX];
	/* of nodes with a port of their own */
	struct page_live pages[NODES_MAX];
	size_t server_count;
};

static int serve(struct net_servers *r, unsigned port, size_t route_count, const char *what,
		 struct err *err)
{
	const struct nodes_config *c = r->config;
	char address[80], text[400];
	snprintf(address, sizeof(address), strchr(c->bind, ':') ? "[%s]:%u" : "%s:%u", c->bind,
		 port);
	struct http_opt opt = { .address = address,
				.token_file = c->token_file,
				.no_auth = c->no_auth,
				.cors = c->cors,
				.hosts = c->hosts,
				.routes = r->routes[r->server_count],
				.route_count = route_count };
	int rc = http_server_start(&opt, &r->servers[r->server_count], err);
	if (rc < 0)
		return err_wrap(err, "%s", what);
	const char *note = http_server_note(r->servers[r->server_count]);
	snprintf(text, sizeof(text), "%s: %s%s%s", what,
		 http_server_url(r->servers[r->server_count]), note ? " - " : "", note ? note : "");
	r->say(r->ctx, text);
	r->server_count++;
	return 0;
}

static int open_all(struct net_servers *r, struct err *err)
{
	static const char *const shows[] = { "messages", "connections", "logs", NULL };
	const struct nodes_config *c = r->config;
	struct api_net_node nodes[NODES_MAX];
	struct api_net_opt opt = { .nodes = nodes,
				   .node_count = c->node_count,
				   .version = BYTELEDGER_VERSION,
				   .recorder = r->recorder };
	char what[160];
	for (size_t i = 0; i < c->node_count; i++)
		nodes[i] = (struct api_net_node){ c->nodes[i].name, c->nodes[i].db,
						  c->nodes[i].disable_search };
	r->api = api_net_new(&opt, err);
	int rc = r->api ? 0 : err->code;
	if (rc == 0 && c->http_v2)
		rc = serve(r, c->http_v2, api_net_v2_routes(r->api, r->routes[r->server_count]),
			   "http_v2", err);
	if (rc == 0 && c->http_v2)
		rc = serve(r, c->http_v2 + 1u,
			   api_net_compact_routes(r->api, r->routes[r->server_count]),
			   "http_v2 + 1 (/compact)", err);
	for (size_t i = 0; rc == 0 && i < c->node_count; i++) {
		if (!c->nodes[i].http_v3)
			continue;
		snprintf(what, sizeof(what), "http_v3 of node '%s'", c->nodes[i].name);
		struct http_route *routes = r->routes[r->server_count];
		size_t count = api_net_v3_routes(r->api, i, routes);
		rc = page_live_init(&r->pages[i], c->nodes[i].name, "node", 0, shows, err);
		if (rc == 0)
			rc = serve(r, c->nodes[i].http_v3,
				   count + page_live_routes(&r->pages[i], routes + count), what,
				   err);
	}
	return rc;
}

struct net_servers *net_servers_new(const struct nodes_config *config, struct nodes *recorder,
				    void (*say)(void *ctx, const char *text), void *ctx,
				    struct err *err)
{
	struct net_servers *servers = calloc(1, sizeof(*servers));
	if (!servers) {
		err_set(err, -ENOMEM, "cannot serve");
		return NULL;
	}
	servers->config = config;
	servers->recorder = recorder;
	servers->say = say;
	servers->ctx = ctx;
	if (open_all(servers, err) == 0)
		return servers;
	net_servers_stop(servers);
	net_servers_free(servers);
	return NULL;
}

void net_servers_stop(struct net_servers *servers)
{
	if (servers)
		api_net_stop(servers->api);
}

void net_servers_free(struct net_servers *servers)
{
	if (!servers)
		return;
	for (size_t i = 0; i < servers->server_count; i++)
		http_server_stop(servers->servers[i]);
	for (size_t i = 0; i < NODES_MAX; i++)
		page_live_fini(&servers->pages[i]);
	api_net_free(servers->api);
	free(servers);
}
