/* SPDX-License-Identifier: Apache-2.0 */
/* temporaries N - N rounds of a short-lived block that grows once, every hundredth round one that stays; a peak in the middle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) void *stays(void)
{
	return malloc(1000);
}

static __attribute__((noinline)) void passes(int round)
{
	char *block = malloc(100);
	block = realloc(block, 300 + (size_t)round % 7);
	free(block);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000, wrong = 0;
	for (int i = 0; i < rounds; i++) {
		passes(i);
		if (i % 100 == 0)
			*(volatile char *)stays() = 1;
		if (i == rounds / 2)
			free(malloc(10 << 20));
	}
	/* with ZERO_MEMORY: what was written before the free is not seen again */
	char *dirty = malloc(64);
	memset(dirty, 7, 64);
	free(dirty);
	char *again = malloc(64);
	for (int i = 0; i < 64; i++)
		wrong += again[i] != 0;
	printf("%s\n", wrong ? "dirty" : "zero");
	return 0;
}
