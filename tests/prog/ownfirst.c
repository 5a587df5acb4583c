/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownfirst N - as in a program with a sanitizer: a malloc of its own that must not be called before the program made it ready,
 * which it does before the constructors of its libraries. Built with LATE, it is its free() that may not be called before main().
 */
#include <stdio.h>
#include <stdlib.h>

#include "ownheap.h"
#include "truth.h"

static int ready;

static void first(void)
{
	ready = 1;
}

#ifdef LATE
#define TAKES 1
#define GIVES ready
#else
#define TAKES ready
#define GIVES 1
__attribute__((section(".preinit_array"), used)) static void (*const init)(void) = first;
#endif

void *malloc(size_t n)
{
	if (!TAKES)
		_exit(5);
	return own_take(n, 0, 0);
}

void free(void *p)
{
	if (!GIVES)
		_exit(6);
	own_give(p);
}

void *calloc(size_t count, size_t each)
{
	if (!TAKES)
		_exit(5);
	return own_take(count * each, 0, 1);
}

void *realloc(void *p, size_t n)
{
	return p ? own_resize(p, n, 0, 0) : malloc(n);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	first();
	for (int i = 0; i < n; i++) {
		void *p = took(malloc(100), 100);
		gave(p);
		free(p);
	}
	truth_print();
	puts("done");
	return 0;
}
