/* SPDX-License-Identifier: Apache-2.0 */
/* http_guard.c - who may ask: Host, Origin, Sec-Fetch-Site, token. */
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "base/address.h"
#include "base/token.h"

/* IP literals cannot be rebound by somebody's DNS; names must be known. */
static int host_allowed(const struct http_server *server, const char *value)
{
	char host[256];
	if (!value || address_host(value, host, sizeof(host)) < 0)
		return 0;
	if (address_is_ip(host) || strcmp(host, "localhost") == 0)
		return 1;
	for (char **name = server->hosts; name && *name; name++) {
		if (strcasecmp(*name, host) == 0)
			return 1;
	}
	return 0;
}

static const char *origin_host(const char *origin)
{
	if (strncmp(origin, "http://", 7) == 0)
		return origin + 7;
	if (strncmp(origin, "https://", 8) == 0)
		return origin + 8;
	return NULL;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return http_library.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* 1: the page that asks is our own, or of this machine, or was allowed by name. */
static int origin_allowed(const struct http_server *server, struct MHD_Connection *connection,
			  const char *origin)
{
	char host[256];
	const char *at = origin_host(origin), *own = header(connection, "Host");
	if (strcmp(server->cors, "*") == 0 ||
	    (server->cors[0] && strcmp(server->cors, origin) == 0))
		return 1;
	if (!at)
		return 0;
	if (own && strcmp(at, own) == 0)
		return 1;
	return address_host(at, host, sizeof(host)) == 0 && address_is_loopback(host);
}

const char *guard_cors(const struct http_server *server, struct MHD_Connection *connection)
{
	const char *origin = header(connection, "Origin");
	if (strcmp(server->cors, "*") == 0)
		return "*";
	return origin && origin_allowed(server, connection, origin) ? origin : NULL;
}

/**
 * is_navigation() - somebody clicked a link, or typed an address: nothing but the window sees the
 * answer.
 */
static int is_navigation(struct MHD_Connection *connection)
{
	const char *mode = header(connection, "Sec-Fetch-Mode");
	return mode && strcmp(mode, "navigate") == 0;
}

int guard_check(const struct http_server *server, struct MHD_Connection *connection,
		const char *path, int open, int hostless, struct http_reply *reply, int *set_cookie)
{
	const char *host = header(connection, "Host");
	*set_cookie = 0;
	if (!(hostless && !host) && !host_allowed(server, host)) {
		http_reply_error(reply, 403,
				 "this Host is not served: use an address or localhost, or allow "
				 "the name with --host");
		return 403;
	}
	const char *origin = header(connection, "Origin"),
		   *site = header(connection, "Sec-Fetch-Site");
	if (origin && !origin_allowed(server, connection, origin)) {
		http_reply_error(
			reply, 403,
			"pages of other origins are not served: allow this one with --cors");
		return 403;
	}
	/*
	 * a page elsewhere may not even load us as a picture; where it sent an allowed Origin that
	 * decides
	 */
	if (site && strcmp(site, "cross-site") == 0 && !origin && strcmp(server->cors, "*") != 0 &&
	    !(open && is_navigation(connection))) {
		http_reply_error(reply, 403, "pages of other sites are not served");
		return 403;
	}
	if (!server->token[0])
		return 0;
	const char *bearer = header(connection, "Authorization");
	const char *cookie =
		http_library.lookup_connection_value(connection, MHD_COOKIE_KIND, "byteledger");
	const char *once = strcmp(path, "/") == 0
				   ? http_library.lookup_connection_value(
					     connection, MHD_GET_ARGUMENT_KIND, "token")
				   : NULL;
	if (once && token_same(once, server->token)) {
		*set_cookie = 1;
		reply->status = 303;
		reply->location = "/";
		return 303;
	}
	if (open)
		return 0;
	if (bearer && strncmp(bearer, "Bearer ", 7) == 0 && token_same(bearer + 7, server->token))
		return 0;
	if (cookie && token_same(cookie, server->token))
		return 0;
	http_reply_error(
		reply, 401,
		"a token is needed: 'Authorization: Bearer TOKEN', or open /?token=TOKEN once");
	return 401;
}
