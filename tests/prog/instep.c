/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instep.c - calls in step: of each thousand one is of 1 MiB and one of 4 KiB, at fixed places, all others are small. usage: instep
 * CALLS. Begins when a line comes on stdin, prints "NAME COUNT BYTES LIVE" a site and "done", ends when stdin does.
 */
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))

static void *volatile kept;

APART void by_small(void)
{
	kept = malloc(100);
	free(kept);
}

APART void by_large(void)
{
	kept = malloc(1 << 20);
	free(kept);
}

APART void by_page(void)
{
	kept = malloc(4096);
	free(kept);
}

int main(int argc, char **argv)
{
	char line[64];
	long calls = argc > 1 ? atol(argv[1]) : 400000, count[3] = { 0 };
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (long i = 0; i < calls; i++) {
		long at = i % 1000;
		if (at == 250)
			by_large();
		else if (at == 500)
			by_page();
		else
			by_small();
		count[at == 250 ? 1 : at == 500 ? 2 : 0]++;
	}
	printf("by_small %ld %ld 0\nby_large %ld %ld 0\nby_page %ld %ld 0\ndone\n", count[0],
	       count[0] * 100, count[1], count[1] << 20, count[2], count[2] * 4096);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
