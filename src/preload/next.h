/* SPDX-License-Identifier: Apache-2.0 */
/*
 * next.h - the definitions behind ours: whatever the program would have called without the library.
 *
 * Never glibc's by name: a preloaded or linked tcmalloc, jemalloc or mimalloc stays in place. Unit
 * tests put a scripted allocator into the table.
 */
#ifndef PRELOAD_NEXT_H
#define PRELOAD_NEXT_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/sys.h"

/*
 * The forms of operator new and delete, in the order of cxx_new_names[] and cxx_delete_names[] in
 * next.c.
 */
enum cxx_new { NEW, NEW_NT, NEW_AL, NEW_AL_NT, NEWA, NEWA_NT, NEWA_AL, NEWA_AL_NT, CXX_NEW_MAX };
enum cxx_delete {
	DEL,
	DEL_SZ,
	DEL_NT,
	DEL_AL,
	DEL_SZ_AL,
	DEL_AL_NT,
	DELA,
	DELA_SZ,
	DELA_NT,
	DELA_AL,
	DELA_SZ_AL,
	DELA_AL_NT,
	CXX_DELETE_MAX
};

struct code_range {
	uintptr_t lo, hi;
};

struct next {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	/* C23: NULL where the next allocator has none */
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	/* every form takes at most three words; a form that is missing stays NULL */
	void *(*cxx_new[CXX_NEW_MAX])(size_t, uintptr_t, uintptr_t);
	void (*cxx_delete[CXX_DELETE_MAX])(void *, uintptr_t, uintptr_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*mprotect)(void *, size_t, int);
	int (*pkey_mprotect)(void *, size_t, int, int);
	int (*madvise)(void *, size_t, int);
	int (*shmdt)(const void *);
	void *(*shmat)(int, const void *, int);
	int (*brk)(void *);
	void *(*sbrk)(intptr_t);
	int (*dlclose)(void *);
	int (*prctl)(int, ...);
	/* pthread_key_create */
	int (*key_create)(unsigned *, void (*)(void *));
	/* _exit */
	void (*exit_now)(int);
	/* _Exit */
	void (*exit_c99)(int);
	void (*quick_exit)(int);
	int (*execve)(const char *, char *const *, char *const *);
	int (*execv)(const char *, char *const *);
	int (*execvp)(const char *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*fexecve)(int, char *const *, char *const *);
	int (*execveat)(int, const char *, char *const *, char *const *, int);
	pid_t (*fork)(void);
	void (*register_frame)(void *);
	void (*deregister_frame)(void *);
};
extern struct next next HIDDEN;
extern void *next_syscall HIDDEN; /* apart: the entry code jumps through them */
extern void *next_start_main HIDDEN;
extern void *next_dlopen HIDDEN;

/*
 * Code of the allocator and of the C++ runtime: a hooked call from in there is part of another one.
 */
extern uintptr_t allocator_lo HIDDEN, allocator_hi HIDDEN;
extern struct code_range cxx_code HIDDEN;
#define NEXT_CARRIED_MAX 4
extern struct code_range next_carried[NEXT_CARRIED_MAX] HIDDEN; /* of allocators as in own.h */
/*
 * Forms that lead into an operator which the program brings itself: its calls of malloc and free
 * count, as they do where that operator is called directly. What it returns need not be what malloc
 * gave it.
 */
extern uint8_t cxx_new_replaced[CXX_NEW_MAX] HIDDEN;
extern uint8_t cxx_delete_replaced[CXX_DELETE_MAX] HIDDEN;
extern struct code_range own_code HIDDEN; /* of this library */
extern int allocator_is_libc HIDDEN;

/**
 * next_resolve() - fill the table; once, under the start lock. Leaves dlerror() with a name that
 * was not found: whoever calls it has the text translated, and the first allocation may be made by
 * what holds the lock of the translations.
 */
void next_resolve(void) HIDDEN;

/* ---- next_find.c: without a lock, in any hook ---- */

/**
 * next_object() - the loader's book of the object that holds @pc, and where it begins; NULL where
 * there is none.
 */
const struct link_map *next_object(const void *pc, uintptr_t *lo) HIDDEN;

/**
 * next_behind(), next_first() - what dlsym() says of RTLD_NEXT and RTLD_DEFAULT in the library
 * itself, by the tables of the objects loaded at the start. NULL: it is nowhere.
 */
void *next_behind(const char *name) HIDDEN;
void *next_first(const char *name) HIDDEN;

/**
 * next_code() - the range of the object that holds @code; empty where the loader does not know it.
 */
struct code_range next_code(const void *code) HIDDEN;

struct next_wanted {
	const char *name;
	/* 0: not found */
	uintptr_t at;
};

/**
 * next_find() - what the object @from gets for @count names beside the global scope: its own
 * definitions, then those of what it needs, never ours; where the first name is not there, of the
 * objects called @last (ends with NULL). Return: 1 everything was looked at; 0 the loader's books
 * changed meanwhile, so that what is missing may exist.
 */
int next_find(const struct link_map *from, struct next_wanted *wanted, unsigned count,
	      const char *const *last) HIDDEN;

/**
 * next_has_preinit() - whether the executable, which holds @code, has functions that run before all
 * constructors.
 */
int next_has_preinit(const void *code) HIDDEN;
/** next_has() - whether @map shows a definition of @name. */
int next_has(const struct link_map *map, const char *name) HIDDEN;
/** next_symbols() - hand all symbols of @map's dynamic table, and their names, to @each. */
void next_symbols(const struct link_map *map,
		  void (*each)(void *ctx, const ElfW(Sym) * sym, const char *name),
		  void *ctx) HIDDEN;

/**
 * next_deepbind() - put ours where the definitions behind ours are found: an object that is loaded
 * with RTLD_DEEPBIND looks into what it needs before the global scope, and would pass us by. Once,
 * and only for programs that load such objects; what was bound before stays as it is. Not in a
 * hook: it makes pages of those objects' symbol tables writable for a moment.
 */
void next_deepbind(void) HIDDEN;
/** next_forked() - in the child of a fork: nobody is at that. */
void next_forked(void) HIDDEN;

/**
 * next_frames() - look for __register_frame as the object that holds @pc finds it, or in any
 * runtime.
 */
void next_frames(const void *pc) HIDDEN;
/** next_frames_closed() - after a dlclose(): forget it where that runtime is gone. */
void next_frames_closed(void) HIDDEN;

extern const char *const cxx_new_names[CXX_NEW_MAX] HIDDEN;
extern const char *const cxx_delete_names[CXX_DELETE_MAX] HIDDEN;

/**
 * What an object outside the global scope calls for operator new and delete; a form that is missing
 * stays NULL.
 */
struct cxx_own {
	/* the loader's book of the object */
	const void *map;
	uintptr_t lo;
	/* of its C++ runtime */
	struct code_range code;
	void *(*cxx_new[CXX_NEW_MAX])(size_t, uintptr_t, uintptr_t);
	void (*cxx_delete[CXX_DELETE_MAX])(void *, uintptr_t, uintptr_t);
};

/**
 * next_cxx_of() - the operators behind ours for code at @pc, where the table has none. Under the
 * hooks' guard; the first time for an object it searches what the object needs, some 50 us. Return:
 * never NULL; @spare only where the answer cannot be remembered.
 */
const struct cxx_own *next_cxx_of(uint64_t pc, struct cxx_own *spare) HIDDEN;
/** next_cxx_closed() - after a dlclose(): forget the objects that are gone. */
void next_cxx_closed(void) HIDDEN;

/* ---- the boot pool: serves what dlsym() asks for before the table is filled ---- */

/**
 * boot_alloc() - @align a power of two (at least 16 is used); zeroed, never reused. NULL when the
 * pool is empty.
 */
void *boot_alloc(size_t size, size_t align) HIDDEN;
/** boot_size() - the size that was asked for; @block must be of the pool. */
size_t boot_size(const void *block) HIDDEN;

#define BOOT_BYTES (64u << 10)
extern char boot_pool[BOOT_BYTES] HIDDEN;

/** boot_owns() - whether @block was given out by boot_alloc(). */
static inline int boot_owns(const void *block)
{
	return (uintptr_t)block - (uintptr_t)boot_pool < BOOT_BYTES;
}

#endif
