/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkpays.c - what a forked child takes for a pair of malloc and free. usage: forkpays CHILDREN PAIRS. Begins with a line on stdin;
 * prints the median of the children's ns of CPU a pair; ends when stdin does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *volatile kept;

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double pairs(long count)
{
	double begin = cpu_ns();
	for (long i = 0; i < count; i++) {
		kept = malloc(100);
		free(kept);
	}
	return (cpu_ns() - begin) / (double)count;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	char line[64];
	int children = argc > 1 ? atoi(argv[1]) : 20, fds[2];
	long count = argc > 2 ? atol(argv[2]) : 20000;
	double took[1000];
	setvbuf(stdin, NULL, _IONBF, 0);
	if (children < 1 || children > 1000 || !fgets(line, sizeof(line), stdin) || pipe(fds) < 0)
		return 1;
	pairs(10); /* the probes are met before the first child */
	for (int i = 0; i < children; i++) {
		pid_t child = fork();
		if (child == 0) {
			double ns = pairs(count);
			_exit(write(fds[1], &ns, sizeof(ns)) != sizeof(ns));
		}
		int status = 1;
		if (waitpid(child, &status, 0) != child || status ||
		    read(fds[0], &took[i], sizeof(took[i])) != sizeof(took[i]))
			return 1;
	}
	qsort(took, (size_t)children, sizeof(took[0]), by_value);
	printf("%.1f\n", took[children / 2]);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
