/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_protect.c - calls after which a page of a stack may not be readable any more. The stepper
 * trusts what it found of a thread's stack once; who closes or opens a page of one tells it.
 * Nothing is recorded here.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "preload/next.h"
#include "preload/thread.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#define MADV_GUARD_REMOVE 103
#endif

/* Before the call, for a thread that walks meanwhile, and after it. */
#define CHANGING(at, bytes, call)                                   \
	do {                                                        \
		int told_ = stacks_change((uint64_t)(at), (bytes)); \
		rc = (call);                                        \
		if (unlikely(told_))                                \
			stacks_change((uint64_t)(at), (bytes));     \
	} while (0)

static long answer(long rc)
{
	if (!sys_failed(rc))
		return rc;
	errno = (int)-rc;
	return -1;
}

EXPORT int mprotect(void *at, size_t bytes, int prot)
{
	int rc;
	CHANGING(at, bytes,
		 likely(next.mprotect) ? next.mprotect(at, bytes, prot)
				       : (int)answer(sys3(SYS_mprotect, at, bytes, prot)));
	return rc;
}

/* A key of its own, whose rights are a register: no call tells when it closes what it was given. */
EXPORT int pkey_mprotect(void *at, size_t bytes, int prot, int key)
{
	int rc;
	if (key > 0 && stacks_change((uint64_t)at, bytes)) {
		for (uint32_t i = 0, count = stepper_count(); i < count; i++) {
			struct unwind_thread *stepper = stepper_at(i);
			if (stepper)
				unwind_stack_keyed(stepper);
		}
	}
	CHANGING(at, bytes,
		 next.pkey_mprotect ? next.pkey_mprotect(at, bytes, prot, key)
				    : (int)answer(sys4(SYS_pkey_mprotect, at, bytes, prot, key)));
	return rc;
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
	int rc;
	if (likely(advice != MADV_GUARD_INSTALL && advice != MADV_GUARD_REMOVE))
		return likely(next.madvise) ? next.madvise(at, bytes, advice)
					    : (int)answer(sys3(SYS_madvise, at, bytes, advice));
	CHANGING(at, bytes,
		 likely(next.madvise) ? next.madvise(at, bytes, advice)
				      : (int)answer(sys3(SYS_madvise, at, bytes, advice)));
	return rc;
}

/* How long the segment is the kernel alone knows. */
EXPORT int shmdt(const void *at)
{
	int rc;
	CHANGING(at, 1UL << 40, next.shmdt ? next.shmdt(at) : (int)answer(sys1(SYS_shmdt, at)));
	return rc;
}

EXPORT void *shmat(int id, const void *at, int flags)
{
	void *rc;
	if (!(flags & SHM_REMAP))
		return next.shmat ? next.shmat(id, at, flags)
				  : (void *)answer(sys3(SYS_shmat, id, at, flags));
	CHANGING(at, 1UL << 40,
		 next.shmat ? next.shmat(id, at, flags)
			    : (void *)answer(sys3(SYS_shmat, id, at, flags)));
	return rc;
}

HIDDEN void note_syscall_memory(long nr, long at, long bytes, long third);
HIDDEN void note_syscall_memory(long nr, long at, long bytes, long third)
{
	switch (nr) {
	case SYS_mprotect:
	case SYS_munmap:
	case SYS_pkey_mprotect:
	case SYS_remap_file_pages:
		break;
	case SYS_madvise:
		if (third != MADV_GUARD_INSTALL && third != MADV_GUARD_REMOVE)
			return;
		break;
	case SYS_mremap: /* to where is not seen here */
	case SYS_shmdt:
	case SYS_shmat:
	case 440: /* process_madvise */
		at = 0;
		bytes = INT64_MAX;
		break;
	case SYS_mmap:
		if (!at)
			return;
		break;
	default:
		return;
	}
	/*
	 * where the call ends is not seen either: a thread that is walking now goes on with what it
	 * found
	 */
	stacks_change((uint64_t)at, (uint64_t)bytes);
}
