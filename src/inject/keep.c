/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c - what was led to the hooks is put back, by us, or by a process of our own that sees us
 * killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inject/attach_impl.h"
#include "inject/freeze.h"
#include "wire/heap_start.h"

#define MODE_MASK 0x7fu /* preload/process.h */
#define MODE_OFF 0x20u
#define EPOCH 0x100u
#define KEEP_TRIES 30
#define FDS_MAX 1024 /* of ours, and those that it needs, are among the first */

static int has_ended(const struct attach *a)
{
	struct pollfd fd = { .fd = a->pidfd, .events = POLLIN };
	return a->pidfd >= 0 && poll(&fd, 1, 0) == 1;
}

/* From the next call on nobody records; whoever is in a hook ends it. */
static void switch_off(const struct attach *a, pid_t tid)
{
	errno = 0;
	uint64_t both =
		(uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)a->shared->said.word_at, NULL);
	uint32_t word = (uint32_t)both;
	if (errno || (word & MODE_MASK) <= MODE_OFF)
		return;
	both = (both & ~0xffffffffull) | ((word & ~0xffu) + EPOCH + MODE_OFF);
	ptrace(PTRACE_POKEDATA, tid, (void *)a->shared->said.word_at, (void *)both);
}

int attach_is_there(const struct attach *a)
{
	uint64_t word;
	for (size_t i = 0; i < ATTACH_CODE; i += sizeof(word)) {
		if (target_read(&a->target, a->shared->own_call + i, &word, sizeof(word)) !=
			    sizeof(word) ||
		    memcmp(&word, a->shared->own_code + i, sizeof(word)) != 0)
			return 0;
	}
	return 1;
}

int attach_freeze(struct attach *a, struct freeze *f, struct err *err)
{
	if (freeze_await(a->pid) == 0)
		return freeze_begin(f, a->pid, err);
	err_set(err, -EINVAL,
		"cannot come into process %d: a thread of it waits for a device, a file system or "
		"the child of a vfork(), and cannot be stopped; nothing was changed",
		(int)a->pid);
	return err_hint(err, "once more, in a moment");
}

int attach_put_back(struct attach *a, struct err *err)
{
	struct freeze f = { 0 };
	struct err ignored = { 0 };
	err = err ? err : &ignored;
	a->led = 0;
	if (has_ended(a) || objects_read(&a->objects, &a->target, &ignored) < 0)
		return 0;
	const struct object *own = objects_named(&a->objects, WIRE_PRELOAD_NAME);
	if (!own || own->lo != a->shared->own_lo) /* another program */
		return 0;
	int rc = attach_freeze(a, &f, err);
	if (rc == 0 && f.count && attach_is_there(a)) {
		slots_put_back(&a->shared->slots, f.threads[0].tid);
		switch_off(a, f.threads[0].tid);
	}
	freeze_end(&f);
	return rc;
}

/* The terminal's signals are for the recorder; so is everything that it has open. */
static void become_keeper(const struct attach *a, int from)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "byteledger-keep");
	setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < FDS_MAX; fd++)
		if (fd != from && fd != a->pidfd && fd != a->target.dir && fd != a->target.mem)
			close(fd);
	syscall(SYS_close_range, FDS_MAX, ~0u, 0);
}

/*
 * It leads a thread aside, too: were we killed meanwhile, that would go on where nobody brings it
 * back from.
 */
static void keep(struct attach *a, const struct attach_opt *opt, int from)
{
	char byte = 0;
	ssize_t got = 1;
	become_keeper(a, from);
	a->shared->rc = attach_come(a, opt, &a->shared->err);
	send(from, &byte, 1, MSG_NOSIGNAL);
	do {
		got = a->shared->rc < 0 ? 1 : read(from, &byte, 1);
	} while (got < 0 && errno == EINTR);
	/* each takes two seconds where it cannot be; a minute, and while the process lives */
	for (unsigned i = 0; got == 0 && i < KEEP_TRIES && attach_put_back(a, NULL) < 0; i++)
		;
	_exit(0);
}

/* A signal that ends us waits, where our caller has blocked those. */
static int is_over(void)
{
	static const int ends[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	sigset_t waiting;
	sigpending(&waiting);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (sigismember(&waiting, ends[i]))
			return 1;
	return 0;
}

#define PATIENCE_MS 500 /* it takes 30 ms, and then all is undone at once */
#define LOOK_MS 20

/* What it answers. */
static int hear(struct attach *a, struct err *err)
{
	char byte;
	ssize_t got;
	struct pollfd answer = { .fd = a->keeper_pipe, .events = POLLIN };
	for (int ms = 0; poll(&answer, 1, LOOK_MS) <= 0; ms += LOOK_MS)
		if (ms >= PATIENCE_MS && is_over()) {
			keep_leave(a);
			err_set(err, -EINTR, "interrupted on the way into process %d", (int)a->pid);
			return err_hint(err, "nothing is recorded; byteledger-keep puts back what "
					     "was changed");
		}
	do {
		got = read(a->keeper_pipe, &byte, 1);
	} while (got < 0 && errno == EINTR);
	if (got != 1)
		return err_set(err, -ECHILD,
			       "cannot come into process %d: byteledger-keep has ended",
			       (int)a->pid);
	if (a->shared->rc < 0) {
		*err = a->shared->err;
		return a->shared->rc;
	}
	int fd = (int)syscall(SYS_pidfd_open, a->keeper, 0);
	a->memory = fd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, fd, a->shared->memory, 0);
	int rc = a->memory < 0 ? err_set(err, -errno, "cannot take its shared memory") : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

int keep_begin(struct attach *a, const struct attach_opt *opt, struct err *err)
{
	int ends[2];
	a->pidfd = (int)syscall(SYS_pidfd_open, a->pid, 0);
	if (a->pidfd < 0)
		return err_set(err, -errno, "cannot watch process %d", (int)a->pid);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, -errno, "cannot make a pair of sockets");
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		keep(a, opt, ends[0]);
	}
	close(ends[0]);
	if (pid < 0) {
		close(ends[1]);
		return err_set(err, -errno, "cannot start a process");
	}
	a->keeper = pid;
	a->keeper_pipe = ends[1];
	return hear(a, err);
}

void keep_leave(struct attach *a)
{
	if (a->keeper_pipe >= 0)
		close(a->keeper_pipe);
	a->keeper = 0;
	a->keeper_pipe = -1;
}

void keep_end(struct attach *a)
{
	if (a->keeper <= 0)
		return;
	send(a->keeper_pipe, "", 1, MSG_NOSIGNAL); /* it may have been killed */
	close(a->keeper_pipe);
	while (waitpid(a->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	a->keeper = 0;
	a->keeper_pipe = -1;
}
