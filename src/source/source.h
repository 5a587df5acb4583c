/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the origins of events. A source is opened, drained into a sink, finished; it never
 * prints and owns its descriptors. One thread each, unless said otherwise.
 */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/event.h"
#include "proc/proc.h"

/* ---- heap: the rings that the preload library fills (wire/heap.h) ---------------------------- */

struct source_heap;

struct source_heap_opt {
	/* of the shared file; 0 = 64 MiB */
	uint64_t budget_bytes;
	/* enum wire_on_full */
	int on_full;
	int free_stacks, stamp_every_event;
	uint64_t sample_bytes;
	/* of 127.0.0.1, where anybody there may read what is recorded; 0: not served */
	uint16_t served_port;
	/* somebody judges by names: they come with the events */
	int name_threads;
};

/** source_heap_new() - create, lay out and seal the shared file (way 1 of wire/heap_start.h). */
struct source_heap *source_heap_new(const struct source_heap_opt *opt, struct err *err);
/**
 * source_heap_adopt() - take over a shared file that the library made (way 2); @fd is consumed.
 * Everything in it is validated; a file that is not sealed against shrinking, or whose layout makes
 * no sense, is refused with -EBADMSG.
 */
struct source_heap *source_heap_adopt(int fd, struct err *err);
/** source_heap_raw() - read OUTPUT.raw (way 3) by pread(); -EBADMSG for anything else. */
struct source_heap *source_heap_raw(const char *path, struct err *err);
/**
 * source_heap_is_raw() - 1 if the file begins like one, 0 if not, negative errno where it cannot be
 * read.
 */
int source_heap_is_raw(const char *path, struct err *err);
/** struct source_heap_raw_head - what such a file says of its process; nothing of it is checked. */
struct source_heap_raw_head {
	/* start by CLOCK_MONOTONIC and by the wall clock */
	uint64_t family, start_ns, start_realtime_ns;
	uint32_t pid, parent_pid;
};
/** source_heap_raw_head() - 1; 0: @path is none, or says of no process. */
int source_heap_raw_head(const char *path, struct source_heap_raw_head *head);
void source_heap_free(struct source_heap *heap);
void source_heap_freep(struct source_heap **heap);

/** source_heap_fd() - the shared file's descriptor, lent; a child inherits a dup() of it. */
int source_heap_fd(const struct source_heap *heap);

/** What the target says about itself; any thread, a few loads. */
struct source_heap_state {
	uint32_t target_pid;
	/* who started it; 0: not known */
	uint32_t parent_pid;
	/* the library has mapped the file */
	int attached;
	/* its exit hook ran */
	int exiting;
	/* an exec may have replaced it */
	int exec_called;
	/* and has not failed, as far as it went */
	int exec_entered;
	uint64_t peak_rss_bytes;
	/* as it ended; 0: not known */
	struct proc_resident end;
	/* the library's own mappings */
	uint64_t own_bytes;
	uint32_t modules_nameless;
	/* times are exact, not within a beat */
	int stamp_every_event;
	/* wall clock of time 0; 0: not known */
	uint64_t start_realtime_ns;
	/* as of DEF_PROCESS */
	uint64_t sample_bytes;
	/* children of forks that were to be followed and could not */
	uint32_t unrecorded_children;
	/* what the program carries itself and the library has hooked; "" = nothing */
	char own_allocators[128];
};
void source_heap_state(const struct source_heap *heap, struct source_heap_state *state);

/**
 * source_heap_exe() - copy the path of the program that attached, as it said itself: what /proc
 * names may already be its successor by exec. Return: 1, or 0 where it said none or one that does
 * not fit (@path is then "").
 */
int source_heap_exe(const struct source_heap *heap, char *path, size_t size);
/**
 * source_heap_cmdline() - its arguments, likewise, each with its NUL: malloc'd, @bytes of them.
 * NULL: not known.
 */
char *source_heap_cmdline(const struct source_heap *heap, size_t *bytes);

/*
 * How far apart ticks are, and how exact times therefore are: what stands behind a stamp has its
 * time, the next ones lie between that and the next tick. The period leaves room for a late
 * wake-up; what comes later still is told by source_heap_bound_ns().
 */
#define SOURCE_HEAP_BEAT_NS 1800000u
#define SOURCE_HEAP_BOUND_NS 1000000u

/**
 * source_heap_beat() - show the target that the recorder lives, and advance the tick that asks for
 * fresh stamps. Any one thread, every SOURCE_HEAP_BEAT_NS; lock-free. Return: whether the target's
 * exit hook has run.
 */
int source_heap_beat(struct source_heap *heap);

/**
 * source_heap_look_last() - the process waits in its exit hook (two seconds at most) until
 * source_heap_looked(): whoever wants to see its memory once more.
 */
void source_heap_look_last(struct source_heap *heap);
void source_heap_looked(struct source_heap *heap);

/**
 * source_heap_sleep() - neither beat nor tick until the target has something to say, at most some
 * minutes; on the thread that beats, which beats when it returns. At once where something is there
 * already. What an event needs to be seen late for is rare, and bounded by the next one: who writes
 * a record as this begins may not notice.
 */
void source_heap_sleep(struct source_heap *heap);
/** source_heap_wake() - let source_heap_sleep() end. Any thread. */
void source_heap_wake(struct source_heap *heap);
/** source_heap_stay_awake() - whether the target could not wake us. */
int source_heap_stay_awake(const struct source_heap *heap);

/**
 * source_heap_bound_ns() - how far the times of events that were handed over may be off: more where
 * beats came late.
 */
uint64_t source_heap_bound_ns(const struct source_heap *heap);

/**
 * source_heap_exit_waits() - whether the target has ended but for waiting until what it wrote is in
 * the file. @done: it is, go on.
 */
int source_heap_exit_waits(struct source_heap *heap, int done);

/**
 * source_heap_asked() - what somebody outside asks this recording for (bits of enum wire_steer),
 * with the number to answer by; 0: nothing. source_heap_answer() - it is done.
 * source_heap_put_mark() - the mark that was asked for, at its moment or where events have come to
 * by now. 0, or negative with @err.
 */
unsigned source_heap_asked(const struct source_heap *heap, uint32_t *number);
void source_heap_answer(struct source_heap *heap, uint32_t number);
int source_heap_put_mark(struct source_heap *heap, struct sink *sink, struct err *err);

/** source_heap_detach() - tell the target to record no more; from then on no hook waits for us. */
void source_heap_detach(struct source_heap *heap);

/** source_heap_set_pid() - the process whose /proc names the threads; without it they have none. */
void source_heap_set_pid(struct source_heap *heap, pid_t pid);

/**
 * source_heap_drain() - read what the rings hold, merge it, hand definitions and events to @sink in
 * batches. Cost: some 20 ns an event plus the sink's. Memory: the sum of live blocks and distinct
 * stacks. Return: how full the fullest ring was, in thousandths, at least 1 if anything was there,
 * 0 if not; negative errno: the sink's failure. A caller comes back before a ring can be full.
 */
ssize_t source_heap_drain(struct source_heap *heap, struct sink *sink, struct err *err);
/**
 * source_heap_housekeep() - about once a second: report losses that no ring mentions, define
 * threads anew whose name changed (@all: look at every one; before the target is gone).
 */
int source_heap_housekeep(struct source_heap *heap, struct sink *sink, int all, struct err *err);
/**
 * source_heap_finish() - after the target's end, or to stop (@detach: the target is told first):
 * read the rest, report losses. Nothing is drained afterwards.
 */
int source_heap_finish(struct source_heap *heap, struct sink *sink, int detach, struct err *err);

/* ---- forks that are followed (wire/heap_start.h, way 4) ---- */

/**
 * source_heap_on_fork() - @call @fork(@ctx, number) where a thread of the target is about to fork,
 * in the midst of a drain: source_heap_snapshot() then tells what lives. Return of @fork: 0, or
 * negative errno, which ends the drain.
 */
void source_heap_on_fork(struct source_heap *heap, int (*fork)(void *ctx, uint64_t number),
			 void *ctx);
/**
 * source_heap_snapshot() - define and hand over the blocks that live now, as allocations at time 0
 * by thread 0, and a forked event behind them where some that the process inherited itself are not
 * known.
 */
int source_heap_snapshot(struct source_heap *heap, struct sink *sink, struct err *err);
/** What the library said as the child of a fork; @from 0: it is none. */
struct source_heap_fork {
	uint32_t from, number, recorder;
};
void source_heap_fork(const struct source_heap *heap, struct source_heap_fork *fork);
/**
 * source_heap_inherit() - before anything is drained: a sink that takes the parent's snapshot,
 * makes its blocks the child's and hands them on to @sink. Belongs to @heap. NULL without memory,
 * @err filled.
 */
struct sink *source_heap_inherit(struct source_heap *heap, struct sink *sink, struct err *err);
/**
 * source_heap_inherited() - after that: put into @sink that the process was forked; @known: a
 * snapshot was there.
 */
int source_heap_inherited(struct source_heap *heap, struct sink *sink, int known, struct err *err);

/**
 * source_heap_renew() - between two drains: from here on everything goes to @sink, which knows
 * nothing yet. Threads, and what lives, are defined and handed over again, as allocations with
 * EVENT_F_INHERITED at this moment.
 */
int source_heap_renew(struct source_heap *heap, struct sink *sink, struct err *err);

/**
 * source_heap_filter() - what a raw recording says of whose allocations are meant; "" = all. Lent.
 */
const char *source_heap_filter(const struct source_heap *heap);

/** source_heap_now_ns() - nanoseconds since time 0 of this source (CLOCK_MONOTONIC). */
uint64_t source_heap_now_ns(const struct source_heap *heap);
/** source_heap_start_ns() - CLOCK_MONOTONIC of time 0. */
uint64_t source_heap_start_ns(const struct source_heap *heap);
/**
 * source_heap_raw_length_ns() - of a raw recording that was read: up to the exit hook, else to the
 * latest event.
 */
uint64_t source_heap_raw_length_ns(const struct source_heap *heap);
/** source_heap_raw_bound_ns() - how far the times in a raw recording may be off. */
uint64_t source_heap_raw_bound_ns(const struct source_heap *heap);

/**
 * source_heap_rss() - emit EVENT_RSS at the current time, and EVENT_RESIDENT where @resident says
 * what RSS consists of (anonymous memory, or files, are not 0); keeps the order of times.
 */
int source_heap_rss(struct source_heap *heap, struct sink *sink,
		    const struct proc_resident *resident, struct err *err);

struct source_heap_stats {
	uint64_t events, allocations, frees, foreign_frees;
	/* records that waited for another ring (the alternation rule) */
	uint64_t waits;
	/* of these: frees that another block of the same address had taken */
	uint64_t swapped;
	/* of these: allocations of live addresses that nothing resolved */
	uint64_t contradictions;
	uint64_t lost_allocations, lost_bytes, lost_frees;
	/* back-pressure, as the producers count it */
	uint64_t producer_waits, producer_wait_ns;
	uint32_t threads, stacks, modules, rings_closed, live_blocks;
	uint64_t live_bytes;
};
void source_heap_stats(const struct source_heap *heap, struct source_heap_stats *stats);

#endif
