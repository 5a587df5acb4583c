/* SPDX-License-Identifier: Apache-2.0 */
#include "api/http.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/late.h"
#include "base/zonce.h"

#define HTTP_PORT 17832
#define DESCRIPTORS_KEPT 32
#define DESCRIPTORS_LEAST 8

#define STREAM_PAUSE_NS 250000000L
#define HTTP_THREAD_STACK (512u << 10)
/* until a comment keeps a silent stream open: by the clock, pauses are long where there is load */
#define STREAM_HEARTBEAT_NS 5000000000ull

/* ---- replies --------------------------------------------------------------------------------- */

/* What to do where memory was refused; NULL: nobody bounds it. */
static const char *memory_hint;

void http_memory_hint(const char *hint)
{
	memory_hint = hint;
}

static void reply_json(struct http_reply *reply, unsigned status, const char *text,
		       const char *hint)
{
	buf_clear(&reply->body);
	reply->status = status;
	reply->content_type = NULL;
	reply->cache = reply->encoding = reply->policy = NULL;
	reply->disposition[0] = '\0';
	reply->etag[0] = '\0';
	reply->lent = NULL;
	char *json = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&json, &len);
	if (!to)
		return;
	struct jsonw w;
	jsonw_init(&w, to);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "error", text);
	if (hint && *hint)
		jsonw_str(&w, "hint", hint);
	jsonw_object_end(&w);
	if (fclose(to) == 0)
		buf_put(&reply->body, json, len);
	free(json);
}

void http_reply_error(struct http_reply *reply, unsigned status, const char *fmt, ...)
{
	char text[768];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	reply_json(reply, status, text, NULL);
}

void http_reply_err(struct http_reply *reply, const struct err *err)
{
	const char *hint = err->hint[0] || err->code != -ENOMEM ? err->hint : memory_hint;
	char text[sizeof(err->msg)];
	reply_json(reply, http_status_of(err->code), http_sentence(err, text, sizeof(text)), hint);
}

/* ---- requests -------------------------------------------------------------------------------- */

const char *http_request_tail(const struct http_request *request)
{
	return request->tail;
}

const char *http_request_arg(const struct http_request *request, const char *key)
{
	if (request->local)
		return http_local_arg(request->local, key);
	return http_library.lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND,
						    key);
}

struct known {
	const char *const *names;
	/* the first that is none of them */
	const char *other;
};

static enum MHD_Result look_up(void *cls, enum MHD_ValueKind kind, const char *key,
			       const char *value)
{
	(void)kind;
	(void)value;
	struct known *known = cls;
	for (size_t i = 0; known->names[i]; i++)
		if (!key[0] || strcmp(known->names[i], key) == 0)
			return MHD_YES;
	known->other = key;
	return MHD_NO;
}

static void each_arg(const struct http_request *request, MHD_KeyValueIterator each, void *ctx)
{
	const struct http_local *local = request->local;
	if (!local)
		http_library.get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, each,
						   ctx);
	for (size_t i = 0; local && i < local->count; i++)
		if (each(ctx, MHD_GET_ARGUMENT_KIND, local->keys[i], local->values[i]) != MHD_YES)
			break;
}

int http_request_only(const struct http_request *request, const char *const *names,
		      struct http_reply *reply)
{
	struct known known = { .names = names };
	char list[480] = "";
	each_arg(request, look_up, &known);
	if (!known.other)
		return 0;
	for (size_t i = 0, len = 0; names[i] && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
					names[i]);
	http_reply_error(reply, 400, "there is no parameter '%.40s' here, but %s", known.other,
			 list);
	return -EINVAL;
}

static enum MHD_Result add_bytes(void *cls, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	(void)kind;
	*(size_t *)cls += strlen(key) + (value ? strlen(value) : 0) + 2;
	return MHD_YES;
}

size_t http_request_bytes(const struct http_request *request)
{
	size_t bytes = 0;
	each_arg(request, add_bytes, &bytes);
	return bytes;
}

const char *http_request_body(const struct http_request *request, size_t *len)
{
	*len = request->body ? request->body->bytes.len : 0;
	return !request->body ? NULL : request->body->bytes.data ? request->body->bytes.data : "";
}

int http_request_guarded(const struct http_request *request)
{
	return request->server && request->server->token[0] != '\0';
}

int http_request_gone(const struct http_request *request)
{
	if (request->local)
		return request->local->stop && atomic_load(request->local->stop);
	const union MHD_ConnectionInfo *info = http_library.get_connection_info(
		request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	char byte;
	if (!info)
		return 0;
	ssize_t n = recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

int http_request_has_etag(const struct http_request *request, const char *etag)
{
	const char *given = http_request_header(request, "If-None-Match");
	const char *at = given ? strstr(given, etag) : NULL;
	return at != NULL || (given && strcmp(given, "*") == 0);
}

const char *http_request_header(const struct http_request *request, const char *name)
{
	return request->local ? NULL
			      : http_library.lookup_connection_value(request->connection,
								     MHD_HEADER_KIND, name);
}

int http_request_u64(const struct http_request *request, const char *key, uint64_t *value,
		     struct http_reply *reply)
{
	const char *text = http_request_arg(request, key);
	if (!text)
		return 0;
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno) {
		http_reply_error(
			reply, 400,
			"'%s' is a whole number from 0 to 18446744073709551615, not '%.40s'", key,
			text);
		return -EINVAL;
	}
	*value = v;
	return 1;
}

int http_request_bool(const struct http_request *request, const char *key, int *value,
		      struct http_reply *reply)
{
	const char *text = http_request_arg(request, key);
	if (!text)
		return 0;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
		http_reply_error(reply, 400, "'%s' is true or false, not '%.40s'", key, text);
		return -EINVAL;
	}
	*value = text[0] == 't';
	return 1;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct stream {
	/* NULL: pieces of a body, not events */
	struct http_server *server;
	int (*more)(void *stream, struct buf *out);
	void (*free_fn)(void *stream);
	void *ctx;
	struct buf out;
	size_t sent;
	/* CLOCK_MONOTONIC, when something was last said */
	uint64_t said_ns;
	/* the body's last piece is in @out */
	int last;
};

static ssize_t stream_send(struct stream *s, char *to, size_t max)
{
	size_t n = s->out.len - s->sent < max ? s->out.len - s->sent : max;
	memcpy(to, s->out.data + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static ssize_t body_read(void *cls, uint64_t pos, char *to, size_t max)
{
	struct stream *s = cls;
	(void)pos;
	while (s->sent == s->out.len) {
		if (s->last)
			return MHD_CONTENT_READER_END_OF_STREAM;
		buf_clear(&s->out);
		s->sent = 0;
		int rc = s->more(s->ctx, &s->out);
		if (rc < 0 || buf_failed(&s->out))
			return MHD_CONTENT_READER_END_WITH_ERROR;
		s->last = rc == 0;
	}
	return stream_send(s, to, max);
}

static ssize_t stream_read(void *cls, uint64_t pos, char *to, size_t max)
{
	struct stream *s = cls;
	(void)pos;
	if (s->sent == s->out.len) {
		buf_clear(&s->out);
		s->sent = 0;
		if (s->more(s->ctx, &s->out) < 0 || buf_failed(&s->out))
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (!s->out.len) {
			nanosleep(&(struct timespec){ .tv_nsec = STREAM_PAUSE_NS }, NULL);
			if (clock_ns(CLOCK_MONOTONIC) - s->said_ns < STREAM_HEARTBEAT_NS)
				return 0;
			buf_puts(&s->out, ": still here\n\n");
		}
		s->said_ns = clock_ns(CLOCK_MONOTONIC);
	}
	return stream_send(s, to, max);
}

static void stream_free(void *cls)
{
	struct stream *s = cls;
	if (s->server)
		atomic_fetch_sub(&s->server->streams, 1);
	if (s->free_fn)
		s->free_fn(s->ctx);
	buf_fini(&s->out);
	free(s);
}

/* ---- one request ----------------------------------------------------------------------------- */

static struct MHD_Response *respond(struct http_server *server, struct http_reply *reply)
{
	if (reply->stream_more || reply->body_more) {
		struct stream *s = calloc(1, sizeof(*s));
		struct MHD_Response *response = NULL;
		if (s) {
			*s = (struct stream){ .server = reply->stream_more ? server : NULL,
					      .more = reply->stream_more ? reply->stream_more
									 : reply->body_more,
					      .free_fn = reply->stream_free,
					      .said_ns = clock_ns(CLOCK_MONOTONIC),
					      .ctx = reply->stream };
			s->out = reply->body; /* what is there already goes first */
			reply->body = (struct buf){ 0 };
			if (s->server)
				atomic_fetch_add(&server->streams, 1);
			response = http_library.create_response_from_callback(
				MHD_SIZE_UNKNOWN, 16384, s->server ? stream_read : body_read, s,
				stream_free);
			if (!response)
				stream_free(s);
		} else if (reply->stream_free) {
			reply->stream_free(reply->stream);
		}
		return response;
	}
	if (reply->lent)
		return http_library.create_response_from_buffer(
			reply->lent_len, (void *)reply->lent, MHD_RESPMEM_PERSISTENT);
	if (buf_failed(&reply->body))
		http_reply_error(reply, 500, "out of memory");
	struct MHD_Response *response = http_library.create_response_from_buffer(
		reply->body.len, reply->body.data, MHD_RESPMEM_MUST_FREE);
	if (response)
		reply->body = (struct buf){ 0 };
	return response;
}

#define COMPRESS_MIN 1024

/** accepts() - is @coding among what the client takes? "q=0" refuses it. */
static int accepts(struct MHD_Connection *connection, const char *coding)
{
	const char *at = http_library.lookup_connection_value(connection, MHD_HEADER_KIND,
							      "Accept-Encoding");
	size_t len = strlen(coding);
	while (at && *at) {
		at += strspn(at, " \t,");
		const char *end = at + strcspn(at, ",");
		size_t word = strcspn(at, ",; \t");
		const char *q = memmem(at, (size_t)(end - at), "q=0", 3);
		int refused = q && strspn(q + 2, "0.") == strcspn(q + 2, ", \t");
		if (word == len && strncasecmp(at, coding, len) == 0 && !refused)
			return 1;
		at = end;
	}
	return 0;
}

/**
 * compress() - what is large enough to be worth it; as it is where that fails, or does not make it
 * smaller.
 */
static void compress(struct MHD_Connection *connection, struct http_reply *reply)
{
	CLEANUP(buf_fini) struct buf out = { 0 };
	if (reply->stream_more || reply->body_more || reply->encoding || reply->lent ||
	    reply->body.len < COMPRESS_MIN || buf_failed(&reply->body))
		return;
	const char *coding = accepts(connection, "zstd")   ? "zstd"
			     : accepts(connection, "gzip") ? "gzip"
							   : NULL;
	if (!coding)
		return;
	int rc = coding[0] == 'z' ? zonce_zstd(&out, reply->body.data, reply->body.len)
				  : zonce_gzip(&out, reply->body.data, reply->body.len);
	if (rc < 0 || out.len >= reply->body.len)
		return;
	struct buf plain = reply->body;
	reply->body = out;
	out = plain;
	reply->encoding = coding;
}

/*
 * Answers that say the same have the same tag, whatever they are packed in; whoever has it already
 * gets no second copy.
 */
static void tag(struct MHD_Connection *connection, struct http_reply *reply)
{
	const struct http_request request = { .connection = connection };
	uint64_t hash = 0xcbf29ce484222325ull;
	size_t i = 0;
	if (reply->untagged || reply->etag[0] || reply->stream_more || reply->body_more ||
	    reply->lent || buf_failed(&reply->body) || !reply->body.len ||
	    (reply->status && reply->status != 200))
		return;
	for (; i + 8 <= reply->body.len; i += 8) {
		uint64_t word;
		memcpy(&word, reply->body.data + i, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	for (; i < reply->body.len; i++)
		hash = (hash ^ (unsigned char)reply->body.data[i]) * 0x100000001b3ull;
	snprintf(reply->etag, sizeof(reply->etag), "W/\"%016llx\"", (unsigned long long)hash);
	if (http_request_has_etag(&request, reply->etag + 2)) {
		buf_fini(&reply->body);
		reply->status = 304;
	}
}

static enum MHD_Result send_reply(struct http_server *server, struct MHD_Connection *connection,
				  struct http_reply *reply, int set_cookie)
{
	int stream = reply->stream_more != NULL;
	tag(connection, reply);
	compress(connection, reply);
	struct MHD_Response *response = respond(server, reply);
	buf_fini(&reply->body);
	if (!response)
		return MHD_NO;
	unsigned status = reply->status ? reply->status : 200;
	const char *type = stream                ? "text/event-stream"
			   : reply->content_type ? reply->content_type
						 : "application/json";
	const char *cors = guard_cors(server, connection);
	if (status != 304)
		http_library.add_response_header(response, "Content-Type", type);
	http_library.add_response_header(response, "Cache-Control",
					 reply->cache ? reply->cache : "no-store");
	if (reply->etag[0])
		http_library.add_response_header(response, "ETag", reply->etag);
	if (reply->policy)
		http_library.add_response_header(response, "Content-Security-Policy",
						 reply->policy);
	if (reply->disposition[0])
		http_library.add_response_header(response, "Content-Disposition",
						 reply->disposition);
	if (reply->encoding) {
		http_library.add_response_header(response, "Content-Encoding", reply->encoding);
		http_library.add_response_header(response, "Vary", "Accept-Encoding");
	}
	http_library.add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (reply->closes) {
		http_library.add_response_header(response, "Connection", "close");
		http_library.add_response_header(response, "Retry-After", "1");
	}
	if (cors) {
		http_library.add_response_header(response, "Access-Control-Allow-Origin", cors);
		http_library.add_response_header(response, "Vary", "Origin");
	}
	if (reply->location) {
		http_library.add_response_header(response, "Location", reply->location);
		http_library.add_response_header(response, "Referrer-Policy", "no-referrer");
	}
	if (set_cookie) {
		char cookie[TOKEN_MAX + 64];
		snprintf(cookie, sizeof(cookie), "byteledger=%s; HttpOnly; SameSite=Strict; Path=/",
			 server->token);
		http_library.add_response_header(response, "Set-Cookie", cookie);
	}
	enum MHD_Result queued = http_library.queue_response(connection, status, response);
	http_library.destroy_response(response);
	return queued;
}

/* What may be asked, and by whose pages. */
static enum MHD_Result send_options(struct http_server *server, struct MHD_Connection *connection)
{
	struct MHD_Response *response =
		http_library.create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
	const char *cors = guard_cors(server, connection);
	if (!response)
		return MHD_NO;
	http_library.add_response_header(response, "Allow", "GET, HEAD, OPTIONS");
	http_library.add_response_header(response, "Cache-Control", "no-store");
	if (cors) {
		http_library.add_response_header(response, "Access-Control-Allow-Origin", cors);
		http_library.add_response_header(response, "Access-Control-Allow-Methods",
						 "GET, HEAD");
		http_library.add_response_header(response, "Access-Control-Allow-Headers",
						 "Authorization, If-None-Match");
		http_library.add_response_header(response, "Vary", "Origin");
	}
	enum MHD_Result queued = http_library.queue_response(connection, 204, response);
	http_library.destroy_response(response);
	return queued;
}

const struct http_route *http_find_route(const struct http_route *routes, size_t count,
					 const char *path, const char **tail)
{
	const struct http_route *best = NULL;
	size_t best_len = 0;
	*tail = "";
	for (size_t i = 0; i < count; i++) {
		const struct http_route *route = &routes[i];
		size_t len = strlen(route->path);
		int below = len > 1 && route->path[len - 1] == '/';
		if (strncmp(path, route->path, len) != 0 || (best && len <= best_len))
			continue;
		/* a slash behind a route is no other question: clients of older tools write one */
		if (below || !path[len] || strcmp(path + len, "/") == 0) {
			best = route;
			best_len = len;
			*tail = below ? path + len : "";
		}
	}
	return best;
}

static const char got_headers; /* state of a request that has no body */

/** take_body() - the state of a POST. MHD_NO: far too long, the connection goes. */
static enum MHD_Result take_body(struct http_body *body, const char *upload, size_t *upload_len)
{
	size_t room = HTTP_BODY_MAX - body->bytes.len;
	body->too_long |= *upload_len > room;
	buf_put(&body->bytes, upload, *upload_len < room ? *upload_len : room);
	*upload_len = 0;
	return MHD_YES;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one guard a case, in their order */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **state)
{
	struct http_server *server = cls;
	struct http_reply reply = { 0 };
	int set_cookie = 0;
	/*
	 * The first call has the headers only. Other methods are answered then, before a body that
	 * nobody wants; with GET one ends the connection. POST is for the few routes that change
	 * something.
	 */
	int get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	if (!*state && !http_places_set(&server->places, connection, PLACE_ANSWERS)) {
		*state = (void *)&got_headers;
		http_reply_error(&reply, 503, HTTP_TOO_MANY);
		reply.closes = 1;
		return send_reply(server, connection, &reply, 0);
	}
	if (!*state && get) {
		*state = (void *)&got_headers;
		return MHD_YES;
	}
	struct http_body *body = *state && *state != &got_headers ? *state : NULL;
	if (*upload_len)
		return body ? take_body(body, upload, upload_len) : MHD_NO;
	struct http_request request = {
		.connection = connection, .path = path, .server = server, .body = body
	};
	const struct http_route *route =
		http_find_route(server->routes, server->route_count, path, &request.tail);
	/* a page that asks what it may do shows no token, and gets no data */
	int options = strcmp(method, "OPTIONS") == 0, hostless = strcmp(version, "HTTP/1.0") == 0;
	if (guard_check(server, connection, path, options || (route && route->open), hostless,
			&reply, &set_cookie))
		return send_reply(server, connection, &reply, set_cookie);
	if (options)
		return send_options(server, connection);
	int posts = route && route->posts && strcmp(method, "POST") == 0;
	if (!posts && (!get || (route && route->posts == HTTP_POST_ONLY))) {
		http_reply_error(&reply, 405,
				 route && route->posts == HTTP_POST_ONLY
					 ? "only POST is served here: it changes something"
					 : "only GET is served");
		return send_reply(server, connection, &reply, 0);
	}
	if (posts && !body) { /* who may ask is known: now the body may come */
		*state = calloc(1, sizeof(*body));
		return *state ? MHD_YES : MHD_NO;
	}
	if (body && (body->too_long || buf_failed(&body->bytes))) {
		http_reply_error(&reply, 413, "a body is %u bytes at most", HTTP_BODY_MAX);
		return send_reply(server, connection, &reply, 0);
	}
	if (!route)
		http_reply_error(&reply, 404, "no such path: %.100s", path);
	else
		route->handler(route->ctx, &request, &reply);
	reply.untagged = posts; /* "not modified" is no answer to a POST */
	if (reply.stream_more && atomic_load(&server->streams) >= HTTP_STREAMS_MAX) {
		if (reply.stream_free)
			reply.stream_free(reply.stream);
		reply.stream_more = NULL;
		http_reply_error(&reply, 503, "too many event streams are open: at most %d",
				 HTTP_STREAMS_MAX);
	}
	if (reply.stream_more)
		http_places_set(&server->places, connection, PLACE_STREAMS);
	return send_reply(server, connection, &reply, 0);
}

/* The connection may be used again. */
static void on_answered(void *cls, struct MHD_Connection *connection, void **state,
			enum MHD_RequestTerminationCode how)
{
	struct http_server *server = cls;
	struct http_body *body = *state && *state != &got_headers ? *state : NULL;
	(void)how;
	if (body)
		buf_fini(&body->bytes);
	free(body);
	*state = NULL;
	http_places_set(&server->places, connection, PLACE_WAITS);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void describe(struct http_server *server, int fd, int loopback)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	char text[80];
	getsockname(fd, (struct sockaddr *)&addr, &len);
	address_text(&addr, text, sizeof(text));
	snprintf(server->url, sizeof(server->url), "http://%s/", text);
	if (!server->token[0])
		snprintf(server->note, sizeof(server->note),
			 "%s can read what is served; --token-file guards it",
			 loopback ? "every local user" : "everybody who reaches this address");
}

static int copy_hosts(struct http_server *server, const char *const *hosts)
{
	size_t count = 0;
	while (hosts && hosts[count])
		count++;
	server->hosts = calloc(count + 1, sizeof(*server->hosts));
	for (size_t i = 0; server->hosts && i < count; i++) {
		server->hosts[i] = strdup(hosts[i]);
		if (!server->hosts[i])
			return -ENOMEM;
	}
	return server->hosts ? 0 : -ENOMEM;
}

struct http_library http_library;

int http_library_get(struct err *err)
{
	static const char *const files[] = { "libmicrohttpd.so.12", NULL };
	static const struct late_function functions[] = {
		LATE_FUNCTION(http_library, MHD_, lookup_connection_value),
		LATE_FUNCTION(http_library, MHD_, get_connection_values),
		LATE_FUNCTION(http_library, MHD_, create_response_from_callback),
		LATE_FUNCTION(http_library, MHD_, create_response_from_buffer),
		LATE_FUNCTION(http_library, MHD_, add_response_header),
		LATE_FUNCTION(http_library, MHD_, queue_response),
		LATE_FUNCTION(http_library, MHD_, destroy_response),
		LATE_FUNCTION(http_library, MHD_, get_connection_info),
		LATE_FUNCTION(http_library, MHD_, start_daemon),
		LATE_FUNCTION(http_library, MHD_, stop_daemon),
	};
	static struct late late = { .files = files,
				    .package = "libmicrohttpd12",
				    .functions = functions,
				    .count = ARRAY_LEN(functions),
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	return late_get(&late, err);
}

/* Connections take half of the descriptors at most: the others are for what is served. */
static void share_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	rlim_t most = limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? limit.rlim_cur / 2 - DESCRIPTORS_KEPT
							    : DESCRIPTORS_LEAST;
	http_places_share(most < UINT_MAX ? (unsigned)most : UINT_MAX);
}

int http_server_start(const struct http_opt *opt, struct http_server **out, struct err *err)
{
	int rc = http_library_get(err);
	if (rc < 0)
		return rc;
	struct http_server *server = calloc(1, sizeof(*server));
	int loopback = 1, fd = -1;
	if (server)
		http_places_init(&server->places);
	if (!server || copy_hosts(server, opt->hosts) < 0) {
		http_server_stop(server);
		return err_set(err, -ENOMEM, "cannot allocate a server");
	}
	share_descriptors();
	server->routes = opt->routes;
	server->route_count = opt->route_count;
	if (opt->cors)
		snprintf(server->cors, sizeof(server->cors), "%s", opt->cors);
	rc = opt->token_file ? token_load(opt->token_file, server->token, err) : 0;
	if (rc == 0) {
		fd = address_listen(opt->address, HTTP_PORT, HTTP_CONNECTIONS_MAX, &loopback, err);
		rc = fd < 0 ? fd : 0;
	}
	if (rc == 0 && !loopback && !server->token[0] && !opt->no_auth) {
		rc = err_set(err, -EACCES, "cannot serve '%s' beyond this machine without a token",
			     opt->address);
		err_hint(err,
			 "give --token-file FILE, or --no-auth if everybody there may read it");
	}
	if (rc == 0) {
		http_places_warm(HTTP_THREAD_STACK);
		server->daemon = http_library.start_daemon(
			MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
				MHD_USE_POLL,
			0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_PLACES,
			MHD_OPTION_NOTIFY_CONNECTION, http_places_changed, &server->places,
			MHD_OPTION_NOTIFY_COMPLETED, on_answered, server,
			MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768,
			MHD_OPTION_THREAD_STACK_SIZE, (size_t)HTTP_THREAD_STACK, MHD_OPTION_END);
		if (!server->daemon)
			rc = err_set(err, -EIO, "cannot start the HTTP server");
	}
	if (rc < 0) {
		if (fd >= 0)
			close(fd);
		http_server_stop(server);
		return rc;
	}
	describe(server, fd, loopback);
	*out = server;
	return 0;
}

const char *http_server_url(const struct http_server *server)
{
	return server->url;
}

const char *http_server_note(const struct http_server *server)
{
	return server->note[0] ? server->note : NULL;
}

void http_server_stop(struct http_server *server)
{
	if (!server)
		return;
	if (server->daemon)
		http_library.stop_daemon(server->daemon); /* closes the listening socket too */
	for (char **host = server->hosts; host && *host; host++)
		free(*host);
	free(server->hosts);
	http_places_fini(&server->places);
	free(server);
}
