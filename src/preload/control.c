/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - switching from inside: calls that a program may look up, and the toggle on SIGUSR1
 * and SIGUSR2.
 */
#include "preload/control.h"

#include <errno.h>
#include <signal.h>

#include "preload/log.h"
#include "preload/note.h"

#define EXPORT __attribute__((visibility("default")))

/* Make every thread take the slow way once: it looks at what is wanted there. */
static void stir(void)
{
	uint32_t word = proc.word;
	if ((word & MODE_MASK) > MODE_OFF)
		__atomic_fetch_add((uint32_t *)&proc.word, MODE_EPOCH, __ATOMIC_RELEASE);
}

static void want(uint32_t on)
{
	if (process.heap)
		__atomic_store_n(&process.heap->enabled_wanted, on, __ATOMIC_RELEASE);
	__atomic_store_n(&process.wanted, on, __ATOMIC_RELEASE);
	stir();
}

static void toggle(int sig)
{
	(void)sig;
	if ((proc.word & MODE_MASK) <= MODE_OFF)
		return; /* the child of a fork must not switch its parent */
	uint32_t on = process.heap ? process.heap->enabled_wanted : process.wanted;
	want(!on);
}

static void install(int sig)
{
	struct sigaction now, act = { .sa_handler = toggle, .sa_flags = SA_RESTART };
	if (sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaction(sig, &act, NULL);
}

void control_signals(int usr1, int usr2)
{
	if (usr1)
		install(SIGUSR1);
	if (usr2)
		install(SIGUSR2);
}

int byteledger_heap_start(void);
int byteledger_heap_stop(void);
int byteledger_heap_sync(void);
int byteledger_heap_set_marker(uint32_t marker);
void memory_profiler_start(void);
void memory_profiler_stop(void);
void memory_profiler_sync(void);
void memory_profiler_set_marker(uint32_t marker);
void memory_profiler_override_next_timestamp(uint64_t us);

EXPORT int byteledger_heap_start(void)
{
	if ((proc.word & MODE_MASK) <= MODE_OFF)
		return -ENOTCONN;
	want(1);
	return 0;
}

EXPORT int byteledger_heap_stop(void)
{
	if ((proc.word & MODE_MASK) <= MODE_OFF)
		return -ENOTCONN;
	want(0);
	return 0;
}

EXPORT int byteledger_heap_sync(void)
{
	struct wire_heap_header *heap = process.heap;
	if (!heap || (proc.word & MODE_MASK) <= MODE_OFF)
		return -ENOTCONN;
	return ring_wait_drained(5000000000u) ? 0 : -ETIMEDOUT;
}

EXPORT int byteledger_heap_set_marker(uint32_t marker)
{
	struct thread *t = &self;
	uint32_t answer = hook_enter(t, HOOK_FREE, (uint64_t)__builtin_frame_address(0));
	if (answer < PASS_MAX)
		return -ENOTCONN;
	uint64_t *to = ring_room(t, 8);
	if (to) {
		to[0] = (uint64_t)marker << 8 | WIRE_MARK;
		ring_publish(t, 8);
	}
	hook_leave(t);
	return to ? 0 : -ENOSPC;
}

EXPORT void memory_profiler_start(void)
{
	byteledger_heap_start();
}

EXPORT void memory_profiler_stop(void)
{
	byteledger_heap_stop();
}

EXPORT void memory_profiler_sync(void)
{
	byteledger_heap_sync();
}

EXPORT void memory_profiler_set_marker(uint32_t marker)
{
	byteledger_heap_set_marker(marker);
}

/*
 * Times are the cycle counter's, and decide the order of events: no event can be given another one.
 */
EXPORT void memory_profiler_override_next_timestamp(uint64_t us)
{
	static uint32_t told;
	(void)us;
	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		log_line(LOG_INFO,
			 "memory_profiler_override_next_timestamp() is accepted without effect");
}
