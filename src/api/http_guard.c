/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_guard.c - who may ask: Host, Origin, Sec-Fetch-Site, token; and which address may be bound.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/http_internal.h"

#define DEFAULT_PORT 17832

/*
 * "host", "host:port", "[v6]:port": the host part in lower case without brackets; -1 where the text
 * is no such thing.
 */
static int host_part(const char *text, char *host, size_t cap)
{
	const char *end;
	if (text[0] == '[') {
		text++;
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -1;
	} else {
		end = strchr(text, ':');
		if (!end)
			end = text + strlen(text);
	}
	size_t len = (size_t)(end - text);
	if (!len || len >= cap)
		return -1;
	for (size_t i = 0; i < len; i++)
		host[i] = (char)tolower((unsigned char)text[i]);
	host[len] = '\0';
	return 0;
}

static int is_ip(const char *host)
{
	uint8_t ip[16];
	return inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1;
}

static int is_loopback(const char *host)
{
	uint8_t ip[16];
	if (strcmp(host, "localhost") == 0)
		return 1;
	if (inet_pton(AF_INET, host, ip) == 1)
		return ip[0] == 127;
	return inet_pton(AF_INET6, host, ip) == 1 && memcmp(ip, &in6addr_loopback, 16) == 0;
}

/* IP literals cannot be rebound by somebody's DNS; names must be known. */
static int host_allowed(const struct http_server *server, const char *value)
{
	char host[256];
	if (!value || host_part(value, host, sizeof(host)) < 0)
		return 0;
	if (is_ip(host) || strcmp(host, "localhost") == 0)
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
	return host_part(at, host, sizeof(host)) == 0 && is_loopback(host);
}

const char *guard_cors(const struct http_server *server, struct MHD_Connection *connection)
{
	const char *origin = header(connection, "Origin");
	if (strcmp(server->cors, "*") == 0)
		return "*";
	return origin && origin_allowed(server, connection, origin) ? origin : NULL;
}

/* Comparison whose time does not tell how much was right. */
static int same_token(const char *a, const char *b)
{
	size_t len = strlen(b);
	unsigned char differs = strlen(a) != len;
	for (size_t i = 0; a[i] && i < len; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return !differs;
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
	if (once && same_token(once, server->token)) {
		*set_cookie = 1;
		reply->status = 303;
		reply->location = "/";
		return 303;
	}
	if (open)
		return 0;
	if (bearer && strncmp(bearer, "Bearer ", 7) == 0 && same_token(bearer + 7, server->token))
		return 0;
	if (cookie && same_token(cookie, server->token))
		return 0;
	http_reply_error(
		reply, 401,
		"a token is needed: 'Authorization: Bearer TOKEN', or open /?token=TOKEN once");
	return 401;
}

int guard_load_token(const char *path, char token[HTTP_TOKEN_MAX], struct err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = err_set(err, -errno, "cannot open token file '%s'", path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	ssize_t len = S_ISREG(st.st_mode) ? read(fd, token, HTTP_TOKEN_MAX) : -1;
	close(fd);
	if (len < 0)
		return err_set(err, -EINVAL, "cannot read token file '%s': not a regular file",
			       path);
	if (st.st_mode & 077) {
		err_set(err, -EINVAL, "cannot use token file '%s': others may read or change it",
			path);
		return err_hint(err, "chmod 600 '%s'", path);
	}
	while (len > 0 && isspace((unsigned char)token[len - 1]))
		len--;
	for (ssize_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)token[i]) || strchr("\";,\\", token[i]))
			len = -1;
	}
	if (len < 16 || len >= HTTP_TOKEN_MAX) {
		token[0] = '\0';
		err_set(err, -EINVAL,
			"cannot use token file '%s': not one word of 16 to 255 plain characters",
			path);
		return err_hint(err, "for example: head -c 24 /dev/urandom | base64 > '%s'", path);
	}
	token[len] = '\0';
	return 0;
}

int guard_parse_address(const char *text, struct sockaddr_storage *out, socklen_t *len,
			int *loopback, struct err *err)
{
	char host[256] = "127.0.0.1";
	const char *port_text = text ? strrchr(text, ':') : NULL;
	unsigned long port = DEFAULT_PORT;
	memset(out, 0, sizeof(*out));
	if (text && text[0]) {
		char *end = NULL;
		int only_port = strspn(text, "0123456789") == strlen(text);
		if (port_text && port_text != text && host_part(text, host, sizeof(host)) < 0)
			return err_set(err, -EINVAL, "cannot listen on '%s': not ADDR:PORT", text);
		if (!port_text && !only_port) {
			if (strlen(text) >= sizeof(host))
				return err_set(err, -EINVAL, "cannot listen on '%s': not ADDR:PORT",
					       text);
			strcpy(host, text);
		} else {
			const char *number = only_port ? text : port_text + 1;
			port = strtoul(number, &end, 10);
			if (!number[0] || *end || port > 65535)
				return err_set(err, -EINVAL,
					       "cannot listen on '%s': '%s' is no port", text,
					       number);
		}
	}
	if (strcmp(host, "localhost") == 0)
		strcpy(host, "127.0.0.1");
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*v6);
	} else {
		return err_set(err, -EINVAL, "cannot listen on '%s': '%s' is no IP address", text,
			       host);
	}
	*loopback = is_loopback(host);
	return 0;
}
