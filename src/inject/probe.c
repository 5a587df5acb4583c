/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - whether ptrace is permitted here, by doing it to a process of our own. */
#include "inject/inject.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The security module Yama lets a tracer have its descendants; only an orphan tells what holds for
 * other processes.
 * @say carries its pid to us; it lives until we close our end of @hold, whatever becomes of us.
 */
static pid_t start_orphan(const int say[2], const int hold[2])
{
	pid_t middle = fork();
	if (middle != 0)
		return middle;
	pid_t orphan = fork();
	if (orphan != 0)
		_exit(write(say[1], &orphan, sizeof(orphan)) == sizeof(orphan) ? 0 : 1);
	char byte;
	close(hold[1]);
	close(say[1]);
	_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
}

static int attach_and_release(pid_t pid, struct err *err)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		return err_set(err, -errno, "cannot attach to an own process");
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return err_set(err, -errno, "cannot stop an own process");
	int status;
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return err_set(err, -errno, "cannot wait for an own process");
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		return err_set(err, -errno, "cannot release an own process");
	return 0;
}

int inject_probe(struct err *err)
{
	/* one pipe carries the pid to us, the other one holds the process until we close it */
	int say[2], hold[2];
	if (pipe(say) < 0)
		return err_set(err, -errno, "cannot make a pipe");
	if (pipe(hold) < 0) {
		int code = -errno;
		close(say[0]);
		close(say[1]);
		return err_set(err, code, "cannot make a pipe");
	}
	int rc;
	pid_t orphan = 0;
	pid_t middle = start_orphan(say, hold);
	int code = errno;
	close(hold[0]);
	close(say[1]);
	if (middle < 0) {
		rc = err_set(err, -code, "cannot start a process");
	} else {
		waitpid(middle, NULL, 0);
		if (read(say[0], &orphan, sizeof(orphan)) != sizeof(orphan) || orphan <= 0)
			rc = err_set(err, -EIO, "cannot start a process");
		else
			rc = attach_and_release(orphan, err);
	}
	close(hold[1]);
	close(say[0]);
	return rc;
}
