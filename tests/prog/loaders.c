/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loaders HOW N FOLDER - FOLDER holds p0.so .. p7.so, copies of one plugin.
 * callback: code of new objects allocates inside dl_iterate_phdr(), while another thread unloads objects.
 * churn: N loads and unloads, one after the other. The last one allocates and keeps a block of 12345 bytes.
 * again: the same with one of them all the time.
 * between: loads one object, then puts code that no object holds where it lay, then loads it again: blocks of 111, 222
 * and 333 bytes stay.
 * hold: loads N (FOLDER holds as many) that stay, and lets each allocate.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*take_fn)(size_t);
static const char *folder;
static int rounds;
static volatile int done;

static void *load(int i, take_fn *take)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/p%d.so", folder, i);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	*take = (take_fn)dlsym(handle, "plugin_take");
	return handle;
}

static int in_callback(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	usleep(200); /* the other thread is on its way to the loader's lock */
	free((*(take_fn *)arg)(33));
	return 1;
}

static void *iterate(void *arg)
{
	int first = *(int *)arg;
	for (int i = 0; i < rounds; i++) {
		take_fn take;
		void *handle = load(first + i % 2, &take);
		dl_iterate_phdr(in_callback, &take);
		dlclose(handle);
	}
	return NULL;
}

static void *unload(void *arg)
{
	(void)arg;
	for (int i = 0; !done; i++) {
		take_fn take;
		void *handle = load(i % 4, &take);
		free(take(10));
		dlclose(handle);
	}
	return NULL;
}

static int between(void)
{
	/* push %rbp; mov %rsp,%rbp; call *%rsi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3 };
	take_fn take, again;
	void *handle = load(0, &take);
	take(111);
	dlclose(handle);
	char *page = (char *)((uintptr_t)take & ~4095ul);
	char *at = mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at != page)
		return 1;
	at += (uintptr_t)take & 4095;
	memcpy(at, code, sizeof(code));
	((void *(*)(size_t, void *(*)(size_t)))at)(222, malloc);
	munmap(page, 4096);
	load(0, &again);
	again(333);
	return again != take;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	rounds = atoi(argv[2]);
	folder = argv[3];
	if (argv[1][0] == 'b')
		return between();
	if (argv[1][0] == 'h') {
		for (int i = 0; i < rounds; i++) {
			take_fn take;
			load(i, &take);
			take(10);
		}
		return 0;
	}
	if (argv[1][0] == 'a' || (argv[1][0] == 'c' && argv[1][1] == 'h')) {
		int copies = argv[1][0] == 'a' ? 1 : 4;
		for (int i = 0; i < rounds; i++) {
			take_fn take;
			void *handle = load(i % copies, &take);
			void *p = take(i == rounds - 1 ? 12345 : 100);
			if (i < rounds - 1)
				free(p);
			dlclose(handle);
		}
		return 0;
	}
	pthread_t thread[3];
	int first[] = { 4, 6 };
	pthread_create(&thread[0], NULL, unload, NULL);
	pthread_create(&thread[1], NULL, iterate, &first[0]);
	pthread_create(&thread[2], NULL, iterate, &first[1]);
	pthread_join(thread[1], NULL);
	pthread_join(thread[2], NULL);
	done = 1;
	pthread_join(thread[0], NULL);
	puts("done");
	return 0;
}
