// SPDX-License-Identifier: Apache-2.0
// ownthrow N - malloc and all operators are the program's own; some calls fail, throw through what stands in front of them and are
// caught, or leave by longjmp() out of the new handler, and everything after them counts as before.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

extern "C" {
#include "ownheap.h"
}

static unsigned long allocs, bytes, frees;
static volatile size_t huge = (size_t)1 << 62;
static jmp_buf out;
static int jumps, wrong;

void *operator new(std::size_t n)
{
	for (;;) {
		if (void *p = own_take(n, 0, 0))
			return p;
		std::new_handler handler = std::get_new_handler();
		if (!handler)
			throw 42; // no exception class: nothing is asked of the runtime but the exception itself
		handler();
	}
}

void *operator new[](std::size_t n)
{
	return operator new(n);
}

void operator delete(void *p) noexcept
{
	own_give(p);
}

void operator delete(void *p, std::size_t) noexcept
{
	operator delete(p);
}

void operator delete[](void *p) noexcept
{
	operator delete(p);
}

void operator delete[](void *p, std::size_t) noexcept
{
	operator delete(p);
}

static void *took(void *p, std::size_t n)
{
	allocs++;
	bytes += n;
	return p;
}

static void pair(std::size_t n)
{
	void *p = took(operator new(n), n);
	frees++;
	operator delete(p);
	p = took(operator new[](n), n);
	frees++;
	operator delete[](p, n);
	p = took(malloc(n), n);
	frees++;
	free(p);
}

static void leave()
{
	jumps++;
	longjmp(out, 1);
}

/* As deep as where programs give up. */
static void gives_up()
{
	volatile char deep[4096];
	deep[0] = 1;
	wrong += operator new[](huge) != nullptr;
	wrong += deep[0];
}

static int fails(int depth)
{
	struct late {
		~late()
		{
			pair(77);
		}
	} at_end;
	if (depth)
		return fails(depth - 1) + 1;
	pair(11);
	return operator new(huge) != nullptr;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, caught = 0;
	for (int i = 0; i < n; i++) {
		try {
			fails(5);
		} catch (int) {
			caught++;
		}
		pair(22);
		std::set_new_handler(leave);
		if (setjmp(out) == 0)
			gives_up();
		std::set_new_handler(nullptr);
		pair(33);
	}
	char text[128];
	int len = snprintf(text, sizeof(text), "%lu %lu %lu\n", allocs, bytes, frees);
	if (write(8, text, len) < 0)
		caught = -1;
	printf("%d caught, %d jumps, %d wrong\n", caught, jumps, wrong);
}
