/* SPDX-License-Identifier: Apache-2.0 */
/*
 * next_cxx.c - operator new and delete where the global scope has none behind ours: a C program
 * with a C++ plugin loaded RTLD_LOCAL. The plugin would have called its own definition, or that of
 * the runtime which it brought along; both are found through what it needs, once, and remembered by
 * the object that calls.
 */
#include <string.h>

#include "preload/next.h"

#define OBJECTS 2048u /* a power of two; where there are more such plugins, each call looks anew */

/* @seq is even while the rest stands still; 0: never used. */
static struct object {
	uint32_t seq;
	/* unloaded: may be used for another one */
	uint32_t dead;
	/* of the object that @own.code is of */
	const void *code_map;
	struct cxx_own own;
} objects[OBJECTS];
static uint32_t any; /* is there */

/* Return: 1 everything was looked at, 0 the loader's books changed meanwhile. */
static int resolve(const struct link_map *map, struct cxx_own *own)
{
	static const char *const runtimes[] = { "libstdc++.so.6", "libc++abi.so.1", "libc++.so.1",
						NULL };
	struct next_wanted wanted[CXX_NEW_MAX + CXX_DELETE_MAX];
	for (int i = 0; i < CXX_NEW_MAX; i++)
		wanted[i] = (struct next_wanted){ cxx_new_names[i], 0 };
	for (int i = 0; i < CXX_DELETE_MAX; i++)
		wanted[CXX_NEW_MAX + i] = (struct next_wanted){ cxx_delete_names[i], 0 };
	int whole = next_find(map, wanted, CXX_NEW_MAX + CXX_DELETE_MAX, runtimes);
	for (int i = 0; i < CXX_NEW_MAX; i++)
		memcpy(&own->cxx_new[i], &wanted[i].at, sizeof(wanted[i].at));
	for (int i = 0; i < CXX_DELETE_MAX; i++)
		memcpy(&own->cxx_delete[i], &wanted[CXX_NEW_MAX + i].at, sizeof(wanted[i].at));
	if (own->cxx_new[NEW])
		own->code = next_code((const void *)own->cxx_new[NEW]);
	return whole;
}

static struct object *object_at(uintptr_t lo, uint32_t nth)
{
	uint32_t hash = (uint32_t)(((lo >> 12) * 0x9e3779b97f4a7c15ULL) >> 32);
	return &objects[(hash + nth) & (OBJECTS - 1)];
}

const struct cxx_own *next_cxx_of(uint64_t pc, struct cxx_own *spare)
{
	uintptr_t lo;
	const struct link_map *map = next_object((const void *)pc, &lo);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct object *o = object_at(lo, i);
		uint32_t seq = __atomic_load_n(&o->seq, __ATOMIC_ACQUIRE);
		if (!seq)
			break;
		if (!(seq & 1) && o->own.map == map && o->own.lo == lo &&
		    !__atomic_load_n(&o->dead, __ATOMIC_ACQUIRE))
			return &o->own;
	}
	*spare = (struct cxx_own){ .map = map, .lo = lo };
	if (!resolve(map, spare))
		return spare;
	uintptr_t code_lo;
	const void *code_map =
		spare->code.lo ? next_object((const void *)spare->code.lo, &code_lo) : NULL;
	/*
	 * no lock: whoever waits for one may hold the loader's. Two entries for one object do no
	 * harm.
	 */
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct object *o = object_at(lo, i);
		uint32_t seq = __atomic_load_n(&o->seq, __ATOMIC_ACQUIRE);
		if ((seq & 1) || (seq && !__atomic_load_n(&o->dead, __ATOMIC_ACQUIRE)) ||
		    !__atomic_compare_exchange_n(&o->seq, &seq, seq + 1, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&any, 1, __ATOMIC_RELAXED);
		o->own = *spare;
		o->code_map = code_map;
		__atomic_store_n(&o->dead, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&o->seq, seq + 2, __ATOMIC_RELEASE);
		return &o->own;
	}
	return spare;
}

void next_cxx_closed(void)
{
	for (uint32_t i = 0; __atomic_load_n(&any, __ATOMIC_RELAXED) && i < OBJECTS; i++) {
		struct object *o = &objects[i];
		uintptr_t lo;
		if (!__atomic_load_n(&o->seq, __ATOMIC_ACQUIRE) ||
		    __atomic_load_n(&o->dead, __ATOMIC_ACQUIRE))
			continue;
		if ((o->own.map && next_object((const void *)o->own.lo, &lo) != o->own.map) ||
		    (o->code_map && next_object((const void *)o->own.code.lo, &lo) != o->code_map))
			__atomic_store_n(&o->dead, 1, __ATOMIC_RELEASE);
	}
}
