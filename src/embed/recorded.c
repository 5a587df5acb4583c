/* SPDX-License-Identifier: Apache-2.0 */
/* recorded.c - profiles of a heap recording that runs: its recorder has them, this asks it. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "embed/embed.h"
#include "heaps/heaps.h"
#include "proc/target.h"

#define ANSWER_MAX (16u << 20)
#define PATIENCE_S 5

static int ask(int fd, uint16_t port, const char *path)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	CLEANUP(buf_fini) struct buf request = { 0 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	/* an answer in one piece, which ends with the connection */
	buf_printf(&request, "GET %s HTTP/1.0\r\nHost: 127.0.0.1:%u\r\n\r\n", path, (unsigned)port);
	return !buf_failed(&request) &&
	       connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
	       send(fd, request.data, request.len, MSG_NOSIGNAL) == (ssize_t)request.len;
}

static int take_answer(int fd, struct buf *to)
{
	for (;;) {
		char *room = buf_room(to, 65536);
		ssize_t got = room ? recv(fd, room, 65536, 0) : -1;
		if (got < 0 && room && errno == EINTR)
			continue;
		if (got < 0 || to->len + (size_t)got > ANSWER_MAX)
			return 0;
		if (got == 0)
			return to->len > 12 && strncmp(to->data, "HTTP/1.", 7) == 0;
		to->len += (size_t)got;
	}
}

const char *embed_recorded(const char *path, struct buf *to, int *status)
{
	uint16_t port = 0;
	struct err err = { 0 };
	CLEANUP(target_close) struct target target = { 0 };
	*status = 404;
	if (target_open(&target, 0, &err) < 0 || heaps_recording(&target, &port) <= 0)
		return "no recording of this program's heap runs: start it by 'byteledger run "
		       "--serve'\n";
	if (!port)
		return "what is recorded of this program is not served, or with a token: "
		       "'byteledger run --serve'\n";
	*status = 502;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ok = fd >= 0 && ask(fd, port, path) && take_answer(fd, to);
	if (fd >= 0)
		close(fd);
	if (ok)
		return NULL;
	buf_fini(to);
	return "the recorder of this program does not answer\n";
}
