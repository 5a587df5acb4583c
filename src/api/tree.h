/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - /v1/tree, /v1/pid and their OpenAPI file: what front ends of TezEdge's memory profiler
 * ask, with additions. Readings come from whoever counts the pages (probe/pages_life.h), as a
 * function.
 */
#ifndef API_TREE_H
#define API_TREE_H

#include "api/http.h"
#include "model/pages.h"

struct tree_source {
	void *ctx;
	/**
	 * The last reading, whose frames are named; the caller puts it. NULL: none yet. Any thread.
	 */
	struct page_shot *(*lend)(void *ctx);
	/**
	 * The last one that was @ago_ns old or older; of a recording the first one where its
	 * beginning is. NULL: none is. NULL itself: readings are not kept.
	 */
	struct page_shot *(*lend_past)(void *ctx, uint64_t ago_ns);
};

#define TREE_ROUTES 3
/** tree_routes() - all of them into @routes; @source has to stay. Return: how many. */
size_t tree_routes(struct tree_source *source, struct http_route *routes);
/**
 * tree_route(), tree_pid_route() - @ctx is a struct tree_source; tree_openapi_route() needs none.
 */
void tree_route(void *ctx, const struct http_request *request, struct http_reply *reply);
void tree_pid_route(void *ctx, const struct http_request *request, struct http_reply *reply);
void tree_openapi_route(void *ctx, const struct http_request *request, struct http_reply *reply);

#endif
