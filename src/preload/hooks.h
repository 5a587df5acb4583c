/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - the C side of the entry stubs. Not called by C code, but for unit tests, which put a
 * scripted allocator into the table of next definitions.
 */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/sys.h"

/*
 * The caller's stack pointer after the return, rbp and rbx; the return address is the word below
 * sp.
 */
#define REGS uint64_t sp, uint64_t bp, uint64_t bx

/* How far above its own frame malloc may find the operator new that called it. */
#define OUTER_REACH 4096u

HOT void *hook_malloc(size_t size, REGS) HIDDEN;
void *hook_calloc(size_t count, size_t each, REGS) HIDDEN;
void *hook_realloc(void *old, size_t size, REGS) HIDDEN;
void *hook_reallocarray(void *old, size_t count, size_t each, REGS) HIDDEN;
HOT void hook_free(void *block, REGS) HIDDEN;
void hook_cfree(void *block, REGS) HIDDEN;
void hook_free_sized(void *block, size_t size, REGS) HIDDEN;
void hook_free_aligned_sized(void *block, size_t align, size_t size, REGS) HIDDEN;
int hook_posix_memalign(void **to, size_t align, size_t size, REGS) HIDDEN;
void *hook_memalign(size_t align, size_t size, REGS) HIDDEN;
void *hook_aligned_alloc(size_t align, size_t size, REGS) HIDDEN;
void *hook_valloc(size_t size, REGS) HIDDEN;
void *hook_pvalloc(size_t size, REGS) HIDDEN;

HOT void *hook_new(size_t size, REGS) HIDDEN;
void *hook_new_nt(size_t size, uintptr_t nothrow, REGS) HIDDEN;
void *hook_new_al(size_t size, uintptr_t align, REGS) HIDDEN;
void *hook_new_al_nt(size_t size, uintptr_t align, uintptr_t nothrow, REGS) HIDDEN;
HOT void *hook_newa(size_t size, REGS) HIDDEN;
void *hook_newa_nt(size_t size, uintptr_t nothrow, REGS) HIDDEN;
void *hook_newa_al(size_t size, uintptr_t align, REGS) HIDDEN;
void *hook_newa_al_nt(size_t size, uintptr_t align, uintptr_t nothrow, REGS) HIDDEN;
HOT void hook_del(void *block, REGS) HIDDEN;
HOT void hook_del_sz(void *block, uintptr_t size, REGS) HIDDEN;
void hook_del_nt(void *block, uintptr_t nothrow, REGS) HIDDEN;
void hook_del_al(void *block, uintptr_t align, REGS) HIDDEN;
void hook_del_sz_al(void *block, uintptr_t size, uintptr_t align, REGS) HIDDEN;
void hook_del_al_nt(void *block, uintptr_t align, uintptr_t nothrow, REGS) HIDDEN;
HOT void hook_dela(void *block, REGS) HIDDEN;
HOT void hook_dela_sz(void *block, uintptr_t size, REGS) HIDDEN;
void hook_dela_nt(void *block, uintptr_t nothrow, REGS) HIDDEN;
void hook_dela_al(void *block, uintptr_t align, REGS) HIDDEN;
void hook_dela_sz_al(void *block, uintptr_t size, uintptr_t align, REGS) HIDDEN;
void hook_dela_al_nt(void *block, uintptr_t align, uintptr_t nothrow, REGS) HIDDEN;

void *hook_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off, REGS) HIDDEN;
int hook_munmap(void *at, size_t bytes, REGS) HIDDEN;
/* @r9 is whatever stood in the register of a sixth argument: the entry hands six on */
void *hook_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to, uintptr_t r9,
		  REGS) HIDDEN;
int hook_brk(void *at, REGS) HIDDEN;
void *hook_sbrk(intptr_t by, REGS) HIDDEN;

#endif
