/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/next.h"
#include "preload/libc.h"
#include "preload/process.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct next next;
void *next_syscall;
void *next_start_main;
void *next_dlopen;
uintptr_t allocator_lo, allocator_hi;
struct code_range cxx_code;
struct code_range next_carried[NEXT_CARRIED_MAX];
uint8_t cxx_new_replaced[CXX_NEW_MAX], cxx_delete_replaced[CXX_DELETE_MAX];
struct code_range own_code;
int allocator_is_libc;
int (*the_clock)(clockid_t, struct timespec *) = clock_gettime;

const char *const cxx_new_names[CXX_NEW_MAX] = {
	[NEW] = "_Znwm",
	[NEW_NT] = "_ZnwmRKSt9nothrow_t",
	[NEW_AL] = "_ZnwmSt11align_val_t",
	[NEW_AL_NT] = "_ZnwmSt11align_val_tRKSt9nothrow_t",
	[NEWA] = "_Znam",
	[NEWA_NT] = "_ZnamRKSt9nothrow_t",
	[NEWA_AL] = "_ZnamSt11align_val_t",
	[NEWA_AL_NT] = "_ZnamSt11align_val_tRKSt9nothrow_t",
};
const char *const cxx_delete_names[CXX_DELETE_MAX] = {
	[DEL] = "_ZdlPv",
	[DEL_SZ] = "_ZdlPvm",
	[DEL_NT] = "_ZdlPvRKSt9nothrow_t",
	[DEL_AL] = "_ZdlPvSt11align_val_t",
	[DEL_SZ_AL] = "_ZdlPvmSt11align_val_t",
	[DEL_AL_NT] = "_ZdlPvSt11align_val_tRKSt9nothrow_t",
	[DELA] = "_ZdaPv",
	[DELA_SZ] = "_ZdaPvm",
	[DELA_NT] = "_ZdaPvRKSt9nothrow_t",
	[DELA_AL] = "_ZdaPvSt11align_val_t",
	[DELA_SZ_AL] = "_ZdaPvmSt11align_val_t",
	[DELA_AL_NT] = "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

/*
 * What objects call by @name where the loader leads nobody to us. Not by dlsym(): to that a program
 * at a fixed address shows its own way to the function, which leads to our hook.
 */
static void *look_beside(const char *name)
{
	void *found = next_first(name);
	return (uintptr_t)found - own_code.lo < own_code.hi - own_code.lo ? NULL : found;
}

static void look(void *handle, void *slot, const char *name)
{
	if (process.injected) {
		void *beside = look_beside(name);
		memcpy(slot, &beside, sizeof(beside));
		return;
	}
	void *found = libc_has(dlsym) ? dlsym(handle, name) : next_behind(name);
	memcpy(slot, &found, sizeof(found));
}

/*
 * As look() behind us, where there may be none: then dlsym() would ask the program's allocator for
 * an error text, and release that, before main() maybe, when it is not ready (measured: GCL's
 * free() crashes then).
 */
static void look_if_there(void *slot, const char *name)
{
	uintptr_t lo;
	const struct link_map *map = next_object((const void *)look_if_there, &lo);
	if (process.injected) {
		look(NULL, slot, name);
		return;
	}
	while (map && (map = map->l_next) && !next_has(map, name))
		;
	if (map)
		look(RTLD_NEXT, slot, name);
}

/*
 * Whether the first definition of @name that objects find is not ours; where the loader leads
 * nobody to us, not the runtime's, whose other form @code is.
 */
static uint8_t replaced(const char *name, const void *code)
{
	if (process.injected)
		return next_code(look_beside(name)).lo != next_code(code).lo;
	void *found = libc_has(dlsym) ? dlsym(RTLD_DEFAULT, name) : next_first(name);
	return found && (uintptr_t)found - own_code.lo >= own_code.hi - own_code.lo;
}

/*
 * Whether @code, one of the operators behind ours, calls others: the runtime's do, an allocator's
 * own do not.
 */
static int calls_others(const void *code)
{
	return (uintptr_t)code - allocator_lo >= allocator_hi - allocator_lo;
}

/*
 * The runtime's forms for arrays, without exceptions and with a size call the plain one, aligned
 * ones theirs.
 */
static void find_replaced(void)
{
	for (int i = 0; i < CXX_NEW_MAX; i++) {
		const void *code = (const void *)next.cxx_new[i];
		cxx_new_replaced[i] = calls_others(code) &&
				      (replaced(cxx_new_names[i & ~(NEWA | NEW_NT)], code) ||
				       replaced(cxx_new_names[i & ~NEW_NT], code));
	}
	for (int i = 0; i < CXX_DELETE_MAX; i++) {
		const void *code = (const void *)next.cxx_delete[i];
		int plain = i % DELA < DEL_AL ? DEL : DEL_AL;
		cxx_delete_replaced[i] =
			calls_others(code) &&
			(replaced(cxx_delete_names[plain], code) ||
			 replaced(cxx_delete_names[plain + i / DELA * DELA], code));
	}
}

static void find_clock(void)
{
	static const char *const nowhere_else[] = { NULL };
	struct next_wanted wanted = { "clock_gettime", 0 };
	uintptr_t lo;
	next_find(next_object((const void *)next.fork, &lo), &wanted, 1, nowhere_else);
	if (wanted.at)
		memcpy(&the_clock, &wanted.at, sizeof(the_clock));
}

void next_resolve(void)
{
	own_code = next_code((const void *)next_resolve);
	/*
	 * First what an allocator calls when it starts, because a name that is missing makes
	 * dlsym() allocate (an error text); for the same reason the names that may be missing come
	 * last, and are asked for only where they are.
	 */
	look(RTLD_NEXT, &next.mmap, "mmap");
	look(RTLD_NEXT, &next.munmap, "munmap");
	look(RTLD_NEXT, &next.mremap, "mremap");
	look(RTLD_NEXT, &next.mprotect, "mprotect");
	look(RTLD_NEXT, &next.madvise, "madvise");
	look(RTLD_NEXT, &next.shmdt, "shmdt");
	look(RTLD_NEXT, &next.shmat, "shmat");
	look(RTLD_NEXT, &next.brk, "brk");
	look(RTLD_NEXT, &next.sbrk, "sbrk");
	look(RTLD_NEXT, &next_syscall, "syscall");
	look(RTLD_NEXT, &next_start_main, "__libc_start_main");
	look(RTLD_NEXT, &next.prctl, "prctl");
	look(RTLD_NEXT, &next.malloc, "malloc");
	look(RTLD_NEXT, &next.free, "free");
	look(RTLD_NEXT, &next.calloc, "calloc");
	look(RTLD_NEXT, &next.realloc, "realloc");
	look(RTLD_NEXT, &next.posix_memalign, "posix_memalign");
	look(RTLD_NEXT, &next.memalign, "memalign");
	look(RTLD_NEXT, &next.aligned_alloc, "aligned_alloc");
	look(RTLD_NEXT, &next.valloc, "valloc");
	look(RTLD_NEXT, &next.pvalloc, "pvalloc");
	look(RTLD_NEXT, &next_dlopen, "dlopen");
	look(RTLD_NEXT, &next.dlclose, "dlclose");
	look(RTLD_NEXT, &next.key_create, "pthread_key_create");
	look(RTLD_NEXT, &next.exit_now, "_exit");
	look(RTLD_NEXT, &next.exit_c99, "_Exit");
	look(RTLD_NEXT, &next.quick_exit, "quick_exit");
	look(RTLD_NEXT, &next.execve, "execve");
	look(RTLD_NEXT, &next.execv, "execv");
	look(RTLD_NEXT, &next.execvp, "execvp");
	look(RTLD_NEXT, &next.execvpe, "execvpe");
	look(RTLD_NEXT, &next.fexecve, "fexecve");
	look(RTLD_NEXT, &next.execveat, "execveat");
	look(RTLD_NEXT, &next.fork, "fork");
	look_if_there(&next.pkey_mprotect, "pkey_mprotect");
	look_if_there(&next.free_sized, "free_sized");
	look_if_there(&next.free_aligned_sized, "free_aligned_sized");
	look_if_there(&next.register_frame, "__register_frame");
	look_if_there(&next.deregister_frame, "__deregister_frame");
	for (int i = 0; i < CXX_NEW_MAX; i++)
		look_if_there(&next.cxx_new[i], cxx_new_names[i]);
	for (int i = 0; i < CXX_DELETE_MAX; i++)
		look_if_there(&next.cxx_delete[i], cxx_delete_names[i]);

	struct code_range allocator = next_code((const void *)next.malloc);
	struct code_range libc = next_code((const void *)next.fork);
	allocator_lo = allocator.lo;
	allocator_hi = allocator.hi;
	allocator_is_libc = libc.lo && allocator.lo == libc.lo;
	find_clock();
	find_replaced();
	if (next.cxx_new[NEW])
		cxx_code = next_code((const void *)next.cxx_new[NEW]);
}

/* ---- boot pool ---- */

char boot_pool[BOOT_BYTES] __attribute__((aligned(64)));
static size_t boot_used;

void *boot_alloc(size_t size, size_t align)
{
	size_t old, start, end;
	if (align < 16)
		align = 16;
	do {
		old = __atomic_load_n(&boot_used, __ATOMIC_RELAXED);
		/*
		 * 16 bytes in front hold the size, for realloc(); the address is aligned, not the
		 * place in the pool
		 */
		if (__builtin_add_overflow((uintptr_t)boot_pool + old, 16 + align - 1, &start))
			return NULL;
		start = (start & ~(align - 1)) - (uintptr_t)boot_pool;
		if (__builtin_add_overflow(start, size, &end) || end > BOOT_BYTES)
			return NULL;
	} while (!__atomic_compare_exchange_n(&boot_used, &old, end, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	memcpy(boot_pool + start - 16, &size, sizeof(size));
	return boot_pool + start;
}

size_t boot_size(const void *block)
{
	size_t size;
	memcpy(&size, (const char *)block - 16, sizeof(size));
	return size;
}
