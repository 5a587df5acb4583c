/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_ask.c - the last reading of a program that came by exec. Its heap is recorded by a recorder
 * of its own, which is told when it is about to end; its pages by the one that started the first
 * program. The former asks the latter, by a socket beside the recording, and lets the program go on
 * when the answer has come: the end of the connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "recorder/record.h"

#define SUFFIX "-pages"
#define ANSWER_MOST_S 1 /* the program waits */

/*
 * Beside the file @next. The folder is named by a descriptor, @folder: an address has no room for a
 * long path. Return: 0, -1.
 */
static int address_of(const char *next, int *folder, struct sockaddr_un *address)
{
	char *path = strdup(next), *slash = path ? strrchr(path, '/') : NULL;
	int len = -1;
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (slash) {
		*slash = '\0';
		*folder = open(*path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		len = *folder < 0 ? -1
				  : snprintf(address->sun_path, sizeof(address->sun_path),
					     "/proc/self/fd/%d/%s" SUFFIX, *folder, slash + 1);
	}
	free(path);
	return len > 0 && (size_t)len < sizeof(address->sun_path) ? 0 : -1;
}

void record_pages_listen(struct record *rec, const char *next)
{
	struct record_pages *pages = &rec->pages;
	struct sockaddr_un address;
	CLEANUP(fileio_closep) int folder = -1;
	if (!pages->own || !next || address_of(next, &folder, &address) < 0)
		return;
	CLEANUP(fileio_closep)
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return;
	/* the program may run as another user; who asks is told apart when they do */
	if (chmod(address.sun_path, 0666) < 0 || listen(fd, 1) < 0 ||
	    asprintf(&pages->asks_path, "%s" SUFFIX, next) < 0) {
		unlink(address.sun_path);
		return;
	}
	pages->asks = fd;
	fd = -1;
}

/* Ours, or the program's user's. */
static int may_ask(const struct record *rec, int fd)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);
	char path[32];
	struct stat its;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d", (int)rec->pid);
	return who.uid == geteuid() || (stat(path, &its) == 0 && who.uid == its.st_uid);
}

void record_pages_answer(struct record *rec)
{
	CLEANUP(fileio_closep) int fd = accept4(rec->pages.asks, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || !may_ask(rec, fd))
		return;
	record_look_for_exec(rec);
	record_pages_keep(rec);
}

void record_pages_ask(const struct record *rec)
{
	struct sockaddr_un address;
	const struct timeval most = { .tv_sec = ANSWER_MOST_S };
	char byte;
	CLEANUP(fileio_closep) int folder = -1;
	if (!rec->is_next || address_of(rec->path, &folder, &address) < 0)
		return;
	CLEANUP(fileio_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return; /* nobody reads pages */
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
}

void record_pages_deaf(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	if (pages->asks_path) {
		unlink(pages->asks_path);
		close(pages->asks);
	}
	free(STEAL(pages->asks_path));
	pages->asks = -1;
}
