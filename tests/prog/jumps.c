/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jumps N - allocation in signal handlers, on alternate stacks, on coroutine stacks, out of longjmp, from constructors
 * and destructors, on a 64 KiB stack that is nearly full.
 */
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "truth.h"

static jmp_buf out;
static sigjmp_buf sig_out;
static ucontext_t main_context, co_context;
static atomic_ulong handled;

static void drop(void *block)
{
	gave(block);
	free(block);
}

__attribute__((constructor)) static void before_main(void)
{
	drop(took(malloc(123), 123));
}

__attribute__((destructor)) static void after_main(void)
{
	drop(took(malloc(321), 321));
	truth_print();
}

static void handler(int sig)
{
	int saved = errno;
	(void)sig;
	drop(took(malloc(33), 33));
	atomic_fetch_add(&handled, 1);
	errno = saved;
}

static void jumper(int sig)
{
	(void)sig;
	void *p = took(malloc(44), 44);
	drop(p);
	siglongjmp(sig_out, 1);
}

__attribute__((noinline)) static void deep(int n)
{
	char *pad = alloca((size_t)(n * 16 + 8));
	pad[0] = (char)n;
	__asm__ volatile("" : : "r"(pad) : "memory");
	drop(took(malloc((size_t)n), (size_t)n));
	if (n)
		deep(n - 1);
	else
		longjmp(out, 1);
	__asm__ volatile("" : : "r"(pad) : "memory");
}

static void coroutine(void)
{
	for (int i = 0;; i++) {
		drop(took(malloc(55), 55));
		swapcontext(&co_context, &main_context);
	}
}

#ifndef STACK_HELD
#define STACK_HELD (58 << 10)
#endif
/* A stack with hardly anything left: what the library uses must fit into what malloc always used. */
static void *small(void *arg)
{
	char *low = alloca(STACK_HELD);
	low[0] = 1;
	__asm__ volatile("" : : "r"(low) : "memory");
	drop(took(malloc(66), 66));
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	stack_t alt = { .ss_size = 32 << 10 };
	alt.ss_sp =
		mmap(NULL, alt.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&alt, NULL);
	struct sigaction act = { .sa_handler = handler };
	sigaction(SIGUSR1, &act, NULL);
	act.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &act, NULL);
	act.sa_handler = jumper;
	act.sa_flags = SA_ONSTACK | SA_NODEFER;
	sigaction(SIGURG, &act, NULL);
	char *co_stack =
		mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	getcontext(&co_context);
	co_context.uc_stack.ss_sp = co_stack;
	co_context.uc_stack.ss_size = 64 << 10;
	makecontext(&co_context, coroutine, 0);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (int i = 0; i < n; i++) {
		raise(SIGUSR1);
		raise(SIGUSR2);
		if (sigsetjmp(sig_out, 1) == 0)
			raise(SIGURG);
		if (setjmp(out) == 0)
			deep(10 + i % 50);
		swapcontext(&main_context, &co_context);
		if (i % 16 == 0) {
			pthread_t thread;
			if (pthread_create(&thread, &attr, small, NULL) != 0)
				return 1;
			pthread_join(thread, NULL);
		}
	}
	printf("%lu\n", atomic_load(&handled));
	return 0;
}
