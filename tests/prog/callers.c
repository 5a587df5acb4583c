/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.c - threads that call malloc between some work of their own, beside threads that only work. usage: callers COMPUTING SECONDS
 * [CALLS_OF_A_THREAD]. One thread calls at a time: the same one all along, or another one after so many calls. Begins when a line comes on stdin,
 * prints the calls that were made, ends when stdin does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define APART __attribute__((noinline, noclone))
#define WORK 2000 /* turns of a loop between two calls: about a microsecond */

static double until;
static long made, of_a_thread;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void turn(long turns)
{
	for (long i = 0; i < turns; i++)
		__asm__ volatile("" : : "r"(i));
}

APART static void by_caller(void)
{
	void *block = malloc(100);
	__asm__ volatile("" : : "r"(block) : "memory");
	free(block);
	made++;
}

static void *call(void *unused)
{
	(void)unused;
	for (long left = of_a_thread; left && now() < until; left -= 50)
		for (int i = 0; i < 50; i++) {
			turn(WORK);
			by_caller();
		}
	return NULL;
}

static void *compute(void *unused)
{
	(void)unused;
	while (now() < until)
		turn(100000);
	return NULL;
}

int main(int argc, char **argv)
{
	char line[64];
	pthread_t thread[64], caller;
	int computing = argc > 1 ? atoi(argv[1]) : 7;
	double seconds = argc > 2 ? atof(argv[2]) : 3;
	of_a_thread = argc > 3 ? atol(argv[3]) : -1;
	if (computing < 0 || computing > 64 || !of_a_thread || of_a_thread % 50 > 0)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	until = now() + seconds;
	for (int i = 0; i < computing; i++)
		if (pthread_create(&thread[i], NULL, compute, NULL))
			return 1;
	do {
		if (pthread_create(&caller, NULL, call, NULL))
			return 1;
		pthread_join(caller, NULL);
	} while (now() < until);
	for (int i = 0; i < computing; i++)
		pthread_join(thread[i], NULL);
	printf("%ld\n", made);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
