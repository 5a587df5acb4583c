/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patched.h - what the room `patch` does for the library. Declared here, since it stands on the
 * library's own headers: nothing of preload includes one of patch.
 */
#ifndef PRELOAD_PATCHED_H
#define PRELOAD_PATCHED_H

#include "preload/frames.h"
#include "unwind/capture.h"

/**
 * own_hook_all() - find and hook them: in the executable by its symbols, in other objects that were
 * loaded with it by what they export. Once, by the start, with signals blocked, while the process
 * has one thread; does nothing otherwise, and says so in the log. Costs some 20 us where there are
 * none and the executable is stripped, else some 20 ns a symbol.
 */
void own_hook_all(void) HIDDEN;

/**
 * own_enter() - enter what is hooked, and our memory beside the program's code, into process.heap:
 * once for each such book, as it is taken or, if it was there before, by own_hook_all().
 */
void own_enter(void) HIDDEN;

typedef void own_led_fn(void *ctx, uintptr_t hook, uintptr_t original, const char *name);
/**
 * own_lead() - in a process that we came into, each time: have hooks ready for the allocators that
 * have names of their own in a library, hand them to @each, and enter whose they are into
 * process.heap. @name is of that library. While no object can go away. Some us where there are
 * none.
 */
void own_lead(own_led_fn *each, void *ctx) HIDDEN;

/**
 * calls_closing() - whether the code of an object, at most 2 MiB of it, has system calls of its own
 * that may close pages of a stack.
 */
int calls_closing(const char *path, const struct frames_object *object,
		  const struct unwind_module *module) HIDDEN;

#endif
