/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - where a stopped thread stands, and whether that is a place from which it may be led
 * aside to load a library: not within the allocator, nor the loader, nor what holds a lock that
 * loading needs.
 */
#ifndef INJECT_WALK_H
#define INJECT_WALK_H

#include <stdint.h>
#include <sys/types.h>

#include "inject/objects.h"

enum walk_place {
	/* it may be led aside */
	WALK_SAFE,
	/* not here, but it may be a moment later */
	WALK_BUSY,
	/* in the loader: whatever it holds, nobody else may load anything */
	WALK_LOADING,
	/* in a hook of ours, which may go on to write what it recorded */
	WALK_HOOK,
	/* its stack cannot be followed to its end */
	WALK_UNKNOWN,
	/* it has ended, or it is in a system call of the kernel's own doing */
	WALK_GONE
};

struct walk_ask {
	struct objects *objects;
	/* of a library of ours that is there already, and of an allocator beside the C library's */
	uint64_t own_lo, own_hi, allocator_lo, allocator_hi;
	/* see wire/inject.h; 0: not known */
	int64_t sync_at;
};

/** walk_place() - of thread @tid, which is stopped by us. Some 5 us a frame. */
enum walk_place walk_place(const struct walk_ask *ask, pid_t tid);
/** walk_pc() - where it stands; 0: not known. *@waits: in a system call. */
uint64_t walk_pc(pid_t tid, int *waits);

#endif
