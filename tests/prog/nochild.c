/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nochild - the child of a fork looks for children of its own that it has not made, at once and for a while after it has become
 * another program. Prints what was found: "0 0".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is_there(void)
{
	int status;
	return waitpid(-1, &status, __WALL | WNOHANG) >= 0 || errno != ECHILD;
}

static long ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		int found = atoi(argv[1]), later = 0;
		for (long until = ms() + 300; ms() < until; usleep(1000))
			later |= is_there();
		printf("%d %d\n", found, later);
		return 0;
	}
	int status;
	free(malloc(10));
	pid_t pid = fork();
	if (pid == 0) {
		char found[2] = { (char)('0' + is_there()), 0 };
		free(malloc(20));
		execl("/proc/self/exe", argv[0], found, (char *)0);
		_exit(9);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}
