/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownmi N|lines [in] - every form of mimalloc's own functions, N times over, beside blocks of libc's malloc that live at the same time.
 * Linked with an imitation in the executable (ownmi_heap.c), or with mimalloc.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "lines.h"
#include "ownmi.h"
#include "truth.h"

static volatile size_t huge = (size_t)1 << 62;
static int wrong;

#define CHECK(x) ((x) ? (void)0 : (void)(wrong++, fprintf(stderr, "line %d: %s\n", __LINE__, #x)))
#define ALIGNED(p, n) CHECK(((uintptr_t)(p) & ((n)-1)) == 0)

static void drop(void *block)
{
	gave(block);
	mi_free(block);
}

/* What a resize obtained, @old being released by it. */
static void *moved(void *old, void *block, size_t bytes)
{
	CHECK(block);
	gave(old);
	return took(block, bytes);
}

static int zeros(const char *p, size_t n)
{
	while (n && !*p)
		p++, n--;
	return n == 0;
}

static void plain(void)
{
	void *p = took(mi_malloc(100), 100);
	drop(p);
	mi_free(NULL);
	p = took(mi_zalloc(200), 200);
	CHECK(zeros(p, 200));
	drop(p);
	p = took(mi_calloc(3, 70), 210);
	CHECK(zeros(p, 210));
	p = moved(p, mi_realloc(p, 5000), 5000);
	p = moved(p, mi_reallocn(p, 7, 30), 210);
	p = moved(p, mi_reallocarray(p, 9, 1000), 9000);
	p = moved(p, mi_rezalloc(p, 20000), 20000);
	p = moved(p, mi_recalloc(p, 2, 15000), 30000);
	p = moved(p, mi_reallocf(p, 40000), 40000);
	CHECK(!mi_realloc(p, huge)); /* neither: the block lives */
	CHECK(!mi_reallocn(p, huge, 16));
	gave(p);
	CHECK(!mi_reallocf(p, huge)); /* this one releases it */
	p = took(mi_realloc(NULL, 33), 33);
	drop(p);
	p = took(mi_mallocn(11, 12), 132);
	drop(p);
	CHECK(!mi_mallocn(huge, 16));
	CHECK(!mi_calloc(huge, 16));
	CHECK(!mi_malloc(huge << 1));
	p = took(mi_malloc_small(64), 64);
	drop(p);
	p = took(mi_zalloc_small(72), 72);
	CHECK(zeros(p, 72));
	drop(p);
	p = took(mi_malloc(0), 0);
	CHECK(p);
	drop(p);
	p = took(mi_malloc(3 << 20), 3 << 20);
	drop(p);
	p = took(mi_strdup("a string of thirty-one letters."), 32);
	CHECK(strlen(p) == 31);
	drop(p);
	p = took(mi_strndup("shorter than it says", 7), 8);
	CHECK(strcmp(p, "shorter") == 0);
	drop(p);
	CHECK(!mi_strdup(NULL));
}

static void aligned(void)
{
	void *p = took(mi_malloc_aligned(100, 256), 100);
	ALIGNED(p, 256);
	gave(p);
	mi_free_aligned(p, 256);
	p = took(mi_zalloc_aligned(300, 64), 300);
	ALIGNED(p, 64);
	CHECK(zeros(p, 300));
	gave(p);
	mi_free_size_aligned(p, 300, 64);
	p = took(mi_calloc_aligned(5, 100, 128), 500);
	ALIGNED(p, 128);
	CHECK(zeros(p, 500));
	p = moved(p, mi_realloc_aligned(p, 3000, 128), 3000);
	ALIGNED(p, 128);
	p = moved(p, mi_rezalloc_aligned(p, 6000, 128), 6000);
	p = moved(p, mi_recalloc_aligned(p, 80, 100, 128), 8000);
	gave(p);
	mi_free_size(p, 8000);
	p = took(mi_malloc_aligned_at(100, 64, 16), 100);
	CHECK((((uintptr_t)p + 16) & 63) == 0);
	drop(p);
	p = took(mi_zalloc_aligned_at(110, 64, 32), 110);
	CHECK((((uintptr_t)p + 32) & 63) == 0);
	drop(p);
	p = took(mi_calloc_aligned_at(2, 60, 64, 16), 120);
	CHECK((((uintptr_t)p + 16) & 63) == 0);
	drop(p);
	p = (void *)1;
	CHECK(mi_posix_memalign(&p, 3, 10) == EINVAL && p == (void *)1);
	CHECK(mi_posix_memalign(&p, 512, 130) == 0);
	ALIGNED(p, 512);
	took(p, 130);
	drop(p);
	p = took(mi_memalign(64, 140), 140);
	ALIGNED(p, 64);
	drop(p);
	p = took(mi_aligned_alloc(64, 640), 640);
	ALIGNED(p, 64);
	drop(p);
	p = took(mi_valloc(150), 150);
	ALIGNED(p, 4096);
	drop(p);
	p = took(mi_pvalloc(160), 160);
	ALIGNED(p, 4096);
	gave(p);
	mi_cfree(p);
}

static void heaps(void)
{
	mi_heap_t *heap = mi_heap_get_default ? mi_heap_get_default() : mi_heap_main();
	void *p = took(mi_heap_malloc(heap, 101), 101);
	drop(p);
	p = took(mi_heap_zalloc(heap, 202), 202);
	CHECK(zeros(p, 202));
	drop(p);
	p = took(mi_heap_calloc(heap, 4, 60), 240);
	p = moved(p, mi_heap_realloc(heap, p, 4000), 4000);
	p = moved(p, mi_heap_reallocn(heap, p, 10, 500), 5000);
	p = moved(p, mi_heap_rezalloc(heap, p, 9000), 9000);
	p = moved(p, mi_heap_recalloc(heap, p, 10, 2000), 20000);
	p = moved(p, mi_heap_reallocf(heap, p, 30000), 30000);
	drop(p);
	p = took(mi_heap_mallocn(heap, 6, 50), 300);
	drop(p);
	p = took(mi_heap_malloc_small(heap, 48), 48);
	drop(p);
	p = took(mi_heap_malloc_aligned(heap, 310, 128), 310);
	ALIGNED(p, 128);
	p = moved(p, mi_heap_realloc_aligned(heap, p, 4100, 128), 4100);
	drop(p);
	p = took(mi_heap_zalloc_aligned(heap, 320, 128), 320);
	CHECK(zeros(p, 320));
	drop(p);
	p = took(mi_heap_calloc_aligned(heap, 3, 110, 128), 330);
	ALIGNED(p, 128);
	drop(p);
	p = took(mi_heap_strdup(heap, "a heap's string"), 16);
	drop(p);
	p = took(mi_heap_strndup(heap, "a heap's string", 6), 7);
	drop(p);
}

/* Forms of later versions: nothing where they are not there. */
static void later(void)
{
	size_t size;
	if (!mi_theap_get_default || !mi_umalloc || !mi_free_small)
		return;
	mi_theap_t *heap = mi_theap_get_default();
	void *p = took(mi_theap_malloc(heap, 111), 111);
	drop(p);
	p = took(mi_theap_zalloc(heap, 222), 222);
	CHECK(zeros(p, 222));
	drop(p);
	p = took(mi_theap_calloc(heap, 4, 60), 240);
	p = moved(p, mi_theap_realloc(heap, p, 4000), 4000);
	p = moved(p, mi_theap_rezalloc(heap, p, 9000), 9000);
	drop(p);
	p = took(mi_theap_malloc_aligned(heap, 310, 128), 310);
	ALIGNED(p, 128);
	drop(p);
	p = took(mi_theap_alloc_new(heap, 331), 331);
	drop(p);
	p = took(mi_theap_alloc_new_n(heap, 3, 111), 333);
	drop(p);
	p = took(mi_theap_malloc_small(heap, 48), 48);
	gave(p);
	mi_free_small(p);
	p = took(mi_umalloc(500, &size), 500);
	CHECK(size >= 500);
	p = moved(p, mi_urealloc(p, 5000, NULL, &size), 5000);
	gave(p);
	mi_ufree(p, &size);
	p = took(mi_umalloc_aligned(510, 256, &size), 510);
	ALIGNED(p, 256);
	drop(p);
	p = took(mi_ucalloc(5, 100, &size), 500);
	CHECK(zeros(p, 500));
	drop(p);
}

/* C++'s forms, which C may call. */
static void news(void)
{
	void *p = took(mi_new(401), 401);
	p = moved(p, mi_new_realloc(p, 4020), 4020);
	p = moved(p, mi_new_reallocn(p, 10, 600), 6000);
	gave(p);
	mi_free_size(p, 6000);
	p = took(mi_new_nothrow(402), 402);
	drop(p);
	p = took(mi_new_aligned(403, 64), 403);
	ALIGNED(p, 64);
	gave(p);
	mi_free_size_aligned(p, 403, 64);
	p = took(mi_new_aligned_nothrow(404, 64), 404);
	ALIGNED(p, 64);
	drop(p);
	p = took(mi_new_n(5, 81), 405);
	drop(p);
}

/* mi_expand() enlarges a block where it stands, or does nothing. */
static void in_place(void)
{
	void *p = took(mi_malloc(1000), 1000);
	size_t room = mi_usable_size(p);
	CHECK(!mi_expand(p, room + 100000));
	gave(p);
	CHECK(took(mi_expand(p, room), room) == p);
	drop(p);
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
		aligned();
		heaps();
		later();
		news();
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
