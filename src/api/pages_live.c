/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pages_live.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "out/pages.h"

/* The last reading as `pages --format json` prints it. */
static void pages_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	char *text = NULL;
	size_t len = 0;
	if (http_request_only(request, none, reply) < 0)
		return;
	struct page_shot *shot = pages_life_fresh(ctx);
	FILE *to = shot ? open_memstream(&text, &len) : NULL;
	if (to) {
		struct jsonw json;
		jsonw_init(&json, to);
		out_pages_json(&json, shot, clock_ns(CLOCK_MONOTONIC));
		if (fclose(to) == 0)
			buf_put(&reply->body, text, len);
	}
	if (!shot)
		http_reply_error(reply, 503, "no page was counted yet");
	else if (!to)
		http_reply_error(reply, 500, "no memory for the answer");
	page_shot_put(shot);
	free(text);
}

struct serving_more pages_live_take(struct pages_live *live, struct pages_life *life)
{
	static const char *const has[] = { "pages", NULL };
	struct page_shot *shot = pages_life_shot(life);
	live->source = (struct tree_source){ life, pages_life_fresh, pages_life_past };
	size_t count = tree_routes(&live->source, live->routes);
	live->routes[count++] = (struct http_route){ "/api/v1/pages", pages_route, life };
	/* each process that is there when serving begins; all of them are in every answer */
	for (size_t i = 0; shot && i < shot->count; i++)
		lives_add(&live->lives, shot->processes[i]->exe, shot->processes[i]->pid, has);
	page_shot_put(shot);
	lives_none(&live->lives, has);
	return (struct serving_more){ live->routes, count, live->lives.all, live->lives.count };
}
