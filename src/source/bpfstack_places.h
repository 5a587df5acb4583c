/* SPDX-License-Identifier: Apache-2.0 */
/* bpfstack_places.h - which code a process has mapped where. */
#ifndef SOURCE_BPFSTACK_PLACES_H
#define SOURCE_BPFSTACK_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** One executable mapping, as the kernel and the mapped file's own notes tell. */
struct code_mapping {
	uint64_t lo, hi, file_offset;
	/* "" for anonymous code */
	char *path;
	/* tells files of one name apart */
	uint64_t inode;
	uint8_t build_id[32];
	/* 0 = none found */
	uint8_t build_id_len;
};

struct code_mappings {
	struct code_mapping *all;
	size_t count;
	/* changes with anything above */
	uint64_t hash;
};
void code_mappings_fini(struct code_mappings *mappings);

/**
 * struct code_ids - build ids of files that were looked into; told by device, inode, size and time
 * of change.
 */
struct code_ids {
	struct code_id {
		uint64_t dev, ino, size, changed_ns;
		uint8_t build_id[32];
		uint8_t build_id_len;
	} all[512];
};

/**
 * code_mappings_read() - in order of address; -ESRCH for a process that is gone. @ids: what is
 * known of files, kept by the caller and zeroed at first; NULL: each is opened. Some 10 us a
 * mapping, 3 us for a known file. One that is amid exec is waited for, 0.2 s at most.
 */
int code_mappings_read(struct code_mappings *mappings, uint32_t pid, struct code_ids *ids,
		       struct err *err);

#endif
