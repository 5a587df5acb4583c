/* SPDX-License-Identifier: Apache-2.0 */
/* embed_liar.c - a table of names that breaks the rules in the way that argv[1] says, for `byteledger regions -p`. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct header { /* src/proc/names.h */
	uint64_t magic;
	uint32_t sequence, count;
	uint64_t reserved[6];
};
struct entry {
	uint64_t start, bytes;
	char name[80];
};

static int is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	size_t bytes = 1 << 20;
	int fd = memfd_create("byteledger-names", 0);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return 1;
	struct header *header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	struct entry *entries = (struct entry *)(header + 1);
	char *own =
		mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(own, 1, 64 * 4096);
	uint64_t at = (uintptr_t)own;
	header->magic = 0x31534d414e4c42ull;
	header->count = 64;
	for (unsigned i = 0; i < 64; i++) {
		entries[i] = (struct entry){ .start = at + i * 4096, .bytes = 4096 };
		snprintf(entries[i].name, sizeof(entries[i].name), "true-%u", i);
		if (is(argv[1], "wrap"))
			entries[i].bytes = (uint64_t)-4096 * (i + 1);
		if (is(argv[1], "overlap"))
			entries[i].bytes = 4096ull * 64 * (i + 1);
		if (is(argv[1], "text")) {
			memset(entries[i].name, 0x41 + (int)(i % 26),
			       sizeof(entries[i].name)); /* not terminated */
			memcpy(entries[i].name, "\033[2J\a\b", 6);
		}
		if (is(argv[1], "huge")) {
			entries[i].start = 0;
			entries[i].bytes = 1ull << 47;
		}
	}
	if (is(argv[1], "count"))
		header->count = 0xffffffff;
	if (is(argv[1], "odd"))
		header->sequence = 1;
	if (is(argv[1], "magic"))
		header->magic = 1;
	puts("ready");
	fflush(stdout);
	if (is(argv[1], "spin"))
		for (;;)
			__atomic_fetch_add(&header->sequence, 2, __ATOMIC_RELAXED);
	while (getchar() != EOF)
		;
	return 0;
}
