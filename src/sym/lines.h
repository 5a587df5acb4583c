/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - what DWARF knows about an address: file, line and the functions inlined there. */
#ifndef SYM_LINES_H
#define SYM_LINES_H

#include <stdint.h>

#include "sym/image.h"

struct lines;

/** struct line_frame - one function at the address; strings are lent until lines_free(). */
struct line_frame {
	/* linkage name where there is one, NULL = unknown */
	const char *name;
	/* may be relative to @dir */
	const char *file;
	/* the compilation folder, NULL = unknown */
	const char *dir;
	uint32_t line;
};
#define LINES_DEPTH_MAX 64

/**
 * lines_new() - read @image's DWARF; NULL where it has none that can be used. Units are indexed
 * here (one DIE each), their functions when an address of theirs is first asked for. @search finds
 * the file that dwz shared parts into.
 */
struct lines *lines_new(const struct image *image, const struct debug_search *search);
void lines_free(struct lines *lines);

/**
 * lines_find() - the frames at @address, innermost first; the last is the function itself (its name
 * may be NULL). Return: their number, at most LINES_DEPTH_MAX; 0 where DWARF knows nothing. O(log
 * n) for a function seen before.
 */
unsigned lines_find(struct lines *lines, uint64_t address, struct line_frame *frames);

#endif
