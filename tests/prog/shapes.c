/* SPDX-License-Identifier: Apache-2.0 */
/* shapes N - every entry point of C, and every way a call can fail, N times over. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

static volatile size_t huge = (size_t)1 << 62;
static int wrong;

#define CHECK(x) ((x) ? (void)0 : (void)(wrong++, fprintf(stderr, "line %d: %s\n", __LINE__, #x)))

static void drop(void *block)
{
	gave(block);
	free(block);
}

static void once(void)
{
	void *p = took(malloc(10), 10);
	gave(p);
	p = took(realloc(p, 200), 200);
	gave(p);
	p = took(realloc(p, 5000000), 5000000);
	/* a failed realloc is neither; the block lives */
	errno = 0;
	void *q = realloc(p, huge);
	CHECK(!q && errno == ENOMEM);
	gave(p);
	q = realloc(p, 0); /* glibc: releases, returns NULL */
	CHECK(!q);
	p = took(realloc(NULL, 77), 77);
	drop(p);
	p = took(calloc(7, 9), 63);
	for (int i = 0; i < 63; i++)
		CHECK(!((char *)p)[i]);
	drop(p);
	errno = 0;
	CHECK(!calloc(huge, 16) && errno == ENOMEM);
	errno = 0;
	CHECK(!malloc(huge << 1) && errno == ENOMEM);
	p = took(reallocarray(NULL, 12, 12), 144);
	gave(p);
	p = took(reallocarray(p, 100, 12), 1200);
	errno = 0;
	CHECK(!reallocarray(p, huge, 12) && errno == ENOMEM);
	drop(p);
	p = (void *)1;
	errno = 3;
	CHECK(posix_memalign(&p, 3, 100) == EINVAL && p == (void *)1 && errno == 3);
	CHECK(posix_memalign(&p, 64, 100) == 0 && ((uintptr_t)p & 63) == 0);
	drop(took(p, 100));
	p = took(memalign(256, 300), 300);
	CHECK(((uintptr_t)p & 255) == 0);
	drop(p);
	p = took(aligned_alloc(128, 1280), 1280);
	CHECK(((uintptr_t)p & 127) == 0);
	drop(p);
	p = took(valloc(5), 5);
	CHECK(((uintptr_t)p & 4095) == 0);
	drop(p);
	p = took(pvalloc(5), 5);
	CHECK(((uintptr_t)p & 4095) == 0 && malloc_usable_size(p) >= 4096);
	drop(p);
	p = took(malloc(0), 0);
	CHECK(p);
	drop(p);
	free(NULL);
	p = took(malloc((size_t)5 << 30),
		 (size_t)5 << 30); /* above what fits a small record; untouched */
	drop(p);
	errno = 42;
	p = took(malloc(100), 100);
	drop(p);
	CHECK(errno == 42);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++)
		once();
	truth_print();
	return wrong ? 1 : 0;
}
