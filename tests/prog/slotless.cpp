// SPDX-License-Identifier: Apache-2.0
// slotless N ROUNDS - N threads, all of which are there before the first one goes on: more than there are buffers for. What
// they do is lost, and counted once each. Built with OWN, malloc() is the program's own, of functions that call one another.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <unistd.h>

#ifdef OWN
static char pool[64 << 20] __attribute__((aligned(16)));
static std::size_t used;

extern "C" void *malloc(std::size_t n)
{
	char *at = pool + __atomic_fetch_add(&used, ((n + 15) & ~15ul) + 16, __ATOMIC_RELAXED);
	std::memcpy(at, &n, sizeof(n));
	return at + 16;
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
	std::size_t had = 0;
	if (old)
		std::memcpy(&had, static_cast<char *>(old) - 16, sizeof(had));
	if (had)
		std::memcpy(p, old, had < n ? had : n);
	free(old);
	return p;
}
#endif

static pthread_barrier_t there, through;
static int rounds;

static void *run(void *arg)
{
	pthread_barrier_wait(&there);
	for (int i = 0; i < rounds; i++) {
		void *volatile p = std::calloc(1, 10);
		p = std::realloc(p, 20);
		std::free(p);
		char *volatile q = new char[30];
		delete[] q;
		char *volatile none = new char[0];
		delete[] none;
		std::free(std::malloc(40));
	}
	pthread_barrier_wait(&through);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
	rounds = argc > 2 ? std::atoi(argv[2]) : 1;
	pthread_t *thread = new pthread_t[n];
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	pthread_barrier_init(&there, nullptr, (unsigned)n + 1);
	pthread_barrier_init(&through, nullptr, (unsigned)n + 1);
	for (unsigned long i = 0; i < n; i++)
		if (pthread_create(&thread[i], &attr, run, nullptr))
			return 1;
	pthread_barrier_wait(&there);
	pthread_barrier_wait(&through);
	for (unsigned long i = 0; i < n; i++)
		pthread_join(thread[i], nullptr);
	delete[] thread;
	unsigned long each = n * (unsigned long)rounds;
	char text[64];
	int len =
		std::snprintf(text, sizeof(text), "%lu %lu %lu\n", each * 5, each * 100, each * 5);
	return write(8, text, (size_t)len) != len;
}
