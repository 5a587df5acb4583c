/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - calls that take the lock of a target's memory, in turns with its own mmap(). Two things
 * make a target wait for much longer than one call takes: calls without a pause between them, for
 * whoever asks again at once takes the lock again before the thread that waits to write is awake;
 * and a caller that loses its CPU amid a call, for it keeps the lock meanwhile, on a busy machine
 * for tens of milliseconds. So there is a pause behind half a millisecond of calls, and where it
 * may, the calling thread goes before ordinary threads while it calls, for some milliseconds at a
 * time.
 */
#ifndef PROC_TURNS_H
#define PROC_TURNS_H

#include <stdint.h>

/** struct turns - of one thread; private. */
struct turns {
	int raise, pauses, long_pauses, raised;
	uint64_t since_ns, until_ns; /* of calls that followed each other without a pause */
	uint64_t raised_ns;
};
enum turns_how {
	TURNS_NONE,   /* no turns: how long a call takes is told */
	TURNS_PAUSES, /* the thread stays as it is, as one of the target's own must */
	TURNS_RAISED, /* and before ordinary threads during its calls, where it may */
};
void turns_init(struct turns *turns, enum turns_how how);
/**
 * turns_gently() - for whoever has time: from now on shorter stretches and longer pauses, a third
 * of a CPU at most.
 */
void turns_gently(struct turns *turns);
/** turns_begin() - before such a call. Return: CLOCK_MONOTONIC, for turns_end(). */
uint64_t turns_begin(struct turns *turns);
/**
 * turns_end() - behind it: the pause where it is due, and to @stall_ns (may be NULL) how long the
 * stretch was, if that is more.
 */
void turns_end(struct turns *turns, uint64_t before_ns, uint64_t *stall_ns);
/** turns_over() - an ordinary thread again; in the thread that called. */
void turns_over(struct turns *turns);

#endif
