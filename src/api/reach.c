/* SPDX-License-Identifier: Apache-2.0 */
#include "api/reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/memory_live.h"
#include "api/serving.h"
#include "base/cleanup.h"
#include "watch/watchers.h"

#define ANSWER_MAX (64u << 20)
#define PAUSE_MS 100 /* between two looks at whether anybody still waits */
#define PATIENCE_MS 15000
#define AGAIN_MS 100     /* as a server says with 202; after 2 s it would give up the work */
#define WAIT "&wait=250" /* all that it takes (docs/api.md 1) */

struct reach {
	/* in this process */
	struct serving *serving;
	const char *files[1];
	/* of one process */
	struct watchers *watchers;
	struct targets targets;
	struct memory_live live;
	struct serving_more more;
	pthread_t thread;
	int has_thread, over_fd;
	/* elsewhere */
	char host[256], port[8], token[256];
};

/* ---- in this process ------------------------------------------------------------------------- */

static struct reach *reach_new(struct err *err)
{
	struct reach *r = calloc(1, sizeof(*r));
	if (!r)
		err_set(err, -ENOMEM, "cannot look at it");
	else
		r->over_fd = -1;
	return r;
}

struct reach *reach_file(const char *path, struct err *err)
{
	const struct serving_opt opt = { .unheard = 1, .quiet = 1 };
	struct reach *r = reach_new(err);
	if (!r)
		return NULL;
	r->files[0] = path;
	r->serving = serving_new(&opt, r->files, 1, err);
	if (r->serving)
		return r;
	reach_free(r);
	return NULL;
}

static int on_over(void *ctx)
{
	(void)ctx;
	return 1;
}

static void *watch(void *ctx)
{
	struct reach *r = ctx;
	struct err err = {
		0
	}; /* what it says then is that the process has ended, which answers do, too */
	watchers_run(r->watchers, &err);
	return NULL;
}

static int begin_watching(struct reach *r, pid_t pid, struct err *err)
{
	struct target_list list = { .pids = &pid, .count = 1 };
	sigset_t all, before;
	r->targets = (struct targets){ .pids = { pid }, .pid_count = 1 };
	r->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->over_fd < 0)
		return err_set(err, -errno, "cannot watch process %d", (int)pid);
	const struct watchers_opt opt = { .ears = { .ctx = r, .signalled = on_over },
					  .targets = &r->targets,
					  .signals = r->over_fd };
	r->watchers = watchers_new(&opt, &list, err);
	if (!r->watchers)
		return err->code;
	int rc = memory_live_init(&r->live, watchers_set(r->watchers), 0, err);
	if (rc < 0)
		return rc;
	r->more = memory_live_more(&r->live);
	const struct serving_opt serving = { .unheard = 1, .quiet = 1, .more = &r->more };
	r->serving = serving_new(&serving, r->live.files, r->live.file_count, err);
	if (!r->serving)
		return err->code;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&r->thread, NULL, watch, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	r->has_thread = rc == 0;
	return rc ? err_set(err, -rc, "cannot watch process %d", (int)pid) : 0;
}

struct reach *reach_process(pid_t pid, struct err *err)
{
	struct reach *r = reach_new(err);
	if (!r || begin_watching(r, pid, err) == 0)
		return r;
	reach_free(r);
	return NULL;
}

/* ---- elsewhere ------------------------------------------------------------------------------- */

#define SCHEME "http://"

int reach_is_server(const char *text)
{
	return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

/** part() - from @from to before @to into @out; -1: it does not fit, or is empty. */
static int part(const char *from, const char *to, char *out, size_t size)
{
	size_t len = (size_t)(to - from);
	if (to < from || !len || len >= size)
		return -1;
	memcpy(out, from, len);
	out[len] = '\0';
	return 0;
}

static int parse(struct reach *r, const char *url)
{
	const char *at = url + strlen(SCHEME), *end = at + strcspn(at, "/?#");
	const char *colon = memrchr(at, ':', (size_t)(end - at)), *close = NULL;
	const char *token = strstr(end, "token=");
	if (*at == '[') {
		close = memchr(at, ']', (size_t)(end - at));
		if (!close || (close + 1 != end && close[1] != ':'))
			return -1;
		colon = close + 1 == end ? NULL : close + 1;
	}
	if (part(close ? at + 1 : at,
		 close   ? close
		 : colon ? colon
			 : end,
		 r->host, sizeof(r->host)) < 0)
		return -1;
	if (part(colon ? colon + 1 : "80", colon ? end : strchr("80", '\0'), r->port,
		 sizeof(r->port)) < 0 ||
	    r->port[strspn(r->port, "0123456789")])
		return -1;
	if (token && (part(token + 6, token + 6 + strcspn(token + 6, "&#"), r->token,
			   sizeof(r->token)) < 0 ||
		      strpbrk(r->token, "\r\n")))
		return -1;
	return 0;
}

struct reach *reach_server(const char *url, struct err *err)
{
	struct reach *r = reach_new(err);
	if (!r || parse(r, url) == 0)
		return r;
	err_set(err, -EINVAL, "'%.200s' is no address of a server", url);
	err_hint(err, "as it is told by --serve: http://127.0.0.1:17832/");
	reach_free(r);
	return NULL;
}

static int wait_for(int fd, short what, const atomic_int *stop)
{
	for (int waited = 0; waited < PATIENCE_MS; waited += PAUSE_MS) {
		struct pollfd p = { .fd = fd, .events = what };
		if (stop && atomic_load(stop))
			return -ECANCELED;
		int n = poll(&p, 1, PAUSE_MS);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return -ETIMEDOUT;
}

static int connect_to(const struct reach *r, const atomic_int *stop)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	int fd = -1, rc = -EHOSTUNREACH;
	if (getaddrinfo(r->host, r->port, &hints, &found) != 0)
		return rc;
	for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
		socklen_t len = sizeof(rc);
		fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			continue;
		rc = connect(fd, at->ai_addr, at->ai_addrlen) < 0 ? -errno : 0;
		if (rc == -EINPROGRESS && (rc = wait_for(fd, POLLOUT, stop)) == 0) {
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &len);
			rc = -rc;
		}
		if (rc < 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	return fd < 0 ? rc : fd;
}

static int exchange(int fd, const struct buf *question, const atomic_int *stop, struct buf *all)
{
	for (size_t sent = 0; sent < question->len;) {
		ssize_t n = send(fd, question->data + sent, question->len - sent, MSG_NOSIGNAL);
		int rc = n < 0 && errno == EAGAIN ? wait_for(fd, POLLOUT, stop)
			 : n < 0                  ? -errno
						  : 0;
		if (rc < 0)
			return rc;
		sent += n > 0 ? (size_t)n : 0;
	}
	while (all->len < ANSWER_MAX) {
		char piece[65536];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);
		if (n == 0)
			return buf_failed(all) ? -ENOMEM : 0;
		if (n > 0) {
			buf_put(all, piece, (size_t)n);
			continue;
		}
		int rc = errno == EAGAIN || errno == EINTR ? wait_for(fd, POLLIN, stop) : -errno;
		if (rc < 0)
			return rc;
	}
	return -EFBIG;
}

/** waits() - a question about a source: what takes long is answered in part. */
static int waits(const char *what)
{
	return strncmp(what, "/api/v1/", 8) == 0 && strstr(what, "src=") != NULL;
}

int reach_read(struct buf *all, struct buf *to)
{
	const char *text = buf_cstr(all), *body = strstr(text, "\r\n\r\n"),
		   *status = strchr(text, ' ');
	if (strncmp(text, "HTTP/", 5) != 0 || !body || !status || status > body)
		return -EBADMSG;
	long code = strtol(status, NULL, 10);
	if (code < 100 || code > 599)
		return -EBADMSG;
	buf_put(to, body + 4, all->len - (size_t)(body + 4 - text));
	return (int)code;
}

static int ask_once(const struct reach *r, const char *what, const atomic_int *stop, struct buf *to,
		    struct err *err)
{
	CLEANUP(buf_fini) struct buf question = { 0 }, all = { 0 };
	int v6 = strchr(r->host, ':') != NULL;
	/* 1.0: the answer ends with the connection, and comes in no pieces */
	buf_printf(&question, "GET %s%s HTTP/1.0\r\nHost: %s%s%s:%s\r\n", what,
		   waits(what) ? WAIT : "", v6 ? "[" : "", r->host, v6 ? "]" : "", r->port);
	if (r->token[0])
		buf_printf(&question, "Authorization: Bearer %s\r\n", r->token);
	buf_puts(&question, "\r\n");
	int fd = connect_to(r, stop);
	if (fd < 0)
		return err_set(err, fd, "cannot reach %s:%s", r->host, r->port);
	int rc = exchange(fd, &question, stop, &all);
	close(fd);
	if (rc < 0)
		return err_set(err, rc, "no answer from %s:%s", r->host, r->port);
	rc = reach_read(&all, to);
	return rc < 0 ? err_set(err, rc, "what answers at %s:%s is no byteledger", r->host, r->port)
		      : rc;
}

/* 202: it is being worked out as long as somebody asks, be it for minutes. */
static int ask_server(const struct reach *r, const char *what, const atomic_int *stop,
		      struct buf *to, struct err *err)
{
	for (;;) {
		int rc = ask_once(r, what, stop, to, err);
		if (rc != 202)
			return rc;
		buf_clear(to);
		for (int waited = 0; waited < AGAIN_MS; waited += PAUSE_MS) {
			if (stop && atomic_load(stop))
				return err_set(err, -ECANCELED, "it is no longer asked for");
			poll(NULL, 0, PAUSE_MS);
		}
	}
}

int reach_ask(struct reach *r, const char *what, const atomic_int *stop, struct buf *to,
	      struct err *err)
{
	if (!r->serving)
		return ask_server(r, what, stop, to, err);
	int rc = serving_ask(r->serving, what, stop, to);
	return rc < 0 ? err_set(err, rc, "cannot answer") : rc;
}

void reach_free(struct reach *r)
{
	const uint64_t one = 1;
	if (!r)
		return;
	if (r->has_thread && write(r->over_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(r->thread, NULL);
	serving_freep(&r->serving);
	memory_live_fini(&r->live);
	watchers_freep(&r->watchers);
	if (r->over_fd >= 0)
		close(r->over_fd);
	free(r);
}
