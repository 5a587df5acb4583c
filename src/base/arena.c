/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u << 10)
#define ALIGN 16u

struct arena_block {
	struct arena_block *next;
	size_t used, cap;
	_Alignas(ALIGN) char bytes[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
	size_t need;
	if (__builtin_add_overflow(bytes, ALIGN - 1, &need))
		return NULL;
	need &= ~(size_t)(ALIGN - 1);
	struct arena_block *b = arena->blocks;
	if (b && need <= b->cap - b->used) {
		void *p = b->bytes + b->used;
		b->used += need;
		return p;
	}
	/* A big thing gets its own block behind the current one, whose room stays in use. */
	size_t cap = need > BLOCK_BYTES / 4 ? need : BLOCK_BYTES, total;
	if (__builtin_add_overflow(cap, sizeof(*b), &total))
		return NULL;
	struct arena_block *fresh = malloc(total);
	if (!fresh)
		return NULL;
	fresh->used = need;
	fresh->cap = cap;
	arena->bytes += total;
	if (b && cap == need) {
		fresh->next = b->next;
		b->next = fresh;
	} else {
		fresh->next = b;
		arena->blocks = fresh;
	}
	return fresh->bytes;
}

void *arena_memdup(struct arena *arena, const void *from, size_t bytes)
{
	size_t total;
	if (__builtin_add_overflow(bytes, 1, &total))
		return NULL;
	char *copy = arena_alloc(arena, total);
	if (!copy)
		return NULL;
	if (bytes)
		memcpy(copy, from, bytes);
	copy[bytes] = '\0';
	return copy;
}

void arena_fini(struct arena *arena)
{
	for (struct arena_block *b = arena->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	*arena = (struct arena){ 0 };
}
