/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page_live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/jsonw.h"

int page_live_init(struct page_live *live, const char *name, const char *kind, int32_t pid,
		   const char *const *has, struct err *err)
{
	static const char *const unknown[] = { "exe",      "cmdline", "start_realtime_ns",
					       "complete", "error",   "warning" };
	struct jsonw w;
	*live = (struct page_live){ 0 };
	FILE *to = open_memstream(&live->json, &live->len);
	if (!to)
		return err_set(err, -ENOMEM, "cannot describe what is served");
	jsonw_init(&w, to);
	jsonw_array(&w, NULL);
	jsonw_object(&w, NULL);
	jsonw_u64(&w, "id", 0);
	jsonw_str(&w, "name", name);
	jsonw_str(&w, "kind", kind);
	if (pid)
		jsonw_u64(&w, "pid", (uint64_t)pid);
	else
		jsonw_null(&w, "pid");
	jsonw_u64(&w, "length_ns", 0);
	jsonw_u64(&w, "generation", 1);
	jsonw_bool(&w, "ended", 0);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		jsonw_null(&w, unknown[i]);
	jsonw_array(&w, "has");
	for (size_t i = 0; has[i]; i++)
		jsonw_str(&w, NULL, has[i]);
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	jsonw_array_end(&w);
	if (fclose(to) != 0)
		return err_set(err, -ENOMEM, "cannot describe what is served");
	return 0;
}

void page_live_fini(struct page_live *live)
{
	free(live->json);
	*live = (struct page_live){ 0 };
}

static void sources(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	const struct page_live *live = ctx;
	if (http_request_only(request, none, reply) == 0)
		buf_put(&reply->body, live->json, live->len);
}

size_t page_live_routes(struct page_live *live, struct http_route routes[PAGE_LIVE_ROUTES_MAX])
{
	size_t count = page_routes(routes);
	routes[count++] =
		(struct http_route){ .path = "/api/v1/sources", .handler = sources, .ctx = live };
	return count;
}
