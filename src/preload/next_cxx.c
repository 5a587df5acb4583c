/* SPDX-License-Identifier: Apache-2.0 */
/*
 * next_cxx.c - operator new and delete where the global scope has none behind ours: a C program with a C++ plugin loaded
 * RTLD_LOCAL. The plugin would have called its own definition, or that of the runtime which it brought along; both are
 * found through its handle, once, and remembered by the object that calls.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "preload/next.h"

extern int _dl_find_object(void *pc, struct dl_find_object *result) __attribute__((weak));

#define OBJECTS 64u

/* @seq is even while the rest stands still; 0: never used. */
static struct object {
	uint32_t seq;
	uint32_t dead; /* unloaded: may be used for another one */
	struct cxx_own own;
} objects[OBJECTS];

static const struct link_map *object_of(uint64_t pc, uintptr_t *lo)
{
	*lo = 0;
	if (_dl_find_object) {
		struct dl_find_object found;
		if (_dl_find_object((void *)pc, &found) != 0)
			return NULL;
		*lo = (uintptr_t)found.dlfo_map_start;
		return found.dlfo_link_map;
	}
	Dl_info info;
	struct link_map *map = NULL;
	if (!dladdr1((const void *)pc, &info, (void **)&map, RTLD_DL_LINKMAP))
		return NULL;
	*lo = (uintptr_t)info.dli_fbase;
	return map;
}

static void look_in(void *handle, struct cxx_own *own, const struct code_range *ours)
{
	for (int i = 0; i < CXX_NEW_MAX; i++) {
		uintptr_t at = (uintptr_t)dlsym(handle, cxx_new_names[i]);
		if (!own->cxx_new[i] && at - ours->lo >= ours->hi - ours->lo)
			memcpy(&own->cxx_new[i], &at, sizeof(at));
	}
	for (int i = 0; i < CXX_DELETE_MAX; i++) {
		uintptr_t at = (uintptr_t)dlsym(handle, cxx_delete_names[i]);
		if (!own->cxx_delete[i] && at - ours->lo >= ours->hi - ours->lo)
			memcpy(&own->cxx_delete[i], &at, sizeof(at));
	}
}

static void resolve(struct cxx_own *own)
{
	static const char *const runtimes[] = { "libstdc++.so.6", "libc++abi.so.1", "libc++.so.1" };
	struct code_range ours = next_code((const void *)next_cxx_of);
	const struct link_map *map = own->map;
	/* a proper handle: an object that came as a dependency has no scope of its own before */
	void *self_handle =
		map && map->l_name[0] ? dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY) : NULL;
	if (self_handle) {
		look_in(self_handle, own, &ours);
		if (next.dlclose)
			next.dlclose(
				self_handle); /* who calls is loaded, and so is what it needs */
	}
	for (size_t r = 0; r < sizeof(runtimes) / sizeof(runtimes[0]) && !own->cxx_new[NEW]; r++) {
		/* the handle is kept: the functions must not go away under the table */
		void *handle = dlopen(runtimes[r], RTLD_NOLOAD | RTLD_LAZY);
		if (handle)
			look_in(handle, own, &ours);
	}
	if (own->cxx_new[NEW])
		own->code = next_code((const void *)own->cxx_new[NEW]);
	dlerror();
	dlerror();
}

const struct cxx_own *next_cxx_of(uint64_t pc, struct cxx_own *spare)
{
	uintptr_t lo;
	const struct link_map *map = object_of(pc, &lo);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct object *o = &objects[i];
		uint32_t seq = __atomic_load_n(&o->seq, __ATOMIC_ACQUIRE);
		if (!seq)
			break;
		if (!(seq & 1) && o->own.map == map && o->own.lo == lo &&
		    !__atomic_load_n(&o->dead, __ATOMIC_ACQUIRE))
			return &o->own;
	}
	*spare = (struct cxx_own){ .map = map, .lo = lo };
	resolve(spare);
	/* no lock: whoever waits for one may hold the loader's. Two entries for one object do no harm. */
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct object *o = &objects[i];
		uint32_t seq = __atomic_load_n(&o->seq, __ATOMIC_ACQUIRE);
		if ((seq & 1) || (seq && !__atomic_load_n(&o->dead, __ATOMIC_ACQUIRE)) ||
		    !__atomic_compare_exchange_n(&o->seq, &seq, seq + 1, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		o->own = *spare;
		__atomic_store_n(&o->dead, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&o->seq, seq + 2, __ATOMIC_RELEASE);
		return &o->own;
	}
	return spare;
}

void next_cxx_closed(void)
{
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct object *o = &objects[i];
		uintptr_t lo;
		if (!__atomic_load_n(&o->seq, __ATOMIC_ACQUIRE))
			break;
		if (o->own.map && object_of(o->own.lo, &lo) != o->own.map)
			__atomic_store_n(&o->dead, 1, __ATOMIC_RELEASE);
	}
}
