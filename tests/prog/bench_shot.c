/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_shot PID COUNT PAUSE_MS - takes COUNT snapshots of PID as a recorder does, each PAUSE_MS to twice that after the last, and
 * prints "FROM TO" (ns of CLOCK_MONOTONIC) of each, as bench_latency reads them; on stderr one JSON object with medians: CPU time, wall
 * time and the longest that the process's mmap() may have waited.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "source/snapshot.h"

#define COUNT_MAX 4096

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static double median_ms(uint64_t *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), by_value);
	return (double)values[n / 2] / 1e6;
}

int main(int argc, char **argv)
{
	static uint64_t cpu[COUNT_MAX], wall[COUNT_MAX], stall[COUNT_MAX];
	if (argc != 4)
		return 2;
	pid_t pid = atoi(argv[1]);
	int count = atoi(argv[2]), pause_ms = atoi(argv[3]);
	if (count < 1 || count > COUNT_MAX || pause_ms < 1)
		return 2;
	snapshot_step_back();
	srand(7);
	for (int i = 0; i < count; i++) {
		uint64_t ms = (uint64_t)(pause_ms + rand() % pause_ms);
		nanosleep(&(struct timespec){ .tv_sec = (time_t)(ms / 1000),
					      .tv_nsec = (long)(ms % 1000) * 1000000 },
			  NULL);
		struct err err = { 0 };
		const struct snapshot_opt opt = { .quiet = 1 };
		uint64_t spent = clock_ns(CLOCK_THREAD_CPUTIME_ID),
			 from = clock_ns(CLOCK_MONOTONIC);
		struct snapshot *s = snapshot_take(pid, &opt, &err);
		uint64_t to = clock_ns(CLOCK_MONOTONIC);
		cpu[i] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - spent;
		if (!s) {
			fprintf(stderr, "bench_shot: %s\n", err.msg);
			return 1;
		}
		wall[i] = to - from;
		stall[i] = s->stall_ns;
		printf("%llu %llu\n", (unsigned long long)from, (unsigned long long)to);
		snapshot_free(s);
	}
	double middle = median_ms(stall, count);
	fprintf(stderr,
		"{\"count\":%d,\"cpu_ms\":%.2f,\"wall_ms\":%.2f,\"stall_ms\":%.3f,\"worst_stall_"
		"ms\":%.3f}\n",
		count, median_ms(cpu, count), median_ms(wall, count), middle,
		(double)stall[count - 1] / 1e6);
	return 0;
}
