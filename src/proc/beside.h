/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beside.h - memory that a process or its cgroup answers for and that is in no process's RSS: page
 * tables, slab, sockets, page cache, files without a name that are open but not mapped; and the
 * limits that all of it is counted against. No lock of the process is taken.
 */
#ifndef PROC_BESIDE_H
#define PROC_BESIDE_H

#include <stdint.h>

#include "proc/target.h"

struct breakdown;

#define BESIDE_PATH_MAX 4096

/** struct cgroup_memory - of one cgroup and all below it; UINT64_MAX: not told here. */
struct cgroup_memory {
	/* 1 or 2; 0: no memory controller is in sight */
	int version;
	/* the folder read, below a mount; "" where it is not ours to see */
	char path[BESIDE_PATH_MAX];
	uint64_t current_bytes, peak_bytes;
	/* the lowest of it and those above it; UINT64_MAX: none */
	uint64_t limit_bytes;
	uint64_t swap_bytes;
	/* file: page cache, shmem included */
	uint64_t anon_bytes, shmem_bytes, file_bytes, file_mapped_bytes, inactive_file_bytes,
		active_file_bytes;
	uint64_t dirty_bytes, writeback_bytes, unevictable_bytes;
	/* all of the kernel's: those below and more */
	uint64_t kernel_bytes;
	uint64_t page_table_bytes, slab_reclaimable_bytes, slab_unreclaimable_bytes, socket_bytes,
		kernel_stack_bytes, percpu_bytes;
	uint64_t oom_kills;
	/* PSI, per cent of the last 10 s; negative: not told */
	double pressure_some, pressure_full;
	/* of all there is: this cgroup's own is not told */
	int pressure_of_machine;
};

/**
 * cgroup_memory_read() - of the cgroup that @target is in. 0; -ENOENT where there is none that can
 * be seen. Some 100 us.
 */
int cgroup_memory_read(const struct target *target, struct cgroup_memory *memory);
/** cgroup_memory_at() - the same of the folder @path. */
int cgroup_memory_at(const char *path, struct cgroup_memory *memory);
/**
 * cgroup_limit() - the lowest limit on @target's cgroup or one above it, of either version;
 * UINT64_MAX: none.
 */
uint64_t cgroup_limit(const struct target *target);
/**
 * cgroup_working_set() - what kubelet counts: current less inactive page cache. UINT64_MAX: not
 * told.
 */
uint64_t cgroup_working_set(const struct cgroup_memory *memory);

/**
 * cgroup_cache_reclaimable() - page cache that can go when memory is wanted (what is dirty once it
 * is written). UINT64_MAX: not told.
 */
uint64_t cgroup_cache_reclaimable(const struct cgroup_memory *memory);
/**
 * cgroup_cache_held() - page cache that cannot: shared memory, tmpfs, what is locked. UINT64_MAX:
 * not told.
 */
uint64_t cgroup_cache_held(const struct cgroup_memory *memory);

/** beside_mappings_max() - vm.max_map_count; UINT64_MAX: not told. */
uint64_t beside_mappings_max(void);

/**
 * struct held_file - one without a name, or a segment of System V shared memory that nobody has
 * attached (device 0).
 */
struct held_file {
	uint64_t device, inode, bytes;
	char name[64];
};
#define BESIDE_HELD_MAX 4096u

/** struct beside - of one process. */
struct beside {
	struct cgroup_memory cgroup;
	uint64_t page_table_bytes, locked_bytes, pinned_bytes;
	/* what the OOM killer counts: RSS, swap and page tables */
	uint64_t oom_bytes;
	/* vm.max_map_count */
	uint64_t mappings, mappings_max;
	/*
	 * memfds, deleted shared memory and other files without a name: open here and mapped
	 * nowhere here
	 */
	uint64_t held_bytes, held_count;
	/* of the largest */
	char held_name[64];
	uint64_t held_largest_bytes;
	/* whether descriptors may be looked at */
	int held_known;
	/* each of them, at most BESIDE_HELD_MAX; malloc'd */
	struct held_file *held;
	size_t held_listed;
	/* buffers of its sockets; UINT64_MAX: not told */
	uint64_t socket_bytes, sockets;
	/* by which the OOM killer chooses; -1: not told */
	int oom_score;
};

/**
 * beside_read() - @breakdown's mappings say what is mapped, its totals the rest. 2 us a descriptor,
 * at most 65,536 of them, and a pass over the machine's sockets where it has any and @sockets are
 * asked for.
 */
void beside_read(const struct target *target, const struct breakdown *breakdown, int sockets,
		 struct beside *beside);
/** beside_oom_score() - by which the OOM killer chooses; -1: not told. */
int beside_oom_score(const struct target *target);
/** beside_free() - NULL is fine. */
void beside_free(struct beside *beside);

#endif
