/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownwrap N - a malloc that keeps a note in front of each block of the next one, which it looks up as it goes: what the program
 * asked for counts, once, and not what the next one is asked for. The functions that do the work lie elsewhere.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

#define FRONT 16
#define ELSEWHERE __attribute__((noinline, section(".text.unlikely")))

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);
static _Alignas(16) char early[4096]; /* what dlsym() asks for */
static size_t early_used;
static long blocks;

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

ELSEWHERE static void look_up(void)
{
	static int looking;
	if (looking)
		return;
	looking = 1;
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

ELSEWHERE static void *obtain(void *old, size_t n)
{
	if (n > (size_t)1 << 48) {
		errno = ENOMEM;
		return NULL;
	}
	char *p = old ? next_realloc((char *)old - FRONT, n + FRONT) : next_malloc(n + FRONT);
	if (!p)
		return NULL;
	blocks += !old;
	memcpy(p, &n, sizeof(n));
	return p + FRONT;
}

void *malloc(size_t n)
{
	if (!next_malloc)
		look_up();
	if (!next_malloc) {
		void *p = early + early_used;
		early_used += (n + 15) & ~(size_t)15;
		return early_used <= sizeof(early) ? p : NULL;
	}
	return obtain(NULL, n);
}

void free(void *p)
{
	if (!p || is_early(p))
		return;
	blocks--;
	next_free((char *)p - FRONT);
}

void *calloc(size_t count, size_t each)
{
	size_t n = count * each;
	void *p = malloc(n);
	return p ? memset(p, 0, n) : NULL;
}

void *realloc(void *old, size_t n)
{
	return old && !is_early(old) ? obtain(old, n) : malloc(n);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++) {
		char *p = took(malloc(100), 100);
		p[0] = 'p';
		gave(p);
		p = took(realloc(p, 5000), 5000);
		gave(p);
		free(p);
		p = took(calloc(10, 20), 200);
		if (p[199])
			return 1;
		gave(p);
		free(p);
		/* libc's own, through us */
		p = took(strdup("eleven char"), 12);
		gave(p);
		free(p);
	}
	truth_print();
	return 0;
}
