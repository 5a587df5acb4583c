/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_chain.h - a program's own list of who called whom, and check_here(), which holds a capture against it. Of one test
 * program, which includes it once.
 */
#ifndef TESTS_UNWIND_CHAIN_H
#define TESTS_UNWIND_CHAIN_H

#include <stdint.h>

#include <dlfcn.h>

#include "unwind_harness.h"

/* dladdr() has to see the functions */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif
#define KEEP __asm__ volatile("" ::: "memory") /* no tail call: the frame stays */
#define LIB ((void *)1)                        /* one or more frames of libraries */

static struct harness harness;
static struct unwind_thread *thread;
static void *chain[70000];
static int depth;
static unsigned checks, wrong;
static uint32_t want_root;
static volatile int sink;

#define ENTER(function) (chain[depth++] = (void *)(function))
#define LEAVE() (depth--)

static void *function_of(uint64_t ip, int *own)
{
	Dl_info info;
	static void *self;
	if (!self) {
		Dl_info me;
		dladdr((void *)&function_of, &me);
		self = me.dli_fbase;
	}
	*own = 0;
	if (!dladdr((void *)(uintptr_t)(ip - 1), &info))
		return NULL;
	*own = info.dli_fbase == self;
	return info.dli_saddr;
}

static void show(const uint64_t *ip, uint32_t n, uint32_t root)
{
	print_message("root %u (wanted %u), %u frames:\n", root, want_root, n);
	for (uint32_t i = 0; i < n && i < 60; i++) {
		Dl_info info = { 0 };
		dladdr((void *)(uintptr_t)(ip[i] - 1), &info);
		print_message("  %lx %s %s\n", ip[i], info.dli_sname ? info.dli_sname : "?",
			      info.dli_fname ? info.dli_fname : "?");
	}
	print_message("  chain:");
	for (int i = depth; i-- > 0 && depth - i < 60;) {
		Dl_info info = { 0 };
		if (chain[i] != LIB)
			dladdr(chain[i], &info);
		print_message(" %s", chain[i] == LIB ? "LIB" : info.dli_sname);
	}
	print_message("\n");
}

/* The capture's frames are the chain's functions. What is outside of the chain (start code) is the library's. */
NOINLINE void check_here(void)
{
	static uint64_t ip[70000];
	uint32_t root, n = harness_frames(&harness, capture_here(thread), ip, 70000, &root), at = 1;
	int own, ok = n > 0 && function_of(ip[0], &own) == (void *)check_here, bottom = depth;

	checks++;
	while (ok && bottom > 0) {
		void *want = chain[--bottom];
		if (want == LIB) {
			uint32_t from = at;
			while (at < n && (function_of(ip[at], &own), !own))
				at++;
			ok = at > from;
		} else {
			ok = at < n && function_of(ip[at], &own) == want && own;
			at++;
		}
	}
	if (!ok || at != n || root != want_root) {
		if (wrong++ < 3)
			show(ip, n, root);
	}
	KEEP;
}

#endif
