/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/freeze.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"

#define ROUNDS_MAX 64 /* looks for threads that were made meanwhile */

static int is_held(const struct freeze *f, pid_t tid)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->threads[i].tid == tid)
			return 1;
	return 0;
}

/* 1 stopped, 0 it has ended, negative errno. */
static int stop(struct freeze *f, pid_t tid)
{
	int status;
	if (f->count == f->room) {
		size_t room = f->room ? f->room * 2 : 64;
		struct freeze_thread *grown = realloc(f->threads, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->threads = grown;
		f->room = room;
	}
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return errno == ESRCH ? 0 : -errno;
	f->threads[f->count++] = (struct freeze_thread){ .tid = tid };
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return errno == ESRCH ? 0 : -errno;
	while (waitpid(tid, &status, __WALL) < 0)
		if (errno != EINTR)
			return errno == ECHILD ? 0 : -errno;
	/* where a signal came first it is handed on in the end; a stop of ours, or of the whole group, has its event above */
	if (WIFSTOPPED(status) && !(status >> 16))
		f->threads[f->count - 1].signal = WSTOPSIG(status);
	return 1;
}

static int stop_all(struct freeze *f, pid_t pid, size_t *fresh)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	int rc = dir ? 0 : -errno;
	*fresh = 0;
	for (struct dirent *entry; dir && rc >= 0 && (entry = readdir(dir));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid <= 0 || is_held(f, tid))
			continue;
		rc = stop(f, tid);
		*fresh += rc == 1;
	}
	if (dir)
		closedir(dir);
	return rc < 0 ? rc : 0;
}

int freeze_begin(struct freeze *f, pid_t pid, struct err *err)
{
	size_t fresh = 1;
	memset(f, 0, sizeof(*f));
	f->since_ns = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < ROUNDS_MAX && fresh; i++) {
		int rc = stop_all(f, pid, &fresh);
		if (rc < 0) {
			err_set(err, rc, "cannot stop process %d for a moment", (int)pid);
			return rc == -EPERM
				       ? err_hint(err,
						  "another tracer (a debugger, strace) has it, or "
						  "it is not yours: without --freeze nothing is "
						  "stopped")
				       : rc;
		}
	}
	return 0;
}

uint64_t freeze_end(struct freeze *f)
{
	if (!f->threads)
		return 0;
	for (size_t i = 0; i < f->count; i++)
		ptrace(PTRACE_DETACH, f->threads[i].tid, NULL,
		       (void *)(intptr_t)f->threads[i].signal);
	free(f->threads);
	f->threads = NULL;
	return clock_ns(CLOCK_MONOTONIC) - f->since_ns;
}
