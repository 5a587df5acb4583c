/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - the library on its own: who drains the rings when no byteledger parent is there. */
#ifndef PRELOAD_HELPER_H
#define PRELOAD_HELPER_H

#include "preload/options.h"
#include "wire/heap.h"

/**
 * helper_shared() - create, lay out, map and seal the memfd. Return: the mapping and its descriptor, or NULL.
 */
struct wire_heap_header *helper_shared(const struct options *opt, int *fd) HIDDEN;

/**
 * helper_start() - run `byteledger --recorder FD` beside the program, neither its child nor in its session. Stops the
 * calling thread until the helper is executed. Return: its pid, 0 if it could not be started.
 */
int helper_start(const struct options *opt, int fd) HIDDEN;

/**
 * helper_prepare() - find the helper and copy its environment now: the child of a fork starts one without asking the loader,
 * and long after the program may have overwritten its environment with a title.
 */
void helper_prepare(const struct options *opt) HIDDEN;

/** helper_raw() - no helper: the layout in OUTPUT.raw, mapped shared. Return: the mapping or NULL. */
struct wire_heap_header *helper_raw(const struct options *opt) HIDDEN;

#endif
