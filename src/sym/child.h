/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - a process of its own that reads ELF and DWARF: it has no privileges (sym/confine.h), files are opened for it, its memory
 * is bounded, and when it dies, names are missing and nothing else.
 *
 * It begins as a copy of this process, so nothing has to be found and started anew; what it says is checked as a file would be.
 */
#ifndef SYM_CHILD_H
#define SYM_CHILD_H

#include <stdint.h>

#include "sym/module.h"

struct child;

/* What it may take beyond what this process had when it began, and for each byte of a file that it has to read. */
#define CHILD_BYTES (384ull << 20)
#define CHILD_FILE_GROWS 8u
/* So often it is begun anew in the life of a struct sym; after that names are missing. */
#define CHILDREN_MAX 8
#define CHILD_BATCH 2048u

/** child_start() - for @sym. NULL with errno: there can be none. */
struct child *child_start(struct sym *sym);
/** child_free() - it ends. NULL is fine. */
void child_free(struct child *child);

/** Told of each of the offsets in order; @symbols in the pool of struct sym, NULL with @count 0. */
typedef void (*child_fn)(void *ctx, uint32_t at, const struct symbol *symbols, uint32_t count);

/**
 * child_look_up() - what stands at @offsets of @module, CHILD_BATCH at most; @lines: by debug information alone.
 * Return: 0, or -EPIPE: it is dead, what it had said until then was told.
 */
int child_look_up(struct child *child, struct module *module, int lines, const uint64_t *offsets,
		  uint32_t count, child_fn fn, void *ctx);
/** child_rest() - give back what was read of @module, of all where it is NULL. */
void child_rest(struct child *child, const struct module *module);
/** child_pid() - for tests that harm it. */
int child_pid(const struct child *child);
/** child_held() - bytes that its files take, roughly, as it said last. */
uint64_t child_held(const struct child *child);

#endif
