/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - find a program, see whether it can be traced, start it with the preload library. */
#ifndef RECORDER_LAUNCH_H
#define RECORDER_LAUNCH_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/** struct launch - what will be executed; release with launch_fini(). */
struct launch {
	/* file that is executed */
	char *path;
	/* as the program will see it */
	char **argv;
	char *library;
	char **env;
	/* where launch_*() failed: what byteledger exits with */
	int exit_status;
	/* it shall wait before its first instruction (inject/hold.h); then: it does */
	int holds;
};

/**
 * launch_resolve() - find @argv[0] as the shell would, follow "#!" lines, and refuse what
 * LD_PRELOAD cannot reach (static, other machine, set-user-ID) with a hint. `#!/usr/bin/env NAME`
 * becomes NAME itself, because an exec would end the recording.
 */
int launch_resolve(struct launch *launch, char **argv, struct err *err);

/**
 * launch_plain() - find @argv[0] as the shell would, to be executed as it is: scripts, static
 * programs and all.
 */
int launch_plain(struct launch *launch, char **argv, struct err *err);

/**
 * launch_without_preloads() - what LD_PRELOAD names is meant for the program: start this one again
 * without it, and return there with the environment as it was. Another clock or another allocator
 * would be the recorder's, too. @argv: the whole one.
 */
void launch_without_preloads(char **argv);

/**
 * launch_library() - find libbyteledger-heap.so: beside byteledger, ../lib, the configured folder.
 */
int launch_library(struct launch *launch, struct err *err);

/** struct launch_env - variables for the library; NULL or 0: not set. */
struct launch_env {
	int shm_fd;
	/* then what stands below, too */
	int follow_children;
	/* value of WIRE_ENV_NEXT, without @follow_children; NULL: none */
	const char *next;
	const char *output, *on_full;
	uint64_t family;
	uint64_t budget_bytes;
	int free_stacks, stamp_every_event;
};

/**
 * launch_start() - fork and exec with @mask as signal mask; returns when the exec has happened or
 * failed. @env NULL: nothing is preloaded, the environment is ours. A text that the kernel does not
 * take for a program is handed to /bin/sh. Return: the pid; negative errno with @err and
 * launch->exit_status 126 or 127.
 */
pid_t launch_start(struct launch *launch, const struct launch_env *env, const sigset_t *mask,
		   struct err *err);

void launch_fini(struct launch *launch);

#endif
