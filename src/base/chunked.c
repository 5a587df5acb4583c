/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chunked.h"

#include <stdlib.h>
#include <string.h>

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
	if (!array->chunks[chunk]) {
		size_t bytes = (size_t)array->item_bytes << CHUNKED_SHIFT;
		char *items = aligned_alloc(array->align, bytes);
		if (!items)
			return NULL;
		memset(items, 0, bytes);
		array->chunks[chunk] = items;
	}
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

void chunked_fini(struct chunked *array)
{
	for (uint32_t i = 0; i < array->chunk_cap; i++)
		free(array->chunks[i]);
	free(array->chunks);
	array->chunks = NULL;
	array->count = array->chunk_cap = 0;
}
