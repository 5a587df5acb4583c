/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.h - from the first hooked call to the first recorded one, and memory of the library's own.
 */
#ifndef PRELOAD_START_H
#define PRELOAD_START_H

#include <stdint.h>

#include "preload/thread.h"

/**
 * start_once() - resolve, map, begin; by whoever comes first. Later and concurrent callers return
 * at once.
 */
void start_once(void) HIDDEN;

/** start_late() - leave MODE_IDLE: create what start_once() put off. */
void start_late(void) HIDDEN;

/**
 * own_memory() - zeroed, named and entered as the library's own; NULL where there is none, or no
 * room to enter it.
 */
void *own_memory(uint64_t bytes) HIDDEN;
/**
 * own_memory_name() - name anonymous memory as the library's own; without effect where kernels do
 * not.
 */
void own_memory_name(const void *at, uint64_t bytes) HIDDEN;
/**
 * own_range_add() - enter memory as the library's own into process.heap. Return: 0 where that has
 * no room.
 */
int own_range_add(const void *at, uint64_t bytes) HIDDEN;

struct options;
/**
 * start_injected() - prepare to record, as @asked, where nobody records: in a process into which
 * the library came just now, or whose last session has ended. @fd: of the shared memory. Return: 0;
 * -EBUSY where somebody records, -ENOMEM. The process word says from when on.
 */
int start_injected(const struct options *asked, int *fd) HIDDEN;

/** start_child() - in the child of a fork, whose only thread is @t: a recording of its own. */
void start_child(struct thread *t) HIDDEN;

#endif
