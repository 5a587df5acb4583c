/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownmi_heap.c - mimalloc's functions inside an executable, over the allocator of ownheap.h. As there, the forms without a heap
 * lead into those with one, and some into others of the family.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "ownheap.h"
#include "ownmi.h"

struct mi_heap {
	long calls;
};
static mi_heap_t only;

#define TIMES(n, count, each)                              \
	size_t n;                                          \
	if (__builtin_mul_overflow((count), (each), &n)) { \
		errno = ENOMEM;                            \
		return NULL;                               \
	}

/* ---- giving back ---- */

void mi_free(void *p)
{
	own_give(p);
}

void mi_cfree(void *p)
{
	mi_free(p);
}

void mi_free_size(void *p, size_t n)
{
	if (p && own_room(p) < n)
		_exit(7);
	mi_free(p);
}

void mi_free_size_aligned(void *p, size_t n, size_t align)
{
	if ((uintptr_t)p & (align - 1))
		_exit(7);
	mi_free_size(p, n);
}

void mi_free_aligned(void *p, size_t align)
{
	if ((uintptr_t)p & (align - 1))
		_exit(7);
	mi_free(p);
}

size_t mi_usable_size(const void *p)
{
	return p ? own_room(p) : 0;
}

void *mi_expand(void *p, size_t n)
{
	if (!p || own_room(p) < n)
		return NULL;
	own_set(p, n);
	return p;
}

/* ---- with a heap ---- */

mi_heap_t *mi_heap_get_default(void)
{
	return &only;
}

void *mi_heap_malloc(mi_heap_t *heap, size_t n)
{
	__atomic_fetch_add(&heap->calls, 1, __ATOMIC_RELAXED);
	return own_take(n, 0, 0);
}

void *mi_heap_malloc_small(mi_heap_t *heap, size_t n)
{
	return mi_heap_malloc(heap, n);
}

void *mi_heap_zalloc(mi_heap_t *heap, size_t n)
{
	void *p = mi_heap_malloc(heap, n);
	return p ? memset(p, 0, n) : NULL;
}

void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_heap_zalloc(heap, n);
}

void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_heap_malloc(heap, n);
}

void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t n, size_t align)
{
	heap->calls++;
	return own_take(n, align, 0);
}

void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t n, size_t align)
{
	heap->calls++;
	return own_take(n, align, 1);
}

void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count, size_t each, size_t align)
{
	TIMES(n, count, each)
	return mi_heap_zalloc_aligned(heap, n, align);
}

static void *resize(mi_heap_t *heap, void *p, size_t n, size_t align, int zero)
{
	return p ? own_resize(p, n, align, zero) : mi_heap_malloc_aligned(heap, n, align);
}

void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t n)
{
	return resize(heap, p, n, 0, 0);
}

void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_heap_realloc(heap, p, n);
}

void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t n)
{
	void *fresh = mi_heap_realloc(heap, p, n);
	if (!fresh)
		mi_free(p);
	return fresh;
}

void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t n)
{
	return resize(heap, p, n, 0, 1);
}

void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_heap_rezalloc(heap, p, n);
}

void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p, size_t n, size_t align)
{
	return resize(heap, p, n, align, 0);
}

char *mi_heap_strndup(mi_heap_t *heap, const char *s, size_t n)
{
	if (!s)
		return NULL;
	size_t length = strnlen(s, n);
	char *copy = mi_heap_malloc(heap, length + 1);
	if (copy) {
		memcpy(copy, s, length);
		copy[length] = 0;
	}
	return copy;
}

char *mi_heap_strdup(mi_heap_t *heap, const char *s)
{
	return s ? mi_heap_strndup(heap, s, strlen(s)) : NULL;
}

/* ---- without ---- */

void *mi_malloc(size_t n)
{
	return mi_heap_malloc(&only, n);
}

void *mi_malloc_small(size_t n)
{
	return mi_heap_malloc(&only, n);
}

void *mi_zalloc(size_t n)
{
	return mi_heap_zalloc(&only, n);
}

void *mi_zalloc_small(size_t n)
{
	return mi_zalloc(n);
}

void *mi_calloc(size_t count, size_t n)
{
	return mi_heap_calloc(&only, count, n);
}

void *mi_mallocn(size_t count, size_t n)
{
	return mi_heap_mallocn(&only, count, n);
}

void *mi_realloc(void *p, size_t n)
{
	return mi_heap_realloc(&only, p, n);
}

void *mi_reallocn(void *p, size_t count, size_t n)
{
	return mi_heap_reallocn(&only, p, count, n);
}

void *mi_reallocarray(void *p, size_t count, size_t n)
{
	return mi_reallocn(p, count, n);
}

void *mi_reallocf(void *p, size_t n)
{
	return mi_heap_reallocf(&only, p, n);
}

void *mi_rezalloc(void *p, size_t n)
{
	return mi_heap_rezalloc(&only, p, n);
}

void *mi_recalloc(void *p, size_t count, size_t n)
{
	return mi_heap_recalloc(&only, p, count, n);
}

char *mi_strdup(const char *s)
{
	return mi_heap_strdup(&only, s);
}

char *mi_strndup(const char *s, size_t n)
{
	return mi_heap_strndup(&only, s, n);
}

void *mi_malloc_aligned(size_t n, size_t align)
{
	return mi_heap_malloc_aligned(&only, n, align);
}

void *mi_malloc_aligned_at(size_t n, size_t align, size_t offset)
{
	return own_take_at(n, align, offset, 0);
}

void *mi_zalloc_aligned(size_t n, size_t align)
{
	return mi_heap_zalloc_aligned(&only, n, align);
}

void *mi_zalloc_aligned_at(size_t n, size_t align, size_t offset)
{
	return own_take_at(n, align, offset, 1);
}

void *mi_calloc_aligned(size_t count, size_t n, size_t align)
{
	return mi_heap_calloc_aligned(&only, count, n, align);
}

void *mi_calloc_aligned_at(size_t count, size_t each, size_t align, size_t offset)
{
	TIMES(n, count, each)
	return mi_zalloc_aligned_at(n, align, offset);
}

void *mi_realloc_aligned(void *p, size_t n, size_t align)
{
	return mi_heap_realloc_aligned(&only, p, n, align);
}

void *mi_rezalloc_aligned(void *p, size_t n, size_t align)
{
	return resize(&only, p, n, align, 1);
}

void *mi_recalloc_aligned(void *p, size_t count, size_t each, size_t align)
{
	TIMES(n, count, each)
	return mi_rezalloc_aligned(p, n, align);
}

void *mi_memalign(size_t align, size_t n)
{
	return mi_malloc_aligned(n, align);
}

void *mi_aligned_alloc(size_t align, size_t n)
{
	return mi_malloc_aligned(n, align);
}

int mi_posix_memalign(void **to, size_t align, size_t n)
{
	if (align % sizeof(void *) || align & (align - 1) || !align)
		return EINVAL;
	void *p = mi_malloc_aligned(n, align);
	if (!p)
		return ENOMEM;
	*to = p;
	return 0;
}

void *mi_valloc(size_t n)
{
	return mi_memalign(4096, n);
}

void *mi_pvalloc(size_t n)
{
	return mi_malloc_aligned((n + 4095) & ~(size_t)4095, 4096);
}

void *mi_new_nothrow(size_t n)
{
	return mi_malloc(n);
}

void *mi_new(size_t n)
{
	void *p = mi_malloc(n);
	if (!p)
		_exit(6);
	return p;
}

void *mi_new_n(size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_new(n);
}

void *mi_new_aligned(size_t n, size_t align)
{
	return mi_malloc_aligned(n, align);
}

void *mi_new_aligned_nothrow(size_t n, size_t align)
{
	return mi_malloc_aligned(n, align);
}

void *mi_new_realloc(void *p, size_t n)
{
	return mi_realloc(p, n);
}

void *mi_new_reallocn(void *p, size_t count, size_t each)
{
	TIMES(n, count, each)
	return mi_new_realloc(p, n);
}
