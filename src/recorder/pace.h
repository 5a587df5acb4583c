/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - how often a recorder may look at the process: by what looking has cost so far, so that
 * it is a bounded share of a CPU however large the process is. No clock of its own.
 */
#ifndef RECORDER_PACE_H
#define RECORDER_PACE_H

#include <stdint.h>

/**
 * struct record_pace - times are those of the recording, ns. Zeroed, but for @eager: nothing was
 * looked at yet.
 */
struct record_pace {
	/* of who asked for nothing but snapshots: a tenth of a CPU each */
	int eager;
	/* no snapshot before that */
	uint64_t shot_next_ns;
	/* pages by stack are read again then */
	uint64_t pages_next_ns;
	/* and not before that, whatever grows or is taken beside */
	uint64_t pages_pause_ns;
};

/** record_pace_shot() - 1: a snapshot may be begun at @now. */
int record_pace_shot(const struct record_pace *pace, uint64_t now);
/**
 * record_pace_pages() - 1: pages by stack are to be read at @now. @wanted: there is a reason beside
 * the time, a new peak or a snapshot.
 */
int record_pace_pages(const struct record_pace *pace, uint64_t now, int wanted);
/**
 * record_pace_same() - at @now pages by stack were due for the time alone, and nothing can have
 * changed: not read.
 */
void record_pace_same(struct record_pace *pace, uint64_t now);
/**
 * record_pace_spent() - what was begun ended at @now: a snapshot took @shot_ns of CPU time, pages
 * by stack @pages_ns (0: there was none). From one's begin to the next's, snapshots take 1/200 of a
 * CPU at most (eager: 1/10), pages 1/50 (1/10).
 */
void record_pace_spent(struct record_pace *pace, uint64_t now, uint64_t shot_ns, uint64_t pages_ns);

#endif
