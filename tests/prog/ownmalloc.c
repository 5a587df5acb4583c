/* SPDX-License-Identifier: Apache-2.0 */
/* ownmalloc - a program with an allocator of its own: ours must never be in its way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char pool[1 << 20] __attribute__((aligned(16)));
static size_t used;
static unsigned long calls;

void *malloc(size_t n)
{
	void *p = pool + used;
	used += (n + 15) & ~(size_t)15;
	calls++;
	return used <= sizeof(pool) ? p : NULL;
}
void free(void *p)
{
	(void)p;
}
void *calloc(size_t n, size_t m)
{
	void *p = malloc(n * m);
	return p ? memset(p, 0, n * m) : NULL;
}
void *realloc(void *old, size_t n)
{
	void *p = malloc(n);
	if (p && old)
		memcpy(p, old, n);
	return p;
}

int main(void)
{
	char *p = malloc(100);
	if (p < pool || p >= pool + sizeof(pool))
		return 1;
	strcpy(p, "own");
	p = realloc(p, 50);
	printf("%s\n", p);
	return 0;
}
