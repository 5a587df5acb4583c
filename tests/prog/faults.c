/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults DEPTH ROUNDS: touches and gives back memory page by page from below DEPTH calls, and prints nanoseconds of CPU time a page, the median
 * of the rounds. What `./dev bench pages` measures.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGES 8192ul
#define PAGE 4096ul

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

__attribute__((noinline, noclone)) static double work(void)
{
	uint64_t began = now_ns();
	char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (p == MAP_FAILED)
		exit(9);
	madvise(p, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < PAGES; i++)
		((volatile char *)p)[i * PAGE] = 1;
	munmap(p, PAGES * PAGE);
	return (double)(now_ns() - began) / PAGES;
}

__attribute__((noinline, noclone)) static double down(int depth)
{
	volatile char room[48];
	room[0] = (char)depth;
	double ns = depth > 0 ? down(depth - 1) : work();
	room[1] = room[0];
	return ns;
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 20, rounds = argc > 2 ? atoi(argv[2]) : 15;
	double *all = calloc((size_t)rounds, sizeof(*all));
	if (!all || rounds < 1)
		return 2;
	for (int i = 0; i < rounds; i++)
		all[i] = down(depth - 2);
	qsort(all, (size_t)rounds, sizeof(*all), by_value);
	printf("%.0f\n", all[rounds / 2]);
	return 0;
}
