/* SPDX-License-Identifier: Apache-2.0 */
#include "source/logs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "net/frames.h"

#define SOCKETS_MAX 3
#define RECEIVE_BYTES (8 << 20) /* asked of the kernel: a burst of some ten thousand lines */
#define DATAGRAMS_A_CALL 4096
#define READS_A_CALL 64

/* What is meant by an epoll event: listening sockets first, then TCP senders. */
enum { TAG_UDP, TAG_UNIX, TAG_TCP, TAG_CLIENT };

struct client {
	int fd;
	/* when bytes came last, by the receiver's own count */
	uint64_t heard;
	struct net_frames frames;
};

struct logs {
	int epoll_fd, fds[SOCKETS_MAX];
	/* given up for a moment where no descriptor is left, to turn a sender away */
	int spare_fd;
	char *unix_path;
	struct client *clients[LOGS_CLIENTS_MAX];
	uint64_t heard;
	atomic_uint_fast64_t received, bytes, malformed, dropped, truncated, refused_clients;
	/* by TAG_UDP, TAG_UNIX: the kernel's own counts */
	atomic_uint_fast64_t kernel_dropped[2];
	char data[LOGS_LINE_MAX];
};

/* ---- opening --------------------------------------------------------------------------------- */

static int watch(struct logs *logs, int fd, unsigned tag, unsigned index)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)index << 8 | tag };
	return epoll_ctl(logs->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void ask_for_room(int fd)
{
	int bytes = RECEIVE_BYTES, on = 1;
	/*
	 * beyond rmem_max only with CAP_NET_ADMIN; what is granted is what we get, drops are
	 * counted
	 */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
}

static int open_ip(struct logs *logs, const char *address, uint16_t port, int tcp, struct err *err)
{
	struct sockaddr_storage addr = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&addr;
	socklen_t len;
	const char *word = tcp ? "TCP" : "UDP";
	int on = 1;
	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		len = sizeof(*v6);
	} else {
		return err_set(err, -EINVAL, "cannot receive logs on '%s': not an IP address",
			       address);
	}
	int fd = socket(addr.ss_family,
			(tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "cannot open a socket");
	logs->fds[tcp ? TAG_TCP : TAG_UDP] = fd;
	if (tcp)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	else
		ask_for_room(fd);
	int rc = bind(fd, (struct sockaddr *)&addr, len) < 0 ? -errno : 0;
	if (rc == 0 && tcp && listen(fd, LOGS_CLIENTS_MAX) < 0)
		rc = -errno;
	if (rc == 0)
		rc = watch(logs, fd, tcp ? TAG_TCP : TAG_UDP, 0);
	if (rc < 0) {
		err_set(err, rc, "cannot receive logs on %s port %u of %s", word, port, address);
		if (rc == -EADDRINUSE)
			err_hint(err, "another program receives there: choose another port");
	}
	return rc;
}

static int open_unix(struct logs *logs, const char *path, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	if (strlen(path) >= sizeof(addr.sun_path))
		return err_set(err, -ENAMETOOLONG, "cannot receive logs on '%s'", path);
	strcpy(addr.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "cannot open a socket");
	logs->fds[TAG_UNIX] = fd;
	ask_for_room(fd);
	/* a socket that nobody answers on was left behind; one with an owner is not taken away */
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		int alive =
			probe >= 0 && connect(probe, (struct sockaddr *)&addr, sizeof(addr)) == 0;
		if (probe >= 0)
			close(probe);
		if (!alive)
			unlink(path);
	}
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int rc = err_set(err, -errno, "cannot receive logs on '%s'", path);
		if (rc == -EADDRINUSE)
			err_hint(err, "another program receives there, or a file has that name");
		return rc;
	}
	logs->unix_path = strdup(path);
	int rc = logs->unix_path ? watch(logs, fd, TAG_UNIX, 0) : -ENOMEM;
	return rc < 0 ? err_set(err, rc, "cannot receive logs on '%s'", path) : 0;
}

static int open_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int logs_open(const struct logs_opt *opt, struct logs **out, struct err *err)
{
	struct logs *logs = calloc(1, sizeof(*logs));
	const char *address = opt->address ? opt->address : "127.0.0.1";
	if (!logs)
		return err_set(err, -ENOMEM, "cannot allocate a log receiver");
	for (int i = 0; i < SOCKETS_MAX; i++)
		logs->fds[i] = -1;
	logs->spare_fd = open_spare();
	logs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int rc = logs->epoll_fd < 0 ? err_set(err, -errno, "cannot make an epoll descriptor") : 0;
	if (rc == 0 && opt->udp_port)
		rc = open_ip(logs, address, opt->udp_port, 0, err);
	if (rc == 0 && opt->tcp_port)
		rc = open_ip(logs, address, opt->tcp_port, 1, err);
	if (rc == 0 && opt->unix_path)
		rc = open_unix(logs, opt->unix_path, err);
	if (rc < 0) {
		logs_close(logs);
		return rc;
	}
	*out = logs;
	return 0;
}

void logs_close(struct logs *logs)
{
	if (!logs)
		return;
	for (int i = 0; i < LOGS_CLIENTS_MAX; i++) {
		if (logs->clients[i])
			close(logs->clients[i]->fd);
		free(logs->clients[i]);
	}
	for (int i = 0; i < SOCKETS_MAX; i++) {
		if (logs->fds[i] >= 0)
			close(logs->fds[i]);
	}
	if (logs->unix_path)
		unlink(logs->unix_path);
	free(logs->unix_path);
	if (logs->epoll_fd >= 0)
		close(logs->epoll_fd);
	if (logs->spare_fd >= 0)
		close(logs->spare_fd);
	free(logs);
}

int logs_fd(const struct logs *logs)
{
	return logs->epoll_fd;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* @cut: there was more of it. */
static void take_line(struct logs *logs, const char *text, size_t len, int cut, logs_fn fn,
		      void *ctx)
{
	struct log_line line;
	if (cut) {
		atomic_fetch_add(&logs->truncated, 1);
		len -= utf8_cut(text, len);
	}
	/* some senders end a datagram with a line end or a NUL */
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == '\0'))
		len--;
	atomic_fetch_add(&logs->received, 1);
	atomic_fetch_add(&logs->bytes, len);
	if (!len || net_syslog_parse(text, len, clock_ns(CLOCK_REALTIME), &line) < 0)
		atomic_fetch_add(&logs->malformed, 1);
	else if (fn(ctx, &line) != 0)
		atomic_fetch_add(&logs->dropped, 1);
}

/*
 * How many datagrams the kernel has thrown away on this socket, told with each that it hands over.
 */
static void note_overflow(struct logs *logs, unsigned tag, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t count;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_RXQ_OVFL ||
		    c->cmsg_len < CMSG_LEN(sizeof(count)))
			continue;
		memcpy(&count, CMSG_DATA(c), sizeof(count));
		atomic_store(&logs->kernel_dropped[tag], count);
	}
}

static void datagrams(struct logs *logs, unsigned tag, logs_fn fn, void *ctx)
{
	for (int i = 0; i < DATAGRAMS_A_CALL; i++) {
		union {
			char bytes[CMSG_SPACE(sizeof(uint32_t)) * 2];
			struct cmsghdr align;
		} control;
		struct iovec iov = { logs->data, sizeof(logs->data) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(logs->fds[tag], &msg, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		note_overflow(logs, tag, &msg);
		take_line(logs, logs->data, (size_t)n, !!(msg.msg_flags & MSG_TRUNC), fn, ctx);
	}
}

/* Where the messages of a TCP sender go. */
struct stream {
	struct logs *logs;
	logs_fn fn;
	void *ctx;
};

static void from_stream(void *ctx, const char *text, size_t len, int cut)
{
	struct stream *stream = ctx;
	take_line(stream->logs, text, len, cut, stream->fn, stream->ctx);
}

/* The stream ends here: what it began and did not end is a line as well. */
static void end_client(struct logs *logs, unsigned slot, logs_fn fn, void *ctx)
{
	struct client *c = logs->clients[slot];
	struct stream stream = { logs, fn, ctx };
	net_frames_fed(&c->frames, 0, 1, from_stream, &stream);
	close(c->fd); /* leaves the epoll set */
	free(c);
	logs->clients[slot] = NULL;
}

static void read_client(struct logs *logs, unsigned slot, logs_fn fn, void *ctx)
{
	struct client *c = logs->clients[slot];
	struct stream stream = { logs, fn, ctx };
	for (int i = 0; c && i < READS_A_CALL; i++) {
		size_t room;
		char *to = net_frames_room(&c->frames, &room);
		ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			end_client(logs, slot, fn, ctx);
			return;
		}
		c->heard = ++logs->heard;
		net_frames_fed(&c->frames, (size_t)n, 0, from_stream, &stream);
	}
}

static unsigned longest_silent(const struct logs *logs)
{
	unsigned found = 0;
	for (unsigned i = 1; i < LOGS_CLIENTS_MAX && logs->clients[found]; i++) {
		if (!logs->clients[i] || logs->clients[i]->heard < logs->clients[found]->heard)
			found = i;
	}
	return found;
}

/*
 * A slot for a new sender: a free one, else that of the sender who was silent for longest; senders
 * who died keep none.
 */
static unsigned find_slot(struct logs *logs, logs_fn fn, void *ctx)
{
	unsigned slot = longest_silent(logs);
	/* bytes of it may wait to be read: then it was another who was silent */
	for (int i = 0; i < LOGS_CLIENTS_MAX && logs->clients[slot]; i++) {
		uint64_t heard = logs->clients[slot]->heard;
		read_client(logs, slot, fn, ctx);
		if (!logs->clients[slot] || logs->clients[slot]->heard == heard)
			break;
		slot = longest_silent(logs);
	}
	if (logs->clients[slot]) {
		atomic_fetch_add(&logs->refused_clients, 1);
		end_client(logs, slot, fn, ctx);
	}
	return slot;
}

/*
 * No descriptor is left: a sender that stays in the queue would wake us for ever. 1 = it was turned
 * away.
 */
static int turn_away(struct logs *logs)
{
	if (logs->spare_fd < 0)
		return 0;
	close(logs->spare_fd);
	int fd = accept4(logs->fds[TAG_TCP], NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0) {
		atomic_fetch_add(&logs->refused_clients, 1);
		close(fd);
	}
	logs->spare_fd = open_spare();
	return fd >= 0;
}

/*
 * Nothing can be accepted just now, for want of something: it is tried again later, and not at once
 * for ever.
 */
static void back_off(void)
{
	const struct timespec some = { .tv_nsec = 20000000 };
	nanosleep(&some, NULL);
}

static void accept_clients(struct logs *logs, logs_fn fn, void *ctx)
{
	for (;;) {
		int fd = accept4(logs->fds[TAG_TCP], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		int code = fd < 0 ? errno : 0;
		if (code == EMFILE || code == ENFILE) {
			/*
			 * one that is silent gives its own away, as it does where there are too
			 * many
			 */
			unsigned slot = longest_silent(logs);
			if (logs->clients[slot]) {
				atomic_fetch_add(&logs->refused_clients, 1);
				end_client(logs, slot, fn, ctx);
				continue;
			}
			if (turn_away(logs))
				continue;
		}
		if (code && code != EAGAIN && code != EINTR && code != ECONNABORTED)
			back_off();
		if (code)
			return;
		unsigned slot = find_slot(logs, fn, ctx);
		struct client *client = calloc(1, sizeof(*client));
		if (!client || watch(logs, fd, TAG_CLIENT, slot) < 0) {
			atomic_fetch_add(&logs->refused_clients, 1);
			close(fd);
			free(client);
			continue;
		}
		client->fd = fd;
		client->heard = ++logs->heard;
		logs->clients[slot] = client;
	}
}

void logs_receive(struct logs *logs, logs_fn fn, void *ctx)
{
	struct epoll_event events[SOCKETS_MAX + LOGS_CLIENTS_MAX];
	int count = epoll_wait(logs->epoll_fd, events, (int)ARRAY_LEN(events), 0);
	for (int i = 0; i < count; i++) {
		unsigned tag = (unsigned)(events[i].data.u64 & 0xff),
			 index = (unsigned)(events[i].data.u64 >> 8);
		if (tag == TAG_TCP)
			accept_clients(logs, fn, ctx);
		else if (tag == TAG_CLIENT)
			read_client(logs, index, fn, ctx);
		else
			datagrams(logs, tag, fn, ctx);
	}
}

void logs_stats(struct logs *logs, struct logs_stats *stats)
{
	*stats = (struct logs_stats){
		.received = atomic_load(&logs->received),
		.bytes = atomic_load(&logs->bytes),
		.malformed = atomic_load(&logs->malformed),
		.dropped = atomic_load(&logs->dropped),
		.kernel_dropped = atomic_load(&logs->kernel_dropped[TAG_UDP]) +
				  atomic_load(&logs->kernel_dropped[TAG_UNIX]),
		.truncated = atomic_load(&logs->truncated),
		.refused_clients = atomic_load(&logs->refused_clients),
	};
}
