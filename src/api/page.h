/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - the web page inside the binary. The build makes the table out of web/ (web/meson.build);
 * a build without npm and without the bundle of a release has an empty one (page_none.c), and says
 * so at `/`.
 */
#ifndef API_PAGE_H
#define API_PAGE_H

#include <stddef.h>

#include "api/http.h"

struct page_asset {
	/* "/" for index.html, "/assets/index-4f2c.js" */
	const char *path;
	/* Content-Type */
	const char *type;
	/* with its quotes */
	const char *etag;
	const unsigned char *bytes;
	size_t len;
	/* the bytes are a gzip member */
	int gzip;
};
extern const struct page_asset page_assets[];
extern const size_t page_asset_count;

#define PAGE_ROUTES_MAX 32
/** page_routes() - one for each asset, and `/` in any case; returns their number. */
size_t page_routes(struct http_route routes[PAGE_ROUTES_MAX]);

#endif
