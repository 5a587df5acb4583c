/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - what is recorded is sent to `byteledger gather` meanwhile (BYTELEDGER_SEND). A thread
 * reads the file behind its writer, who never waits for it: files are only ever extended, so what
 * was sent stands. What a connection lost is asked for by the next one.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fileio.h"
#include "base/token.h"
#include "recorder/incoming.h"
#include "recorder/record.h"
#include "wire/send.h"

/* Files that wait for their turn; each holds its space on the disk, removed or not. */
#define FILES_MAX 32
#define MS_NS UINT64_C(1000000)
/* A fork's child mostly becomes another program at once, and its file goes. */
#define YOUNG_NS (300 * MS_NS)
#define AGAIN_FIRST_NS (200 * MS_NS)
#define AGAIN_LAST_NS (15 * NS_PER_S)
#define CALL_WAIT_S 5
#define END_PATIENCE_NS (5 * NS_PER_S)
#define END_LOOK_NS (50 * MS_NS)

struct sending {
	int fd;
	char name[sizeof(((struct wire_send_hello *)0)->name)];
	/* whole so far */
	uint64_t bytes, began_ns;
	/* its writer is done with it; it has gone */
	int done, dropped;
};

struct record_send {
	char *to;
	char token[TOKEN_MAX];
	uint32_t pid;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct sending files[FILES_MAX];
	/* the first is the one that is sent */
	size_t count, left_out;
	/* -1: none */
	int socket;
	/* no more comes; no more is to be sent */
	int closing, quits;
	/* of the last one that something was sent in, ns */
	uint64_t moved_ns;
	/* why the last try failed; code 0: it did not */
	struct err why;
	int told;
	uint8_t bytes[sizeof(struct wire_send_frame) + WIRE_SEND_DATA_MAX];
};

/* ---- the conversation: the thread ------------------------------------------------------------ */

static int try_one(int family, const struct sockaddr *addr, socklen_t len)
{
	const struct timeval wait = { .tv_sec = CALL_WAIT_S };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* connect() obeys the former, too */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, addr, len) == 0)
		return fd;
	int why = errno == EINPROGRESS ? ETIMEDOUT : errno;
	close(fd);
	return -why;
}

static int dial(const char *to, struct err *err)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	char host[256];
	int rc = -ENOENT;
	if (strncmp(to, "unix:", 5) == 0) {
		const char *path = to + (strncmp(to, "unix://", 7) == 0 ? 7 : 5);
		snprintf(local.sun_path, sizeof(local.sun_path), "%s", path);
		rc = try_one(AF_UNIX, (struct sockaddr *)&local, sizeof(local));
		return rc < 0 ? err_set(err, rc, "cannot reach '%s'", to) : rc;
	}
	const char *colon = strrchr(to, ':');
	int bracket = to[0] == '[' && colon > to + 1 && colon[-1] == ']';
	snprintf(host, sizeof(host), "%.*s", (int)(colon - to) - 2 * bracket, to + bracket);
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return err_set(err, -EINVAL, "cannot reach '%s': no such host is known", to);
	for (struct addrinfo *at = found; at && rc < 0; at = at->ai_next)
		rc = try_one(at->ai_family, at->ai_addr, at->ai_addrlen);
	freeaddrinfo(found);
	return rc < 0 ? err_set(err, rc, "cannot reach '%s'", to) : rc;
}

static int put(int fd, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	while (count) {
		ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return sent < 0 && errno != EAGAIN ? -errno : -ETIMEDOUT;
		at += sent;
		count -= (size_t)sent;
	}
	return 0;
}

static int put_frame(int fd, enum wire_send_type type, uint64_t offset)
{
	const struct wire_send_frame frame = { .type = htole32(type), .offset = htole64(offset) };
	return put(fd, &frame, sizeof(frame));
}

/* What the receiver says: 0 with @held, or negative errno with @err. */
static int hear(const struct record_send *s, int fd, int flags, uint64_t *held, struct err *err)
{
	static const char *const words[] = {
		[WIRE_SEND_TOKEN] = "its token is another one",
		[WIRE_SEND_VERSIONS] = "it is of another version of byteledger",
		[WIRE_SEND_BUSY] = "as many recordings as can be are received there",
		[WIRE_SEND_FULL] = "no room on the disk there",
		[WIRE_SEND_REFUSED] = "it refuses what is sent",
	};
	struct wire_send_answer answer;
	ssize_t count = recv(fd, &answer, sizeof(answer), MSG_WAITALL | flags);
	if (count != sizeof(answer))
		return err_set(err, count < 0 && errno != EAGAIN ? -errno : -ECONNRESET,
			       "cannot send to '%s'", s->to);
	int status = incoming_answer(&answer, held);
	if (status < 0)
		return err_set(err, -EPROTO, "cannot send to '%s': no 'byteledger gather' answers",
			       s->to);
	if (status == WIRE_SEND_OK)
		return 0;
	/* it does not help to ask again */
	int lasting = status == WIRE_SEND_TOKEN || status == WIRE_SEND_VERSIONS;
	err_set(err, -EINVAL, "cannot send to '%s': %s", s->to, words[status]);
	err->code = lasting ? -EACCES : -EAGAIN;
	return err->code;
}

static int greet(const struct record_send *s, const struct sending *file, int fd, uint64_t *held,
		 struct err *err)
{
	struct wire_send_hello hello = { .version = htole32(WIRE_SEND_VERSION),
					 .pid = htole32(s->pid) };
	memcpy(hello.magic, WIRE_SEND_MAGIC, sizeof(hello.magic));
	memcpy(hello.name, file->name, sizeof(hello.name));
	memcpy(hello.token, s->token, sizeof(hello.token));
	if (fileio_pread(file->fd, hello.header, sizeof(hello.header), 0) != sizeof(hello.header))
		return err_set(err, -EIO, "cannot read '%s' to send it", file->name);
	int rc = put(fd, &hello, sizeof(hello));
	return rc < 0 ? err_set(err, rc, "cannot send to '%s'", s->to) : hear(s, fd, 0, held, err);
}

/* The next piece, up to @until. */
static int send_piece(struct record_send *s, const struct sending *file, int fd, uint64_t *at,
		      uint64_t until, struct err *err)
{
	size_t want = (size_t)MIN(until - *at, WIRE_SEND_DATA_MAX);
	ssize_t got = fileio_pread(file->fd, s->bytes + sizeof(struct wire_send_frame), want, *at);
	if (got <= 0)
		return err_set(err, -EIO, "cannot read '%s' to send it", file->name);
	const struct wire_send_frame frame = { .type = htole32(WIRE_SEND_DATA),
					       .bytes = htole32((uint32_t)got),
					       .offset = htole64(*at) };
	memcpy(s->bytes, &frame, sizeof(frame));
	int rc = put(fd, s->bytes, sizeof(frame) + (size_t)got);
	*at += (uint64_t)got;
	return rc < 0 ? err_set(err, rc, "cannot send to '%s'", s->to) : 0;
}

/* The receiver said something, or went. */
static int is_told(int fd)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };
	return poll(&look, 1, 0) > 0;
}

/*
 * Until there is more than @at of the first file, or no more comes. Return: 1; 0 it has been silent
 * for long; negative: no more is to be sent. @file: as it is.
 */
static int await(struct record_send *s, uint64_t at, struct sending *file)
{
	const struct timespec until =
		clock_time(clock_ns(CLOCK_MONOTONIC) + WIRE_SEND_ALIVE_S * NS_PER_S);
	int rc = 0;
	struct stat st;
	pthread_mutex_lock(&s->lock);
	while (!s->quits && !rc && s->files[0].bytes <= at && !s->files[0].done)
		rc = pthread_cond_timedwait(&s->news, &s->lock, &until);
	*file = s->files[0];
	int quits = s->quits;
	pthread_mutex_unlock(&s->lock);
	if (file->done && fstat(file->fd, &st) == 0)
		file->bytes = (uint64_t)st.st_size;
	return quits ? -ECANCELED : file->bytes > at || file->done;
}

static void moved(struct record_send *s)
{
	pthread_mutex_lock(&s->lock);
	s->moved_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&s->lock);
}

static int converse(struct record_send *s, struct sending *file, int fd, struct err *err)
{
	uint64_t at, held;
	int rc = greet(s, file, fd, &at, err);
	while (rc == 0) {
		moved(s);
		rc = await(s, at, file);
		if (rc < 0)
			break;
		if (is_told(fd)) {
			rc = hear(s, fd, MSG_DONTWAIT, &held, err);
			return rc < 0 ? rc : -EPROTO;
		}
		if (rc == 0) {
			rc = put_frame(fd, WIRE_SEND_ALIVE, 0);
		} else if (file->dropped) {
			rc = put_frame(fd, WIRE_SEND_DROP, 0);
			return rc < 0 ? rc : hear(s, fd, 0, &held, err);
		} else if (at < file->bytes) {
			rc = send_piece(s, file, fd, &at, file->bytes, err);
		} else {
			rc = put_frame(fd, WIRE_SEND_END, file->bytes);
			return rc < 0 ? rc : hear(s, fd, 0, &held, err);
		}
	}
	return rc;
}

/* The first file, in one connection. 0: all of it is there. */
static int send_file(struct record_send *s, struct sending *file, struct err *err)
{
	int fd = dial(s->to, err);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&s->lock);
	s->socket = fd;
	int rc = s->quits ? -ECANCELED : 0;
	pthread_mutex_unlock(&s->lock);
	if (rc == 0)
		rc = converse(s, file, fd, err);
	if (rc < 0 && !err->code)
		err_set(err, rc, "cannot send to '%s'", s->to);
	pthread_mutex_lock(&s->lock);
	s->socket = -1;
	pthread_mutex_unlock(&s->lock);
	close(fd);
	return rc;
}

/* With the lock: the file at @i is sent, or cannot be. */
static void forget(struct record_send *s, size_t i)
{
	close(s->files[i].fd);
	memmove(&s->files[i], &s->files[i + 1], (--s->count - i) * sizeof(s->files[0]));
}

static void wait_until(struct record_send *s, uint64_t ns)
{
	const struct timespec until = clock_time(ns);
	while (!s->quits && pthread_cond_timedwait(&s->news, &s->lock, &until) == 0)
		;
}

/*
 * With the lock: a try with the first file ended with @rc. Where it is worth another one, that is
 * waited for, the longer the more have failed.
 */
static void settle(struct record_send *s, int rc, const struct err *why, uint64_t *again_ns)
{
	s->why.code = 0;
	if (rc < 0)
		s->why = *why;
	if (rc == 0 || rc == -EACCES) {
		s->left_out += rc != 0;
		forget(s, 0);
		*again_ns = AGAIN_FIRST_NS;
		return;
	}
	/* it went well for a while */
	if (clock_ns(CLOCK_MONOTONIC) - s->moved_ns < AGAIN_FIRST_NS)
		*again_ns = AGAIN_FIRST_NS;
	wait_until(s, clock_ns(CLOCK_MONOTONIC) + *again_ns);
	*again_ns = MIN(2 * *again_ns, AGAIN_LAST_NS);
}

static void *send_run(void *arg)
{
	struct record_send *s = arg;
	uint64_t again_ns = AGAIN_FIRST_NS;
	pthread_setname_np(pthread_self(), "send");
	pthread_mutex_lock(&s->lock);
	while (!s->quits && (s->count || !s->closing)) {
		if (!s->count) {
			pthread_cond_wait(&s->news, &s->lock);
			continue;
		}
		const struct timespec old = clock_time(s->files[0].began_ns + YOUNG_NS);
		while (!s->quits && !s->files[0].done &&
		       pthread_cond_timedwait(&s->news, &s->lock, &old) == 0)
			;
		if (s->files[0].dropped) { /* nobody heard of it */
			forget(s, 0);
			continue;
		}
		struct sending file = s->files[0];
		struct err why = { 0 };
		pthread_mutex_unlock(&s->lock);
		int rc = send_file(s, &file, &why);
		pthread_mutex_lock(&s->lock);
		settle(s, rc, &why, &again_ns);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- what the recording says: its thread ----------------------------------------------------- */

int record_send_check(const struct record_settings *settings, struct err *err)
{
	char token[TOKEN_MAX];
	const char *to = settings->send, *colon = to ? strrchr(to, ':') : NULL;
	if (!to || !*to)
		return 0;
	int local = strncmp(to, "unix:", 5) == 0 && to[5];
	int port = colon && colon > to && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] &&
		   strlen(colon + 1) <= 5;
	if (!local && !port) {
		err_set(err, -EINVAL, "cannot use BYTELEDGER_SEND '%s'", to);
		return err_hint(err, "it is HOST:PORT or unix:PATH, of 'byteledger gather'");
	}
	return settings->token_file && *settings->token_file
		       ? token_load(settings->token_file, token, err)
		       : 0;
}

static struct record_send *send_new(struct record *rec, struct err *err)
{
	struct record_send *s = calloc(1, sizeof(*s));
	const char *token = rec->settings.token_file;
	sigset_t all, before;
	pthread_condattr_t monotonic;
	if (!s || !(s->to = strdup(rec->settings.send))) {
		free(s);
		err_set(err, -ENOMEM, "cannot send the recording");
		return NULL;
	}
	s->socket = -1;
	s->pid = (uint32_t)rec->pid;
	if (token && *token)
		token_load(token, s->token, err);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&s->thread, NULL, send_run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		err_set(err, -rc, "cannot send the recording");
		free(s->to);
		free(s);
		return NULL;
	}
	return s;
}

/* @done: it is finished, and is sent as a whole, or what the receiver lacks of it. */
static void add(struct record *rec, const char *path, const char *name, int done)
{
	struct record_send *s = rec->send;
	const char *slash = strrchr(name, '/');
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	pthread_mutex_lock(&s->lock);
	if (s->count == FILES_MAX) {
		forget(s, 1); /* the first one may be on its way */
		s->left_out++;
	}
	struct sending *file = &s->files[s->count++];
	*file = (struct sending){ .fd = fd, .done = done };
	file->began_ns = clock_ns(CLOCK_MONOTONIC);
	snprintf(file->name, sizeof(file->name), "%s", slash ? slash + 1 : name);
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
}

void record_send_begin(struct record *rec, const char *path)
{
	struct err err = { 0 };
	const char *to = rec->settings.send;
	if (!to || !*to || rec->send_failed)
		return;
	if (!rec->send && record_send_check(&rec->settings, &err) == 0)
		rec->send = send_new(rec, &err);
	if (!rec->send) {
		rec->send_failed = 1;
		record_fail(rec, &err);
		return;
	}
	/* what took a program's place has a name that nobody asks for, yet */
	char *name =
		rec->is_next ? recorder_name(RECORDER_PATTERN, rec->exe, rec->pid, NULL) : NULL;
	add(rec, path, name ? name : path, 0);
	free(name);
}

void record_send_grew(struct record *rec)
{
	struct record_send *s = rec->send;
	uint64_t bytes = s && rec->writer ? trace_writer_bytes(rec->writer) : 0;
	if (bytes <= rec->send_bytes)
		return;
	struct err why = { 0 };
	rec->send_bytes = bytes;
	pthread_mutex_lock(&s->lock);
	if (s->why.code && !s->told) {
		why = s->why;
		s->told = 1;
	}
	if (s->count && !s->files[s->count - 1].done)
		s->files[s->count - 1].bytes = bytes;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	if (why.code) {
		err_hint(&why, why.code == -EACCES ? "it is recorded here, and not sent"
						   : "it is recorded here, and tried again");
		record_fail(rec, &why);
	}
}

void record_send_end(struct record *rec, int dropped)
{
	struct record_send *s = rec->send;
	rec->send_bytes = 0;
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	if (s->count && !s->files[s->count - 1].done) {
		s->files[s->count - 1].done = 1;
		s->files[s->count - 1].dropped = dropped;
	}
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
}

void record_send_again(struct record *rec, const char *path)
{
	if (rec->send)
		add(rec, path, path, 1);
}

/* Signals are blocked, and who reads them has ended: one that comes now means this wait. */
static int is_interrupted(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) > 0 || sigismember(&pending, SIGTERM) > 0);
}

/*
 * Until all is sent, or nothing moves for a while. Return: how many files are not; @why says the
 * last trouble there was.
 */
static size_t await_end(struct record_send *s, struct err *why)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&s->lock);
	s->closing = 1;
	pthread_cond_broadcast(&s->news);
	while (s->count && !is_interrupted()) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		const struct timespec look = { .tv_nsec = END_LOOK_NS };
		if (now - MAX(from, MIN(s->moved_ns, now)) > END_PATIENCE_NS)
			break;
		pthread_mutex_unlock(&s->lock);
		nanosleep(&look, NULL);
		pthread_mutex_lock(&s->lock);
	}
	size_t left = s->count + s->left_out;
	*why = s->why;
	s->quits = 1;
	if (s->socket >= 0)
		shutdown(s->socket, SHUT_RDWR);
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	return left;
}

static void let_go(struct record *rec)
{
	struct record_send *s = STEAL(rec->send);
	const struct timespec until = clock_time(clock_ns(CLOCK_REALTIME) + NS_PER_S);
	/* it may look for a name that no server knows: then it goes with this process */
	if (pthread_timedjoin_np(s->thread, NULL, &until) != 0)
		return;
	while (s->count)
		forget(s, 0);
	pthread_cond_destroy(&s->news);
	pthread_mutex_destroy(&s->lock);
	free(s->to);
	free(s);
}

void record_send_finish(struct record *rec)
{
	struct err err = { 0 };
	if (!rec->send)
		return;
	size_t left = await_end(rec->send, &err);
	if (left) {
		if (!err.code)
			err_set(&err, -ETIMEDOUT, "cannot send to '%s'", rec->send->to);
		err_hint(&err, "%zu file%s not sent, or not to the end; what is here is whole",
			 left, left == 1 ? " was" : "s were");
		record_fail(rec, &err);
	}
	let_go(rec);
}

void record_send_fini(struct record *rec)
{
	struct record_send *s = rec->send;
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->quits = 1;
	if (s->socket >= 0)
		shutdown(s->socket, SHUT_RDWR);
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	let_go(rec);
}
