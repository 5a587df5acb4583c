/* SPDX-License-Identifier: Apache-2.0 */
/* huge.h - large tables that are read in no order: pages of 2 MiB spare them faults and lookups of addresses. */
#ifndef BASE_HUGE_H
#define BASE_HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_BYTES (2u << 20)

/**
 * huge_advise() - ask for huge pages in [@at, @at + @bytes), as far as whole ones lie in it. A wish: where the kernel has none
 * it goes on with small ones. Any memory; O(1).
 */
static inline void huge_advise(void *at, size_t bytes)
{
	uintptr_t from = ((uintptr_t)at + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1);
	uintptr_t to = ((uintptr_t)at + bytes) & ~(uintptr_t)(HUGE_BYTES - 1);
	if (from < to)
		madvise((void *)from, to - from, MADV_HUGEPAGE);
}

#endif
