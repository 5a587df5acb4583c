/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - many small things with one end: memory handed out in a row and released all at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/** struct arena - zero-initialised is empty and valid. What it hands out never moves. */
struct arena {
	/* newest first; only the first has room */
	struct arena_block *blocks;
	/* taken from the system so far */
	size_t bytes;
};

/**
 * arena_alloc() - @bytes aligned to 16, content undefined; NULL without memory. Released by
 * arena_fini(). O(1).
 */
void *arena_alloc(struct arena *arena, size_t bytes);
/**
 * arena_memdup() - a copy of [@from, @from + @bytes) followed by one zero byte; NULL without
 * memory.
 */
void *arena_memdup(struct arena *arena, const void *from, size_t bytes);
/**
 * arena_fini() - release everything; the arena is empty and usable afterwards. CLEANUP(arena_fini)
 * works.
 */
void arena_fini(struct arena *arena);

#endif
