/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownnames.c - linked into a program, this makes the allocator of ownheap.c its malloc, which libc and its other libraries
 * call, too. Some of it stands upon the rest of it, as in allocators of the world: each call is one allocation all the same.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ownheap.h"

void *malloc(size_t n)
{
	return own_take(n, 0, 0);
}

void free(void *p)
{
	int saved = errno;
	own_give(p);
	errno = saved;
}

void *calloc(size_t count, size_t each)
{
	size_t n;
	if (__builtin_mul_overflow(count, each, &n)) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = malloc(n);
	return p ? memset(p, 0, n) : NULL;
}

void *realloc(void *old, size_t n)
{
	if (!old)
		return malloc(n);
	if (!n) {
		free(old);
		return NULL;
	}
	void *p = malloc(n);
	if (!p)
		return NULL;
	size_t room = own_room(old);
	memcpy(p, old, n < room ? n : room);
	free(old);
	return p;
}

void *reallocarray(void *old, size_t count, size_t each)
{
	size_t n;
	if (__builtin_mul_overflow(count, each, &n)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, n);
}

void *memalign(size_t align, size_t n)
{
	return own_take(n, align, 0);
}

void *aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int posix_memalign(void **to, size_t align, size_t n)
{
	if (align % sizeof(void *) || align & (align - 1) || !align)
		return EINVAL;
	int saved = errno;
	void *p = memalign(align, n);
	errno = saved;
	if (!p)
		return ENOMEM;
	*to = p;
	return 0;
}

void *valloc(size_t n)
{
	return memalign(4096, n);
}

void *pvalloc(size_t n)
{
	return memalign(4096, (n + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *p)
{
	return p ? own_room(p) : 0;
}
