/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmapwaits MIB SECONDS [blocks] - how long mmap(), a touch and munmap() take while somebody looks at so many resident MiB, of one mapping or in malloc's blocks: what a target sees, less the time
 * in which it could have run and others did.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* What this thread has waited for a CPU so far. */
static double queued_ms(int fd)
{
	char text[128];
	unsigned long long ran, waited = 0;
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? (double)waited / 1e6 : 0;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	char *held = argc > 3 ? NULL
			      : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!bytes || held == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < bytes; i += 4096) {
		char *at = held ? held + i : malloc(4080); /* with its header a page */
		if (!at)
			return 2;
		*(volatile char *)at = 1;
	}
	puts("ready");
	fflush(stdout);
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	double end = now_ms() + strtod(argv[2], NULL) * 1e3, worst = 0;
	unsigned long long_ones = 0, count = 0;
	while (now_ms() < end) {
		double queued = queued_ms(schedstat), before = now_ms();
		char *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0);
		if (at == MAP_FAILED)
			return 2;
		at[0] = 1;
		munmap(at, 65536);
		double took = now_ms() - before;
		if (took > 0.5)
			took -= queued_ms(schedstat) - queued;
		worst = took > worst ? took : worst;
		long_ones += took > 5;
		count++;
		struct timespec pause = { .tv_nsec = 20000 };
		nanosleep(&pause, NULL);
	}
	printf("%.3f %lu %lu\n", worst, long_ones, count);
	return 0;
}
