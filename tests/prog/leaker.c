/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaker.c - memory over time. usage: leaker leak|sawtooth|steady KIB_PER_STEP STEP_MS
 * leak: another KIB_PER_STEP is kept each step. sawtooth: the same, given back every tenth step. steady: a constant size.
 * Prints "ready"; ends with its stdin.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 100000
#define TOOTH 10

int main(int argc, char **argv)
{
	static void *blocks[BLOCKS];
	if (argc < 4)
		return 2;
	size_t bytes = strtoul(argv[2], NULL, 10) * 1024, count = 0;
	int ms = atoi(argv[3]), leak = strcmp(argv[1], "leak") == 0,
	    saw = strcmp(argv[1], "sawtooth") == 0;
	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (;;) {
		struct pollfd in = { .fd = 0, .events = POLLIN };
		char byte;
		if (poll(&in, 1, ms) > 0 && read(0, &byte, 1) <= 0)
			return 0;
		if (saw && count == TOOTH) {
			while (count)
				munmap(blocks[--count], bytes);
		} else if ((leak || saw || !count) && count < BLOCKS) {
			void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (p == MAP_FAILED)
				return 1;
			memset(p, 1, bytes);
			blocks[count++] = p;
		}
	}
}
