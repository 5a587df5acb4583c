/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - what is known now of the processes that are watched, for whoever asks on other threads:
 * the HTTP routes. Functions, so that a test can answer; watched_source() fills them in.
 */
#ifndef WATCH_LIVE_H
#define WATCH_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/history.h"
#include "proc/beside.h"
#include "proc/breakdown.h"

#define MEMORY_TARGETS_MAX 64
#define MEMORY_FULL_SECONDS 10 /* a full reading of one process happens at most once in that time */
#define MEMORY_STALL_BUCKETS 8

/** struct memory_shot - one reading, shared by everybody who asked. */
struct memory_shot {
	const struct breakdown *breakdown;
	/* when it was handed out */
	uint64_t age_ns;
	/* the source's */
	void *own;
};

/** struct memory_facts - what a watcher knows beside its readings. */
struct memory_facts {
	int32_t pid;
	char comm[32];
	int ended;
	const struct history *history;
	/* of the last look */
	struct proc_totals totals;
	/* of it, CLOCK_REALTIME */
	uint64_t time_ns;
	uint64_t limit_bytes;
	uint64_t reading_ns, reading_cpu_ns, period_ns;
	/* of one CPU, since watching began */
	double cpu_share;
	/* rules met so far */
	uint64_t alerts;
	/* readings by their longest call; bounds: memory_stall_bounds */
	uint64_t stalls[MEMORY_STALL_BUCKETS + 1];
	double stall_sum_seconds;
	/* where a rule asks for it; UINT64_MAX: not known */
	uint64_t pss_bytes;
	uint64_t mappings, mappings_max;
	/* as of the last reading of mappings */
	struct cgroup_memory cgroup;
};
extern const double memory_stall_bounds[MEMORY_STALL_BUCKETS]; /* seconds */

struct memory_cache;

struct memory_source {
	void *ctx;
	/* the owner's: memory_cache_new() */
	struct memory_cache *cache;
	/** Processes that are watched, @facts has MEMORY_TARGETS_MAX places. Any thread. */
	size_t (*facts)(void *ctx, struct memory_facts *facts);
	/**
	 * A reading of @pid (0: the first): the watcher's last quick one, or with @full one of
	 * smaps and allocators that is at most MEMORY_FULL_SECONDS old. -ENOENT: not watched.
	 * -ESRCH: ended, and never read. Any thread; give it back with put().
	 */
	int (*get)(void *ctx, int32_t pid, int full, struct memory_shot *shot, struct err *err);
	/** The last full reading, if there is one: none is made. 0 or -ENOENT. */
	int (*peek)(void *ctx, int32_t pid, struct memory_shot *shot);
	void (*put)(void *ctx, struct memory_shot *shot);
	/* never show addresses, whatever a client asks */
	int hide_addresses;
};

#endif
