/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manners HOW [N] - small things that a library inside a program must not get wrong. Prints on stdout what it computed.
 * blocks: N mallocs that are kept. fd: whether descriptor N is open. plugin: N pairs by operators of the plugin argv[3].
 * take: the plugin FOLDER/argv[3], FOLDER being argv[4], by a relative name; it takes N bytes, which are kept.
 * deep: N times the plugin argv[3], loaded with RTLD_DEEPBIND, frees a block of ours, resizes its own, gives us one.
 * load: the plugin argv[3] is loaded and calls its "ask" between a failed dlsym() and dlerror().
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;
	if (strcmp(how, "blocks") == 0) {
		long sum = 0;
		for (int i = 0; i < n; i++) {
			char *p = malloc(24);
			p[0] = 1;
			sum += p[0];
		}
		printf("%ld\n", sum);
	} else if (strcmp(how, "fd") == 0) {
		puts(fcntl(n, F_GETFD) < 0 ? "closed" : "open");
	} else if (strcmp(how, "plugin") == 0) {
		void *handle = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
		int (*call)(int) = handle ? (int (*)(int))dlsym(handle, "plugin_pool") : NULL;
		if (!call)
			return 3;
		printf("%d\n", call(n));
	} else if (strcmp(how, "take") == 0) {
		void *handle = chdir(argv[4]) == 0 ? dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) : NULL;
		void *(*take)(size_t) =
			handle ? (void *(*)(size_t))dlsym(handle, "plugin_take") : NULL;
		if (!take || chdir("/") != 0)
			return 3;
		puts(take((size_t)n) ? "taken" : "nothing");
	} else if (strcmp(how, "load") == 0) {
		void *handle = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
		void (*ask)(void) = handle ? (void (*)(void))dlsym(handle, "ask") : NULL;
		if (!ask)
			return 3;
		dlsym(handle, "not_there");
		ask();
		puts(dlerror() ? "loaded" : "the error is gone");
	} else if (strcmp(how, "deep") == 0) {
		void *handle = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
		void *(*swap)(void *, size_t) =
			handle ? (void *(*)(void *, size_t))dlsym(handle, "plugin_swap") : NULL;
		if (!swap)
			return 3;
		for (int i = 0; i < n; i++)
			free(swap(malloc(64), 100));
		puts("swapped");
	} else {
		return 2;
	}
	return 0;
}
