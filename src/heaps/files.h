/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - what readers of heaps ask of the files that a process has mapped: variables by name,
 * and bytes that the process itself need not have touched. Room source fills it in
 * (source/heapfiles.h); without it nothing is asked.
 */
#ifndef HEAPS_FILES_H
#define HEAPS_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/target.h"

struct heap_files {
	/**
	 * The virtual addresses @at of variables @names of file @path as @target sees it; 0: it has
	 * none. A millisecond a call.
	 */
	void (*variables)(const struct target *target, const char *path, const char *const names[],
			  size_t count, uint64_t at[]);
	/** A descriptor to read file @path by, the caller's to close; or negative errno. */
	int (*open)(const struct target *target, const char *path);
};

static inline uint64_t heap_files_variable(const struct heap_files *files,
					   const struct target *target, const char *path,
					   const char *name)
{
	uint64_t at;
	files->variables(target, path, &name, 1, &at);
	return at;
}

#endif
