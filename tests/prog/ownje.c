/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownje N|lines [in] - every form of jemalloc's functions, N times over, beside blocks of malloc(); with a third word those that change a
 * block where it stands. PREFIX is what the linked jemalloc's names begin with: nothing, je_, _rjem_.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lines.h"
#include "truth.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define J(name) JOIN(PREFIX, name)

/* of <jemalloc/jemalloc.h> */
#define LG_ALIGN(n) (n)
#define ZERO 0x40
#define NO_CACHE (1 << 8) /* MALLOCX_TCACHE_NONE */
#define ARENA_0 (1 << 20)

void *J(malloc)(size_t n);
void J(free)(void *p);
void *J(calloc)(size_t count, size_t n);
void *J(realloc)(void *p, size_t n);
int J(posix_memalign)(void **to, size_t align, size_t n);
void *J(aligned_alloc)(size_t align, size_t n);
void *J(memalign)(size_t align, size_t n);
void *J(valloc)(size_t n);
void *J(mallocx)(size_t n, int flags);
void *J(rallocx)(void *p, size_t n, int flags);
size_t J(xallocx)(void *p, size_t n, size_t extra, int flags);
size_t J(sallocx)(const void *p, int flags);
size_t J(nallocx)(size_t n, int flags);
void J(sdallocx)(void *p, size_t n, int flags);
void J(dallocx)(void *p, int flags);

static volatile size_t huge = (size_t)1 << 62;
static int wrong;

#define CHECK(x) ((x) ? (void)0 : (void)(wrong++, fprintf(stderr, "line %d: %s\n", __LINE__, #x)))
#define ALIGNED(p, n) CHECK(((uintptr_t)(p) & ((n)-1)) == 0)

static void *moved(void *old, void *block, size_t bytes)
{
	CHECK(block);
	gave(old);
	return took(block, bytes);
}

static void drop(void *block)
{
	gave(block);
	J(free)(block);
}

static int zeros(const char *p, size_t n)
{
	while (n && !*p)
		p++, n--;
	return n == 0;
}

static void plain(void)
{
	void *p = took(J(malloc)(100), 100);
	p = moved(p, J(realloc)(p, 3000), 3000);
	CHECK(!J(realloc)(p, huge));
	drop(p);
	J(free)(NULL);
	p = took(J(realloc)(NULL, 33), 33);
	drop(p);
	p = took(J(calloc)(7, 30), 210);
	CHECK(zeros(p, 210));
	drop(p);
	CHECK(!J(calloc)(huge, 16));
	CHECK(!J(malloc)(huge << 1));
	p = (void *)1;
	CHECK(J(posix_memalign)(&p, 3, 10) == EINVAL && p == (void *)1);
	CHECK(J(posix_memalign)(&p, 512, 130) == 0);
	ALIGNED(p, 512);
	drop(took(p, 130));
	p = took(J(aligned_alloc)(64, 640), 640);
	ALIGNED(p, 64);
	drop(p);
	p = took(J(memalign)(128, 150), 150);
	ALIGNED(p, 128);
	drop(p);
	p = took(J(valloc)(160), 160);
	ALIGNED(p, 4096);
	drop(p);
	p = took(J(malloc)(0), 0);
	CHECK(p);
	drop(p);
	p = took(J(malloc)(9 << 20), 9 << 20);
	drop(p);
}

static void extended(void)
{
	void *p = took(J(mallocx)(100, 0), 100);
	CHECK(J(sallocx)(p, 0) >= 100);
	gave(p);
	J(dallocx)(p, 0);
	p = took(J(mallocx)(200, LG_ALIGN(9) | ZERO), 200);
	ALIGNED(p, 512);
	CHECK(zeros(p, 200));
	p = moved(p, J(rallocx)(p, 5000, LG_ALIGN(9)), 5000);
	ALIGNED(p, 512);
	CHECK(!J(rallocx)(p, huge, 0));
	gave(p);
	J(sdallocx)(p, 5000, LG_ALIGN(9));
	p = took(J(mallocx)(300, NO_CACHE), 300);
	p = moved(p, J(rallocx)(p, 40, NO_CACHE), 40);
	gave(p);
	J(sdallocx)(p, 40, NO_CACHE);
	p = took(J(mallocx)(400, ARENA_0 | NO_CACHE), 400);
	gave(p);
	J(dallocx)(p, NO_CACHE);
	CHECK(!J(mallocx)(huge << 1, 0));
	CHECK(J(nallocx)(100, 0) >= 100);
	/* what one form gave out another takes back */
	p = took(J(mallocx)(500, 0), 500);
	drop(p);
	p = took(J(malloc)(600), 600);
	gave(p);
	J(sdallocx)(p, 600, 0);
}

/* xallocx() resizes where the block stands, or does nothing; it says what there is. */
static void in_place(void)
{
	void *p = took(J(mallocx)(100000, 0), 100000);
	size_t room = J(sallocx)(p, 0);
	CHECK(J(xallocx)(p, huge, 0, 0) == room);
	gave(p);
	CHECK(J(xallocx)(p, room, 0, 0) == room);
	took(p, room);
	gave(p);
	J(dallocx)(p, 0);
}

static void rounds(int n, int with_in_place)
{
	void *beside[64] = { NULL };
	for (int i = 0; i < n; i++) {
		int at = i % 64;
		gave(beside[at]);
		free(beside[at]);
		beside[at] = took(malloc((size_t)(i % 500)), (size_t)(i % 500));
		plain();
		extended();
		if (with_in_place)
			in_place();
	}
	for (int i = 0; i < 64; i++) {
		gave(beside[i]);
		free(beside[i]);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "lines") == 0) {
		lines_ready();
		for (int n; (n = lines_next()) >= 0;) {
			truth_allocs = truth_bytes = truth_frees = 0;
			rounds(n, argc > 2);
			lines_say(truth_allocs, truth_bytes, truth_frees);
		}
		return wrong != 0;
	}
	rounds(argc > 1 ? atoi(argv[1]) : 1, argc > 2);
	truth_print();
	puts(wrong ? "wrong" : "right");
	return wrong != 0;
}
