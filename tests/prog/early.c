/* SPDX-License-Identifier: Apache-2.0 */
/*
 * early - an allocator that lives on the break, and a constructor of a library that asks for it: both before anything
 * else of the process ran. Prints what they got.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *by_sbrk = (void *)-1, *by_malloc;
static int by_brk = -1;

void *malloc(size_t n)
{
	char *p = sbrk((intptr_t)((n + 31) & ~(size_t)15));
	if (p == (void *)-1) {
		errno = ENOMEM;
		return NULL;
	}
	return (void *)(((uintptr_t)p + 15) & ~(uintptr_t)15);
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t a, size_t b)
{
	void *p = malloc(a * b);
	return p ? memset(p, 0, a * b) : NULL;
}

void *realloc(void *old, size_t n)
{
	void *p = malloc(n);
	return old && p ? memcpy(p, old, n) : p;
}

static void first(void)
{
	by_sbrk = sbrk(4096);
	by_malloc = malloc(100);
	by_brk = brk((char *)sbrk(0) + 4096);
}
__attribute__((section(".preinit_array"), used)) static void (*const init)(void) = first;

int main(void)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d %d %d\n", by_sbrk != (void *)-1, by_malloc != NULL,
			 by_brk == 0);
	return write(1, text, (size_t)n) != n;
}
