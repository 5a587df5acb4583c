/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.h - `--container NAME|ID`: an id is looked for in cgroup paths, a name is what docker
 * or podman is asked about.
 */
#ifndef WATCH_CONTAINER_H
#define WATCH_CONTAINER_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define CONTAINER_ID_MAX 64

/**
 * container_id() - the id of @text: itself if it is 12 to 64 hexadecimal digits, else what the
 * engine's socket (DOCKER_HOST, CONTAINER_HOST, the usual places) answers, each within 5 s.
 * -ENOENT: no such container, or nobody to ask.
 */
int container_id(const char *text, char id[CONTAINER_ID_MAX + 1], struct err *err);
/**
 * container_holds() - 1 if process @pid is in the container whose id begins with @id, by its cgroup
 * paths.
 */
int container_holds(const char *id, pid_t pid);

#endif
