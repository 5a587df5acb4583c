/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - GET /debug/memory, /metrics and profiles of the own process: one thread, one request a
 * connection, a stated bound on everything a stranger can grow. Deliberately tiny: it answers one
 * question and closes.
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
#define READING_NS (10 * NS_PER_S)
#define TOP_DEFAULT 20
#define PAUSE_NS 200000000l /* where the program is out of descriptors */

struct client {
	/* -1: free */
	int fd;
	uint64_t since_ns;
	size_t got, sent;
	char request[REQUEST_MAX + 1];
	/* empty: the request is not whole yet */
	struct buf answer;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t serving; /* the process whose thread runs; a child of fork() has none */

/*
 * Held while a descriptor of ours comes or goes, so that fork() finds none that is not listed here.
 */
static pthread_mutex_t sockets = PTHREAD_MUTEX_INITIALIZER;
static struct client clients[CLIENTS];
static int listener = -1;
static struct breakdown *reading; /* of the serving thread alone */
#define TOKEN_MAX 128u
#define TOKEN_MIN 16u
static char token[TOKEN_MAX + 1]; /* empty: none is asked for */

/** struct asked - what one request says of itself. */
struct asked {
	/* a page of this machine or our own; empty: no page asks */
	char origin[256];
	char etag[64];
	const char *type;
};

static void answer_with(struct client *c, const struct asked *asked, int status, const char *reason,
			const char *body, size_t len, uint64_t age_ns)
{
	buf_printf(&c->answer, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n",
		   status, reason, asked && asked->type ? asked->type : "text/plain; charset=utf-8",
		   len);
	if (asked && asked->etag[0])
		buf_printf(&c->answer, "ETag: %s\r\n", asked->etag);
	if (asked && asked->origin[0])
		buf_printf(&c->answer, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n",
			   asked->origin);
	if (status == 204)
		buf_puts(&c->answer, "Allow: GET, OPTIONS\r\nAccess-Control-Allow-Methods: GET\r\n"
				     "Access-Control-Allow-Headers: Authorization\r\n");
	buf_printf(&c->answer,
		   "Age: %llu\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		   "Connection: close\r\n\r\n",
		   (unsigned long long)(age_ns / NS_PER_S));
	buf_put(&c->answer, body, len);
}

static void answer(struct client *c, int status, const char *reason, const char *body, size_t len,
		   uint64_t age_ns)
{
	answer_with(c, NULL, status, reason, body, len, age_ns);
}

static void refuse(struct client *c, int status, const char *reason, const char *why)
{
	answer(c, status, reason, why, strlen(why), 0);
}

/**
 * header_to() - the value of a header field up to one of @stop: 1; 0 where there is none; -1 where
 * @to is too small.
 */
static int header_to(char *request, const char *name, const char *stop, char *to, size_t size)
{
	size_t len = strlen(name);
	for (char *line = strstr(request, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		const char *value = line + len + 1;
		while (*value == ' ' || *value == '\t')
			value++;
		size_t n = strcspn(value, stop);
		if (n >= size)
			return -1;
		memcpy(to, value, n);
		to[n] = '\0';
		return 1;
	}
	return 0;
}

/** header() - its first word. */
static int header(char *request, const char *name, char *to, size_t size)
{
	return header_to(request, name, " \t\r\n", to, size);
}

/* Comparison whose time does not tell how much was right. */
static int same_token(const char *given)
{
	size_t len = strlen(token);
	unsigned char differs = strlen(given) != len;
	for (size_t i = 0; given[i] && i < len; i++)
		differs |= (unsigned char)(given[i] ^ token[i]);
	return !differs;
}

static int shows_token(char *request, const char *parameter)
{
	char given[TOKEN_MAX + 16];
	if (parameter && same_token(parameter))
		return 1;
	return header_to(request, "Authorization", "\r\n", given, sizeof(given)) == 1 &&
	       strncmp(given, "Bearer ", 7) == 0 && same_token(given + 7);
}

/**
 * is_local_host() - "localhost" or an address, any port: a web page of another name must not read
 * this (DNS rebinding).
 */
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

/**
 * is_foreign() - asked by a web page that is neither of this machine nor our own; what is too long
 * to judge is foreign.
 */
static int is_foreign(char *request)
{
	char host[256] = "", origin[256], site[32];
	int loopback, named = header(request, "Host", host, sizeof(host));
	/* HTTP/1.0 need not name the host, and no browser speaks it */
	size_t line = strcspn(request, "\r\n");
	int old = line > 9 && strncmp(request + line - 9, " HTTP/1.0", 9) == 0;
	if ((named != 1 && !(named == 0 && old)) || (named == 1 && !is_local_host(host, &loopback)))
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

/** struct question - /debug/memory's parameters. */
struct question {
	long top;
	int own;
	const char *token;
};

/* NULL, or what is wrong with it. */
static const char *parse_query(char *query, struct question *q)
{
	char *save = NULL;
	for (char *word = query ? strtok_r(query, "&", &save) : NULL; word;
	     word = strtok_r(NULL, "&", &save)) {
		char *end;
		if (strncmp(word, "top=", 4) == 0) {
			q->top = strtol(word + 4, &end, 10);
			if (*end || end == word + 4 || q->top < 1 || q->top > EMBED_TOP_MAX)
				return "top: a number from 1 to 1000\n";
		} else if (strncmp(word, "format=", 7) == 0) {
			q->own = strcmp(word + 7, "text") == 0;
			if (!q->own)
				return "format: only text; none is the known layout\n";
		} else if (token[0] && strncmp(word, "token=", 6) == 0) {
			q->token = word + 6;
		} else {
			return "only top=N and format=text\n";
		}
	}
	return NULL;
}

static int refresh(void)
{
	int code;
	if (reading && clock_ns(CLOCK_MONOTONIC) - reading->end_ns <= READING_NS)
		return 0;
	breakdown_free(reading);
	reading = embed_read(EMBED_TOP_MAX, &code);
	return reading ? 0 : code;
}

static void put_label(struct buf *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_puts(to, "\\n");
		else if (*text == '"' || *text == '\\')
			buf_printf(to, "\\%c", *text);
		else
			buf_putc(to, *text);
	}
}

static void put_metrics(struct buf *to)
{
	static const char gauge[] = "# HELP %s %s\n# TYPE %s gauge\n%s %llu\n";
	const struct {
		const char *name, *help;
		uint64_t value;
	} sums[] = {
		{ "process_resident_memory_bytes", "Resident memory.", reading->rss_bytes },
		{ "process_virtual_memory_bytes", "Mapped memory.", reading->virtual_bytes },
		{ "byteledger_proportional_bytes", "Resident memory, shared pages by their share.",
		  reading->pss_bytes },
		{ "byteledger_smaps_age_seconds", "How old the reading is.",
		  (clock_ns(CLOCK_MONOTONIC) - reading->end_ns) / NS_PER_S },
	};
	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		buf_printf(to, gauge, sums[i].name, sums[i].help, sums[i].name, sums[i].name,
			   (unsigned long long)sums[i].value);
	buf_puts(to, "# HELP byteledger_resident_bytes Resident memory by what it is.\n"
		     "# TYPE byteledger_resident_bytes gauge\n");
	for (size_t i = 0; i < reading->class_count; i++) {
		const struct class_row *row = &reading->classes[i];
		buf_printf(to, "byteledger_resident_bytes{class=\"%s\",label=\"",
			   region_class_name(row->class));
		put_label(to, row->label);
		buf_printf(to, "\"} %llu\n", (unsigned long long)row->rss_bytes);
	}
}

static const char *const paths[] = { "/", "/debug/memory", "/metrics", "/debug/pprof/heap",
				     "/debug/pprof/allocs" };
#define FIRST_PROFILE 3u

static void respond(struct client *c)
{
	char *line = c->request, *query, given[64];
	struct question q = { .top = TOP_DEFAULT };
	struct asked asked = { .etag = "" };
	int options = strncmp(line, "OPTIONS ", 8) == 0;
	if (!options && strncmp(line, "GET ", 4) != 0) {
		refuse(c, 405, "Method Not Allowed", "only GET\n");
		return;
	}
	if (is_foreign(c->request)) {
		refuse(c, 403, "Forbidden",
		       "this address is for local users: ask by IP or localhost\n");
		return;
	}
	if (header(c->request, "Origin", asked.origin, sizeof(asked.origin)) != 1)
		asked.origin[0] = '\0';
	if (options) {
		answer_with(c, &asked, 204, "No Content", "", 0, 0);
		return;
	}
	int tagged = header_to(c->request, "If-None-Match", "\r\n", given, sizeof(given)) == 1;
	int authorised = !token[0] || shows_token(c->request, NULL);
	line += 4;
	line[strcspn(line, " \r\n")] = '\0';
	query = strchr(line, '?');
	if (query)
		*query++ = '\0';
	unsigned path = 0;
	while (path < ARRAY_LEN(paths) && strcmp(line, paths[path]) != 0)
		path++;
	if (path == ARRAY_LEN(paths)) {
		refuse(c, 404, "Not Found",
		       "only /debug/memory, /metrics, /debug/pprof/heap, /debug/pprof/allocs and "
		       "/\n");
		return;
	}
	const char *wrong = parse_query(query, &q);
	if (!authorised && !(q.token && same_token(q.token))) {
		refuse(c, 401, "Unauthorized",
		       "a token is needed: 'Authorization: Bearer TOKEN', or token=TOKEN\n");
		return;
	}
	if (wrong) {
		refuse(c, 400, "Bad Request", wrong);
		return;
	}
	if (path == 0) {
		static const char served[] =
			"libbyteledger: where this process's memory is\n"
			"/debug/memory?top=N   the known layout; format=text: byteledger's own\n"
			"/metrics              for Prometheus\n"
			"/debug/pprof/heap     of its heap recording, where 'byteledger run "
			"--serve' makes one; "
			"also /debug/pprof/allocs\n";
		answer_with(c, &asked, 200, "OK", served, sizeof(served) - 1, 0);
		return;
	}
	if (path >= FIRST_PROFILE) {
		int status;
		const char *why = embed_recorded(paths[path], &c->answer, &status);
		if (why)
			refuse(c, status, status == 404 ? "Not Found" : "Bad Gateway", why);
		return;
	}
	if (refresh() < 0) {
		refuse(c, 500, "Internal Server Error",
		       "cannot read /proc/self/smaps: is /proc mounted?\n");
		return;
	}
	CLEANUP(buf_fini) struct buf text = { 0 };
	uint64_t age_ns = clock_ns(CLOCK_MONOTONIC) - reading->end_ns;
	if (path == 2) {
		put_metrics(&text);
		asked.type = "text/plain; version=0.0.4; charset=utf-8";
	} else {
		snprintf(asked.etag, sizeof(asked.etag), "\"%llx-%lx-%d\"",
			 (unsigned long long)reading->end_ns, (unsigned long)q.top, q.own);
		if (tagged && strstr(given, asked.etag)) {
			answer_with(c, &asked, 304, "Not Modified", "", 0, age_ns);
			return;
		}
		char title[64];
		snprintf(title, sizeof(title), "Top %ld Memory Regions", q.top);
		if (q.own)
			regions_text(&text, reading,
				     &(struct regions_text_opt){ .top = (size_t)q.top });
		else
			regions_compat(&text, reading, (size_t)q.top, title);
	}
	answer_with(c, &asked, 200, "OK", buf_failed(&text) ? "" : text.data, text.len, age_ns);
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

/*
 * Out of descriptors or memory the next poll() fails, or wakes for the same caller, at once: not at
 * the program's cost.
 */
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

/* ---- fork() ---------------------------------------------------------------------------------- */

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
 * The thread stayed with the parent: callers would wait for ever at a listener that is open here,
 * too, and the child could not bind the address once the parent has ended. The answers and the
 * reading may have been half made; they are let go.
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

static int is_token(const char *text)
{
	size_t len = text ? strnlen(text, TOKEN_MAX + 1) : 0;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= 0x20 || text[i] > 0x7e || text[i] == '&' || text[i] == '%')
			return 0;
	return len >= TOKEN_MIN && len <= TOKEN_MAX;
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
	pthread_attr_setstacksize(&attr, 512 * 1024); /* readers of heaps use a third of it */
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

static int serve_on(const char *addr_port, const char *wanted)
{
	struct sockaddr_storage address;
	socklen_t len;
	int saved_errno = errno, rc = parse(addr_port, &address, &len);
	if (rc == -EACCES && wanted)
		rc = 0;
	if (rc < 0)
		return rc;
	pthread_once(&prepared, prepare);
	pthread_mutex_lock(&lock);
	if (serving == getpid()) {
		rc = -EBUSY;
	} else {
		snprintf(token, sizeof(token), "%s", wanted ? wanted : "");
		rc = start(&address, len);
	}
	if (rc == 0)
		serving = getpid();
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
	return rc;
}

EXPORT int byteledger_serve(const char *addr_port)
{
	return serve_on(addr_port, NULL);
}

EXPORT int byteledger_serve_token(const char *addr_port, const char *wanted)
{
	return is_token(wanted) ? serve_on(addr_port, wanted) : -EINVAL;
}
