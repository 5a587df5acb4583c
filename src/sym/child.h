/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - the reader (sym/reader.h) of a struct sym: names and lines of addresses. */
#ifndef SYM_CHILD_H
#define SYM_CHILD_H

#include <stdint.h>

#include "sym/module.h"

struct child;

#define CHILD_BATCH 2048u

/** child_start() - for @sym. NULL with errno: there can be none. */
struct child *child_start(struct sym *sym);
/** child_free() - it ends. NULL is fine. */
void child_free(struct child *child);

/** Told of each of the offsets in order; @symbols in the pool of struct sym, NULL with @count 0. */
typedef void (*child_fn)(void *ctx, uint32_t at, const struct symbol *symbols, uint32_t count);

/**
 * child_look_up() - what stands at @offsets of @module, CHILD_BATCH at most; @lines: by debug
 * information alone. Return: 0, or -EPIPE: it is dead, what it had said until then was told.
 */
int child_look_up(struct child *child, struct module *module, int lines, const uint64_t *offsets,
		  uint32_t count, child_fn fn, void *ctx);
/** child_compare() - sym_module_compare() there. Return: as child_look_up(). */
int child_compare(struct child *child, struct module *module);
/** child_rest() - give back what was read of @module, of all where it is NULL. */
void child_rest(struct child *child, const struct module *module);
/** child_pid() - for tests that harm it. */
int child_pid(const struct child *child);
/** child_held() - bytes that its files take, roughly, as it said last. */
uint64_t child_held(const struct child *child);

#endif
