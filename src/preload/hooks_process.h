/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks_process.h - what the hooks of hooks_process.c need to be declared for; not called from
 * elsewhere.
 */
#ifndef PRELOAD_HOOKS_PROCESS_H
#define PRELOAD_HOOKS_PROCESS_H

#include "preload/sys.h"

/**
 * process_exiting() - leave in the header that the program ends on its own account, when, and its
 * peak RSS.
 */
void process_exiting(void) HIDDEN;

/** note_syscall() - from the entry of syscall(), for the few numbers that matter. */
void note_syscall(long nr, long first, long second, long third, long fourth, long fifth) HIDDEN;

int dlclose(void *handle);
int __pthread_key_create(unsigned *key, void (*destructor)(void *));
void __register_frame(void *begin);
void __deregister_frame(void *begin);

#endif
