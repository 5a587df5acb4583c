/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what was asked of allocators and runtimes, and what is in force: by the environment
 * and the arguments that a process was started with, and by their own books.
 */
#ifndef PROC_SETTINGS_H
#define PROC_SETTINGS_H

#include <stddef.h>

#include "proc/target.h"

#define SETTINGS_MAX 64u

struct setting {
	char name[48], value[160];
	/* "environment", "command line", "glibc, risen by itself" */
	char from[48];
};

struct settings {
	struct setting rows[SETTINGS_MAX];
	size_t count;
	/* there was no room */
	size_t left_out;
};

/** settings_add() - one more; texts too long are cut. */
void settings_add(struct settings *settings, const char *name, const char *value, const char *from);
/**
 * settings_read() - of @target's environment and command line as it was started: MALLOC_*,
 * GLIBC_TUNABLES, MALLOC_CONF, TCMALLOC_*, MIMALLOC_*, GOGC, GOMEMLIMIT, GODEBUG,
 * JAVA_TOOL_OPTIONS, PYTHONMALLOC, NODE_OPTIONS, LD_PRELOAD, RUBY_GC_*; -X and memory options of
 * java and node. What may not be read is passed over. At most 1 MiB each.
 */
void settings_read(struct settings *settings, const struct target *target);

#endif
