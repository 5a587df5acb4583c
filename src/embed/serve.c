/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - GET /debug/memory of the own process: one thread, one request a connection, a stated bound on everything a
 * stranger can grow. Deliberately tiny: it answers one question and closes.
 */
#include <byteledger.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "embed/embed.h"
#include "proc/text.h"

#define CLIENTS 16u
#define REQUEST_MAX 4096u
#define CLIENT_NS 5000000000ull /* from accept to the last byte of the answer */
#define READING_NS 10000000000ull
#define TOP_DEFAULT 20
#define PAUSE_NS 200000000l /* where the program is out of descriptors */

struct client {
	int fd; /* -1: free */
	uint64_t since_ns;
	size_t got, sent;
	char request[REQUEST_MAX + 1];
	struct buf answer; /* empty: the request is not whole yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t serving; /* the process whose thread runs; a child of fork() has none */

/* Held while a descriptor of ours comes or goes, so that fork() finds none that is not listed here. */
static pthread_mutex_t sockets = PTHREAD_MUTEX_INITIALIZER;
static struct client clients[CLIENTS];
static int listener = -1;
static struct breakdown *reading; /* of the serving thread alone */

static void answer(struct client *c, int status, const char *reason, const char *body, size_t len,
		   uint64_t age_ns)
{
	buf_printf(&c->answer,
		   "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
		   "%zu\r\n"
		   "Age: %llu\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		   "Connection: close\r\n\r\n",
		   status, reason, len, (unsigned long long)(age_ns / 1000000000u));
	buf_put(&c->answer, body, len);
}

static void refuse(struct client *c, int status, const char *reason, const char *why)
{
	answer(c, status, reason, why, strlen(why), 0);
}

/** header() - the value of a header field, cut at the end of its line: 1; 0 where there is none; -1 where @to is too small. */
static int header(char *request, const char *name, char *to, size_t size)
{
	size_t len = strlen(name);
	for (char *line = strstr(request, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		const char *value = line + len + 1;
		while (*value == ' ' || *value == '\t')
			value++;
		size_t n = strcspn(value, " \t\r\n");
		if (n >= size)
			return -1;
		memcpy(to, value, n);
		to[n] = '\0';
		return 1;
	}
	return 0;
}

/** is_local_host() - "localhost" or an address, any port: a web page of another name must not read this (DNS rebinding). */
static int is_local_host(const char *text, int *loopback)
{
	char host[256];
	struct in6_addr in6;
	struct in_addr in;
	size_t len = text[0] == '[' ? strcspn(text, "]") : strcspn(text, ":");
	const char *rest = text + len + (text[len] == ']');
	if (len >= sizeof(host) || (*rest && *rest != ':'))
		return 0;
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[') {
		int ok = text[len] == ']' && inet_pton(AF_INET6, host + 1, &in6) == 1;
		*loopback = ok && IN6_IS_ADDR_LOOPBACK(&in6);
		return ok;
	}
	if (inet_pton(AF_INET, host, &in) == 1) {
		*loopback = ntohl(in.s_addr) >> 24 == 127;
		return 1;
	}
	return *loopback = strcasecmp(host, "localhost") == 0;
}

/** is_foreign() - asked by a web page that is neither of this machine nor our own; what is too long to judge is foreign. */
static int is_foreign(char *request)
{
	char host[256], origin[256], site[32];
	int loopback;
	if (header(request, "Host", host, sizeof(host)) != 1 || !is_local_host(host, &loopback))
		return 1;
	int found = header(request, "Sec-Fetch-Site", site, sizeof(site));
	if (found < 0 || (found && strcmp(site, "cross-site") == 0))
		return 1;
	found = header(request, "Origin", origin, sizeof(origin));
	if (found <= 0)
		return found < 0;
	const char *at = strncmp(origin, "http://", 7) == 0    ? origin + 7
			 : strncmp(origin, "https://", 8) == 0 ? origin + 8
							       : "";
	return strcasecmp(at, host) != 0 && !(is_local_host(at, &loopback) && loopback);
}

static void respond(struct client *c)
{
	char *line = c->request, *query;
	if (strncmp(line, "GET ", 4) != 0) {
		refuse(c, 405, "Method Not Allowed", "only GET\n");
		return;
	}
	if (is_foreign(c->request)) {
		refuse(c, 403, "Forbidden",
		       "this address is for local users: ask by IP or localhost\n");
		return;
	}
	line += 4;
	line[strcspn(line, " \r\n")] = '\0';
	query = strchr(line, '?');
	if (query)
		*query++ = '\0';
	if (strcmp(line, "/debug/memory") != 0) {
		refuse(c, 404, "Not Found", "only /debug/memory\n");
		return;
	}
	long top = TOP_DEFAULT;
	int own = 0;
	for (char *save, *word = query ? strtok_r(query, "&", &save) : NULL; word;
	     word = strtok_r(NULL, "&", &save)) {
		char *end;
		if (strncmp(word, "top=", 4) == 0 &&
		    ((top = strtol(word + 4, &end, 10)),
		     *end || end == word + 4 || top < 1 || top > EMBED_TOP_MAX)) {
			refuse(c, 400, "Bad Request", "top: a number from 1 to 1000\n");
			return;
		}
		if (strncmp(word, "top=", 4) != 0 && strncmp(word, "format=", 7) != 0) {
			refuse(c, 400, "Bad Request", "only top=N and format=text\n");
			return;
		}
		own |= strcmp(word, "format=text") == 0;
		if (strncmp(word, "format=", 7) == 0 && !own) {
			refuse(c, 400, "Bad Request",
			       "format: only text; none is the known layout\n");
			return;
		}
	}
	if (!reading || clock_ns(CLOCK_MONOTONIC) - reading->end_ns > READING_NS) {
		int code;
		breakdown_free(reading);
		reading = embed_read(EMBED_TOP_MAX, &code);
		if (!reading) {
			refuse(c, 500, "Internal Server Error",
			       "cannot read /proc/self/smaps: is /proc mounted?\n");
			return;
		}
	}
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (own) {
		regions_text(&text, reading, &(struct regions_text_opt){ .top = (size_t)top });
	} else {
		char title[64];
		snprintf(title, sizeof(title), "Top %ld Memory Regions", top);
		regions_compat(&text, reading, (size_t)top, title);
	}
	answer(c, 200, "OK", buf_failed(&text) ? "" : text.data, text.len,
	       clock_ns(CLOCK_MONOTONIC) - reading->end_ns);
}

static void drop(struct client *c)
{
	pthread_mutex_lock(&sockets);
	close(c->fd);
	c->fd = -1;
	pthread_mutex_unlock(&sockets);
	buf_fini(&c->answer);
}

/* The next caller gets a place. Return: 0, or the negative errno of accept(). */
static int take(void)
{
	struct client *place = &clients[0];
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (clients[i].fd < 0) {
			place = &clients[i];
			break;
		}
		if (clients[i].since_ns < place->since_ns)
			place = &clients[i];
	}
	pthread_mutex_lock(&sockets);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), code = errno;
	if (fd >= 0 && place->fd >= 0)
		close(place->fd); /* the oldest: slow readers do not keep others out */
	if (fd >= 0)
		place->fd = fd;
	pthread_mutex_unlock(&sockets);
	if (fd < 0)
		return -code;
	buf_fini(&place->answer);
	place->since_ns = clock_ns(CLOCK_MONOTONIC);
	place->got = place->sent = 0;
	return 0;
}

static void move(struct client *c)
{
	if (!c->answer.len) {
		ssize_t got = recv(c->fd, c->request + c->got, REQUEST_MAX - c->got, MSG_DONTWAIT);
		if (got <= 0) {
			if (got == 0 || (errno != EAGAIN && errno != EINTR))
				drop(c);
			return;
		}
		c->got += (size_t)got;
		c->request[c->got] = '\0';
		if (strstr(c->request, "\r\n\r\n"))
			respond(c);
		else if (c->got == REQUEST_MAX)
			refuse(c, 431, "Request Header Fields Too Large", "too long\n");
		if (buf_failed(&c->answer)) {
			drop(c);
			return;
		}
	}
	if (c->sent < c->answer.len) {
		ssize_t put = send(c->fd, c->answer.data + c->sent, c->answer.len - c->sent,
				   MSG_DONTWAIT | MSG_NOSIGNAL);
		if (put > 0)
			c->sent += (size_t)put;
		else if (put < 0 && errno != EAGAIN && errno != EINTR)
			c->sent = c->answer.len;
	}
	if (c->answer.len && c->sent == c->answer.len) {
		shutdown(c->fd, SHUT_WR);
		drop(c);
	}
}

/* Out of descriptors or memory the next poll() fails, or wakes for the same caller, at once: not at the program's cost. */
static void pause_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}

static void *serve(void *arg)
{
	prctl(PR_SET_NAME, "byteledger");
	for (;;) {
		struct pollfd fds[CLIENTS + 1] = { { .fd = listener, .events = POLLIN } };
		int timeout = -1;
		for (unsigned i = 0; i < CLIENTS; i++) {
			if (clients[i].fd >= 0 &&
			    clock_ns(CLOCK_MONOTONIC) - clients[i].since_ns > CLIENT_NS)
				drop(&clients[i]);
			fds[i + 1] = (struct pollfd){ .fd = clients[i].fd,
						      .events = clients[i].answer.len ? POLLOUT
										      : POLLIN };
			if (clients[i].fd >= 0)
				timeout = 1000;
		}
		int ready = poll(fds, CLIENTS + 1, timeout);
		if (ready < 0 && errno != EINTR)
			pause_a_little();
		if (ready <= 0)
			continue;
		for (unsigned i = 0; i < CLIENTS; i++)
			if (clients[i].fd >= 0 && fds[i + 1].revents)
				move(&clients[i]);
		if (fds[0].revents) {
			int rc = take();
			if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -ECONNABORTED)
				pause_a_little();
		}
	}
	return arg;
}

/* ---- fork() ---------------------------------------------------------------------------------------------------------- */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&sockets);
}

static void parent_after_fork(void)
{
	pthread_mutex_unlock(&sockets);
	pthread_mutex_unlock(&lock);
}

/*
 * The thread stayed with the parent: callers would wait for ever at a listener that is open here, too, and the child could
 * not bind the address once the parent has ended. The answers and the reading may have been half made; they are let go.
 */
static void child_after_fork(void)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (serving && clients[i].fd >= 0)
			close(clients[i].fd);
		clients[i].answer = (struct buf){ 0 };
	}
	if (listener >= 0)
		close(listener);
	listener = -1;
	reading = NULL;
	serving = 0;
	parent_after_fork();
}

static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}

/** parse() - "127.0.0.1:6060", "[::1]:6060", ":6060". */
static int parse(const char *text, struct sockaddr_storage *to, socklen_t *len)
{
	char copy[80];
	if (!text || strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	char *colon = strrchr(copy, ':'), *end;
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	long port = strtol(colon + 1, &end, 10);
	if (*end || end == colon + 1 || port < 1 || port > 65535)
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	size_t host = strlen(copy);
	if (copy[0] == '[' && host > 2 && copy[host - 1] == ']') {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
		copy[host - 1] = '\0';
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*in6);
		if (inet_pton(AF_INET6, copy + 1, &in6->sin6_addr) != 1)
			return -EINVAL;
		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ? 0 : -EACCES;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*len = sizeof(*in);
	if (inet_pton(AF_INET, host && strcmp(copy, "localhost") != 0 ? copy : "127.0.0.1",
		      &in->sin_addr) != 1)
		return -EINVAL;
	return ntohl(in->sin_addr.s_addr) >> 24 == 127 ? 0 : -EACCES;
}

static int start(const struct sockaddr_storage *address, socklen_t len)
{
	int one = 1, fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)address, len) < 0 || listen(fd, 64) < 0) {
		int code = -errno;
		close(fd);
		return code;
	}
	/* signals are the program's: none may be handled on this thread */
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_t thread;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	listener = fd;
	int rc = -pthread_create(&thread, &attr, serve, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc < 0) {
		close(fd);
		listener = -1;
	}
	return rc;
}

EXPORT int byteledger_serve(const char *addr_port)
{
	struct sockaddr_storage address;
	socklen_t len;
	int saved_errno = errno, rc = parse(addr_port, &address, &len);
	if (rc < 0)
		return rc;
	pthread_once(&prepared, prepare);
	pthread_mutex_lock(&lock);
	rc = serving == getpid() ? -EBUSY : start(&address, len);
	if (rc == 0)
		serving = getpid();
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
	return rc;
}
