/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alarmforks.c - a signal handler forks wherever malloc() and free() stand, COUNT times; the child returns from it, goes on
 * there, allocates KEPT blocks and ends. Prints how many forks, and how many children did not end with 0.
 *
 * alarmforks COUNT full: its parent, who records it, stands still before the first fork until its child has begun, so that
 * the child goes on where the program waits for room.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 100

static volatile sig_atomic_t is_child, forks, bad;
static pid_t stopped;

static void on_alarm(int number)
{
	int status;
	pid_t pid = fork();
	(void)number;
	if (pid == 0) {
		is_child = 1;
		if (stopped)
			kill(stopped, SIGCONT);
		return;
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	bad += status != 0;
	forks++;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	struct sigaction action = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &action, NULL);
	if (argc > 2 && strcmp(argv[2], "full") == 0) {
		stopped = getppid();
		kill(stopped, SIGSTOP);
	}
	while (forks < count) {
		/* at another place each time */
		struct itimerval timer = {
			{ 0, 0 }, { 0, stopped && !forks ? 300000 : 100 + forks * 37 % 400 }
		};
		int before = forks;
		setitimer(ITIMER_REAL, &timer, NULL);
		while (forks == before) {
			void *volatile block = malloc(24);
			free(block);
			if (!is_child)
				continue;
			for (int i = 0; i < KEPT; i++)
				block = malloc(4321);
			_exit(block == NULL);
		}
	}
	printf("%d forks, %d bad\n", (int)forks, (int)bad);
	return bad != 0;
}
