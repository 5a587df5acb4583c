/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latestart - a preloaded object that is asked for a key while the library under test starts, and lets another thread
 * allocate 1,000 blocks of 10 bytes and free them just then.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void *allocate(void *arg)
{
	for (int i = 0; i < 1000; i++)
		free(malloc(10));
	return arg;
}

int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
	static int asked;
	pthread_t thread;
	int (*real)(pthread_key_t *, void (*)(void *)) =
		(int (*)(pthread_key_t *, void (*)(void *)))dlsym(RTLD_NEXT, "pthread_key_create");
	if (!asked++ && pthread_create(&thread, NULL, allocate, NULL) == 0)
		pthread_join(thread, NULL);
	return real(key, end);
}
