/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer.h - steer the recording of a process from outside: by words in the memory that it shares
 * with its recorder, as who may trace it may write them.
 */
#ifndef INJECT_STEER_H
#define INJECT_STEER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum steer_what { STEER_MARK = 1, STEER_START = 2, STEER_STOP = 4, STEER_SYNC = 8 };

struct steering {
	pid_t pid;
	/* the mark's number */
	uint32_t mark;
	/* bits of enum steer_what; switching comes before the mark, that before the rest */
	unsigned what;
};

struct target;
/**
 * steer_recorded() - whether @target is recorded, by a recorder that is there; *@recorder: its pid,
 * as the target's recorder sees itself.
 */
int steer_recorded(const struct target *target, uint32_t *recorder);

/**
 * steer() - @s of another process's recording. Allocations are recorded, or are not, from each
 * thread's next one on. A mark and what happened before stand in the file when this returns: some
 * milliseconds, two seconds where the program sleeps. Return: 0, or a negative errno with @err:
 * -EINVAL (nothing is asked, or nobody, or a @program to start stands beside it), -ESRCH (no such
 * process), -EPERM, -ENOMSG (nothing records it), -ETIMEDOUT (its recorder does not answer).
 */
int steer(const struct steering *s, const char *program, struct err *err);

#endif
