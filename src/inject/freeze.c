/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/freeze.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"

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
	/*
	 * where a signal came first it is handed on in the end; a stop of ours, or of the whole
	 * group, has its event above
	 */
	if (WIFSTOPPED(status) && !(status >> 16))
		f->threads[f->count - 1].signal = WSTOPSIG(status);
	return 1;
}

/* By one thread's line in /proc, where its state stands behind the name in brackets. */
static int waits_deep(pid_t pid, const char *tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, tid);
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	const char *at = strrchr(text, ')');
	return at && at[1] == ' ' && at[2] == 'D';
}

int freeze_can(pid_t pid)
{
	char path[64];
	int can = 1;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && can && (entry = readdir(dir));)
		can = entry->d_name[0] == '.' || !waits_deep(pid, entry->d_name);
	if (dir)
		closedir(dir);
	return can;
}

#define DEEP_NS 2000000000u
#define DEEP_PAUSE_NS 2000000

int freeze_await(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = DEEP_PAUSE_NS };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + DEEP_NS;
	/* what is in a page fault, say, is so for a moment */
	while (!freeze_can(pid)) {
		if (clock_ns(CLOCK_MONOTONIC) > until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
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

#ifdef __x86_64__
#define USER_CS 0x33   /* 64-bit code */
#define SYSCALL 0x050f /* the instruction */
#define PENDING_MAX 32

/*
 * Calls that fail with EINTR when they are woken for a stop, and have done nothing then: the kernel
 * starts most others anew by itself.
 */
static int waits_anew(const struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_epoll_wait:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	/* sockets with a time limit of their own */
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_accept:
	case SYS_accept4:
		return 1;
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_io_uring_enter:
		/*
		 * other signals are let in while it waits: what is meant to end it would run its
		 * handler, and it would wait on
		 */
		return !regs->r8;
	default:
		return 0;
	}
}

/* Whether a signal waits to be delivered: then EINTR is its doing. */
static int has_signal(pid_t tid)
{
	uint64_t blocked;
	siginfo_t infos[PENDING_MAX];
	if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(blocked), &blocked) < 0)
		return 1;
	for (unsigned shared = 0; shared < 2; shared++) {
		struct __ptrace_peeksiginfo_args args = { .flags = shared, .nr = PENDING_MAX };
		long count = ptrace(PTRACE_PEEKSIGINFO, tid, &args, infos);
		if (count < 0 || count == PENDING_MAX)
			return 1;
		for (long i = 0; i < count; i++)
			if (!(blocked >> (infos[i].si_signo - 1) & 1))
				return 1;
	}
	return 0;
}

/*
 * Nothing but the stop ended the wait of @tid: the call is made once more, as the kernel does with
 * others. A signal that comes from here on finds the thread before that call, as one that came a
 * moment before it was made at first.
 */
static void wait_anew(pid_t tid)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0 || regs.cs != USER_CS ||
	    (int64_t)regs.rax != -EINTR || !waits_anew(&regs))
		return;
	errno = 0;
	long code = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)(regs.rip - 2), NULL);
	if (errno || (code & 0xffff) != SYSCALL || has_signal(tid))
		return;
	regs.rip -= 2;
	regs.rax = regs.orig_rax;
	regs.orig_rax = (unsigned long long)-1;
	ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}
#else
/* The first argument of a call stands where its result does, and nobody tells it: EINTR it is. */
static void wait_anew(pid_t tid)
{
	(void)tid;
}
#endif

static void let_go(const struct freeze *f, pid_t but)
{
	for (size_t i = 0; i < f->count; i++)
		if (!f->threads[i].signal && f->threads[i].tid != but)
			wait_anew(f->threads[i].tid);
	for (size_t i = 0; i < f->count; i++)
		if (f->threads[i].tid != but)
			ptrace(PTRACE_DETACH, f->threads[i].tid, NULL,
			       (void *)(intptr_t)f->threads[i].signal);
}

void freeze_keep(struct freeze *f, pid_t tid)
{
	let_go(f, tid);
	for (size_t i = 0; i < f->count; i++)
		if (f->threads[i].tid == tid)
			f->threads[0] = f->threads[i];
	f->count = 1;
}

uint64_t freeze_end(struct freeze *f)
{
	if (!f->threads)
		return 0;
	let_go(f, 0);
	free(f->threads);
	f->threads = NULL;
	return clock_ns(CLOCK_MONOTONIC) - f->since_ns;
}
