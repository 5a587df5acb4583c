/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostileheap.c - what looks like jemalloc's books of 1 TiB, of which next to nothing is there: every leaf of the tree is the
 * same one, and all of its entries name one extent, whose descriptor bears out the first page alone.
 *
 * usage: hostileheap
 * Prints a line "ready" and waits for the end of stdin.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BIG_BYTES (1ull << 40)
#define ENTRIES (1u << 18)
#define PAGE 4096u

static volatile uint64_t root[ENTRIES + 8]; /* 2 MiB: such data is looked at */

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		_exit(1);
	return at;
}

int main(void)
{
	char *big = map(BIG_BYTES);
	uint64_t *tables = map(ENTRIES * 8 + PAGE), *extent = tables + ENTRIES;
	madvise(big, BIG_BYTES, MADV_NOHUGEPAGE);
	memset(big, 1,
	       1024 * PAGE); /* the largest mapping by what is there of it: where proof is looked for */
	extent[1] = (uintptr_t)big;
	extent[2] = PAGE;
	for (unsigned i = 0; i < ENTRIES; i++)
		tables[i] = (uintptr_t)extent;
	for (uint64_t at = 0; at < BIG_BYTES; at += 1ull << 30)
		root[((uintptr_t)big + at) >> 30 & (ENTRIES - 1)] = (uintptr_t)tables;
	puts("ready");
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
