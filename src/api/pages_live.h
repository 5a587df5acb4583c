/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_live.h - resident pages by call stack while they are counted: /v1/tree, /v1/pid,
 * /api/v1/pages, and the page.
 */
#ifndef API_PAGES_LIVE_H
#define API_PAGES_LIVE_H

#include "api/lives.h"
#include "api/tree.h"
#include "probe/pages_life.h"

/** struct pages_live - zero-initialised; stays as long as the server. */
struct pages_live {
	struct pages_life *life;
	struct tree_source source;
	struct http_route routes[TREE_ROUTES + 1];
	struct lives lives;
};

/**
 * pages_live_take() - what is to be served of @life, whose targets are taken up; opt->more of a
 * server.
 */
struct serving_more pages_live_take(struct pages_live *live, struct pages_life *life);

#endif
