/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownmoz N - as Firefox has it: a malloc of its own, with other ways into the same heap: blocks of a place that is named, which
 * free() and realloc() take like others, and copies of strings. Built with ODD, its free() cannot be moved.
 */
#include <stdlib.h>
#include <string.h>

#include "ownheap.h"
#include "truth.h"

void *moz_arena_malloc(size_t place, size_t n);
void *moz_arena_calloc(size_t place, size_t count, size_t each);
void *moz_arena_realloc(size_t place, void *old, size_t n);
void *moz_arena_memalign(size_t place, size_t align, size_t n);
void moz_arena_free(size_t place, void *p);

void *malloc(size_t n)
{
	return own_take(n, 0, 0);
}

void *calloc(size_t count, size_t each)
{
	return own_take(count * each, 0, 1);
}

void *realloc(void *old, size_t n)
{
	return old ? own_resize(old, n, 0, 0) : own_take(n, 0, 0);
}

#ifdef ODD
__asm__(".globl free\n.type free, @function\nfree: xor %eax, %eax\n1: add $1, %eax\ncmp $3, "
	"%eax\njne 1b\njmp own_give\n.size free, .-free\n");
#else
void free(void *p)
{
	own_give(p);
}
#endif

void *moz_arena_malloc(size_t place, size_t n)
{
	(void)place;
	return own_take(n, 0, 0);
}

void *moz_arena_calloc(size_t place, size_t count, size_t each)
{
	(void)place;
	return own_take(count * each, 0, 1);
}

void *moz_arena_realloc(size_t place, void *old, size_t n)
{
	(void)place;
	return old ? own_resize(old, n, 0, 0) : own_take(n, 0, 0);
}

void *moz_arena_memalign(size_t place, size_t align, size_t n)
{
	(void)place;
	return own_take(n, align, 0);
}

void moz_arena_free(size_t place, void *p)
{
	(void)place;
	own_give(p);
}

char *strdup(const char *text)
{
	return strcpy(own_take(strlen(text) + 1, 0, 0), text);
}

char *strndup(const char *text, size_t n)
{
	size_t len = strnlen(text, n);
	char *to = own_take(len + 1, 0, 0);
	to[len] = 0;
	return memcpy(to, text, len);
}

static void *grown(void *old, void *block, size_t n)
{
	gave(old);
	return took(block, n);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++) {
		void *p = took(moz_arena_malloc(7, 100), 100);
		p = grown(p, moz_arena_realloc(7, p, 300), 300);
		p = grown(p, realloc(p, 50), 50);
		gave(p);
		free(p);
		p = took(moz_arena_calloc(7, 3, 9), 27);
		gave(p);
		moz_arena_free(7, p);
		p = took(moz_arena_memalign(7, 64, 33), 33);
		gave(p);
		free(p);
		p = took(moz_arena_realloc(7, NULL, 11), 11);
		gave(p);
		free(p);
		p = took(strdup("a text"), 7);
		gave(p);
		moz_arena_free(7, p);
		p = took(strndup("a text", 3), 4);
		gave(p);
		free(p);
	}
	truth_print();
	return 0;
}
