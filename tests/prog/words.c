/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words - what filters tell apart: blocks of main and of threads named keeper and other, which pass them on and resize each
 * other's, some asked for by the C library. Each of the two stays until the recorder has seen it: then all have their order.
 * words renames: 1,000 blocks of a thread that is called early, then as many of the same one, called late, and it ends at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *of_main[10], *of_keeper[100], *of_other[10], *copies[3];

static void (*sync_recorder)(void);

static void be_seen(void)
{
	if (sync_recorder)
		sync_recorder();
}

static void *keeper(void *arg)
{
	pthread_setname_np(pthread_self(), "keeper");
	for (int i = 0; i < 100; i++)
		of_keeper[i] = malloc(64);
	for (int i = 0; i < 10; i++)
		free(of_keeper[i]);
	for (int i = 0; i < 5; i++)
		of_main[i] = realloc(of_main[i], 5000);
	for (int i = 0; i < 3; i++)
		copies[i] = strdup("a copy of its own");
	be_seen();
	return arg;
}

static void *other(void *arg)
{
	pthread_setname_np(pthread_self(), "other");
	for (int i = 10; i < 30; i++)
		of_keeper[i] = realloc(of_keeper[i], 7000);
	for (int i = 30; i < 60; i++)
		free(of_keeper[i]);
	for (int i = 0; i < 10; i++)
		of_other[i] = malloc(300);
	free(malloc(1));
	be_seen();
	return arg;
}

static void *renames(void *arg)
{
	pthread_setname_np(pthread_self(), "early");
	for (int i = 0; i < 1000; i++)
		*(volatile char *)malloc(10) = 1;
	pthread_setname_np(pthread_self(), "late");
	for (int i = 0; i < 1000; i++)
		*(volatile char *)malloc(20) = 1;
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	sync_recorder = (void (*)(void))dlsym(RTLD_DEFAULT, "byteledger_heap_sync");
	if (argc > 1 && strcmp(argv[1], "renames") == 0) {
		pthread_create(&thread, NULL, renames, NULL);
		pthread_join(thread, NULL);
		return 0;
	}
	for (int i = 0; i < 10; i++)
		of_main[i] = malloc(1000);
	pthread_create(&thread, NULL, keeper, NULL);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, other, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; i < 4; i++)
		of_other[i] = realloc(of_other[i], 9000);
	free(of_main[0]);
	free(copies[0]);
	return 0;
}
