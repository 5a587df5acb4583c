/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watched.h - one watched process: readings, their history, the rules, and what other threads may
 * see of it.
 */
#ifndef WATCH_WATCHED_H
#define WATCH_WATCHED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "alert/alert.h"
#include "base/err.h"
#include "model/history.h"
#include "source/mapnames.h"
#include "source/watch.h"
#include "watch/live.h"

/** struct shot - a reading that several threads look at; the last one frees it. */
struct shot {
	atomic_int refs;
	struct breakdown *breakdown;
};

/** struct watched - one process. The loop's thread writes; HTTP threads read under the lock. */
struct watched {
	pid_t pid;
	int pidfd;
	/* pidfd told so; it is not asked again */
	int exited;
	/* of the first look: what grew is counted from there */
	uint64_t since_ns;
	struct watch *watch;
	struct history *history;
	struct alert_set *rules;
	/* lent; may be NULL */
	struct mapnames *names;

	/* what allocators and runtimes own and hold, as of their last reading; under the lock */

	/* watch_programs() at the last look */
	unsigned programs;
	struct owned *owned;
	struct allocator_reading *allocators;
	size_t allocator_count;
	/*
	 * when they may be read again at the usual pace, and when much is there that has no name
	 * yet (CLOCK_MONOTONIC)
	 */
	uint64_t owned_due_ns, owned_hurry_ns, unnamed_bytes;
	/* of smaps_rollup, where a rule asks for it */
	uint64_t pss_bytes, pss_due_ns;
	/* in open files without a name, where a rule asks for it */
	uint64_t unmapped_bytes;
	struct cgroup_memory cgroup;
	uint64_t mappings_max;
	/* of all that are watched beside this one; UINT64_MAX: another one tells of the sums */
	uint64_t others_rss_bytes, others_pss_bytes;
	/* of the line printed last */
	uint64_t rss_before;
	uint64_t said_period_ns, said_rules_period_ns;
	/*
	 * the rules on growth: what they took last, when they may be judged again
	 * (CLOCK_MONOTONIC), and after what time
	 */
	uint64_t rules_cpu_ns, rules_due_ns, rules_period_ns;

	pthread_mutex_t lock;
	struct shot *quick, *full;
	struct memory_facts facts;

	/* one full reading at a time; taken before lock */
	pthread_mutex_t full_lock;
};

struct watched_opt {
	/* between two looks; 0: the usual */
	double seconds;
	const struct alert_rule *rules;
	size_t rule_count;
	/* lent; may be NULL */
	struct mapnames *names;
};

/** watched_open() - start watching @pid; @history stays the caller's. */
int watched_open(struct watched *w, pid_t pid, const struct watched_opt *opt,
		 struct history *history, struct err *err);
void watched_close(struct watched *w);
/** watched_pss() - as of the last time that a rule asked for it; UINT64_MAX: not known. */
uint64_t watched_pss(const struct watched *w);
/**
 * watched_look() - look, keep the sample, check the rules. 1 mappings were read, 0 only sums,
 * -ESRCH ended, or another error.
 * @events receives the *@count rules met anew.
 */
int watched_look(struct watched *w, struct alert_event *events, int *count, struct err *err);
/**
 * watched_tell_cost() - where it changed: how often mappings are read and growth is judged now, and
 * why, a line each.
 */
void watched_tell_cost(struct watched *w, uint64_t look_period_ns, void (*say)(const char *text));
/**
 * watched_full() - a full reading at most MEMORY_FULL_SECONDS old, made here if need be; NULL with
 * @err.
 */
struct shot *watched_full(struct watched *w, struct err *err);
/** watched_shot() - the last quick (or @full) reading with a reference more, or NULL. */
struct shot *watched_shot(struct watched *w, int full);
void shot_put(struct shot *shot);
/** watched_source() - fill @source for the HTTP routes; @set must outlive it. */
struct watched_set {
	/* HTTP threads read under it; the loop writes where a place is given to another process */
	pthread_rwlock_t lock;
	/* TARGETS_GIVEN_MAX places */
	struct watched *all;
	size_t count;
};
void watched_source(struct memory_source *source, struct watched_set *set);

#endif
