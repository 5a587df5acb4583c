/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_internal.h - what http.c (server), http_guard.c (who may ask) and http_places.c (for how
 * long) share.
 */
#ifndef API_HTTP_INTERNAL_H
#define API_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/http.h"
#include "base/token.h"

/** http_library - libmicrohttpd's functions, which http_server_start() fetches. */
struct http_library {
	__typeof__(&MHD_lookup_connection_value) lookup_connection_value;
	__typeof__(&MHD_get_connection_values) get_connection_values;
	__typeof__(&MHD_create_response_from_callback) create_response_from_callback;
	__typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
	__typeof__(&MHD_get_connection_info) get_connection_info;
	__typeof__(&MHD_start_daemon) start_daemon;
	__typeof__(&MHD_stop_daemon) stop_daemon;
};
extern struct http_library http_library;

/* Beyond those that we mean to hold: they are only told that there are too many. */
#define HTTP_REFUSED_MAX (2 * HTTP_CONNECTIONS_MAX)
/* And as many as we mean to hold that are on their way out. */
#define HTTP_PLACES (2 * HTTP_CONNECTIONS_MAX + HTTP_REFUSED_MAX)

enum http_place_state {
	PLACE_FREE,
	PLACE_WAITS,   /* for a whole request */
	PLACE_ANSWERS, /* or works out what to answer */
	PLACE_STREAMS, /* events, for as long as the client wants: they have a bound of their own */
	PLACE_REFUSED, /* its request gets 503, whatever it is, and is its last one */
	PLACE_GOES     /* closed to make room */
};

/** struct http_place - a connection, from when on it is in its state. */
struct http_place {
	enum http_place_state state;
	/* it has had a whole request, and may send its next one on another connection */
	int has_asked;
	int fd;
	uint64_t since_ns;
	struct sockaddr_storage address;
};

/* What who has no place is told. */
#define HTTP_TOO_MANY "too many connections are open, and all are being answered"

struct http_places {
	pthread_mutex_t lock;
	struct http_place all[HTTP_PLACES];
};

void http_places_init(struct http_places *places);
void http_places_fini(struct http_places *places);
/**
 * http_places_warm() - the C library keeps stacks of threads that have ended: with some of
 * @stack_bytes there, a client is answered even where all other memory is taken for the moment.
 */
void http_places_warm(size_t stack_bytes);
/** http_places_share() - all servers of this process together hold at most so many connections. */
void http_places_share(unsigned most);
/**
 * http_places_changed() - for MHD_OPTION_NOTIFY_CONNECTION, @cls is the places: one came or went.
 */
void http_places_changed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_ConnectionNotificationCode what);
/**
 * http_places_set() - what @connection is at now, unless it is refused or goes. Any thread. 0: it
 * is refused.
 */
int http_places_set(struct http_places *places, struct MHD_Connection *connection,
		    enum http_place_state state);

struct http_server {
	struct MHD_Daemon *daemon;
	const struct http_route *routes;
	size_t route_count;
	/* "" = none */
	char token[TOKEN_MAX];
	char cors[256];
	char **hosts;
	char url[96], note[160];
	atomic_int streams;
	struct http_places places;
};

struct http_request {
	struct MHD_Connection *connection;
	const char *path, *tail;
	const struct http_server *server;
	/* NULL: GET */
	const struct http_body *body;
	/* asked in this process: there is no connection, nor a server */
	const struct http_local *local;
};

#define HTTP_LOCAL_ARGS_MAX 32
/** struct http_local - the arguments of a question that came over no connection. */
struct http_local {
	const char *keys[HTTP_LOCAL_ARGS_MAX], *values[HTTP_LOCAL_ARGS_MAX];
	size_t count;
	/* not 0: whoever asked has gone */
	const atomic_int *stop;
};
const char *http_local_arg(const struct http_local *local, const char *key);
/** http_find_route() - the longest of @routes that @path is of, and what follows it; NULL. */
const struct http_route *http_find_route(const struct http_route *routes, size_t count,
					 const char *path, const char **tail);

/** struct http_body - what a POST brings, piece by piece. */
struct http_body {
	struct buf bytes;
	int too_long;
};

/**
 * guard_check() - 0 where the request may go on; else a status with @reply filled. May ask for the
 * token cookie to be set. @open: see struct http_route. @hostless: one of HTTP/1.0, which need not
 * name the host; no browser sends such.
 */
int guard_check(const struct http_server *server, struct MHD_Connection *connection,
		const char *path, int open, int hostless, struct http_reply *reply,
		int *set_cookie);
/** guard_cors() - the origin to answer in Access-Control-Allow-Origin, NULL for none. */
const char *guard_cors(const struct http_server *server, struct MHD_Connection *connection);

/** http_status_of() - of a failure below: see http_reply_err(). */
unsigned http_status_of(int code);
/**
 * http_sentence() - of @err into @text: what a question names and is not there is no file, so
 * "there is no source 7" goes without errno's words; where a call failed, they stay.
 */
const char *http_sentence(const struct err *err, char *text, size_t size);

#endif
