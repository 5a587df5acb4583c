/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chunked.h"

#include <errno.h>
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

int chunked_copy(struct chunked *to, const struct chunked *from, uint32_t count)
{
	uint32_t chunks = (uint32_t)(((uint64_t)count + CHUNKED_ITEMS - 1) >> CHUNKED_SHIFT);
	if (chunks > from->chunk_cap)
		chunks = from->chunk_cap;
	*to = (struct chunked){ .item_bytes = from->item_bytes, .align = from->align };
	to->chunks = calloc(chunks ? chunks : 1, sizeof(*to->chunks));
	if (!to->chunks)
		return -ENOMEM;
	to->chunk_cap = chunks;
	for (uint32_t i = 0; i < chunks; i++) {
		uint32_t items = count - (i << CHUNKED_SHIFT);
		size_t bytes =
			(size_t)(items < CHUNKED_ITEMS ? items : CHUNKED_ITEMS) * from->item_bytes;
		if (!from->chunks[i])
			continue;
		to->chunks[i] = aligned_alloc(from->align, (bytes + from->align - 1) &
								   ~(size_t)(from->align - 1));
		if (!to->chunks[i]) {
			chunked_fini(to);
			return -ENOMEM;
		}
		memcpy(to->chunks[i], from->chunks[i], bytes);
	}
	to->count = from->count < count ? from->count : count;
	return 0;
}

void chunked_fini(struct chunked *array)
{
	for (uint32_t i = 0; i < array->chunk_cap; i++)
		free(array->chunks[i]);
	free(array->chunks);
	array->chunks = NULL;
	array->count = array->chunk_cap = 0;
}
