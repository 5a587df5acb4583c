/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownje_lib.c - a library with jemalloc's functions, which are made of libc's and of each other by way of words. PREFIX as in
 * ownje.c; nothing: only those that libc has none of.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define J(name) JOIN(PREFIX, name)

void *J(mallocx)(size_t n, int flags);
void J(dallocx)(void *p, int flags);

void *J(mallocx)(size_t n, int flags)
{
	void *p;
	size_t align = (size_t)1 << (flags & 63);
	if (align > 16)
		p = posix_memalign(&p, align, n) == 0 ? p : NULL;
	else
		p = malloc(n);
	return p && flags & 64 ? memset(p, 0, n) : p;
}

/* Always moves. */
void *J(rallocx)(void *old, size_t n, int flags)
{
	void *p = J(mallocx)(n, flags);
	size_t had = malloc_usable_size(old);
	if (p) {
		memcpy(p, old, had < n ? had : n);
		J(dallocx)(old, flags);
	}
	return p;
}

size_t J(xallocx)(void *p, size_t n, size_t extra, int flags)
{
	return malloc_usable_size(p);
}

size_t J(sallocx)(const void *p, int flags)
{
	return malloc_usable_size((void *)p);
}

size_t J(nallocx)(size_t n, int flags)
{
	return n;
}

void J(dallocx)(void *p, int flags)
{
	free(p);
}

void J(sdallocx)(void *p, size_t n, int flags)
{
	J(dallocx)(p, flags);
}

#ifdef WHOLE
void *J(malloc)(size_t n)
{
	return malloc(n);
}

void J(free)(void *p)
{
	free(p);
}

void *J(calloc)(size_t count, size_t n)
{
	return calloc(count, n);
}

void *J(realloc)(void *p, size_t n)
{
	return realloc(p, n);
}

int J(posix_memalign)(void **to, size_t align, size_t n)
{
	return posix_memalign(to, align, n);
}

void *J(aligned_alloc)(size_t align, size_t n)
{
	return aligned_alloc(align, n);
}

void *J(memalign)(size_t align, size_t n)
{
	return memalign(align, n);
}

void *J(valloc)(size_t n)
{
	return valloc(n);
}
#endif
