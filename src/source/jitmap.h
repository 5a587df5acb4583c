/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitmap.h - names of code that a program makes at run time, as it tells them itself:
 * /tmp/perf-PID.map (rows "start size name", of Node, the JVM, BEAM, .NET ...) and jitdump files
 * (jit-PID.dump, which it keeps mapped). Read as they grow, below the program's own root. Nothing
 * in them is trusted: regular files of the program's user, bounded rows and text.
 */
#ifndef SOURCE_JITMAP_H
#define SOURCE_JITMAP_H

#include <stdint.h>
#include <sys/types.h>

struct jitmap;

/** struct jit_code - one piece of code; lent until jitmap_free(). */
struct jit_code {
	uint64_t start, end;
	/* of its row; unique */
	uint32_t number;
	/* 0: not known */
	uint32_t line;
	/* never NULL */
	const char *function;
	/* NULL: not known */
	const char *file;
};

/**
 * jitmap_new() - of process @pid, that calls itself @own_pid (in its pid namespace). NULL without
 * memory.
 */
struct jitmap *jitmap_new(pid_t pid, pid_t own_pid);
void jitmap_free(struct jitmap *map);
/**
 * jitmap_poll() - read what has been written since the last call. Cost: two system calls where
 * nothing was.
 */
void jitmap_poll(struct jitmap *map);
/**
 * jitmap_find() - the code that holds @addr, by the row that came last; NULL: none that is known.
 */
const struct jit_code *jitmap_find(const struct jitmap *map, uint64_t addr);
/**
 * jitmap_text() - take rows of a perf map, as far as they are whole lines; for jitmap_poll() and
 * tests. Return: bytes that were taken.
 */
size_t jitmap_text(struct jitmap *map, const char *text, size_t bytes);
/**
 * jitmap_dump() - take whole records of a jitdump behind its header, likewise. -EBADMSG: it makes
 * no sense, and is left alone from here on.
 */
ssize_t jitmap_dump(struct jitmap *map, const void *bytes, size_t count);

#endif
