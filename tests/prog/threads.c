/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads N - N short threads, eight at a time; each allocates, frees a neighbour's block, allocates in pthread key
 * destructors of every round. threads N parallel: four threads that do nothing but allocate and free N times.
 * threads N asks: N threads that ask for their own attributes first.
 * threads N alive: N threads, all of which are there before the first one goes on.
 * threads N arena: fifty threads that allocate N times each and free it again; with MALLOC_ARENA_MAX=1 what one frees is
 * the next one's block an instant later.
 */
#include <pthread.h>
#include <stdlib.h>

#include "truth.h"

static pthread_key_t key[3];
static _Atomic(void *) mailbox;

static void again(void *arg)
{
	long round = (long)arg;
	void *p = took(malloc((size_t)round * 8), (size_t)round * 8);
	gave(p);
	free(p);
	if (round < 6)
		pthread_setspecific(key[round % 3], (void *)(round + 1));
}

static void *run(void *arg)
{
	for (int i = 0; i < 10; i++) {
		void *p = took(malloc(64), 64);
		void *old = atomic_exchange(&mailbox, p);
		gave(old);
		free(old);
	}
	pthread_setspecific(key[0], (void *)1L);
	return arg;
}

/* The first allocation of this thread is made by the C library, which holds the thread's own lock meanwhile. */
static void *asks(void *arg)
{
	pthread_attr_t attr;
	if (pthread_getattr_np(pthread_self(), &attr) == 0)
		pthread_attr_destroy(&attr);
	return arg;
}

static void *pairs(void *arg)
{
	long n = (long)arg;
	for (long i = 0; i < n; i++) {
		void *p = took(malloc((size_t)(i & 255)), (size_t)(i & 255));
		gave(p);
		free(p);
	}
	return NULL;
}

#define HELD 200

static void *shares(void *arg)
{
	void *held[HELD] = { NULL };
	unsigned seed = (unsigned)(uintptr_t)held >> 12;
	for (long i = 0, n = (long)arg; i < n; i++) {
		seed = seed * 1103515245 + 12345;
		unsigned at = (seed >> 8) % HELD;
		free(held[at]);
		held[at] = malloc((seed >> 16) % 40 * 16 + 16);
	}
	for (int i = 0; i < HELD; i++)
		free(held[i]);
	return NULL;
}

static int share(long n)
{
	pthread_t thread[50];
	for (int i = 0; i < 50; i++)
		if (pthread_create(&thread[i], NULL, shares, (void *)n) != 0)
			return 1;
	for (int i = 0; i < 50; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static pthread_barrier_t all;

static void *alive(void *arg)
{
	for (int i = 0; i < 100; i++) {
		void *p = took(malloc(64), 64);
		if (i == 50)
			pthread_barrier_wait(&all);
		gave(p);
		free(p);
	}
	return arg;
}

static int be_alive(const pthread_attr_t *attr, unsigned n)
{
	pthread_t *thread = calloc(n, sizeof(*thread));
	pthread_barrier_init(&all, NULL, n);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&thread[i], attr, alive, NULL) != 0)
			return 1;
	for (unsigned i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t thread[8];
	pthread_attr_t attr;
	for (int i = 0; i < 3; i++)
		pthread_key_create(&key[i], again);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	if (argc > 2 && strcmp(argv[2], "alive") == 0)
		return be_alive(&attr, (unsigned)n);
	if (argc > 2 && strcmp(argv[2], "arena") == 0)
		return share(n);
	if (argc > 2 && strcmp(argv[2], "asks") == 0) {
		for (int i = 0; i < n; i++) {
			if (pthread_create(&thread[0], &attr, asks, NULL) != 0)
				return 1;
			pthread_join(thread[0], NULL);
		}
		return 0;
	}
	if (argc > 2) {
		for (int i = 0; i < 4; i++)
			pthread_create(&thread[i], &attr, pairs, (void *)(long)n);
		for (int i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
		truth_print();
		return 0;
	}
	for (int done = 0; done < n; done += 8) {
		for (int i = 0; i < 8; i++)
			if (pthread_create(&thread[i], &attr, run, NULL) != 0)
				return 1;
		for (int i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
	void *old = atomic_exchange(&mailbox, NULL);
	gave(old);
	free(old);
	truth_print();
	return 0;
}
