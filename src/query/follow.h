/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h - a live reading of a recording that is being written: by `run`, by the preload
 * library's own recorder, by whoever.
 *
 * A thread of its own reads the .blt file as it grows (trace_follow_drain()), feeds a prof, gives
 * its frames names, and leaves a snap (model/snap.h) of it after each batch. That costs the
 * recorder and the program nothing: they do not know of it. A live reading is as old as the
 * recorder's last flush (a second) and the interval below.
 *
 * 	follow = follow_new(path, NULL, &err);
 * 	snap = follow_wait(follow, 0, 5 s);   and from then on, on any thread, as often as you like:
 * 	CLEANUP(snap_unrefp) struct snap *snap = follow_snap(follow);
 * 	view_...(snap_prof(snap), ...);
 *
 * Selections (query_run()) need the events, which a reading does not keep: moments and ranges come
 * from an index that grows with it (follow_hold()); for others, read the file as it is with
 * recording_open() and recording_read().
 */
#ifndef QUERY_FOLLOW_H
#define QUERY_FOLLOW_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "model/snap.h"
#include "query/chosen.h"
#include "query/query.h"
#include "query/slices.h"

struct follow;

struct follow_opt {
	/* between two snaps at least; 0: a second. A large reading has fewer: 5 % of a processor */
	uint64_t interval_ns;
	/* frames stay addresses */
	int no_names;
	/* make an index of slices besides, for follow_hold() */
	int index;
};

/**
 * follow_new() - begin to follow the .blt recording at @path; a finished one is read to its end,
 * too. @opt: NULL for defaults. No debuginfod server is asked: names that only servers have are
 * missing while it runs. Memory: a reading (prof.h) and its newest snap, besides those that are
 * held. Return: NULL with @err, -EINVAL for a recording of another kind.
 */
struct follow *follow_new(const char *path, const struct follow_opt *opt, struct err *err);
/** follow_snap() - a reference to the newest snap; NULL before the first. Any thread; O(1). */
struct snap *follow_snap(struct follow *follow);
/**
 * follow_wait() - as snap_wait(): the first snap with a number above @after. NULL: none came in
 * time, or none comes any more.
 */
struct snap *follow_wait(struct follow *follow, uint64_t after, uint64_t timeout_ns);

struct follow_state {
	/* the newest snap may lag behind a little */
	uint64_t file_bytes, read_bytes;
	uint64_t damaged_blocks;
	/* of the file, for follow_want.query, ever */
	uint64_t chosen_bytes;
	/* what the last snap took */
	uint64_t freeze_ns;
	/* 1: the recording has ended, or following it failed; the newest snap is the last */
	int over;
	/* code not 0: why it failed */
	struct err err;
};
/** follow_state() - any thread. */
void follow_state(struct follow *follow, struct follow_state *state);
/** struct follow_held - a reading and the index of the very same events. */
struct follow_held {
	/* the caller's reference */
	struct snap *snap;
	/* lent, as @source is: for slices_read(); NULL where there is only what was @chosen */
	const struct slices *slices;
	struct query_source source;
	/* lent: the producer's numbers, which @snap does not know, to rows that it does */
	const struct prof *prof;
	/* every frame of @snap has been given the name that it can have */
	int named;
	/* lent: what want.query chooses of the very same events; NULL: it cannot be had so */
	const struct prof *chosen;
};
/** struct follow_want - what is to be held; zero-initialised: the reading and its index. */
struct follow_want {
	/* held->named is wanted */
	int names;
	/* held->chosen of it is wanted, where chosen_can(); NULL: nothing */
	const struct query *query;
	struct chosen_patience patience;
};
/**
 * follow_hold() - with opt.index: stop reading on for a moment, until follow_go_on(). Any thread;
 * one holds at a time, the others and the reading wait in turn. For names what came since is named
 * first. What a query chooses is kept, of the last FOLLOW_CHOSEN_MAX asked for within
 * FOLLOW_CHOSEN_NS, and read on: all of the file for the first question, else what came since the
 * last one. Cost: a snap, if anything came since the last one, those names, and slices_grow_end().
 * Return: 1; 0 it cannot be had of this recording; negative errno.
 */
#define FOLLOW_CHOSEN_MAX 2
#define FOLLOW_CHOSEN_NS (60 * NS_PER_S)
int follow_hold(struct follow *follow, const struct follow_want *want, struct follow_held *held,
		struct err *err);
void follow_go_on(struct follow *follow);
/**
 * follow_freep() - stop and let go; snaps that are held stay good. At most some 100 ms, where names
 * are being looked up more.
 */
void follow_freep(struct follow **follow);

#endif
