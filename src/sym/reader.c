/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sym/confine.h"
#include "sym/opener.h"

/* What it says of itself; all other words are its work's. */
#define SAY_OPEN UINT32_MAX

struct head {
	/* of what follows */
	uint32_t what, bytes;
};

struct open_ask {
	uint32_t kind, nth, len;
};

struct open_answer {
	int32_t rc;
	/* UINT32_MAX: none */
	uint32_t found_len;
};

struct reader {
	pid_t pid;
	int fd;
	const struct reader_work *work;
	/* -1: none */
	int given;
	uint64_t base_bytes, file_bytes;
	struct buf buf;
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static int send_all(int fd, const void *bytes, size_t len, int with_fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	const char *p = bytes;
	while (len) {
		struct iovec part = { (void *)p, len };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		if (with_fd >= 0) {
			memset(&control, 0, sizeof(control));
			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
			struct cmsghdr *c = CMSG_FIRSTHDR(&message);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &with_fd, sizeof(int));
		}
		ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		with_fd = -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* @got_fd may be NULL: descriptors are not wanted then, and closed. */
static int receive_all(int fd, void *bytes, size_t len, int *got_fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char *p = bytes;
	while (len) {
		struct iovec part = { p, len };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		if (got_fd) {
			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
		}
		ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		struct cmsghdr *c = got_fd ? CMSG_FIRSTHDR(&message) : NULL;
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)) && *got_fd < 0)
			memcpy(got_fd, CMSG_DATA(c), sizeof(int));
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int say(int fd, uint32_t what, const struct buf *buf)
{
	struct head head = { what, (uint32_t)buf->len };
	int rc = buf->failed || buf->len > UINT32_MAX ? -ENOMEM : 0;
	if (rc == 0)
		rc = send_all(fd, &head, sizeof(head), -1);
	return rc == 0 ? send_all(fd, buf->data, buf->len, -1) : rc;
}

static int hear(int fd, struct head *head, struct buf *buf, uint32_t most)
{
	int rc = receive_all(fd, head, sizeof(*head), NULL);
	if (rc < 0 || head->bytes > most)
		return rc < 0 ? rc : -EPIPE;
	buf_clear(buf);
	if (head->bytes && !buf_reserve(buf, head->bytes))
		return -EPIPE;
	rc = receive_all(fd, buf->data, head->bytes, NULL);
	buf->len = head->bytes;
	return rc;
}

/* ---- the reader ------------------------------------------------------------------------------ */

/* One process, one way to who asked. */
static int parent = -1;

static int ask_parent(void *ctx, enum opener_kind kind, const char *path, uint32_t len,
		      uint32_t nth, char **found)
{
	(void)ctx;
	struct open_ask ask = { kind, nth, len };
	struct open_answer answer;
	struct buf buf = { 0 };
	int fd = -1;
	buf_put(&buf, &ask, sizeof(ask));
	buf_put(&buf, path, len);
	int rc = say(parent, SAY_OPEN, &buf);
	buf_fini(&buf);
	if (rc < 0 || receive_all(parent, &answer, sizeof(answer), &fd) < 0)
		_exit(1);
	if (answer.found_len <= READER_PATH_ROOM) {
		char *text = malloc(answer.found_len + 1u);
		if (!text || receive_all(parent, text, answer.found_len, NULL) < 0)
			_exit(1);
		text[answer.found_len] = '\0';
		*found = text;
	}
	return answer.rc < 0 ? answer.rc : fd >= 0 ? fd : -ENOENT;
}

void reader_answer(uint32_t what, const struct buf *answer)
{
	if (answer->failed)
		_exit(1);
	if (say(parent, what, answer) < 0)
		_exit(0);
}

void reader_answer_raw(const void *bytes, size_t len)
{
	if (send_all(parent, bytes, len, -1) < 0)
		_exit(0);
}

static void __attribute__((noreturn)) live(const struct reader_work *work, int fd)
{
	struct head head;
	struct buf in = { 0 };
	parent = fd;
	prctl(PR_SET_NAME, work->name, 0, 0, 0);
	if (confine_self(fd) < 0)
		_exit(1);
	opener_set(ask_parent, NULL);
	if (work->begin)
		work->begin(work->ctx);
	while (hear(fd, &head, &in, UINT32_MAX) == 0)
		work->hear(work->ctx, head.what, &in);
	_exit(0);
}

/* ---- its parent ------------------------------------------------------------------------------ */

static uint64_t own_bytes(void)
{
	unsigned long long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%llu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Address sanitizers reserve terabytes of addresses: their limit is none of address space. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ADDRESSES_TELL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define ADDRESSES_TELL 0
#endif
#endif
#ifndef ADDRESSES_TELL
#define ADDRESSES_TELL 1
#endif

/*
 * A file may grow when it is read, but not without bounds: the soft limit, which the child cannot
 * move.
 */
static void set_limit(const struct reader *reader)
{
	uint64_t bytes = reader->base_bytes + READER_BYTES + READER_FILE_GROWS * reader->file_bytes;
	struct rlimit limit;
	if (!ADDRESSES_TELL || !reader->base_bytes ||
	    prlimit(reader->pid, RLIMIT_AS, NULL, &limit) < 0)
		return;
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	prlimit(reader->pid, RLIMIT_AS, &limit, NULL);
}

struct reader *reader_start(const struct reader_work *work)
{
	int ends[2];
	sigset_t all, before;
	struct reader *reader = calloc(1, sizeof(*reader));
	if (!reader || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		free(reader);
		return NULL;
	}
	reader->work = work;
	reader->given = -1;
	reader->base_bytes = own_bytes();
	/* Ctrl-C is the program's and ours: the child ends when we do */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	reader->pid = fork();
	if (reader->pid == 0)
		live(work, ends[1]);
	int code = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	reader->fd = ends[0];
	if (reader->pid < 0) {
		close(ends[0]);
		free(reader);
		errno = code;
		return NULL;
	}
	set_limit(reader);
	return reader;
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	close(reader->fd);
	kill(reader->pid, SIGKILL);
	while (waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
		;
	buf_fini(&reader->buf);
	free(reader);
}

int reader_pid(const struct reader *reader)
{
	return reader->pid;
}

/* Only what is an ELF file is handed over, and its size is what memory is granted for. */
static int is_elf(struct reader *reader, int fd)
{
	char magic[4];
	struct stat st;
	if (pread(fd, magic, 4, 0) != 4 || memcmp(magic, "\177ELF", 4) != 0 || fstat(fd, &st) < 0)
		return 0;
	reader->file_bytes += (uint64_t)st.st_size;
	set_limit(reader);
	return 1;
}

static int open_for(const struct reader *reader, const struct open_ask *ask, const char *path,
		    char **found)
{
	const struct reader_work *work = reader->work;
	if (ask->kind == OPENER_GIVEN)
		return reader->given >= 0 ? fcntl(reader->given, F_DUPFD_CLOEXEC, 0) : -ENOENT;
	if (ask->kind == OPENER_SERVER)
		return work->served
			       ? work->served(work->ctx, (const uint8_t *)path, ask->len, found)
			       : -ENOENT;
	return image_open_path(work->root, (enum opener_kind)ask->kind, path, ask->nth);
}

static int serve_open(struct reader *reader)
{
	struct open_ask ask;
	struct open_answer answer = { 0, UINT32_MAX };
	struct buf *buf = &reader->buf;
	char *found = NULL;
	if (buf->len < sizeof(ask))
		return -EPIPE;
	memcpy(&ask, buf->data, sizeof(ask));
	if (ask.len > READER_PATH_ROOM || ask.len != buf->len - sizeof(ask))
		return -EPIPE;
	buf_putc(buf, '\0');
	if (buf_failed(buf))
		return -EPIPE;
	const char *path = buf->data + sizeof(ask);
	int fd = open_for(reader, &ask, path, &found);
	if (fd >= 0 && !is_elf(reader, fd)) {
		close(fd);
		fd = -EBADMSG;
	}
	answer.rc = fd < 0 ? fd : 0;
	if (found)
		answer.found_len = (uint32_t)strnlen(found, READER_PATH_ROOM);
	int rc = send_all(reader->fd, &answer, sizeof(answer), fd);
	if (rc == 0 && found)
		rc = send_all(reader->fd, found, answer.found_len, -1);
	if (fd >= 0)
		close(fd);
	free(found);
	return rc;
}

struct buf *reader_buf(struct reader *reader)
{
	return &reader->buf;
}

void reader_give(struct reader *reader, int fd)
{
	reader->given = fd;
}

void reader_forget_files(struct reader *reader)
{
	reader->file_bytes = 0;
	reader->given = -1;
}

int reader_say(struct reader *reader, uint32_t what)
{
	return say(reader->fd, what, &reader->buf);
}

int reader_hear(struct reader *reader, uint32_t *what)
{
	struct head head;
	int rc;
	while ((rc = hear(reader->fd, &head, &reader->buf, READER_ANSWER_MAX)) == 0 &&
	       head.what == SAY_OPEN)
		if (serve_open(reader) < 0)
			return -EPIPE;
	*what = head.what;
	return rc;
}

int reader_hear_raw(struct reader *reader, void *to, size_t len)
{
	return receive_all(reader->fd, to, len, NULL);
}
