/* SPDX-License-Identifier: Apache-2.0 */
#include "api/net_life.h"

#include <errno.h>
#include <stdlib.h>

#include "api/http.h"
#include "api/net_servers.h"
#include "node/config.h"
#include "node/nodes.h"

struct net_life {
	struct nodes_config *config;
	struct nodes *nodes;
	struct net_servers *servers;
	void (*say)(void *ctx, const char *text);
	void *ctx;
};

struct net_life *net_life_new(const char *path, void (*say)(void *ctx, const char *text), void *ctx,
			      struct err *err)
{
	struct net_life *l = calloc(1, sizeof(*l));
	if (!l) {
		err_set(err, -ENOMEM, "cannot allocate a recorder");
		return NULL;
	}
	l->say = say;
	l->ctx = ctx;
	l->config = nodes_config_load(path, say, ctx, err);
	/*
	 * a recorder that has opened its nodes reaches no libraries; whether one is missing is said
	 * where it is needed
	 */
	if (l->config)
		http_library_get(&(struct err){ 0 });
	if (l->config && nodes_open(l->config, say, ctx, &l->nodes, err) == 0)
		l->servers = net_servers_new(l->config, l->nodes, say, ctx, err);
	if (!l->servers) {
		net_life_end(l, err->code, err);
		return NULL;
	}
	return l;
}

int net_life_run(struct net_life *l, struct err *err)
{
	l->say(l->ctx, nodes_captures(l->nodes)
			       ? "recording; SIGTERM or Ctrl-C ends it"
			       : "recording log lines only; SIGTERM or Ctrl-C ends it");
	return nodes_run(l->nodes, err);
}

void net_life_stop(struct net_life *l)
{
	nodes_stop(l->nodes);
}

static int first(int rc, int next, const struct err *why, struct err *err)
{
	if (next >= 0 || rc < 0)
		return rc;
	*err = *why;
	return next;
}

/* Servers are stopped before what they read is released. */
int net_life_end(struct net_life *l, int rc, struct err *err)
{
	struct err next = { 0 };
	net_servers_stop(l->servers);
	if (l->nodes)
		rc = first(rc, nodes_drain(l->nodes, &next), &next, err);
	net_servers_free(l->servers);
	err_init(&next);
	rc = first(rc, nodes_close(l->nodes, &next), &next, err);
	nodes_config_free(l->config);
	free(l);
	return rc;
}
