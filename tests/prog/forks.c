/* SPDX-License-Identifier: Apache-2.0 */
/* forks N - children of every kind, made by one thread while three others allocate; only the parent's calls count. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "truth.h"

extern char **environ;
static atomic_int stop;

static void *busy(void *arg)
{
	while (!atomic_load(&stop)) {
		void *p = took(malloc(100), 100);
		gave(p);
		free(p);
	}
	return arg;
}

static int reap(pid_t pid)
{
	int status = -1;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return status != 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, wrong = 0;
	pthread_t thread[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, busy, NULL);
	for (int i = 0; i < n; i++) {
		void *kept = took(malloc(1000), 1000);
		pid_t pid = fork();
		if (pid == 0) {
			/* not the parent's book: none of this may appear in it */
			void *p[100];
			for (int k = 0; k < 100; k++)
				p[k] = malloc(1 << (k % 12));
			for (int k = 0; k < 100; k++)
				free(p[k]);
			free(kept);
			if (i & 1)
				_exit(0);
			exit(0);
		}
		wrong += reap(pid);
		pid = vfork();
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		wrong += reap(pid);
		pid = vfork();
		if (pid == 0) {
			execl("/nonexistent/program", "x", (char *)NULL);
			_exit(0);
		}
		wrong += reap(pid);
		char *args[] = { "true", NULL };
		wrong += posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ) != 0;
		wrong += reap(pid);
		/* a fork that goes round the C library */
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			free(malloc(10));
			syscall(SYS_exit_group, 0);
		}
		wrong += reap(pid);
		gave(kept);
		free(kept);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	truth_print();
	return wrong != 0;
}
