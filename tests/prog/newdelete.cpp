// SPDX-License-Identifier: Apache-2.0
// newdelete N - every form of operator new and delete, exceptions through them, thread_local destructors, new handlers.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<unsigned long> allocs, bytes, frees;
static int wrong;

// The compiler may leave out a new and its delete where nobody else sees the block; GCC 16 does.
template <class T> static T *took(T *p, std::size_t n)
{
	asm volatile("" : "+r"(p) : : "memory");
	if (p) {
		allocs++;
		bytes += n;
	}
	return p;
}

struct alignas(64) wide {
	char c[128];
};

struct thrower {
	char c[40];
	thrower()
	{
		throw 7;
	}
};

struct late {
	char *p = nullptr;
	~late()
	{
		delete[] p;
		frees++;
		p = took(new char[99], 99);
		delete[] p;
		frees++;
	}
};
static thread_local late at_end;

static int handler_calls;
static void handler()
{
	if (++handler_calls > 1)
		throw std::bad_alloc();
	free(took(malloc(11), 11));
	frees++;
}

__attribute__((noinline)) static void throw_deep(int n, std::vector<std::string> &names)
{
	std::string local(100 + n, 'x'); // one allocation: longer than the short form
	allocs++;
	bytes += 101 + n;
	frees++; // by its destructor, during unwinding
	if (n == 0)
		throw 1;
	throw_deep(n - 1, names);
}

static void once()
{
	int *i = took(new int(4), sizeof(int));
	delete i;
	frees++;
	char *a = took(new char[77], 77);
	delete[] a;
	frees++;
	a = took(new (std::nothrow) char[78], 78);
	delete[] a;
	frees++;
	i = took(new (std::nothrow) int, sizeof(int));
	operator delete(i, std::nothrow);
	frees++;
	wide *w = took(new wide, sizeof(wide));
	wrong += reinterpret_cast<std::uintptr_t>(w) & 63;
	delete w;
	frees++;
	w = took(new wide[3], 3 * sizeof(wide));
	delete[] w;
	frees++;
	w = took(new (std::nothrow) wide, sizeof(wide));
	delete w;
	frees++;
	w = took(new (std::nothrow) wide[2], 2 * sizeof(wide));
	operator delete[](w, std::align_val_t(64), std::nothrow);
	frees++;
	void *p = took(operator new(0), 0); // requested: nothing
	operator delete(p, std::size_t(0));
	frees++;
	p = took(operator new(50), 50);
	operator delete(p, std::size_t(50));
	frees++;
	p = took(operator new(100, std::align_val_t(32)),
		 100); // the runtime rounds up, the request is 100
	operator delete(p, std::size_t(100), std::align_val_t(32));
	frees++;
	delete static_cast<int *>(nullptr);
	try {
		allocs++;
		bytes += sizeof(thrower);
		new thrower; // the constructor throws: released by the compiler's code
	} catch (int) {
		frees++;
	}
	allocs++; // exception objects are allocated by malloc in the runtime: thrower's int
	bytes += 4 + 128;
	frees++;
	volatile std::size_t huge = std::size_t(1) << 62;
	try {
		wrong += new char[huge] != nullptr;
		wrong++;
	} catch (std::bad_alloc &) {
	}
	allocs++; // the bad_alloc itself
	bytes += sizeof(std::bad_alloc) + 128;
	frees++;
	wrong += (new (std::nothrow) char[huge] != nullptr);
	allocs++; // nothrow new catches a bad_alloc inside
	bytes += sizeof(std::bad_alloc) + 128;
	frees++;
	handler_calls = 0;
	std::set_new_handler(handler);
	try {
		wrong += operator new(huge) != nullptr;
	} catch (std::bad_alloc &) {
	}
	allocs++;
	bytes += sizeof(std::bad_alloc) + 128;
	frees++;
	std::set_new_handler(nullptr);
	std::vector<std::string> names;
	try {
		throw_deep(20, names);
	} catch (int) {
	}
	allocs++;
	bytes += 4 + 128;
	frees++;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++)
		once();
	for (int i = 0; i < n; i++) {
		std::thread t([] { at_end.p = took(new char[55], 55); });
		allocs++; // the thread's state object
		frees++;
		bytes += 16;
		t.join();
	}
	char text[128];
	int len = snprintf(text, sizeof(text), "%lu %lu %lu\n", allocs.load(), bytes.load(),
			   frees.load());
	if (write(8, text, len) < 0)
		return wrong != 0;
	return wrong != 0;
}
