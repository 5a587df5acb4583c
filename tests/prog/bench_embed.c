/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_embed.c - what byteledger_breakdown() costs beside a bare read of /proc/self/smaps, in the same process and run.
 * Prints one JSON object: medians of pairs in alternating order, CPU and wall time, and the memory the call needed.
 * usage: bench_embed MIB MAPPINGS PAIRS
 */
#include <byteledger.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static char chunk[64 * 1024];

static void bare(void)
{
	int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	while (read(fd, chunk, sizeof(chunk)) > 0)
		;
	close(fd);
}

static int null;

static void ours(void)
{
	if (byteledger_breakdown(null, 20) < 0)
		abort();
}

static uint64_t status(const char *key)
{
	char text[8192];
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int main(int argc, char **argv)
{
	uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64;
	int mappings = argc > 2 ? atoi(argv[2]) : 25, pairs = argc > 3 ? atoi(argv[3]) : 21;
	null = open("/dev/null", O_WRONLY);
	char *big =
		mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(big, mib << 20, MADV_NOHUGEPAGE);
	memset(big, 1, mib << 20);
	for (int i = 0; i < mappings; i += 2) /* every other page differs: two mappings each */
		mprotect(big + (uint64_t)i * 2 * 4096, 4096, PROT_READ);
	bare();
	/* the first call, as a program would make it; memory by the high-water mark, set back before */
	int reset = open("/proc/self/clear_refs", O_WRONLY);
	if (reset < 0 || write(reset, "5", 1) != 1)
		return 1;
	uint64_t rss = status("\nVmRSS:");
	ours();
	uint64_t peak = status("\nVmHWM:");
	static double wall[2][1001], cpu[2][1001], wall_ratio[1001], cpu_ratio[1001];
	if (pairs > 1001)
		pairs = 1001;
	for (int i = 0; i < pairs; i++) {
		for (int k = 0; k < 2; k++) {
			int which = (i + k) % 2;
			uint64_t w = clock_of(CLOCK_MONOTONIC),
				 c = clock_of(CLOCK_THREAD_CPUTIME_ID);
			if (which)
				ours();
			else
				bare();
			cpu[which][i] = (double)(clock_of(CLOCK_THREAD_CPUTIME_ID) - c);
			wall[which][i] = (double)(clock_of(CLOCK_MONOTONIC) - w);
		}
		wall_ratio[i] = wall[1][i] / wall[0][i];
		cpu_ratio[i] = cpu[1][i] / cpu[0][i];
	}
	printf("{\"mib\":%llu,\"mappings\":%d,\"pairs\":%d,\"bare_cpu_ns\":%.0f,\"ours_cpu_ns\":%."
	       "0f,"
	       "\"bare_wall_ns\":%.0f,\"ours_wall_ns\":%.0f,\"cpu_ratio\":%.3f,\"wall_ratio\":%.3f,"
	       "\"memory_bytes\":%llu}\n",
	       (unsigned long long)mib, mappings, pairs, median(cpu[0], pairs),
	       median(cpu[1], pairs), median(wall[0], pairs), median(wall[1], pairs),
	       median(cpu_ratio, pairs), median(wall_ratio, pairs),
	       (unsigned long long)(peak > rss ? peak - rss : 0));
	return 0;
}
