/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h - one server for all that is shown: recordings, stores of nodes, and what is live. In
 * order of use; any thread.
 */
#ifndef API_SERVING_H
#define API_SERVING_H

#include <stddef.h>

#include <stdint.h>

#include "api/http.h"
#include "api/v1.h"
#include "base/err.h"

#define SERVING_HOSTS_MAX 16

/** struct serving_more - what a command serves beside recordings; lent as long as the server. */
struct serving_more {
	const struct http_route *routes;
	/* SERVING_MORE_MAX */
	size_t route_count;
	const struct v1_live *lives;
	size_t live_count;
};
#define SERVING_MORE_MAX 16

/** struct serving_opt - what the options say; zero-initialised. */
struct serving_opt {
	struct http_opt http;
	const char *hosts[SERVING_HOSTS_MAX + 1];
	size_t host_count;
	/* NULL: nothing */
	const struct serving_more *more;
	/* --serve was given */
	int wanted;
	/* the reader's browser is to be started */
	int opens;
	int quiet;
	/* nobody listens: for serving_ask() alone */
	int unheard;
};
/** serving_given() - 1: something is said of who may ask. */
int serving_given(const struct serving_opt *opt);
struct serving;
/**
 * serving_new() - listen and serve @paths (may be none; folders of recordings, stores of recorded
 * nodes), and the files that serving_add() names later. Threads that it starts take no signals.
 * NULL with @err.
 */
struct serving *serving_new(const struct serving_opt *opt, const char *const *paths, size_t count,
			    struct err *err);
/** serving_ask() - http_local_ask() of all that it serves. Any thread. */
int serving_ask(const struct serving *serving, const char *what, const atomic_int *stop,
		struct buf *to);
const char *serving_url(const struct serving *serving);
/** serving_note() - a line on who can read what is served; NULL where a token guards it. Lent. */
const char *serving_note(const struct serving *serving);
/**
 * serving_open_port() - of 127.0.0.1, where whoever has no token may ask: the program that is
 * recorded itself. 0: there is none.
 */
uint16_t serving_open_port(const struct serving *serving);
/** serving_add() - a recording that is just being written. -ENOMEM, -E2BIG. */
int serving_add(struct serving *serving, const char *path, struct err *err);
/** serving_tell() - v1_tell(): an event for pages that listen. */
void serving_tell(struct serving *serving, const struct v1_alert *alert);
void serving_freep(struct serving **serving);

#endif
