/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numa.h - on which nodes a process's pages lie, mapping by mapping, and by which policy:
 * /proc/PID/numa_maps.
 */
#ifndef PROC_NUMA_H
#define PROC_NUMA_H

#include <stddef.h>
#include <stdint.h>

#include "proc/target.h"

#define NUMA_NODES_MAX 16u

/** struct numa_row - one mapping. */
struct numa_row {
	uint64_t start;
	/* "default", "bind:0", "interleave:0-1" */
	char policy[40];
	uint64_t node_bytes[NUMA_NODES_MAX];
	/* on nodes of higher numbers */
	uint64_t other_bytes;
};

struct numa {
	/* by address */
	struct numa_row *rows;
	size_t count;
};

/**
 * numa_read() - one walk of all pages, as smaps is; how long the target may have waited goes to
 * @stall_ns, if that is more. 0; -ENOENT where the kernel knows no nodes; negative errno. NULL is
 * never a failure later.
 */
int numa_read(const struct target *target, struct numa *numa, uint64_t *stall_ns);
/**
 * numa_parse() - @text's lines, as the kernel writes them; what is none is passed over. -ENOMEM.
 */
int numa_parse(struct numa *numa, const char *text);
/** numa_at() - of the mapping that begins at @start; NULL: not told. O(log n). */
const struct numa_row *numa_at(const struct numa *numa, uint64_t start);
/**
 * numa_is_told() - 1 if it lies on several nodes, or by another policy than the default: of one
 * node there is nothing to tell.
 */
int numa_is_told(const struct numa_row *row);
void numa_free(struct numa *numa);

#endif
