/* SPDX-License-Identifier: Apache-2.0 */
/* http_local.c - the routes asked in the process that has them, by a face that is no browser. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/http_internal.h"
#include "base/cleanup.h"

const char *http_local_arg(const struct http_local *local, const char *key)
{
	for (size_t i = 0; i < local->count; i++)
		if (strcmp(local->keys[i], key) == 0)
			return local->values[i];
	return NULL;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* In its place: it only gets shorter. */
static char *decode(char *text)
{
	char *to = text;
	for (const char *at = text; *at; at++) {
		if (*at == '%' && isxdigit((unsigned char)at[1]) &&
		    isxdigit((unsigned char)at[2])) {
			*to++ = (char)(digit(at[1]) * 16 + digit(at[2]));
			at += 2;
		} else {
			*to++ = *at == '+' ? ' ' : *at;
		}
	}
	*to = '\0';
	return text;
}

static int split(char *query, struct http_local *local)
{
	for (char *word, *rest = query; (word = strsep(&rest, "&"));) {
		char *value = strchr(word, '=');
		if (!*word)
			continue;
		if (local->count == HTTP_LOCAL_ARGS_MAX)
			return -E2BIG;
		if (value)
			*value++ = '\0';
		local->keys[local->count] = decode(word);
		local->values[local->count++] = value ? decode(value) : "";
	}
	return 0;
}

static void take(struct http_reply *reply, struct buf *to)
{
	if (reply->lent)
		buf_put(to, reply->lent, reply->lent_len);
	buf_put(to, reply->body.data ? reply->body.data : "", reply->body.len);
	if (buf_failed(&reply->body))
		reply->status = 500;
	int more = reply->body_more != NULL;
	while (more > 0)
		more = reply->body_more(reply->stream, to);
	if (more < 0)
		reply->status = 500;
	if (reply->stream_free && (reply->body_more || reply->stream_more))
		reply->stream_free(reply->stream);
	buf_fini(&reply->body);
}

static void free_text(char **text)
{
	free(*text);
}

int http_local_ask(const struct http_route *routes, size_t count, const char *what,
		   const atomic_int *stop, struct buf *to)
{
	struct http_local local = { .stop = stop };
	struct http_reply reply = { 0 };
	CLEANUP(free_text) char *path = strdup(what);
	if (!path)
		return -ENOMEM;
	char *query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	if (query && split(query, &local) < 0)
		return -E2BIG;
	struct http_request request = { .path = decode(path), .local = &local };
	const struct http_route *route = http_find_route(routes, count, path, &request.tail);
	if (!route || route->posts == HTTP_POST_ONLY)
		http_reply_error(&reply, 404, "no such path: %.100s", path);
	else
		route->handler(route->ctx, &request, &reply);
	take(&reply, to);
	return buf_failed(to) ? -ENOMEM : reply.status ? (int)reply.status : 200;
}
