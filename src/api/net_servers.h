/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_servers.h - the servers of a network recorder: those of its configuration, over its stores
 * and what it counts. In order of use.
 */
#ifndef API_NET_SERVERS_H
#define API_NET_SERVERS_H

#include "base/err.h"
#include "node/config.h"
#include "node/nodes.h"

struct net_servers;

/**
 * net_servers_new() - start them all; @say hears where each is. Config and recorder stay until
 * net_servers_free(). NULL with @err.
 */
struct net_servers *net_servers_new(const struct nodes_config *config, struct nodes *recorder,
				    void (*say)(void *ctx, const char *text), void *ctx,
				    struct err *err);
/**
 * net_servers_stop() - answers that go on for long end; others are given still. @servers may be
 * NULL.
 */
void net_servers_stop(struct net_servers *servers);
void net_servers_free(struct net_servers *servers);

#endif
