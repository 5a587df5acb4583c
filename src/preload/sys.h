/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys.h - raw system calls: errno stays untouched, no cancellation point, nothing of libc that
 * could be interposed.
 *
 * Paths go through the *at() forms only: filters that a program inherits often know nothing else,
 * and kill. That a filter is there at the start does not stop us from making calls (every container
 * has one): what the hooks call later is in the default set of all of them. One that the program
 * makes for itself does (struct process, @seccomp).
 */
#ifndef PRELOAD_SYS_H
#define PRELOAD_SYS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "unwind/likely.h"

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long rc;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return rc;
#else
#error "byteledger: the preload library is written for x86-64 so far"
#endif
}

/**
 * sysN() - a system call with N arguments. Return: the kernel's value, negative errno on failure.
 */
#define sys0(nr) sys6(nr, 0, 0, 0, 0, 0, 0)
#define sys1(nr, a) sys6(nr, (long)(a), 0, 0, 0, 0, 0)
#define sys2(nr, a, b) sys6(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define sys3(nr, a, b, c) sys6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys4(nr, a, b, c, d) sys6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys5(nr, a, b, c, d, e) sys6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/** sys_failed() - whether a value returned by a system call is a negative errno. */
static inline int sys_failed(long rc)
{
	return (unsigned long)rc > -4096UL;
}

/**
 * block_signals() - all of them, for what no handler may leave half way. Return: for
 * unblock_signals().
 */
static inline uint64_t block_signals(void)
{
	uint64_t all = ~0ULL, before = 0;
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
	return before;
}

static inline void unblock_signals(uint64_t before)
{
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
}

/**
 * the_clock - the C library's own clock_gettime(), which the recorder's clock is too: a library may
 * put another in front.
 */
extern int (*the_clock)(clockid_t, struct timespec *) __attribute__((visibility("hidden")));

/**
 * now_ns() - CLOCK_MONOTONIC; through the vDSO: no system call, which matters under seccomp. 0
 * where it fails.
 */
static inline uint64_t now_ns(void)
{
	struct timespec ts;
	if (the_clock(CLOCK_MONOTONIC, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/** cycles() - the cycle counter of wire/heap.h. */
static inline uint64_t cycles(void)
{
	return __builtin_ia32_rdtsc();
}

/** cpu_pause() - in a loop that waits for another thread. */
static inline void cpu_pause(void)
{
	__builtin_ia32_pause();
}

/** barrier() - the compiler keeps the order: a signal handler on this thread sees it. */
#define barrier() __asm__ volatile("" ::: "memory")
#define HIDDEN __attribute__((visibility("hidden")))
#define COLD __attribute__((noinline, cold))
/*
 * What all calls run stands together, with UNWIND_HOT: a large program has pushed it out of its
 * caches since the last one.
 */
#define HOT __attribute__((hot))

#endif
