/* SPDX-License-Identifier: Apache-2.0 */
/*
 * again.c - linked into a second build of the preload library, for tests only: every so many captures the same instant is
 * captured again by a stepper that remembers nothing, in the same table, where the same stack has the same number. The linker
 * routes unwind_capture() through here (--wrap), the product's sources are as they are.
 *
 * AGAIN_OUT    file to append to: a line for each of the first differences, and one at the end
 * AGAIN_EVERY  mean distance between comparisons, in captures (default 3; the distances are pseudo-random)
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unwind/state.h"

uint32_t __real_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);
uint32_t __wrap_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);

#define MEMORY (256u << 10)
#define THREADS 64 /* those that come later are not compared */
#define TOLD 20

struct second {
	_Alignas(64) char memory[MEMORY];
	const struct unwind_thread *of;
	uint64_t captures, compared, unknown, different, misses, left, seed;
};
static struct second seconds[THREADS];
static uint32_t used;
static uint64_t every;
static int out = -1;

static void say(const char *line, int bytes)
{
	if (bytes > 0 && write(out, line, (size_t)bytes) < 0)
		out = -1;
}

__attribute__((constructor)) static void setup(void)
{
	const char *path = getenv("AGAIN_OUT"), *text = getenv("AGAIN_EVERY");

	if (path)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (out >= 0)
		out = fcntl(out, F_DUPFD_CLOEXEC, 900); /* programs close what they find */
	if (out >= 0)
		every = text ? strtoull(text, NULL, 10) : 3;
}

__attribute__((destructor)) static void finish(void)
{
	struct second all = { .of = NULL };
	char line[256];

	if (out < 0)
		return;
	for (uint32_t i = 0; i < THREADS; i++) {
		all.captures += seconds[i].captures;
		all.compared += seconds[i].compared;
		all.unknown += seconds[i].unknown;
		all.different += seconds[i].different;
		all.misses += seconds[i].of ? seconds[i].of->stats.misses : 0;
	}
	say(line, snprintf(line, sizeof(line),
			   "{\"captures\":%lu,\"walked\":%lu,\"compared\":%lu,\"unknown\":%lu,"
			   "\"different\":%lu}\n",
			   all.captures, all.misses, all.compared, all.unknown, all.different));
}

static struct second *second_of(const struct unwind_thread *thread)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		const struct unwind_thread *of = __atomic_load_n(&seconds[i].of, __ATOMIC_RELAXED);
		if (of == thread)
			return &seconds[i];
		if (of)
			continue;
		if (__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) >= THREADS)
			return NULL;
		for (; i < THREADS; i++) {
			of = NULL;
			if (__atomic_compare_exchange_n(&seconds[i].of, &of, thread, 0,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				return &seconds[i];
		}
	}
	return NULL;
}

/* A node that says that there was no room for it says nothing about the stack. */
static int is_known(uint32_t node)
{
	return node != WIRE_STOP_NODES_FULL;
}

static void compare(struct second *s, const struct unwind_thread *thread, uint32_t node,
		    const struct unwind_regs *regs)
{
	struct unwind_thread *forgetful = unwind_thread_init(s->memory, MEMORY, thread->process,
							     thread->stack_lo, thread->stack_hi);
	char line[256];

	/* unwind_thread_init() lets it forget; what it may read it finds out anew where that has ever changed */
	if (thread->careful | thread->verify | thread->keyed)
		unwind_stack_doubt(forgetful);
	if (thread->keyed)
		unwind_stack_keyed(forgetful);
	uint32_t again = __real_unwind_capture(forgetful, regs);
	if (!is_known(node) || !is_known(again)) {
		s->unknown++;
		return;
	}
	s->compared++;
	if (again == node || s->different++ >= TOLD)
		return;
	say(line, snprintf(line, sizeof(line), "capture %lu at %#lx, sp %#lx: %u, walked %u\n",
			   s->captures, regs->ip, regs->sp, node, again));
}

uint32_t __wrap_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs)
{
	uint32_t node = __real_unwind_capture(thread, regs);
	struct second *s = every ? second_of(thread) : NULL;

	if (!s)
		return node;
	s->captures++;
	if (s->left) {
		s->left--;
		return node;
	}
	s->seed = s->seed ? s->seed : 88172645463325252ull;
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	s->left = s->seed % (2 * every - 1);
	compare(s, thread, node, regs);
	return node;
}
