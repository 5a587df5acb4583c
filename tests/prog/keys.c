/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys N LATER - take all keys of threads that there are while N threads are alive, print how many that were; let those
 * threads end, and start LATER more, N at a time. Each allocates.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

static pthread_barrier_t all;

static void *work(void *arg)
{
	for (int i = 0; i < 10; i++) {
		void *p = took(malloc(64), 64);
		if (i == 5 && arg) {
			pthread_barrier_wait(&all); /* all are there */
			pthread_barrier_wait(&all); /* the keys are taken */
		}
		gave(p);
		free(p);
	}
	return NULL;
}

static void start(pthread_t *thread, int n, void *arg)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], &attr, work, arg) != 0)
			exit(1);
}

static void join(const pthread_t *thread, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	static pthread_t thread[1024];
	int n = atoi(argv[1]), later = argc > 2 ? atoi(argv[2]) : 0, keys = 0;
	pthread_key_t key;
	pthread_barrier_init(&all, NULL, (unsigned)n + 1);
	start(thread, n, thread);
	pthread_barrier_wait(&all);
	while (pthread_key_create(&key, NULL) == 0)
		keys++;
	pthread_barrier_wait(&all);
	join(thread, n);
	for (int done = 0; done < later; done += n) {
		int some = later - done < n ? later - done : n;
		start(thread, some, NULL);
		join(thread, some);
	}
	printf("%d\n", keys);
	truth_print();
	return 0;
}
