// SPDX-License-Identifier: Apache-2.0
/*
 * askedmore.cpp - the ways to ask that asked.c has not: every operator new and delete, jemalloc's own functions where they are there,
 * calls that are left by longjmp() or by the end of their thread, calls inside of calls. Says what it did as asked.c does.
 * usage: askedmore ROUNDS. Begins when a line comes on stdin, prints when done, ends when stdin does.
 */
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART extern "C" __attribute__((noinline, noclone)) void

static struct way {
	const char *name;
	unsigned long count, bytes, live;
} ways[32];
static int way_count;

static void note(const char *name, size_t bytes, size_t live)
{
	int i = 0;
	while (i < way_count && strcmp(ways[i].name, name))
		i++;
	if (i == way_count)
		ways[way_count++].name = name;
	ways[i].count++;
	ways[i].bytes += bytes;
	ways[i].live += live;
}

static const auto wide = std::align_val_t(128);
static const size_t far_too_much = PTRDIFF_MAX - 4096;
static void *volatile kept;
static jmp_buf back;
static volatile int leave_how;

static void handler()
{
	if (leave_how == 1)
		longjmp(back, 1);
	if (leave_how == 2)
		syscall(SYS_exit, 0);
	std::set_new_handler(nullptr);
}

APART by_new(size_t n)
{
	kept = operator new(n);
	note("by_new", n, 0);
	operator delete(kept);
}

APART by_new_array(size_t n)
{
	kept = operator new[](n);
	note("by_new_array", n, 0);
	operator delete[](kept, n);
}

APART by_new_nothrow(size_t n)
{
	kept = operator new(n, std::nothrow);
	note("by_new_nothrow", n, 0);
	operator delete(kept, n);
}

APART by_new_aligned(size_t n)
{
	kept = operator new(n, wide);
	note("by_new_aligned", n, 0);
	operator delete(kept, n, wide);
}

APART by_new_array_aligned(size_t n)
{
	kept = operator new[](n, wide);
	note("by_new_array_aligned", n, 0);
	operator delete[](kept, wide);
}

APART by_new_aligned_nothrow(size_t n)
{
	kept = operator new(n, wide, std::nothrow);
	note("by_new_aligned_nothrow", n, 0);
	operator delete(kept, wide, std::nothrow);
}

APART by_new_aligned_kept(size_t n)
{
	kept = operator new(n, wide);
	note("by_new_aligned_kept", n, n);
}

// left by the handler, from within operator new or whatever that calls
APART by_jumping(size_t n)
{
	std::set_new_handler(handler);
	leave_how = 1;
	if (!setjmp(back)) {
		kept = operator new(far_too_much);
		abort();
	}
	kept = malloc(n);
	note("by_jumping", n, n);
}

APART by_dying(size_t n)
{
	std::set_new_handler(handler);
	leave_how = 2;
	kept = malloc(n);
	note("by_dying", n, n);
	kept = operator new(far_too_much);
}

static void *die(void *n)
{
	by_dying(*static_cast<size_t *>(n));
	abort();
}

static void (*dallocx_)(void *, int), (*sdallocx_)(void *, size_t, int);
static void *(*mallocx_)(size_t, int), *(*rallocx_)(void *, size_t, int);
static size_t (*xallocx_)(void *, size_t, size_t, int);

APART by_mallocx(size_t n)
{
	kept = mallocx_(n, 0x40); // in zeroes
	note("by_mallocx", n, 0);
	dallocx_(kept, 0);
}

APART by_rallocx(size_t n)
{
	void *block = mallocx_(n, 0);
	note("by_rallocx", n, 0);
	kept = rallocx_(block, n * 3, 0);
	note("by_rallocx", n * 3, 0);
	sdallocx_(kept, n * 3, 0);
}

APART by_xallocx(size_t n)
{
	void *block = mallocx_(n, 0);
	note("by_xallocx", n, 0);
	if (xallocx_(block, n - 1, 0, 0) < n - 1) // where it stands
		abort();
	note("by_xallocx", n - 1, n - 1);
	kept = block;
}

// An allocator of one's own: asks itself for a head, and is left without a block for odd sizes.
extern "C" __attribute__((noinline, noclone)) void *pool_get(size_t n)
{
	if (n > 16)
		kept = pool_get(16);
	if (n & 1)
		longjmp(back, 1);
	static char pool[1 << 20];
	static size_t at;
	at = (at + n) % (sizeof(pool) / 2);
	return pool + at;
}

APART by_pool(size_t n)
{
	if (setjmp(back))
		return;
	kept = pool_get(n);
	note("by_pool", n, n);
}

template <class F> static bool find(F &f, const char *name)
{
	return (f = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name))) != nullptr;
}

int main(int argc, char **argv)
{
	char line[64];
	long rounds = argc > 1 ? atol(argv[1]) : 100;
	bool has_x = find(mallocx_, "mallocx") && find(rallocx_, "rallocx") &&
		     find(xallocx_, "xallocx") && find(dallocx_, "dallocx") &&
		     find(sdallocx_, "sdallocx");
	setvbuf(stdout, nullptr, _IONBF, 0);
	setvbuf(stdin, nullptr, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (long i = 0; i < rounds; i++) {
		size_t n = static_cast<size_t>(i * 37 % 2900) + 33;
		by_new(n);
		by_new_array(n);
		std::set_new_handler(nullptr);
		by_new_nothrow(n);
		by_new_aligned(n);
		by_new_array_aligned(n);
		by_new_aligned_nothrow(n);
		by_new_aligned_kept(n);
		by_jumping(n);
		by_pool(n);
		if (has_x) {
			by_mallocx(n);
			by_rallocx(n);
			by_xallocx(n);
		}
		if (i % 10 == 0) {
			pthread_t thread;
			if (pthread_create(&thread, nullptr, die, &n) ||
			    pthread_join(thread, nullptr))
				abort();
		}
	}
	for (int i = 0; i < way_count; i++)
		printf("%s %lu %lu %lu\n", ways[i].name, ways[i].count, ways[i].bytes,
		       ways[i].live);
	puts("done");
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
