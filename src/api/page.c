/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - the page's files as routes. */
#include "api/page.h"

#include <stdio.h>
#include <string.h>

#include "base/zstream.h"

#define POLICY                                                                                  \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "     \
	"require-trusted-types-for 'script'; trusted-types 'none'"

/** unpack() - for the few clients that take no gzip. */
static void unpack(const struct page_asset *asset, struct http_reply *reply)
{
	struct err err = { 0 };
	CLEANUP(zstream_freep)
	struct zstream *from = zstream_open_bytes(asset->bytes, asset->len, &err);
	ssize_t n = from ? 0 : -1;
	do {
		char *to = from ? buf_reserve(&reply->body, 65536) : NULL;
		n = to ? zstream_read(from, to, 65536, &err) : -1;
		reply->body.len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (n < 0)
		http_reply_error(reply, 500, "cannot unpack the page");
}

static void serve_asset(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	const struct page_asset *asset = ctx;
	const char *coding = http_request_header(request, "Accept-Encoding");
	int is_index = strcmp(asset->path, "/") == 0;
	reply->content_type = asset->type;
	reply->cache = is_index ? "no-cache" : "public, max-age=31536000, immutable";
	reply->policy = POLICY;
	snprintf(reply->etag, sizeof(reply->etag), "%s", asset->etag);
	if (http_request_has_etag(request, asset->etag)) {
		reply->status = 304;
		return;
	}
	if (asset->gzip && !(coding && (strstr(coding, "gzip") || strchr(coding, '*')))) {
		unpack(asset, reply);
		return;
	}
	reply->lent = asset->bytes;
	reply->lent_len = asset->len;
	reply->encoding = asset->gzip ? "gzip" : NULL;
}

static void serve_nothing(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx, (void)request;
	reply->content_type = "text/html; charset=utf-8";
	reply->policy = "default-src 'none'; frame-ancestors 'none'";
	buf_puts(
		&reply->body,
		"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>byteledger</title>"
		"<h1>byteledger</h1><p>This binary was built without its web page, because npm was "
		"not there. Install nodejs and npm and build again.</p>"
		"<p>What it serves: <a href=\"/api/v1/sources\">/api/v1/sources</a>, "
		"<a href=\"/openapi/byteledger-openapi.json\">the OpenAPI file</a>.</p></html>\n");
}

size_t page_routes(struct http_route routes[PAGE_ROUTES_MAX])
{
	size_t count = 0;
	int has_index = 0;
	for (size_t i = 0; i < page_asset_count && count < PAGE_ROUTES_MAX - 1; i++) {
		has_index |= strcmp(page_assets[i].path, "/") == 0;
		routes[count++] = (struct http_route){ .path = page_assets[i].path,
						       .handler = serve_asset,
						       .ctx = (void *)&page_assets[i],
						       .open = 1 };
	}
	if (!has_index)
		routes[count++] =
			(struct http_route){ .path = "/", .handler = serve_nothing, .open = 1 };
	return count;
}
