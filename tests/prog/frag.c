/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frag.c - a fragmented heap of three functions' blocks, whose sums the program knows.
 *
 * usage: frag BLOCKS PERCENT [trim] [free:NAME[+NAME]]
 * Allocates BLOCKS blocks by login_new (300 bytes), parse_request (600 bytes on average) and intern_string (33 bytes) in turns, frees
 * PERCENT of them at random (strings live longest), and prints
 *	ready LIVE_BYTES LIVE_BLOCKS
 * Then for each line on stdin: "trim" calls malloc_trim(0), "free NAME" frees what NAME still has, "empty" lets the allocator release
 * (mallctl, MallocExtension, mi_collect by dlsym); each prints "done RSS_BYTES".
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

__attribute__((noinline)) static void *login_new(size_t *bytes)
{
	*bytes = 200 + next_random() % 200;
	void *at = malloc(*bytes);
	__asm__ volatile("" ::: "memory");
	return at;
}

__attribute__((noinline)) static void *parse_request(size_t *bytes)
{
	*bytes = 100 + next_random() % 1000;
	void *at = malloc(*bytes);
	__asm__ volatile("" ::: "memory");
	return at;
}

__attribute__((noinline)) static void *intern_string(size_t *bytes)
{
	*bytes = 17 + next_random() % 32;
	void *at = malloc(*bytes);
	__asm__ volatile("" ::: "memory");
	return at;
}

static void *(*const makers[3])(size_t *) = { login_new, parse_request, intern_string };
static const char *const names[3] = { "login_new", "parse_request", "intern_string" };

static void **blocks;
static uint32_t *sizes;
static size_t count;

static void tell(void)
{
	char text[128];
	size_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file && fgets(text, sizeof(text), file))
		sscanf(text, "%*u %zu", &pages);
	if (file)
		fclose(file);
	printf("done %zu\n", pages * 4096);
	fflush(stdout);
}

/*
 * tcmalloc's transfer lists take whole batches only: what is in them is taken out, and put back one block at a time, which goes to
 * the spans. A class has at most 1 MiB there.
 */
static void empty_tcmalloc(void (*idle)(void))
{
	enum { HELD = 4096 };
	static void *held[HELD];
	idle();
	for (size_t size = 8; size <= 256 << 10;) {
		size_t n = 0, bytes = 0, slot = size;
		while (n < HELD && bytes < 2 << 20 && (held[n] = malloc(size))) {
			slot = malloc_usable_size(held[n++]);
			bytes += slot;
		}
		for (idle(); n; idle())
			free(held[--n]);
		size = slot + 1;
	}
}

static void release(void)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
		(int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT,
									       "mallctl");
	void (*collect)(_Bool) = (void (*)(_Bool))dlsym(RTLD_DEFAULT, "mi_collect");
	void (*release_free)(void) =
		(void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
	void (*idle)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_MarkThreadIdle");
	if (mallctl) {
		mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
		mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	} else if (collect) {
		collect(1);
	} else if (release_free) {
		if (idle)
			empty_tcmalloc(idle);
		release_free();
	} else {
		malloc_trim(0);
	}
}

int main(int argc, char **argv)
{
	char line[128];
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	unsigned percent = argc > 2 ? (unsigned)atoi(argv[2]) : 90;
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	blocks = calloc(count, sizeof(*blocks));
	sizes = calloc(count, sizeof(*sizes));
	for (size_t i = 0; i < count; i++) {
		size_t bytes;
		/* requests come in bursts */
		unsigned kind = (i / 4096) % 4 == 3 ? 1 : (unsigned)(next_random() % 3);
		blocks[i] = makers[kind](&bytes);
		memset(blocks[i], 1, bytes);
		sizes[i] = (uint32_t)bytes << 2 | kind;
	}
	for (size_t i = 0; i < count; i++) {
		unsigned kind = sizes[i] & 3, burst = (i / 4096) % 4 == 3;
		if (next_random() % 100 < (burst ? 100 : kind == 2 ? percent - 4 : percent)) {
			free(blocks[i]);
			blocks[i] = NULL;
		}
	}
	uint64_t live = 0, number = 0;
	for (size_t i = 0; i < count; i++) {
		live += blocks[i] ? sizes[i] >> 2 : 0;
		number += blocks[i] != NULL;
	}
	printf("ready %llu %llu\n", (unsigned long long)live, (unsigned long long)number);
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "trim", 4) == 0)
			malloc_trim(0);
		else if (strncmp(line, "empty", 5) == 0)
			release();
		else if (strncmp(line, "end", 3) == 0)
			break;
		for (unsigned k = 0; k < 3 && strncmp(line, "free ", 5) == 0; k++) {
			if (!strstr(line, names[k]))
				continue;
			for (size_t i = 0; i < count; i++) {
				if (blocks[i] && (sizes[i] & 3) == k) {
					free(blocks[i]);
					blocks[i] = NULL;
				}
			}
		}
		tell();
	}
	return 0;
}
