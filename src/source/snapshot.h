/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - a process's memory at one instant, from /proc and its allocators' own books:
 * model/snapshot.h filled.
 */
#ifndef SOURCE_SNAPSHOT_H
#define SOURCE_SNAPSHOT_H

#include <sys/types.h>

#include "base/err.h"
#include "model/snapshot.h"

struct snapshot_opt {
	/* stop every thread while it is read; the stall is told */
	int freeze;
	/* CLOCK_MONOTONIC of the recording's start; 0: times are of that clock */
	uint64_t time_zero_ns;
	/*
	 * of a recorder: no BPF, no look into huge pages; smaps only where Linux is older than
	 * 6.11, so no PSS
	 */
	int quiet;
};
/**
 * snapshot_take() - of process @pid. Nothing stops unless asked for: mappings come first (smaps:
 * its mmap() waits for the walk of one mapping at a time; quiet: half a millisecond at a time),
 * then pages (that moment is the snapshot's), then allocators are walked. Cost: some 0.4 s a GiB of
 * heap, once 48 bytes a span or slab and 16 a free chunk. Return: snapshot_free(); NULL with @err:
 * -ESRCH, -EACCES, -ENOMEM ...
 */
struct snapshot *snapshot_take(pid_t pid, const struct snapshot_opt *opt, struct err *err);

/**
 * snapshot_step_back() - for the calling thread: it takes its turn from nobody who has just become
 * ready.
 */
void snapshot_step_back(void);

/** Who records @pid by the preload library: its recorder's pid, 0 where nobody does. */
pid_t snapshot_recorder(pid_t pid);

#endif
