/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.c - a thread in each kind of call that waits; says "ready THREADS", and at the end of stdin how often each failed with EINTR
 * or otherwise, or came back though nothing had happened: "NAME TIMES". Time limits are of an hour.
 */
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static int pipes[2], limited, listening, epoll, event, semaphores, queue;
static int word;

static long in_nanosleep(void)
{
	struct timespec t = { HOUR, 0 };
	return nanosleep(&t, NULL);
}

static long in_clock_nanosleep(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += HOUR;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	return errno ? -1 : 0;
}

static long in_epoll_wait(void)
{
	struct epoll_event e;
	return epoll_wait(epoll, &e, 1, -1);
}

static long in_epoll_limited(void)
{
	struct epoll_event e;
	return epoll_wait(epoll, &e, 1, HOUR * 1000);
}

static long in_epoll_pwait(void)
{
	struct epoll_event e;
	return epoll_pwait(epoll, &e, 1, -1, NULL);
}

static long in_poll(void)
{
	struct pollfd p = { pipes[0], POLLIN, 0 };
	return poll(&p, 1, HOUR * 1000);
}

static long in_select(void)
{
	fd_set set;
	struct timeval t = { HOUR, 0 };
	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	return select(pipes[0] + 1, &set, NULL, NULL, &t);
}

static long in_futex(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static long in_futex_limited(void)
{
	struct timespec t = { HOUR, 0 };
	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

static long in_read(void)
{
	char c;
	return read(pipes[0], &c, 1);
}

static long in_read_event(void)
{
	uint64_t n;
	return read(event, &n, sizeof(n));
}

static long in_recv_limited(void)
{
	char c;
	return recv(limited, &c, 1, 0);
}

static long in_read_limited(void)
{
	char c;
	return read(limited, &c, 1);
}

static long in_accept(void)
{
	return accept(listening, NULL, NULL);
}

static long in_semop(void)
{
	struct sembuf op = { 0, -1, 0 };
	return semop(semaphores, &op, 1);
}

static long in_semtimedop(void)
{
	struct sembuf op = { 0, -1, 0 };
	struct timespec t = { HOUR, 0 };
	return semtimedop(semaphores, &op, 1, &t);
}

static long in_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} m;
	return msgrcv(queue, &m, sizeof(m.text), 0, 0);
}

static long in_sigtimedwait(void)
{
	sigset_t set;
	struct timespec t = { HOUR, 0 };
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &t);
}

static long in_wait(void)
{
	return waitpid(-1, NULL, 0);
}

static struct {
	const char *name;
	long (*call)(void);
	int times;
} calls[] = {
	{ "nanosleep", in_nanosleep, 0 },
	{ "clock_nanosleep", in_clock_nanosleep, 0 },
	{ "epoll_wait", in_epoll_wait, 0 },
	{ "epoll_wait-limited", in_epoll_limited, 0 },
	{ "epoll_pwait", in_epoll_pwait, 0 },
	{ "poll", in_poll, 0 },
	{ "select", in_select, 0 },
	{ "futex", in_futex, 0 },
	{ "futex-limited", in_futex_limited, 0 },
	{ "read", in_read, 0 },
	{ "read-eventfd", in_read_event, 0 },
	{ "recv-limited", in_recv_limited, 0 },
	{ "read-limited", in_read_limited, 0 },
	{ "accept", in_accept, 0 },
	{ "semop", in_semop, 0 },
	{ "semtimedop", in_semtimedop, 0 },
	{ "msgrcv", in_msgrcv, 0 },
	{ "sigtimedwait", in_sigtimedwait, 0 },
	{ "waitpid", in_wait, 0 },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void *wait_on(void *ctx)
{
	for (;;) {
		calls[(size_t)(uintptr_t)ctx].call();
		__atomic_add_fetch(&calls[(size_t)(uintptr_t)ctx].times, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

int main(void)
{
	int pair[2];
	struct timeval hour = { HOUR, 0 };
	struct sockaddr_in any = { .sin_family = AF_INET };
	sigset_t usr2;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	epoll = epoll_create1(0);
	event = eventfd(0, 0);
	listening = socket(AF_INET, SOCK_STREAM, 0);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	queue = msgget(IPC_PRIVATE, 0600);
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || listen(listening, 1) < 0 ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof(hour)) ||
	    bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&any, sizeof(any)) ||
	    semaphores < 0 || queue < 0)
		return 1;
	limited = pair[0];
	pid_t child = fork();
	if (child == 0) {
		char c;
		close(pipes[1]); /* ends with its parent, whatever ends that */
		_exit(read(pipes[0], &c, 1) < 0);
	}
	for (size_t i = 0; i < CALLS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, wait_on, (void *)(uintptr_t)i))
			return 1;
	}
	printf("ready %zu\n", CALLS);
	fflush(stdout);
	while (getchar() != EOF) {
	}
	for (size_t i = 0; i < CALLS; i++)
		printf("%s %d\n", calls[i].name,
		       __atomic_load_n(&calls[i].times, __ATOMIC_SEQ_CST));
	fflush(stdout);
	semctl(semaphores, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, NULL);
	kill(child, SIGKILL);
	_exit(0);
}
