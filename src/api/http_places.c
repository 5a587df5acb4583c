/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_places.c - who may hold a connection. The library closes one that is silent for long, and
 * refuses new ones when there are too many: clients that send a byte now and then would keep
 * everybody else out for ever. So it is given more places than we mean to hold, and a new
 * connection takes the place of the one that has waited longest without asking for anything. Where
 * all ask, it is told that there are too many.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/http_internal.h"
#include "base/clock.h"

/* An answer that somebody takes so slowly gives its place up, too, if nobody else can. */
#define ANSWER_NS 30000000000ull

#define THREADS_WARM 8 /* 4 MiB of stacks, which nothing touches */

void http_places_init(struct http_places *places)
{
	memset(places, 0, sizeof(*places));
	pthread_mutex_init(&places->lock, NULL);
}

void http_places_fini(struct http_places *places)
{
	pthread_mutex_destroy(&places->lock);
}

static int same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	if (a->ss_family != b->ss_family)
		return 0;
	return a->ss_family == AF_INET6
		       ? memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0
		       : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* Whether @p has asked; its whole question may lie unread, where its thread finds no processor. */
static int has_asked(const struct http_place *p)
{
	char head[2048];
	if (p->state != PLACE_WAITS)
		return p->state == PLACE_ANSWERS;
	ssize_t got = recv(p->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	return got > 0 && memmem(head, (size_t)got, "\r\n\r\n", 4);
}

/*
 * Whether @p is a better one than @best to be closed; one that has asked for something only if it
 * takes its time.
 */
static int goes_before(const struct http_place *p, const struct http_place *best, uint64_t now_ns)
{
	if (now_ns - p->since_ns < ANSWER_NS && has_asked(p))
		return 0;
	if (p->state != PLACE_WAITS && p->state != PLACE_ANSWERS)
		return 0;
	if (!best || p->state != best->state)
		return !best || p->state == PLACE_WAITS;
	return p->since_ns < best->since_ns;
}

/* ---- one budget for the listeners of this process -------------------------------------------- */

static atomic_uint held_by_all; /* connections of all servers that are not on their way out */
static atomic_uint most_of_all = UINT_MAX;

void http_places_share(unsigned most)
{
	atomic_store(&most_of_all, most);
}

static int is_held(enum http_place_state state)
{
	return state != PLACE_FREE && state != PLACE_REFUSED && state != PLACE_GOES;
}

static void set_state(struct http_place *place, enum http_place_state state)
{
	int was = is_held(place->state), is = is_held(state);
	place->state = state;
	if (is > was)
		atomic_fetch_add(&held_by_all, 1);
	if (is < was)
		atomic_fetch_sub(&held_by_all, 1);
}

/* Nothing was read of it yet, so nothing stands in the way of these bytes. */
static const char too_many[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
			       "Content-Type: application/json\r\nCache-Control: no-store\r\n"
			       "\r\n{\"error\":\"" HTTP_TOO_MANY "\"}\n";

/** close_place() - who has not asked anything yet is told why; the line of others was kept. */
static void close_place(struct http_place *place)
{
	int asks_first =
		!place->has_asked && (place->state == PLACE_WAITS || place->state == PLACE_REFUSED);
	set_state(place, PLACE_GOES);
	if (asks_first)
		(void)!send(place->fd, too_many, sizeof(too_many) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* its thread wakes and lets go of the descriptor, which is open until we are told */
	shutdown(place->fd, SHUT_RDWR);
}

/*
 * All are being answered: @fresh is told so once it asks. Who never asks goes for the next one that
 * is refused.
 */
static void refuse(struct http_places *places, struct http_place *fresh)
{
	struct http_place *oldest = NULL;
	unsigned refused = 0, most = atomic_load(&most_of_all) / 2;
	set_state(fresh, PLACE_REFUSED);
	for (unsigned i = 0; i < HTTP_PLACES; i++) {
		struct http_place *p = &places->all[i];
		if (p->state != PLACE_REFUSED)
			continue;
		refused++;
		if (!oldest || p->since_ns < oldest->since_ns)
			oldest = p;
	}
	if (refused > (most < HTTP_REFUSED_MAX ? most : HTTP_REFUSED_MAX))
		close_place(oldest);
}

/*
 * Close a connection for the new one @fresh if there are too many, of its address (@own) or in all.
 */
static void make_room(struct http_places *places, struct http_place *fresh, int own)
{
	struct http_place *best = NULL;
	unsigned held = 0;
	for (unsigned i = 0; i < HTTP_PLACES; i++) {
		struct http_place *p = &places->all[i];
		if (!is_held(p->state) || (own && !same_address(&p->address, &fresh->address)))
			continue;
		held++;
		if (p != fresh && goes_before(p, best, fresh->since_ns))
			best = p;
	}
	/*
	 * where all listeners together have too many, each new one takes a place of its own
	 * listener
	 */
	if (held <= (own ? HTTP_CONNECTIONS_PER_IP : HTTP_CONNECTIONS_MAX) &&
	    (own || atomic_load(&held_by_all) <= atomic_load(&most_of_all)))
		return;
	if (best)
		close_place(best);
	else
		refuse(places, fresh);
}

static void arrive(struct http_places *places, struct MHD_Connection *connection, void **context)
{
	const union MHD_ConnectionInfo *info =
		http_library.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_place *place = NULL;
	for (unsigned i = 0; i < HTTP_PLACES && !place; i++)
		place = places->all[i].state == PLACE_FREE ? &places->all[i] : NULL;
	if (!info || !place)
		return;
	*place = (struct http_place){ .state = PLACE_FREE,
				      .fd = info->connect_fd,
				      .since_ns = clock_ns(CLOCK_MONOTONIC) };
	socklen_t len = sizeof(place->address);
	if (getpeername(place->fd, (struct sockaddr *)&place->address, &len) < 0)
		place->address.ss_family = AF_UNSPEC;
	*context = place;
	set_state(place, PLACE_WAITS);
	make_room(places, place, 1);
	if (place->state == PLACE_WAITS)
		make_room(places, place, 0);
}

void http_places_changed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_ConnectionNotificationCode what)
{
	struct http_places *places = cls;
	pthread_mutex_lock(&places->lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		arrive(places, connection, context);
	else if (*context)
		set_state(*context, PLACE_FREE);
	pthread_mutex_unlock(&places->lock);
}

int http_places_set(struct http_places *places, struct MHD_Connection *connection,
		    enum http_place_state state)
{
	const union MHD_ConnectionInfo *info =
		http_library.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_place *place = info ? info->socket_context : NULL;
	pthread_mutex_lock(&places->lock);
	int refused = place && place->state == PLACE_REFUSED;
	if (place && is_held(place->state)) {
		set_state(place, state);
		place->has_asked |= state == PLACE_ANSWERS;
		place->since_ns = clock_ns(CLOCK_MONOTONIC);
	}
	pthread_mutex_unlock(&places->lock);
	return !refused;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *wait_to_go(void *go)
{
	while (sem_wait(go) < 0)
		;
	return NULL;
}

void http_places_warm(size_t stack_bytes)
{
	pthread_t threads[THREADS_WARM];
	pthread_attr_t attr;
	sem_t go;
	size_t count = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes);
	sem_init(&go, 0, 0);
	while (count < THREADS_WARM && pthread_create(&threads[count], &attr, wait_to_go, &go) == 0)
		count++;
	for (size_t i = 0; i < count; i++)
		sem_post(&go);
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	sem_destroy(&go);
	pthread_attr_destroy(&attr);
}

/* ---- failures -------------------------------------------------------------------------------- */

unsigned http_status_of(int code)
{
	switch (-code) {
	case EINVAL:
	case ERANGE:
		return 400;
	case EPERM:
		return 403;
	case ENOENT:
	case ESRCH:
		return 404;
	case EMSGSIZE:
		return 414;
	case EBUSY:
	case EAGAIN:
	case ETIMEDOUT:
		return 503;
	case ENOSPC:
	case EDQUOT:
		return 507;
	default:
		return 500;
	}
}

const char *http_sentence(const struct err *err, char *text, size_t size)
{
	const char *reason = strerror(-err->code);
	size_t cut = strlen(reason) + 2;
	snprintf(text, size, "%s", err->msg);
	size_t len = strlen(text);
	if ((err->code == -ENOENT || err->code == -ESRCH) && len > cut &&
	    strcmp(text + len - cut + 2, reason) == 0 && strncmp(text, "cannot", 6) != 0)
		text[len - cut] = '\0';
	return text;
}
