/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - the one HTTP server that all routes use: loopback unless told otherwise, Host and Origin
 * checked, token, bounds on everything a stranger can grow. GET only, but for routes that take a
 * small body.
 *
 * A thread a connection, HTTP_CONNECTIONS_MAX at most; handlers run on them, several at once, and
 * must only touch what is made for that (store readers of their own, snaps). A handler fills a
 * struct http_reply; bytes go out when it returns.
 */
#ifndef API_HTTP_H
#define API_HTTP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HTTP_CONNECTIONS_MAX \
	128 /* open at once; the next one takes the place of who waited longest */
#define HTTP_CONNECTIONS_PER_IP 64
#define HTTP_IDLE_SECONDS \
	15 /* a client that is slower than this between bytes loses its connection */
#define HTTP_BODY_MAX (64u << 10)
#define HTTP_STREAMS_MAX 32 /* server-sent event streams */

struct http_server;
struct http_request;

/** struct http_reply - zero-initialised is 200 with an empty JSON body. */
struct http_reply {
	unsigned status;
	/* NULL = application/json */
	const char *content_type;
	struct buf body;
	/* 303 */
	const char *location;
	/* Cache-Control; NULL = no-store */
	const char *cache;
	/* "" = none; else with its quotes */
	char etag[48];
	/* no ETag is made of the body either */
	int untagged;
	/* the connection ends with it; the client may come back in a second */
	int closes;
	/* Content-Security-Policy; NULL = none */
	const char *policy;
	/* Content-Disposition; "" = none */
	char disposition[200];
	/* of what is in @body already; NULL: it may be compressed on the way */
	const char *encoding;
	/* Bytes that outlive the server instead of @body. */
	const void *lent;
	size_t lent_len;
	/*
	 * A stream of server-sent events instead of @body: called on a server thread to append what
	 * has come since; returns 0 (nothing new is fine: it is asked again after 250 ms) or
	 * negative to end. @stream_free releases @stream.
	 */
	int (*stream_more)(void *stream, struct buf *out);
	/*
	 * A body of @content_type in pieces behind what is in @body, so that a long answer never
	 * lies in memory whole: appends the next piece, returns 1 (more follows), 0 (that was the
	 * last), negative to break off.
	 */
	int (*body_more)(void *stream, struct buf *out);
	void (*stream_free)(void *stream);
	void *stream;
};

/** http_reply_error() - {"error":"..."} with @status. */
void http_reply_error(struct http_reply *reply, unsigned status, const char *fmt, ...) PRINTF(3, 4);
/**
 * http_reply_err() - the same from a failure below, with its hint as "hint": -EINVAL and -ERANGE
 * 400, -EPERM 403, -ENOENT and -ESRCH 404,
 * -EMSGSIZE 414, -EBUSY, -EAGAIN and -ETIMEDOUT 503, else 500.
 */
void http_reply_err(struct http_reply *reply, const struct err *err);
/**
 * http_memory_hint() - the hint of -ENOMEM that has none, where memory is bounded on purpose. Lent;
 * before the first request.
 */
void http_memory_hint(const char *hint);

/** http_request_tail() - what follows the route's prefix in the decoded path ("" where it ends). */
const char *http_request_tail(const struct http_request *request);
/**
 * http_request_only() - a query parameter that is none of @names, which ends with NULL: -EINVAL and
 * a 400 that lists them.
 */
int http_request_only(const struct http_request *request, const char *const *names,
		      struct http_reply *reply);
/**
 * http_request_arg() - decoded value of a query parameter; NULL where it is absent. The first one
 * counts.
 */
const char *http_request_arg(const struct http_request *request, const char *key);
/** http_request_header() - value of a header; NULL where it is absent. */
const char *http_request_header(const struct http_request *request, const char *name);
/** http_request_body() - what was POSTed; NULL: it is a GET. */
const char *http_request_body(const struct http_request *request, size_t *len);
/** http_request_guarded() - the server asks for a token, so this client has it. */
int http_request_guarded(const struct http_request *request);
/** http_request_gone() - the client has hung up: what is worked on need not be finished. Cheap. */
int http_request_gone(const struct http_request *request);
/** http_request_has_etag() - If-None-Match names @etag: answer 304 without a body. */
int http_request_has_etag(const struct http_request *request, const char *etag);
/** http_request_bytes() - of all keys and values of the query together. */
size_t http_request_bytes(const struct http_request *request);
/**
 * http_request_u64() - 1 present, 0 absent (@value untouched), -EINVAL with a 400 already in
 * @reply.
 */
int http_request_u64(const struct http_request *request, const char *key, uint64_t *value,
		     struct http_reply *reply);
/** http_request_bool() - the same for true and false. */
int http_request_bool(const struct http_request *request, const char *key, int *value,
		      struct http_reply *reply);

typedef void (*http_handler)(void *ctx, const struct http_request *request,
			     struct http_reply *reply);

/**
 * enum http_posts - what a route does with POST: nothing, takes it beside GET with a body of
 * HTTP_BODY_MAX at most, or is asked by it alone, for it changes something.
 */
enum http_posts { HTTP_POST_NOT, HTTP_POST_TOO, HTTP_POST_ONLY };

/** struct http_route - @path ends in a slash: everything below it too. The longest match wins. */
struct http_route {
	const char *path;
	http_handler handler;
	void *ctx;
	/*
	 * The page and its assets, which hold no data: served without a token, and to a link that
	 * was clicked elsewhere, which comes as a cross-site navigation without the cookie.
	 */
	int open;
	enum http_posts posts;
};

struct http_opt {
	/* "ADDR:PORT", "[v6]:PORT", ":PORT" or "PORT"; NULL = 127.0.0.1:17832 */
	const char *address;
	/* NULL = none */
	const char *token_file;
	/* allows an address beyond loopback without a token */
	int no_auth;
	/* extra allowed origin, or "*"; NULL = loopback origins only */
	const char *cors;
	/* names allowed in Host beside IP literals and localhost; NULL-terminated */
	const char *const *hosts;
	/* lent for the server's life */
	const struct http_route *routes;
	size_t route_count;
};

/**
 * http_library_get() - load what http_server_start() needs; for who will not be able to reach it by
 * then. -ENOENT: it is not installed.
 */
int http_library_get(struct err *err);

/**
 * http_server_start() - bind, listen, serve until http_server_stop().
 * @err: -EACCES where an address beyond loopback has neither token nor @no_auth; -EADDRINUSE with
 *   a hint.
 */
int http_server_start(const struct http_opt *opt, struct http_server **out, struct err *err);
/**
 * http_server_url() - "http://127.0.0.1:17832/", lent; the port is the real one where 0 was asked
 * for.
 */
const char *http_server_url(const struct http_server *server);
/**
 * http_server_note() - a line for the user on who can read what is served; NULL where a token
 * guards it.
 */
const char *http_server_note(const struct http_server *server);
void http_server_stop(struct http_server *server);

/**
 * http_local_ask() - ask @routes what a GET of @what ("/api/v1/tree?by=module") would, in this
 * process: no port, no connection, nobody else. The whole answer goes to @to. @stop: not 0, and
 * whoever asked has gone; may be NULL. Return: the status; negative errno without one.
 */
int http_local_ask(const struct http_route *routes, size_t count, const char *what,
		   const atomic_int *stop, struct buf *to);

#endif
