/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed HOW [thread] - a page of the running stack that holds outer frames is closed, and something further in allocates:
 * first at a place that has allocated before, then at new ones, deeper. Prints "alive" and counts its calls on descriptor 8.
 * HOW: mprotect, syscall, raw (no library is called), other (another thread does it), pkey, guard, fixed, unmapped; exits 77
 * where the kernel has no such thing.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

#define PAGE 4096UL
#define MADV_GUARD_INSTALL_ 102
#define MADV_GUARD_REMOVE_ 103

static const char *how;
static char saved[PAGE];
static int key;

static long raw3(long nr, long a, long b, long c)
{
	long rc;
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return rc;
}

static int is(const char *name)
{
	return strcmp(how, name) == 0;
}

static char *order;
static atomic_int told; /* 1 close, 2 closed, 3 open, 4 opened */

static void *other(void *arg)
{
	(void)arg;
	while (atomic_load(&told) != 1)
		usleep(100);
	mprotect(order, PAGE, PROT_NONE);
	atomic_store(&told, 2);
	while (atomic_load(&told) != 3)
		usleep(100);
	mprotect(order, PAGE, PROT_READ | PROT_WRITE);
	atomic_store(&told, 4);
	return NULL;
}

/* Neither of these returns through the page, and nothing of theirs lies on it. */
static __attribute__((noinline)) int close_page(char *page)
{
	memcpy(saved, page, PAGE);
	if (is("mprotect"))
		return mprotect(page, PAGE, PROT_NONE);
	if (is("syscall"))
		return (int)syscall(SYS_mprotect, page, PAGE, PROT_NONE);
	if (is("raw"))
		return (int)raw3(SYS_mprotect, (long)page, PAGE, PROT_NONE);
	if (is("guard"))
		return madvise(page, PAGE, MADV_GUARD_INSTALL_);
	if (is("unmapped"))
		return munmap(page, PAGE);
	if (is("fixed"))
		return mmap(page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			    0) != page;
	if (is("pkey")) {
		key = pkey_alloc(0, 0);
		if (key < 0 || pkey_mprotect(page, PAGE, PROT_READ | PROT_WRITE, key) != 0)
			return -1;
		return pkey_set(key, PKEY_DISABLE_ACCESS);
	}
	order = page;
	atomic_store(&told, 1);
	while (atomic_load(&told) != 2)
		;
	return 0;
}

static __attribute__((noinline)) void open_page(char *page)
{
	if (is("guard")) {
		madvise(page, PAGE, MADV_GUARD_REMOVE_);
		memcpy(page, saved, PAGE);
	} else if (is("unmapped") || is("fixed")) {
		mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
		memcpy(page, saved, PAGE);
	} else if (is("pkey")) {
		pkey_set(key, 0);
	} else if (is("other")) {
		atomic_store(&told, 3);
		while (atomic_load(&told) != 4)
			;
	} else if (is("raw")) {
		raw3(SYS_mprotect, (long)page, PAGE, PROT_READ | PROT_WRITE);
	} else {
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	}
}

static __attribute__((noinline)) void allocate(int times)
{
	for (int i = 0; i < times; i++) {
		void *block = took(malloc(24), 24);
		gave(block);
		free(block);
	}
}

static __attribute__((noinline)) void deeper(int frames)
{
	volatile char room[3000];
	room[0] = 1;
	allocate(2);
	if (frames)
		deeper(frames - 1);
	room[1] = room[0];
}

static int missing;

static __attribute__((noinline)) void act(void)
{
	char *page = (char *)(((uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1)) + 3 * PAGE);
	allocate(3);
	for (int round = 0; round < 5; round++) {
		if (round < 2)
			deeper(3);
		/* pkey: the key closes and opens what it has been given; no call tells of that */
		if (round && is("pkey")) {
			pkey_set(key, PKEY_DISABLE_ACCESS);
		} else if (close_page(page) != 0) {
			missing = 1;
			return;
		}
		allocate(3);
		deeper(round);
		open_page(page);
		allocate(3);
		deeper(round);
		if (is("other")) {
			pthread_t next;
			atomic_store(&told, 0);
			pthread_create(&next, NULL, other, NULL);
			pthread_detach(next);
		}
	}
}

static __attribute__((noinline)) void descend(int frames)
{
	volatile char room[900];
	room[0] = 1;
	if (frames)
		descend(frames - 1);
	else
		act();
	room[1] = room[0];
}

static void *run(void *arg)
{
	if (is("other")) {
		pthread_t first;
		pthread_create(&first, NULL, other, NULL);
		pthread_detach(first);
	}
	allocate(1);
	descend(40);
	allocate(1);
	return arg;
}

int main(int argc, char **argv)
{
	how = argc > 1 ? argv[1] : "mprotect";
	if (argc > 2) {
		pthread_t thread;
		pthread_create(&thread, NULL, run, NULL);
		pthread_join(thread, NULL);
	} else {
		run(NULL);
	}
	if (missing)
		return 77;
	truth_print();
	if (write(1, "alive\n", 6) < 0)
		return 1;
	return 0;
}
