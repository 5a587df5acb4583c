/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitted PLUGIN - code made here allocates 77 bytes, goes away, and PLUGIN takes its place: there 78 bytes are allocated, by
 * a call that returns to the same address. "elsewhere": the loader put PLUGIN at another place, and nothing was shown.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *(*take_fn)(size_t);

static void *load(const char *path, take_fn *take, uint64_t *after)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		exit(1);
	*take = (take_fn)dlsym(handle, "plugin_take");
	*after = (uint64_t)dlsym(handle, "plugin_after");
	return handle;
}

/* sub $24, %rsp; mov $malloc, %rax; call *%rax; add $24, %rsp; ret: the fourth stands at @after. */
static take_fn make(uint64_t after)
{
	static const uint8_t front[] = { 0x48, 0x83, 0xec, 24, 0x48, 0xb8 },
			     call[] = { 0xff, 0xd0 };
	static const uint8_t back[] = { 0x48, 0x83, 0xc4, 24, 0xc3 };
	void *(*volatile allocate)(size_t) = malloc, *(*target)(size_t) = allocate;
	uint8_t *at = (uint8_t *)after - 16;
	if ((after & 4095) < 16 ||
	    mmap((void *)(after & ~4095UL), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		exit(1);
	memcpy(at, front, 6);
	memcpy(at + 6, &target, 8);
	memcpy(at + 14, call, 2);
	memcpy(at + 16, back, 5);
	return (take_fn)(uintptr_t)at;
}

int main(int argc, char **argv)
{
	take_fn take;
	uint64_t after, again = 0;
	if (argc != 2 || dlclose(load(argv[1], &take, &after)) != 0)
		return 1;
	for (size_t round = 0; round < 2; round++) {
		if (round)
			load(argv[1], &take, &again);
		else
			take = make(after);
		free(take(77 + round));
		if (!round && munmap((void *)(after & ~4095UL), 4096) != 0)
			return 1;
	}
	puts(again == after ? "done" : "elsewhere");
	return 0;
}
