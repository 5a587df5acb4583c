/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h - the objects that the loader has put into a process, read from outside: their symbols,
 * relocations and call frames, out of the process's own memory. It may go on running: what changes
 * meanwhile is missing or wrong, and nothing is ever followed without a bound.
 */
#ifndef INJECT_OBJECTS_H
#define INJECT_OBJECTS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/target.h"

struct object {
	/* what is added to the addresses of its file */
	uint64_t bias;
	uint64_t lo, hi;
	/* of its dynamic section, and of the loader's book of it */
	uint64_t dynamic, map_at;
	char name[512];
	/* the loader itself; the C library or a part of it; the kernel's */
	uint8_t is_loader, is_libc, is_vdso;

	/* 0: it has none */
	uint64_t symbols_at, strings_at, strings_bytes, gnu_hash_at, hash_at;
	uint64_t plt_at, plt_bytes, rela_at, rela_bytes;
	uint64_t frames_at, frames_lo, frames_hi;

	/* copies, made when they are asked for first */
	Elf64_Sym *symbols;
	char *strings;
	size_t symbol_count;
	uint8_t *frames;
	/* there are no such copies to be had */
	uint8_t no_symbols, no_frames;
};

struct objects {
	const struct target *target;
	struct object *list;
	size_t count;
};

/**
 * objects_read() - the objects of @target's first namespace, in the loader's order; some 20 us
 * each. -ENOEXEC with @err: it has no loader (static); -EAGAIN: that is at work still, for the
 * program has just been started, or is being replaced.
 */
int objects_read(struct objects *objects, const struct target *target, struct err *err);
void objects_fini(struct objects *objects);

/** objects_at() - the one that holds @addr; NULL: none. */
struct object *objects_at(const struct objects *objects, uint64_t addr);
/** objects_named() - the one whose file has this name; NULL: none. */
struct object *objects_named(const struct objects *objects, const char *file);

/** object_symbols() - have its dynamic symbols read. Return: 1 they are there. */
int object_symbols(const struct objects *objects, struct object *object);
/** object_find() - the address of a function or variable that it defines; 0: none. */
uint64_t object_find(const struct objects *objects, struct object *object, const char *name);
/** object_is_in() - whether @addr is in a function that has one of the names, ended by NULL. */
int object_is_in(const struct objects *objects, struct object *object, uint64_t addr,
		 const char *const *names);
/** object_is_named() - whether @addr is in a function that has a name at all. */
int object_is_named(const struct objects *objects, struct object *object, uint64_t addr);
/** object_frames() - have its call frames read. Return: 1 they are there. */
int object_frames(const struct objects *objects, struct object *object);

#endif
