/* SPDX-License-Identifier: Apache-2.0 */
/*
 * countdown FILE [SECONDS] - allocate and free without pause, and keep the truth in FILE, which survives any death:
 * before and after each call a counter moves, so at every instant calls_done <= truth <= calls_begun.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 500

struct counters {
	/* allocations by step() */
	volatile uint64_t begun, done;
	volatile uint64_t free_begun, free_done;
	volatile uint64_t finished, stop;
};

static void *blocks[BLOCKS];

__attribute__((noinline)) void step(struct counters *c, uint64_t i);
void step(struct counters *c, uint64_t i)
{
	unsigned at = (unsigned)(i * 2654435761u >> 7) % BLOCKS;
	if (blocks[at]) {
		c->free_begun++;
		free(blocks[at]);
		c->free_done++;
	}
	c->begun++;
	blocks[at] = malloc(16 + i % 300);
	c->done++;
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return 2;
	struct counters *c = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		return 2;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 10);
	for (uint64_t i = 0; !c->stop; i++) {
		step(c, i);
		if (i % 4096 == 0 && time(NULL) >= end)
			break;
	}
	c->finished = 1;
	return 0;
}
