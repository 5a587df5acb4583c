/* SPDX-License-Identifier: Apache-2.0 */
/* modules.h - which ELF object holds an address. */
#ifndef PRELOAD_MODULES_H
#define PRELOAD_MODULES_H

#include <stdint.h>

#include "preload/sys.h"
#include "unwind/capture.h"

/** modules_init() - once, after the mapping exists. */
void modules_init(void) HIDDEN;
int module_find(void *ctx, uint64_t pc, struct unwind_module *module) HIDDEN;
int page_probe(void *ctx, uint64_t addr) HIDDEN;
/**
 * modules_forked() - in the child: the lock is nobody's; the table was carried over to
 * process.heap.
 */
void modules_forked(void) HIDDEN;
/**
 * modules_left() - the calling thread jumped out of a hook: if it held the lock there, nobody does
 * now.
 */
void modules_left(void) HIDDEN;
/**
 * modules_closed() - after a dlclose(): if a module really went away, note which and make threads
 * forget.
 */
void modules_closed(void) HIDDEN;
/**
 * modules_unmapped() - the program released [@at, @at + @bytes): code of no object that was met
 * there is gone. In a hook.
 */
void modules_unmapped(uint64_t at, uint64_t bytes) HIDDEN;

/* ---- modules_path.c ---- */

/**
 * mapped_path() - under the lock of modules.c: where the file that is mapped at @lo lies. The
 * loader's own name for it may be relative, to a folder that the program has left since. NULL:
 * nobody can be asked.
 */
const char *mapped_path(uint64_t lo) HIDDEN;

#endif
