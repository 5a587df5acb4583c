/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc.h - what the library takes of the C library beyond what glibc 2.17 shows in libc.so.6: a
 * file that was built on a newer system has to load on an older one. Functions that were other
 * libraries' before 2.34 are taken by their old versions, and weakly: programs without libdl and
 * libpthread have none there. What came later is looked up.
 */
#ifndef PRELOAD_LIBC_H
#define PRELOAD_LIBC_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include "preload/sys.h"

#ifdef BYTELEDGER_LIBRARY
#pragma weak dlsym
#pragma weak dlerror
#pragma weak pthread_setspecific
#pragma weak pthread_key_delete
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5\n"
	".symver dlerror, dlerror@GLIBC_2.2.5\n"
	".symver pthread_setspecific, pthread_setspecific@GLIBC_2.2.5\n"
	".symver pthread_key_delete, pthread_key_delete@GLIBC_2.2.5\n");
#endif

/** libc_has() - whether a function of the above is there. */
#ifdef BYTELEDGER_LIBRARY
#define libc_has(name) ((name) != NULL)
#else
#define libc_has(name) 1
#endif

/**
 * libc_find_object() - _dl_find_object(), which takes no lock; NULL before glibc 2.35. Not by a
 * weak reference: its version would have to be there, or an older loader says on the program's
 * stderr that it is not. Any thread, in a hook too.
 */
typedef int (*libc_find_object_fn)(void *pc, struct dl_find_object *result);
extern struct libc_late {
	libc_find_object_fn find_object;
	int known;
} libc_late HIDDEN;
void libc_look_late(void) HIDDEN;

static inline libc_find_object_fn libc_find_object(void)
{
	if (unlikely(!__atomic_load_n(&libc_late.known, __ATOMIC_ACQUIRE)))
		libc_look_late();
	return libc_late.find_object;
}

#endif
