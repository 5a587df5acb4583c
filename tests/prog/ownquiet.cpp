// SPDX-License-Identifier: Apache-2.0
// ownquiet N - a malloc of its own, and an operator new that does not throw: it catches what the one that throws threw, and gives
// a smaller block instead. N threads use it, to the last round of their key's destructor.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <unistd.h>

#define ASKED 2000000ul

static char pool[64 << 20] __attribute__((aligned(16)));
static std::size_t used;
static std::atomic<unsigned long> given;

extern "C" void *malloc(std::size_t n)
{
	if (n >= ASKED)
		return nullptr;
	return pool + __atomic_fetch_add(&used, (n + 15) & ~15ul, __ATOMIC_RELAXED);
}

extern "C" void free(void *p)
{
	if (p)
		static_cast<volatile char *>(p)[0] = 0;
}

extern "C" void *calloc(std::size_t n, std::size_t each)
{
	return std::memset(malloc(n * each), 0, n * each);
}

extern "C" void *realloc(void *old, std::size_t n)
{
	void *p = malloc(n);
	if (old)
		std::memmove(p, old, n);
	free(old);
	return p;
}

void *operator new(std::size_t n)
{
	void *p = malloc(n);
	if (!p)
		throw std::bad_alloc();
	return p;
}

void *operator new(std::size_t n, const std::nothrow_t &) noexcept
{
	try {
		return operator new(n);
	} catch (const std::bad_alloc &) {
		return malloc(100);
	}
}

void operator delete(void *p) noexcept
{
	free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
	free(p);
}

static pthread_key_t key;

static void ask()
{
	for (int i = 0; i < 3; i++) {
		given++;
		std::free(operator new(ASKED, std::nothrow));
	}
}

static void late(void *round)
{
	ask();
	if (reinterpret_cast<long>(round) < 8)
		pthread_setspecific(key, static_cast<char *>(round) + 1);
}

static void *run(void *arg)
{
	pthread_setspecific(key, reinterpret_cast<void *>(1));
	ask();
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? std::atoi(argv[1]) : 1;
	pthread_key_create(&key, late);
	for (int i = 0; i < n; i++) {
		pthread_t thread;
		if (pthread_create(&thread, nullptr, run, nullptr))
			return 1;
		pthread_join(thread, nullptr);
	}
	char text[64];
	unsigned long all = given;
	int len = std::snprintf(text, sizeof(text), "%lu %lu %lu\n", all, all * ASKED, all);
	return write(8, text, (size_t)len) != len;
}
