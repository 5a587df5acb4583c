/* SPDX-License-Identifier: Apache-2.0 */
#include "p2pio.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct p2pio {
	char way[16];
	int file;
	int pipe[2];
	struct io_uring ring;
	int has_ring;
};

void p2pio_die(const char *what)
{
	fprintf(stderr, "p2pnode: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct p2pio *p2pio_new(const char *way, int sending)
{
	static const char *const ways[2][10] = { { "read", "readv", "recv", "recvmsg", "recvmmsg",
						   "peek", "splice", "uring" },
						 { "write", "writev", "send", "sendto", "sendmsg",
						   "sendmmsg", "sendfile", "splice", "uring" } };
	struct p2pio *io = calloc(1, sizeof(*io));
	int known = 0;
	for (int i = 0; i < 10 && ways[sending][i]; i++)
		known |= strcmp(way, ways[sending][i]) == 0;
	if (!io || !known) {
		fprintf(stderr, "p2pnode: unknown way '%s'\n", way);
		exit(2);
	}
	snprintf(io->way, sizeof(io->way), "%s", way);
	io->file = io->pipe[0] = io->pipe[1] = -1;
	if (strcmp(way, "sendfile") == 0 && (io->file = memfd_create("p2pio", MFD_CLOEXEC)) < 0)
		p2pio_die("memfd_create");
	if (strcmp(way, "splice") == 0 && pipe2(io->pipe, O_CLOEXEC) < 0)
		p2pio_die("pipe2");
	if (strcmp(way, "uring") == 0) {
		int rc = io_uring_queue_init(8, &io->ring, 0);
		if (rc < 0) {
			errno = -rc;
			p2pio_die("io_uring_queue_init");
		}
		io->has_ring = 1;
	}
	return io;
}

void p2pio_free(struct p2pio *io)
{
	if (io->has_ring)
		io_uring_queue_exit(&io->ring);
	if (io->file >= 0)
		close(io->file);
	if (io->pipe[0] >= 0) {
		close(io->pipe[0]);
		close(io->pipe[1]);
	}
	free(io);
}

static int is(const struct p2pio *io, const char *way)
{
	return strcmp(io->way, way) == 0;
}

static ssize_t ring_move(struct p2pio *io, int fd, void *bytes, size_t len, int sending)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&io->ring);
	struct io_uring_cqe *cqe;
	if (sending)
		io_uring_prep_send(sqe, fd, bytes, len, MSG_NOSIGNAL);
	else
		io_uring_prep_recv(sqe, fd, bytes, len, 0);
	int rc = io_uring_submit_and_wait(&io->ring, 1);
	if (rc < 0 || (rc = io_uring_wait_cqe(&io->ring, &cqe)) < 0) {
		errno = -rc;
		return -1;
	}
	ssize_t moved = cqe->res;
	io_uring_cqe_seen(&io->ring, cqe);
	if (moved < 0) {
		errno = (int)-moved;
		return -1;
	}
	return moved;
}

/* Two parts of one piece, so that vectored calls have something to gather. */
static int parts(const void *bytes, size_t len, struct iovec iov[3])
{
	size_t a = len / 3, b = len - 2 * a;
	iov[0] = (struct iovec){ (void *)bytes, a };
	iov[1] = (struct iovec){ (char *)bytes + a, b };
	iov[2] = (struct iovec){ (char *)bytes + a + b, a };
	return 3;
}

static ssize_t send_mmsg(int fd, const void *bytes, size_t len)
{
	struct iovec iov[3];
	struct mmsghdr messages[3] = { 0 };
	ssize_t sum = 0;
	parts(bytes, len, iov);
	for (int i = 0; i < 3; i++) {
		messages[i].msg_hdr.msg_iov = &iov[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	int n = sendmmsg(fd, messages, 3, MSG_NOSIGNAL);
	for (int i = 0; i < n; i++) {
		sum += messages[i].msg_len;
		if (messages[i].msg_len < iov[i].iov_len)
			break; /* what follows would be out of order, but blocking sockets send all */
	}
	return n < 0 ? -1 : sum;
}

static ssize_t send_some(struct p2pio *io, int fd, const void *bytes, size_t len)
{
	struct iovec iov[3];
	if (is(io, "write"))
		return write(fd, bytes, len);
	if (is(io, "writev"))
		return writev(fd, iov, parts(bytes, len, iov));
	if (is(io, "send"))
		return send(fd, bytes, len, MSG_NOSIGNAL);
	if (is(io, "sendto"))
		return sendto(fd, bytes, len, MSG_NOSIGNAL, NULL, 0);
	if (is(io, "sendmmsg"))
		return send_mmsg(fd, bytes, len);
	if (is(io, "uring"))
		return ring_move(io, fd, (void *)bytes, len, 1);
	if (is(io, "sendmsg")) {
		struct msghdr message = { .msg_iov = iov,
					  .msg_iovlen = (size_t)parts(bytes, len, iov) };
		return sendmsg(fd, &message, MSG_NOSIGNAL);
	}
	if (is(io, "sendfile")) {
		off_t at = 0;
		if (ftruncate(io->file, 0) < 0 || pwrite(io->file, bytes, len, 0) != (ssize_t)len)
			return -1;
		return sendfile(fd, io->file, &at, len);
	}
	ssize_t n = write(io->pipe[1], bytes, len < 65536 ? len : 65536), moved = 0;
	while (n > moved) {
		ssize_t m = splice(io->pipe[0], NULL, fd, NULL, (size_t)(n - moved), 0);
		if (m <= 0)
			return -1;
		moved += m;
	}
	return n;
}

void p2pio_send(struct p2pio *io, int fd, const void *bytes, size_t len, size_t piece)
{
	const char *at = bytes;
	while (len) {
		ssize_t n = send_some(io, fd, at, piece && piece < len ? piece : len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			p2pio_die("send");
		at += n;
		len -= (size_t)n;
	}
}

static ssize_t receive_some(struct p2pio *io, int fd, void *bytes, size_t cap)
{
	struct iovec iov[3];
	if (is(io, "read"))
		return read(fd, bytes, cap);
	if (is(io, "readv"))
		return readv(fd, iov, parts(bytes, cap, iov));
	if (is(io, "recv"))
		return recv(fd, bytes, cap, 0);
	if (is(io, "uring"))
		return ring_move(io, fd, bytes, cap, 0);
	if (is(io, "peek")) {
		ssize_t n = recv(fd, bytes, cap, MSG_PEEK);
		return n <= 0 ? n : recv(fd, bytes, (size_t)n, 0);
	}
	if (is(io, "recvmsg")) {
		struct msghdr message = { .msg_iov = iov,
					  .msg_iovlen = (size_t)parts(bytes, cap, iov) };
		return recvmsg(fd, &message, 0);
	}
	if (is(io, "recvmmsg")) {
		struct mmsghdr message = { 0 };
		message.msg_hdr.msg_iov = iov;
		message.msg_hdr.msg_iovlen = (size_t)parts(bytes, cap, iov);
		int n = recvmmsg(fd, &message, 1, 0, NULL);
		return n < 0 ? -1 : n ? (ssize_t)message.msg_len : 0;
	}
	ssize_t n = splice(fd, NULL, io->pipe[1], NULL, cap < 65536 ? cap : 65536, 0);
	if (n <= 0)
		return n;
	return read(io->pipe[0], bytes, (size_t)n);
}

size_t p2pio_receive(struct p2pio *io, int fd, void *bytes, size_t cap)
{
	for (;;) {
		ssize_t n = receive_some(io, fd, bytes, cap);
		if (n >= 0)
			return (size_t)n;
		if (errno == ECONNRESET)
			return 0;
		if (errno != EINTR)
			p2pio_die("receive");
	}
}
