/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outlived.c - a process that goes on without its main thread. usage: outlived MIB [LIBBYTELEDGER]
 * A second thread touches MIB, then "ready" is printed. After a byte on stdin the main thread ends; the other one, with
 * LIBBYTELEDGER, prints the breakdown of the process, then "alone". Ends with stdin, and status 3.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_t first;
static char **arguments;

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		exit(1);
}

static void *go_on(void *arg)
{
	size_t bytes = strtoul(arguments[1], NULL, 10) << 20;
	char byte, *memory = malloc(bytes);
	(void)arg;
	if (!memory)
		exit(1);
	memset(memory, 1, bytes);
	say("ready\n");
	if (read(0, &byte, 1) == 1) {
		int (*breakdown)(int, int) = NULL;
		pthread_cancel(first);
		pthread_join(first, NULL);
		if (arguments[2]) {
			void *library = dlopen(arguments[2], RTLD_NOW), *found = NULL;
			if (library)
				found = dlsym(library, "byteledger_breakdown");
			memcpy(&breakdown, &found, sizeof(found));
			if (!breakdown || breakdown(1, 0) < 0)
				say("no breakdown\n");
		}
		say("alone\n");
		while (read(0, &byte, 1) == 1)
			;
	}
	exit(3);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc < 2)
		return 2;
	arguments = argv;
	first = pthread_self();
	if (pthread_create(&thread, NULL, go_on, NULL))
		return 1;
	for (;;)
		pause();
}
