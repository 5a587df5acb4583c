/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chunked.h"

#include <stdlib.h>
#include <string.h>

/*
 * A chunk of zeros, aligned. Not touched: of a process that did little most pages of a chunk never
 * are. The byte before it says how far it lies from what was allocated.
 */
static char *new_chunk(const struct chunked *array)
{
	char *base = calloc(1, ((size_t)array->item_bytes << CHUNKED_SHIFT) + array->align);
	if (!base)
		return NULL;
	char *items = base + array->align - (uintptr_t)base % array->align;
	items[-1] = (char)(items - base);
	return items;
}

static void free_chunk(char *items)
{
	if (items)
		free(items - (unsigned char)items[-1]);
}

void *chunked_touch(struct chunked *array, uint32_t index)
{
	uint32_t chunk = index >> CHUNKED_SHIFT;
	if (chunk >= array->chunk_cap) {
		uint32_t cap = array->chunk_cap ? array->chunk_cap : 8;
		while (cap <= chunk)
			cap *= 2; /* at most 2^20 chunks in all */
		char **chunks = realloc(array->chunks, (size_t)cap * sizeof(*chunks));
		if (!chunks)
			return NULL;
		memset(chunks + array->chunk_cap, 0,
		       (size_t)(cap - array->chunk_cap) * sizeof(*chunks));
		array->chunks = chunks;
		array->chunk_cap = cap;
	}
	if (!array->chunks[chunk] && !(array->chunks[chunk] = new_chunk(array)))
		return NULL;
	return chunked_at(array, index);
}

void *chunked_add(struct chunked *array)
{
	if (array->count == UINT32_MAX)
		return NULL;
	void *item = chunked_touch(array, array->count);
	if (item)
		array->count++;
	return item;
}

/* Chunks that hold elements below @count. */
static uint32_t chunks_below(const struct chunked *array, uint32_t count)
{
	uint32_t chunks = (uint32_t)(((uint64_t)count + CHUNKED_ITEMS - 1) >> CHUNKED_SHIFT);
	return chunks < array->chunk_cap ? chunks : array->chunk_cap;
}

static size_t rounded(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* Bytes of chunk @i that lie below element @count. */
static size_t bytes_below(const struct chunked *array, uint32_t i, uint32_t count)
{
	uint32_t items = count - (i << CHUNKED_SHIFT);
	return (size_t)(items < CHUNKED_ITEMS ? items : CHUNKED_ITEMS) * array->item_bytes;
}

size_t chunked_copy_bytes(const struct chunked *from, uint32_t count)
{
	uint32_t chunks = chunks_below(from, count);
	size_t bytes = rounded(chunks * sizeof(*from->chunks));
	for (uint32_t i = 0; i < chunks; i++)
		bytes += from->chunks[i] ? rounded(bytes_below(from, i, count)) : 0;
	return bytes;
}

char *chunked_copy(struct chunked *to, const struct chunked *from, uint32_t count, char *memory)
{
	uint32_t chunks = chunks_below(from, count);
	*to = (struct chunked){ .chunks = (char **)(void *)memory,
				.count = from->count < count ? from->count : count,
				.chunk_cap = chunks,
				.item_bytes = from->item_bytes,
				.align = from->align };
	memory += rounded(chunks * sizeof(*from->chunks));
	for (uint32_t i = 0; i < chunks; i++) {
		to->chunks[i] = NULL;
		if (!from->chunks[i])
			continue;
		size_t bytes = bytes_below(from, i, count);
		to->chunks[i] = memcpy(memory, from->chunks[i], bytes);
		memory += rounded(bytes);
	}
	return memory;
}

void chunked_fini(struct chunked *array)
{
	for (uint32_t i = 0; i < array->chunk_cap; i++)
		free_chunk(array->chunks[i]);
	free(array->chunks);
	array->chunks = NULL;
	array->count = array->chunk_cap = 0;
}
