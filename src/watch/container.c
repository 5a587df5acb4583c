/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/container.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"

#define ID_MIN 12 /* what engines print of an id */
#define ANSWER_MAX (4u << 20)
#define ANSWER_SECONDS 5

static size_t hex_run(const char *text)
{
	size_t len = 0;
	while ((text[len] >= '0' && text[len] <= '9') || (text[len] >= 'a' && text[len] <= 'f'))
		len++;
	return len;
}

/*
 * "docker-<id>.scope", "/docker/<id>", "libpod-<id>.scope", "cri-containerd-<id>.scope" and so on.
 */
static int names_id(const char *cgroups, const char *id)
{
	size_t len = strlen(id);
	for (const char *at = cgroups; (at = strstr(at, id)) != NULL; at++) {
		int begins = at > cgroups && strchr("/-:", at[-1]);
		size_t run = hex_run(at);
		if (begins && (run == len || run == CONTAINER_ID_MAX))
			return 1;
	}
	return 0;
}

int container_holds(const char *id, pid_t pid)
{
	char path[48], text[16384];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	fileio_text(AT_FDCWD, path, text, sizeof(text));
	return names_id(text, id);
}

/* ---- names ----------------------------------------------------------------------------------- */

static int is_name(const char *text)
{
	size_t i = 0;
	for (; text[i]; i++)
		if (!isalnum((unsigned char)text[i]) && !(i && strchr("_.-", text[i])))
			return 0;
	return i > 0 && i < 256;
}

/* The next call on @fd waits until the deadline at most; -ETIMEDOUT where that is over. */
static int limit_call(int fd, int option, uint64_t deadline_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now >= deadline_ns)
		return -ETIMEDOUT;
	uint64_t left_us = (deadline_ns - now) / 1000 + 1; /* 0 would be for ever */
	struct timeval limit = { .tv_sec = (time_t)(left_us / 1000000),
				 .tv_usec = (suseconds_t)(left_us % 1000000) };
	return setsockopt(fd, SOL_SOCKET, option, &limit, sizeof(limit)) < 0 ? -errno : 0;
}

static int connect_to(const char *path, uint64_t deadline_ns)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	limit_call(fd, SO_SNDTIMEO, deadline_ns);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int code = -errno;
		close(fd);
		return code;
	}
	return fd;
}

/* The "Id" that an engine's answer holds; -ENOENT: it knows no such container. */
static int read_id(const struct buf *answer, char id[CONTAINER_ID_MAX + 1])
{
	unsigned status = 0;
	const char *body = strstr(answer->data, "\r\n\r\n");
	if (sscanf(answer->data, "HTTP/1.%*c %u", &status) != 1 || !body)
		return -EBADMSG;
	if (status == 404)
		return -ENOENT;
	json_t *json = status == 200 ? json_loads(body, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const char *value = json_string_value(json_object_get(json, "Id"));
	int rc = value && strlen(value) <= CONTAINER_ID_MAX && strlen(value) >= ID_MIN &&
				 hex_run(value) == strlen(value)
			 ? 0
			 : -EBADMSG;
	if (rc == 0)
		strcpy(id, value);
	json_decref(json);
	return rc;
}

static int ask(const char *socket_path, const char *name, char id[CONTAINER_ID_MAX + 1])
{
	uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + ANSWER_SECONDS * NS_PER_S;
	int fd = connect_to(socket_path, deadline_ns), rc = 0;
	if (fd < 0)
		return fd;
	CLEANUP(buf_fini) struct buf text = { 0 };
	/* 1.0: the answer comes in one piece and ends with the connection */
	buf_printf(&text, "GET /containers/%s/json HTTP/1.0\r\nHost: localhost\r\n\r\n", name);
	if (send(fd, text.data, text.len, MSG_NOSIGNAL) != (ssize_t)text.len)
		rc = -EIO;
	buf_clear(&text);
	while (rc == 0 && text.len < ANSWER_MAX) {
		char *to = buf_reserve(&text, 16384);
		rc = to ? limit_call(fd, SO_RCVTIMEO, deadline_ns) : -ENOMEM;
		ssize_t got = rc == 0 ? recv(fd, to, 16384, 0) : -1;
		if (got < 0 && rc == 0)
			rc = errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (got <= 0)
			break;
		text.len += (size_t)got;
	}
	close(fd);
	buf_cstr(&text);
	if (rc == 0)
		rc = buf_failed(&text) ? -ENOMEM : read_id(&text, id);
	return rc;
}

/* Asks one after the other: the first engine that knows the name has it. */
static int ask_engines(const char *name, char id[CONTAINER_ID_MAX + 1], int *asked)
{
	const char *docker = getenv("DOCKER_HOST"), *podman = getenv("CONTAINER_HOST");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char own[128] = "";
	if (runtime)
		snprintf(own, sizeof(own), "%s/podman/podman.sock", runtime);
	const char *const paths[] = {
		docker && strncmp(docker, "unix://", 7) == 0 ? docker + 7 : "/var/run/docker.sock",
		podman && strncmp(podman, "unix://", 7) == 0 ? podman + 7
							     : "/run/podman/podman.sock",
		own,
	};
	int rc = -ENOENT;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		int one = paths[i][0] ? ask(paths[i], name, id) : -ENOENT;
		if (one == 0)
			return 0;
		/* a socket that is not there is nobody asked */
		int there = paths[i][0] && access(paths[i], F_OK) == 0 && one != -ECONNREFUSED;
		*asked |= there;
		if (there && one != -ENOENT)
			rc = one;
	}
	return rc;
}

int container_id(const char *text, char id[CONTAINER_ID_MAX + 1], struct err *err)
{
	size_t len = strlen(text);
	if (len >= ID_MIN && len <= CONTAINER_ID_MAX && hex_run(text) == len) {
		strcpy(id, text);
		return 0;
	}
	if (!is_name(text))
		return err_set(err, -EINVAL, "'%s' is not the name or the id of a container", text);
	int asked = 0, rc = ask_engines(text, id, &asked);
	if (rc == 0)
		return 0;
	err_set(err, rc, "cannot find container '%s'", text);
	return err_hint(err, !asked ? "neither docker nor podman can be asked here; give the "
				      "container's id, of which 12 digits are enough"
			     : rc == -ENOENT ? "no engine knows it: 'docker ps -a' lists names"
			     : rc == -ETIMEDOUT || rc == -EAGAIN
				     ? "the engine is too busy or hangs; give the container's id"
			     : rc == -EACCES ? "ask as root or as a member of the group docker, or "
					       "give the container's id"
					     : "the engine's answer is not understood; give the "
					       "container's id");
}
