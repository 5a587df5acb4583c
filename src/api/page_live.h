/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_live.h - the page on a server that has no recordings: a node's store, a process that is
 * watched.
 */
#ifndef API_PAGE_LIVE_H
#define API_PAGE_LIVE_H

#include "api/page.h"

#define PAGE_LIVE_ROUTES_MAX (PAGE_ROUTES_MAX + 1)

/**
 * struct page_live - what /api/v1/sources says of the one source there is; lives as long as the
 * server.
 */
struct page_live {
	/* malloc'd */
	char *json;
	size_t len;
};

/**
 * page_live_init() - @has: words of `has` (docs/api.md 4.1), NULL-terminated; @pid 0 = none.
 * -ENOMEM with @err; page_live_fini() in any case.
 */
int page_live_init(struct page_live *live, const char *name, const char *kind, int32_t pid,
		   const char *const *has, struct err *err);
void page_live_fini(struct page_live *live);
/** page_live_routes() - the page, and /api/v1/sources; returns their number. */
size_t page_live_routes(struct page_live *live, struct http_route routes[PAGE_LIVE_ROUTES_MAX]);

#endif
