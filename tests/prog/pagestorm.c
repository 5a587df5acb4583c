/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagestorm.c - memory that never rests: forks and execs, huge pages that are made, split and collapsed, pages that are swapped out,
 * files that are read and dropped, while 16 MiB stay what they are. Prints a line a round; ends with its standard input.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define MIB (1ul << 20)
#define STEADY (16 * MIB)

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		abort();
	return at;
}

APART static void touch_each(char *at, size_t bytes, char value)
{
	for (size_t i = 0; i < bytes; i += 4096)
		at[i] = value;
	__asm__ volatile("" : : : "memory");
}

APART static char *steady(void)
{
	char *at = map(STEADY);
	madvise(at, STEADY, MADV_NOHUGEPAGE);
	touch_each(at, STEADY, 1);
	return at;
}

APART static void storm_of_forks(char *kept)
{
	for (int i = 0; i < 8; i++) {
		pid_t child = fork();
		if (child == 0) {
			touch_each(kept + i * 65536, 32768, 2);
			if (i % 2)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}

APART static void storm_of_huge_pages(void)
{
	char *at = map(8 * MIB),
	     *aligned = (char *)(((unsigned long)at + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(aligned, 4 * MIB, MADV_HUGEPAGE);
	touch_each(aligned, 4 * MIB, 3);
	madvise(aligned + MIB, 65536, MADV_DONTNEED);
	touch_each(aligned + MIB, 65536, 3);
	madvise(aligned, 4 * MIB, MADV_COLLAPSE);
	munmap(at, 8 * MIB);
}

APART static void storm_of_swapping(char *kept)
{
	madvise(kept, 4 * MIB, MADV_PAGEOUT);
	for (size_t i = 0; i < 2 * MIB; i += 4096)
		kept[i]++;
}

APART static void storm_of_files(const char *path)
{
	static char buffer[65536];
	int fd = open(path, O_RDONLY);
	while (fd >= 0 && read(fd, buffer, sizeof(buffer)) > 0)
		;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

int main(int argc, char **argv)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	if (argc < 2)
		return 2;
	char *kept = steady();
	for (unsigned long round = 1; poll(&in, 1, 0) == 0; round++) {
		storm_of_forks(kept);
		storm_of_huge_pages();
		storm_of_swapping(kept);
		storm_of_files(argv[1]);
		printf("round %lu\n", round);
		fflush(stdout);
	}
	return 0;
}
