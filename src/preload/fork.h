/* SPDX-License-Identifier: Apache-2.0 */
/* fork.h - what happens around a fork of the C library's. */
#ifndef PRELOAD_FORK_H
#define PRELOAD_FORK_H

#include "preload/sys.h"

/** fork_prepare(), fork_parent(), fork_child() - for pthread_atfork(). */
void fork_prepare(void) HIDDEN;
void fork_parent(void) HIDDEN;
void fork_child(void) HIDDEN;
/**
 * fork_settle() - let go of the parent's book if what starts this child's recorder has done so. Any
 * thread, in a hook too; a system call where something is to be settled.
 */
void fork_settle(void) HIDDEN;

#endif
