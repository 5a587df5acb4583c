/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_thread.c - a library that the program is linked with: its constructor starts a thread that allocates without end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int stop;
static atomic_long rounds;
static pthread_t thread;

static void *busy(void *arg)
{
	while (!atomic_load(&stop)) {
		free(malloc(100));
		atomic_fetch_add(&rounds, 1);
	}
	return arg;
}

__attribute__((constructor)) static void begin(void)
{
	if (pthread_create(&thread, NULL, busy, NULL) != 0)
		abort();
	while (atomic_load(&rounds) < 1000)
		;
}

long plugin_thread_stop(void);
long plugin_thread_stop(void)
{
	long before = atomic_load(&rounds);
	while (atomic_load(&rounds) < before + 1000)
		;
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	return atomic_load(&rounds);
}
