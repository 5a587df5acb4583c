/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - the library on its own: who drains the rings when no byteledger parent is there. */
#ifndef PRELOAD_HELPER_H
#define PRELOAD_HELPER_H

#include "preload/options.h"
#include "wire/heap.h"

/**
 * helper_shared() - create, lay out, map and seal the memfd. Return: the mapping and its
 * descriptor, or NULL.
 */
struct wire_heap_header *helper_shared(const struct options *opt, int *fd) HIDDEN;

/**
 * helper_start() - run `byteledger --recorder FD` beside the program, neither its child nor in its
 * session. Stops the calling thread until that has written its word into @heap, as its recorder:
 * that it was executed says little, for its loader may end it. Return: 0 if none could be started.
 */
int helper_start(const struct options *opt, int fd, struct wire_heap_header *heap) HIDDEN;

/**
 * helper_start_beside() - the same for the child of a fork, without waiting for it: a process that
 * shares our memory and is no child of ours does it meanwhile, for some milliseconds. @parent: the
 * book of the process that forked where its recorder is on its way, too:
 * @heap's fork_recorder is filled in once it is known; NULL: it is. Whatever makes the start fail
 * later ends the recording by
 * @heap's detach. Return: 1 it is at it; 0 nothing was started.
 */
int helper_start_beside(const struct options *opt, int fd, struct wire_heap_header *heap,
			struct wire_heap_header *parent) HIDDEN;

/** helper_settled() - whether that has no need of @parent any more. */
int helper_settled(void) HIDDEN;

/**
 * helper_prepare() - find the helper and copy its environment now: the child of a fork starts one
 * without asking the loader, and long after the program may have overwritten its environment with a
 * title.
 */
void helper_prepare(const struct options *opt) HIDDEN;

/**
 * helper_raw() - no helper: the layout in OUTPUT.raw, mapped shared. Return: the mapping or NULL.
 */
struct wire_heap_header *helper_raw(const struct options *opt) HIDDEN;

#endif
