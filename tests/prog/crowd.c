/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.c - very many small blocks, under some hundred stacks: what a balance sheet costs.
 *
 * usage: crowd BLOCKS
 * Allocates BLOCKS blocks of 40 to 160 bytes, frees one in eight at random and allocates as many again, prints "ready BYTES" (of all
 * that lives) and waits for the end of stdin.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void *leaf(size_t bytes)
{
	void *at = malloc(bytes);
	if (at)
		memset(at, 1, bytes);
	return at;
}

/* Each bit of @way is another call site: 2^7 stacks. */
__attribute__((noinline)) static void *walk(unsigned way, unsigned depth, size_t bytes)
{
	void *at;
	if (!depth)
		at = leaf(bytes);
	else if (way & 1)
		at = walk(way >> 1, depth - 1, bytes);
	else
		at = walk(way >> 1, depth - 1, bytes);
	__asm__ volatile("" : "+r"(at));
	return at;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	void **blocks = calloc(count, sizeof(*blocks));
	uint8_t *sizes = calloc(count, 1);
	uint64_t live = 0;
	if (!blocks || !sizes)
		return 1;
	for (size_t i = 0; i < count; i++) {
		sizes[i] = (uint8_t)(40 + next_random() % 121);
		blocks[i] = walk((unsigned)(next_random() % 128), 7, sizes[i]);
		live += sizes[i];
	}
	for (size_t i = 0; i < count / 8; i++) {
		size_t at = next_random() % count;
		free(blocks[at]);
		blocks[at] = walk((unsigned)(next_random() % 128), 7, sizes[at]);
	}
	printf("ready %llu\n", (unsigned long long)live);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
