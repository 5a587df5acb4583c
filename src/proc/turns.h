/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - calls that take the lock of a target's memory, in turns with its own mmap(). Two things
 * make a target wait for much longer than one call takes: calls without a pause between them, for
 * whoever asks again at once takes the lock again before the thread that waits to write is awake;
 * and a caller that loses its CPU amid a call, for it keeps the lock meanwhile, on a busy machine
 * for tens of milliseconds. So there is a pause behind half a millisecond of calls, and where it
 * may, the calling thread goes before ordinary threads (SCHED_RR): behind two milliseconds of that,
 * at the end of the call that passes them, it is an ordinary thread again and pauses; whoever works
 * for long between two calls gives it back by turns_over(). It does not
 * where it or the target has one CPU only, for there the target could not run at all meanwhile, nor
 * for calls that are expected to take longer than that: turns_expect().
 */
#ifndef PROC_TURNS_H
#define PROC_TURNS_H

#include <stdint.h>
#include <sys/types.h>

enum turns_how {
	TURNS_NONE,   /* no turns: how long a call takes is told */
	TURNS_PAUSES, /* the thread stays as it is: as one of the target's own must */
	TURNS_RAISED, /* and before ordinary threads during its calls, where it may */
	/*
	 * for whoever has time: likewise, in shorter stretches with longer pauses. Of a CPU it
	 * takes a third at most while it goes before others, as long as less than 10 ms of work lie
	 * between two pauses
	 */
	TURNS_GENTLY,
};
/** struct turns - of one thread; private. */
struct turns {
	enum turns_how how;
	/* whose memory it is */
	pid_t pid;
	/* be raised; whether that is known */
	int may, asked;
	int too_long, raised, had_flag;
	/* of calls that followed each other without a pause */
	uint64_t since_ns, until_ns;
	/* monotonic, and the thread's own */
	uint64_t raised_ns, raised_cpu_ns;
};
/** turns_init() - of calls that take the lock of process or thread @pid. */
void turns_init(struct turns *turns, enum turns_how how, pid_t pid);
/**
 * turns_expect() - how long the longest of the next calls may take. What takes longer than two
 * milliseconds is done as an ordinary thread: whoever shares its CPU would wait for all of it.
 */
void turns_expect(struct turns *turns, uint64_t ns);
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
