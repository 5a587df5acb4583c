/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkmany.c - a program that forks all the time, whose children allocate. usage: forkmany COUNT. Begins with a line on stdin; says
 * how many children ended well and how many did not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

int main(int argc, char **argv)
{
	char line[64];
	int count = argc > 1 ? atoi(argv[1]) : 100, good = 0, bad = 0;
	setvbuf(stdin, NULL, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < count; i++) {
		kept = malloc(1000);
		pid_t child = fork();
		if (child == 0) {
			for (int k = 0; k < 200; k++) {
				kept = malloc((size_t)k * 10 + 1);
				kept = realloc(kept, (size_t)k * 20 + 1);
				free(kept);
			}
			_exit(0);
		}
		int status = 1;
		waitpid(child, &status, 0);
		*(status == 0 ? &good : &bad) += 1;
		free(kept);
	}
	printf("%d %d\n", good, bad);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
