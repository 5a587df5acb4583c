/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle.c - linked into a second build of the preload library, for tests only: every so many captures the same instant is
 * unwound by libunwind's cursor, and both stacks are compared address by address. The linker routes unwind_capture()
 * through here (--wrap), the product's sources are as they are.
 *
 * ORACLE_OUT    file to append to: one line at the end, a block for each disagreement
 * ORACLE_EVERY  mean distance between comparisons, in captures (default 500; the distances are pseudo-random)
 * ORACLE_MAX    comparisons at most (default 10000)
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/process.h"
#include "unwind/capture.h"

uint32_t __real_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);
uint32_t __wrap_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs);

#define FRAMES 4096
static uint64_t ours[FRAMES], theirs[FRAMES];
static uint64_t countdown = 1, every, most, compared, identical, partial,
		seed = 88172645463325252ull;
static int out = -1, busy;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n > 0 && write(out, line, (size_t)n) < 0)
		out = -1;
}

static const char *module_of(uint64_t pc, uint64_t *off)
{
	static char name[256];
	const struct wire_module *m =
		(const void *)((const char *)process.heap + process.heap->modules_off);
	for (uint32_t i = process.heap->module_count; i-- > 0;) {
		if (pc < m[i].lo || pc >= m[i].hi)
			continue;
		*off = pc - m[i].bias;
		snprintf(name, sizeof(name), "%.*s", m[i].path_len,
			 (const char *)process.heap + process.heap->strings_off + m[i].path_off);
		const char *base = strrchr(name, '/');
		return base ? base + 1 : name;
	}
	*off = pc;
	return "?";
}

__attribute__((destructor)) static void finish(void)
{
	if (out < 0)
		return;
	say("{\"compared\":%lu,\"identical\":%lu,\"partial\":%lu}\n", compared, identical, partial);
}

static void setup(void)
{
	const char *path = getenv("ORACLE_OUT"), *text = getenv("ORACLE_EVERY");
	every = text ? strtoull(text, NULL, 10) : 500;
	text = getenv("ORACLE_MAX");
	most = text ? strtoull(text, NULL, 10) : 10000;
	if (path)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (out >= 0)
		out = fcntl(out, F_DUPFD_CLOEXEC, 900); /* programs close what they find */
}

static uint32_t read_ours(uint32_t node, uint32_t *root)
{
	const struct wire_node *nodes =
		(const void *)((const char *)process.heap + process.heap->nodes_off);
	uint32_t n = 0;
	for (; node >= WIRE_STOP_MAX && n < FRAMES; node = nodes[node].parent)
		ours[n++] = nodes[node].pc;
	*root = node;
	return n;
}

/* libunwind's frames from the one that called the hook: where the stack pointer is regs->sp. Return addresses. */
static uint32_t read_theirs(const struct unwind_regs *regs)
{
	unw_context_t context;
	unw_cursor_t cursor;
	uint32_t n = 0;
	int on = 0, after_signal = 0;

	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do {
		unw_word_t ip, sp;
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		unw_get_reg(&cursor, UNW_REG_SP, &sp);
		on |= sp == regs->sp && ip == regs->ip;
		if (on && ip)
			theirs[n++] =
				ip + (uint64_t)after_signal; /* ours: interrupted address + 1 */
		after_signal = unw_is_signal_frame(&cursor) > 0;
	} while (n < FRAMES && unw_step(&cursor) > 0);
	return n;
}

static void compare(uint32_t node, const struct unwind_regs *regs)
{
	uint32_t root, n = read_ours(node, &root), m = read_theirs(regs), i = 0;

	compared++;
	partial += root != WIRE_STOP_END;
	while (i < n && i < m && ours[i] == theirs[i])
		i++;
	if (i == n && i == m) {
		identical++;
		return;
	}
	say("capture %lu: root %u, ours %u frames, libunwind %u; alike up to %u\n", compared, root,
	    n, m, i);
	for (uint32_t k = i ? i - 1 : 0; k < i + 3; k++) {
		uint64_t a = 0, b = 0;
		char left[256] = "-";
		if (k < n)
			snprintf(left, sizeof(left), "%s", module_of(ours[k] - 1, &a));
		const char *right = k < m ? module_of(theirs[k] - 1, &b) : "-";
		say("  %u  %s+0x%lx   %s+0x%lx\n", k, left, a, right, b);
	}
}

uint32_t __wrap_unwind_capture(struct unwind_thread *thread, const struct unwind_regs *regs)
{
	uint32_t node = __real_unwind_capture(thread, regs);

	if (__atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) != 0 ||
	    __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return node;
	if (!every)
		setup();
	if (out >= 0 && compared < most)
		compare(node, regs);
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	/* in this order: who counts down to 0 while it is still busy goes away, and nobody would ever begin again */
	uint64_t until = 1 + seed % (2 * every);
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&countdown, until, __ATOMIC_RELEASE);
	return node;
}
