/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapnames.h - names for mappings where the kernel keeps none: who asked for them (the first
 * function that is no allocator on the stack of the mmap()), and what prctl(PR_SET_VMA) wanted to
 * call them. By BPF, from the moment of the call on.
 */
#ifndef SOURCE_MAPNAMES_H
#define SOURCE_MAPNAMES_H

#include "proc/breakdown.h"

struct mapnames;

/**
 * mapnames_new() - begin to watch. -EPERM or -EACCES where BPF is not permitted, -EOPNOTSUPP on
 * other machines than x86-64; a hint says what to do. Costs some 0.1 s once, then what
 * bpfstack_attach_extents() says.
 */
struct mapnames *mapnames_new(struct err *err);
void mapnames_free(struct mapnames *names);
void mapnames_freep(struct mapnames **names);
/**
 * mapnames_add() - watch @pid, too; at most 64 processes. Its code's unwind tables are made or
 * fetched.
 */
int mapnames_add(struct mapnames *names, pid_t pid, struct err *err);

/**
 * mapnames_of() - both for @count processes; where one cannot be followed @err is set and the
 * others are.
 */
struct mapnames *mapnames_of(const pid_t *pids, size_t count, struct err *err);

/**
 * mapnames_apply() - put what is known over the mappings of @breakdown, which must keep every one;
 * mappings that the kernel merged are cut, what is resident of the pieces is counted, the sums stay
 * exact. Before heaps_read(), which knows better. Any thread, one at a time. -ENOMEM; what cannot
 * be asked of the kernel is left as it is.
 */
int mapnames_apply(struct mapnames *names, struct breakdown *breakdown, const struct target *target,
		   struct err *err);

/**
 * mapnames_lost() - what was mapped or named but found no room, so far: those mappings are called
 * by rules.
 */
uint64_t mapnames_lost(struct mapnames *names);

#endif
