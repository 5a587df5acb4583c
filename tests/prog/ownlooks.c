/* SPDX-License-Identifier: Apache-2.0 */
/* ownlooks N - functions that have an allocator's names, and are none; they are called as often as malloc(), whose calls count. */
#include <stdio.h>

#include "truth.h"

extern void *libc_malloc(size_t n) __asm__("malloc");
extern void libc_free(void *p) __asm__("free");

int mi_free(int handle, long at);
int mi_open(const char *name, int mode);
void *tc_new(double x);
void tc_delete(void *tc);
void *mi_new(const char *name);

static long sum;

/* of a database */
int mi_free(int handle, long at)
{
	sum += handle + at;
	return handle;
}

int mi_open(const char *name, int mode)
{
	return name[0] + mode;
}

/* of a program whose things are a mi and a tc */
void *mi_new(const char *name)
{
	sum += name[0];
	return &sum;
}

void *tc_new(double x)
{
	sum += (long)x;
	return &sum;
}

void tc_delete(void *tc)
{
	sum += tc != NULL;
}

/* local: it is called by nobody outside, whatever its name */
__attribute__((noinline)) static int je_free_local(int a, int b) __asm__("free_list");
static int je_free_local(int a, int b)
{
	__asm__ volatile("" : "+r"(a));
	return a + b;
}

__attribute__((noinline)) static long own_calloc(long a, long b, long c, long d,
						 long e) __asm__("realloc");
static long own_calloc(long a, long b, long c, long d, long e)
{
	__asm__ volatile("" : "+r"(a));
	return a + b + c + d + e;
}

int main(int argc, char **argv)
{
	int n = 0;
	for (const char *c = argc > 1 ? argv[1] : "1"; *c; c++)
		n = n * 10 + *c - '0';
	for (int i = 0; i < n; i++) {
		void *p = took(libc_malloc(100), 100);
		mi_free(mi_open("x", i), 1);
		tc_delete(tc_new(2.0));
		mi_new("x");
		sum += je_free_local(i, 2) + own_calloc(1, 2, 3, 4, 5);
		gave(p);
		libc_free(p);
	}
	truth_print();
	printf("%ld\n", sum);
	return 0;
}
