/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children KIND N - one child whose calls are known: it frees one block of its parent's, allocates N of 100 bytes, frees
 * every second one, ends. KIND: fork, thread (forked by one thread while three others allocate), daemon (twice, with a
 * session of its own), vfork, spawn, clone (round the C library). Prints the child's pid on descriptor 8.
 * Or: children itself N - ten children after another, which do nothing but become `children calls N`, which does those calls.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "truth.h"

extern char **environ;
static atomic_int stop;
static void *of_parent;
static int rounds;

static void say(pid_t pid)
{
	char text[32], *end = truth_number(text, (unsigned long)pid);
	*end++ = '\n';
	if (write(8, text, (size_t)(end - text)) < 0)
		_exit(9);
}

static void child(void)
{
	free(of_parent);
	for (int i = 0; i < rounds; i++) {
		void *block = malloc(100);
		if (i % 2)
			free(block);
	}
}

static int reap(pid_t pid)
{
	int status = -1;
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static int forked(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		child();
		exit(0);
	}
	say(pid);
	return reap(pid);
}

/* The first child ends at once; the second one, which init inherits, is waited for through a pipe. */
static int daemonized(void)
{
	int ends[2];
	char byte;
	if (pipe(ends) < 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		if (chdir("/") < 0)
			_exit(1);
		close(ends[0]);
		child();
		say(getpid());
		exit(0);
	}
	close(ends[1]);
	int wrong = reap(pid);
	return read(ends[0], &byte, 1) != 0 || wrong;
}

static void *busy(void *arg)
{
	while (!atomic_load(&stop))
		free(malloc(64));
	return arg;
}

static void *forking(void *arg)
{
	*(int *)arg = forked();
	return NULL;
}

static int from_a_thread(void)
{
	pthread_t thread[3], other;
	int wrong = 1;
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, busy, NULL);
	pthread_create(&other, NULL, forking, &wrong);
	pthread_join(other, NULL);
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	return wrong;
}

static int without_books(const char *kind)
{
	char *args[] = { "true", NULL };
	pid_t pid = -1;
	if (kind[0] == 'v') {
		pid = vfork();
		if (pid == 0) {
			execve("/bin/true", args, environ);
			_exit(127);
		}
	} else if (kind[0] == 's') {
		posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ);
	} else {
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			free(malloc(10));
			syscall(SYS_exit_group, 0);
		}
	}
	say(pid);
	return reap(pid);
}

static int ten_of(char *self, char *count)
{
	char kind[] = "calls", *args[] = { self, kind, count, NULL };
	int wrong = 0;
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			execve(self, args, environ);
			_exit(127);
		}
		say(pid);
		wrong |= reap(pid);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "fork";
	rounds = argc > 2 ? atoi(argv[2]) : 10;
	void *mine = malloc(2000);
	of_parent = malloc(1000);
	free(malloc(3000)); /* gone before the fork: not inherited */
	int wrong;
	if (strcmp(kind, "fork") == 0)
		wrong = forked();
	else if (strcmp(kind, "thread") == 0)
		wrong = from_a_thread();
	else if (strcmp(kind, "daemon") == 0)
		wrong = daemonized();
	else if (strcmp(kind, "calls") == 0)
		child(), of_parent = NULL, wrong = 0;
	else if (strcmp(kind, "itself") == 0)
		wrong = ten_of(argv[0], argv[2]);
	else
		wrong = without_books(kind);
	free(of_parent);
	free(mine);
	return wrong;
}
