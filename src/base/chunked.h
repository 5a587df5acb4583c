/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunked.h - an append-only array in chunks: elements never move, so lent pointers stay good while
 * it grows. Also used sparsely (chunked_touch): chunks nobody wrote to do not exist.
 */
#ifndef BASE_CHUNKED_H
#define BASE_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

#define CHUNKED_SHIFT 12
#define CHUNKED_ITEMS (1u << CHUNKED_SHIFT)

/**
 * struct chunked - elements of @item_bytes, zeroed when they appear. Initialise with
 * CHUNKED_INIT(type).
 */
struct chunked {
	char **chunks;
	/* elements appended */
	uint32_t count;
	uint32_t chunk_cap;
	uint32_t item_bytes;
	/* of a chunk's first byte: 64, so that 64-byte items have a cache line each */
	uint32_t align;
};
#define CHUNKED_INIT(type)                               \
	{                                                \
		.item_bytes = sizeof(type), .align = 64, \
	}

/**
 * chunked_add() - append one zeroed element; NULL without memory or at 2^32-1 elements. O(1)
 * amortised.
 */
void *chunked_add(struct chunked *array);
/**
 * chunked_touch() - make sure the chunk of element @index exists (does not change count); NULL
 * without memory.
 */
void *chunked_touch(struct chunked *array, uint32_t index);
/** chunked_at() - element @index, which must have been added or touched. */
static inline void *chunked_at(const struct chunked *array, uint32_t index)
{
	return array->chunks[index >> CHUNKED_SHIFT] +
	       (size_t)(index & (CHUNKED_ITEMS - 1)) * array->item_bytes;
}
/** chunked_has() - 1 if element @index lies in a chunk that exists. */
static inline int chunked_has(const struct chunked *array, uint32_t index)
{
	uint32_t chunk = index >> CHUNKED_SHIFT;
	return chunk < array->chunk_cap && array->chunks[chunk];
}
/**
 * chunked_copy_bytes() - what chunked_copy() of the elements below @count takes; a multiple of 64.
 */
size_t chunked_copy_bytes(const struct chunked *from, uint32_t count);
/**
 * chunked_copy() - make @to, which is uninitialised, show copies of the elements below @count of
 * @from that stand at @memory, aligned to 64; the place behind them is returned. Nothing is to be
 * added to @to, nor is it to be released: @memory is.
 */
char *chunked_copy(struct chunked *to, const struct chunked *from, uint32_t count, char *memory);
/** chunked_fini() - release everything; empty and usable afterwards. */
void chunked_fini(struct chunked *array);

#endif
