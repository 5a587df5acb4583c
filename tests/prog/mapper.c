/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapper.c - a program with many mappings that maps and unmaps all the time, and measures how long that takes it.
 *
 * usage: mapper MAPPINGS MIB
 * Makes MAPPINGS mappings that the kernel cannot merge (permissions alternate) with MIB mebibytes touched in all, prints
 * "ready", then loops { mmap 64 KiB, touch, munmap } with a pause of 50 us until stdin ends, and prints
 *	calls N p50_us X p99_us X worst_us X
 * A line "reset" on stdin forgets what was measured so far.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 100000 /* of 1 us */

static uint32_t count[BUCKETS + 1];
static uint64_t calls, worst_ns;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned percentile(double share)
{
	uint64_t seen = 0;
	for (unsigned i = 0; i <= BUCKETS; i++) {
		seen += count[i];
		if ((double)seen >= share * (double)calls)
			return i;
	}
	return BUCKETS;
}

static void once(void)
{
	uint64_t began = now_ns();
	char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	*p = 1;
	munmap(p, 65536);
	uint64_t took = now_ns() - began;
	count[took / 1000 < BUCKETS ? took / 1000 : BUCKETS]++;
	worst_ns = took > worst_ns ? took : worst_ns;
	calls++;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	size_t mappings = strtoul(argv[1], NULL, 10), touched = strtoul(argv[2], NULL, 10) << 20;
	size_t each = mappings ? (touched / mappings + 4095) / 4096 * 4096 : 0;
	if (mappings && !each)
		each = 4096;
	char *all = mmap(NULL, mappings * each + 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < mappings; i++) {
		memset(all + i * each, 1, each);
		if (i % 2 && mprotect(all + i * each, each, PROT_READ) < 0)
			return 1;
	}
	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (;;) {
		struct pollfd in = { .fd = 0, .events = POLLIN };
		char line[64];
		if (poll(&in, 1, 0) > 0) {
			ssize_t got = read(0, line, sizeof(line));
			if (got <= 0)
				break;
			memset(count, 0, sizeof(count));
			calls = worst_ns = 0;
		}
		once();
		struct timespec pause = { .tv_nsec = 50000 };
		nanosleep(&pause, NULL);
	}
	printf("calls %llu p50_us %u p99_us %u worst_us %llu\n", (unsigned long long)calls,
	       percentile(0.5), percentile(0.99), (unsigned long long)(worst_ns / 1000));
	return 0;
}
