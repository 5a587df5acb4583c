/* SPDX-License-Identifier: Apache-2.0 */
/* net_record.c - `byteledger net --config`: the network recorder (node/nodes.h), the servers that read its stores, and signals. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/net.h"
#include "api/page_live.h"
#include "cmd/net_job.h"
#include "node/config.h"
#include "node/nodes.h"

#define DESCRIPTORS_MAX 65536
#define SERVERS_MAX (NODES_MAX + 2)

struct job {
	struct nodes_config *config;
	struct nodes *nodes;
	struct api_net *api;
	struct http_server *servers[SERVERS_MAX];
	struct http_route routes[SERVERS_MAX][API_NET_ROUTES_MAX + PAGE_LIVE_ROUTES_MAX];
	struct page_live pages[NODES_MAX]; /* of nodes with a port of their own */
	size_t server_count;
};

static struct nodes *volatile recorded; /* what a signal ends */
static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
	if (recorded)
		nodes_stop(recorded);
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "byteledger: %s\n", text);
}

/* ---- servers -------------------------------------------------------------------------------------------------------- */

static int serve(struct job *r, unsigned port, size_t route_count, const char *what,
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
	say(NULL, text);
	r->server_count++;
	return 0;
}

static int open_servers(struct job *r, struct err *err)
{
	static const char *const shows[] = { "messages", "connections", "logs", NULL };
	const struct nodes_config *c = r->config;
	struct api_net_node nodes[NODES_MAX];
	struct api_net_opt opt = { .nodes = nodes,
				   .node_count = c->node_count,
				   .version = BYTELEDGER_VERSION,
				   .recorder = r->nodes };
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

/* ---- recording ------------------------------------------------------------------------------------------------------ */

/* The first failure is the one that is told. */
static int first(int rc, int next, const struct err *why, struct err *err)
{
	if (next >= 0 || rc < 0)
		return rc;
	*err = *why;
	return next;
}

/* Servers are stopped before what they read is released. */
static int finish(struct job *r, int rc, struct err *err)
{
	struct err next = { 0 };
	api_net_stop(r->api);
	if (r->nodes)
		rc = first(rc, nodes_drain(r->nodes, &next), &next, err);
	for (size_t i = 0; i < r->server_count; i++)
		http_server_stop(r->servers[i]);
	for (size_t i = 0; i < NODES_MAX; i++)
		page_live_fini(&r->pages[i]);
	api_net_free(r->api);
	recorded = NULL;
	err_init(&next);
	return first(rc, nodes_close(r->nodes, &next), &next, err);
}

static void catch_signals(void)
{
	/* no SA_RESTART: the wait for traffic ends */
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

/* Threads that are started inherit the mask: signals are this thread's. */
static void block_signals(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

/* Listeners, senders, stores and clients want more than the 1,024 that a shell gives; no child inherits it. */
static void raise_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int net_record(const struct net_job *options, struct err *err)
{
	struct job *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot allocate a recorder");
	r->config = nodes_config_load(options->config, say, NULL, err);
	if (!r->config) {
		free(r);
		return err->code;
	}
	catch_signals();
	raise_descriptors();
	block_signals(SIG_BLOCK);
	int rc = nodes_open(r->config, say, NULL, &r->nodes, err);
	if (rc == 0)
		rc = open_servers(r, err);
	recorded = r->nodes;
	block_signals(SIG_UNBLOCK);
	if (rc == 0 && !stopping) {
		say(NULL, nodes_captures(r->nodes)
				  ? "recording; SIGTERM or Ctrl-C ends it"
				  : "recording log lines only; SIGTERM or Ctrl-C ends it");
		rc = nodes_run(r->nodes, err);
	}
	rc = finish(r, rc, err);
	nodes_config_free(r->config);
	free(r);
	return rc < 0 ? rc : 0;
}
