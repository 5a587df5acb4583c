/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oddheap.c - heaps of glibc's malloc that are hard to read from outside.
 *
 * usage: oddheap fork MIB | fastbins MIB | cut MIB | nobins
 *   fork: the child of a fork shares all of MIB mebibytes with its parent; prints the child's pid behind "ready"
 *   fastbins: MIB of small chunks, nearly all in fastbins, where they keep one another apart
 *   cut: a large block that madvise() cuts into several mappings
 *   nobins: a chunk in so many bins that few of them are empty
 * Prints "ready ..." with its own figures and waits for the end of stdin.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void wait_for_end(void)
{
	char byte;
	while (read(0, &byte, 1) > 0)
		;
}

static void tell(const char *more)
{
	struct mallinfo2 info = mallinfo2();
	char line[256];
	int len = snprintf(line, sizeof(line), "ready %zu %zu %zu %zu %s\n", info.uordblks,
			   info.fordblks, info.hblkhd, info.fsmblks, more);
	if (write(1, line, (size_t)len) != len)
		_exit(1);
}

static void **fill(size_t bytes, size_t each, size_t *count)
{
	*count = bytes / (each + 8);
	void **blocks = malloc(*count * sizeof(*blocks));
	for (size_t i = 0; blocks && i < *count; i++) {
		blocks[i] = malloc(each);
		memset(blocks[i], (int)i | 1, each);
	}
	return blocks;
}

static void forked(size_t bytes)
{
	size_t count;
	char more[32];
	void **blocks = fill(bytes, 1000, &count);
	pid_t child = fork();
	if (child == 0) {
		wait_for_end();
		_exit(blocks == NULL);
	}
	snprintf(more, sizeof(more), "%d", (int)child);
	tell(more);
}

static void fastbins(size_t bytes)
{
	size_t count, kept = 0;
	void **blocks = fill(bytes, 56, &count);
	/* in an order that list neighbours are no neighbours in memory */
	for (size_t step = 0, i = 0; step < count; step++, i = (i + 7919) % count) {
		if (!blocks[i])
			while (i < count && !blocks[i])
				i = (i + 1) % count;
		if (i % 1000 == 999 && kept < 100000) {
			blocks[i] = NULL;
			kept++;
			continue;
		}
		free(blocks[i]);
		blocks[i] = NULL;
	}
	tell("");
}

static void cut(size_t bytes)
{
	char *block = malloc(bytes);
	memset(block, 1, bytes);
	char *page = (char *)(((unsigned long)block + bytes / 2) & ~4095ul);
	madvise(page, bytes / 4, MADV_DONTFORK);
	mprotect(page + bytes / 4, 8192, PROT_READ);
	tell("");
}

static void *touched(size_t size)
{
	return memset(malloc(size), 1, size);
}

static void nobins(void)
{
	/* every small bin, most of the large ones: sizes apart, a live block between any two */
	void *free_later[2000];
	size_t count = 0;
	for (size_t size = 1040; size < 120000 && count < 2000; size += size / 16) {
		free_later[count++] = touched(size);
		touched(24);
	}
	for (size_t size = 24; size < 1040; size += 16) {
		for (int i = 0; i < 8; i++) { /* seven go to the thread's cache */
			free_later[count++] = touched(size);
			touched(24);
		}
	}
	for (size_t i = 0; i < count; i++)
		free(free_later[i]);
	free(malloc(130000)); /* sorts them into their bins */
	tell("");
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) << 20 : 0;
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	if (argc > 1 && strcmp(argv[1], "fork") == 0)
		forked(bytes);
	else if (argc > 1 && strcmp(argv[1], "fastbins") == 0)
		fastbins(bytes);
	else if (argc > 1 && strcmp(argv[1], "cut") == 0)
		cut(bytes);
	else if (argc > 1 && strcmp(argv[1], "nobins") == 0)
		nobins();
	else
		return 2;
	wait_for_end();
	return 0;
}
