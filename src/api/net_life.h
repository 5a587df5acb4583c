/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_life.h - the network recorder (node/nodes.h) and the servers that read its stores, as one. In
 * order of use: net_life_new(), net_life_run() on the same thread until net_life_stop() on any,
 * net_life_end().
 */
#ifndef API_NET_LIFE_H
#define API_NET_LIFE_H

#include "base/err.h"

struct net_life;

/**
 * net_life_new() - reads the configuration at @path, attaches, serves. @say hears a line at a time.
 * NULL with @err.
 */
struct net_life *net_life_new(const char *path, void (*say)(void *ctx, const char *text), void *ctx,
			      struct err *err);
/** net_life_run() - record until it is stopped; 0 or negative errno. */
int net_life_run(struct net_life *life, struct err *err);
/** net_life_stop() - from any thread, or a signal's handler. */
void net_life_stop(struct net_life *life);
/**
 * net_life_end() - drain, close, release; @rc: what came of it so far. The first failure is the one
 * that @err tells.
 */
int net_life_end(struct net_life *life, int rc, struct err *err);

#endif
