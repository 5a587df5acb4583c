/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/intern.h"

#define CHUNK_BYTES (256u << 10)

struct pool_chunk {
	struct pool_chunk *next;
	size_t used, size;
	char data[] __attribute__((aligned(16)));
};

void pool_fini(struct pool *pool)
{
	while (pool->chunks) {
		struct pool_chunk *next = pool->chunks->next;
		free(pool->chunks);
		pool->chunks = next;
	}
	free(pool->table);
	memset(pool, 0, sizeof(*pool));
}

void *pool_alloc(struct pool *pool, size_t bytes)
{
	if (bytes > SIZE_MAX - sizeof(struct pool_chunk) - CHUNK_BYTES)
		return NULL;
	bytes = (bytes + 15) & ~(size_t)15;
	struct pool_chunk *chunk = pool->chunks;
	if (!chunk || chunk->size - chunk->used < bytes) {
		size_t size = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
		struct pool_chunk *fresh = calloc(1, sizeof(*fresh) + size);
		if (!fresh)
			return NULL;
		fresh->size = size;
		if (chunk &&
		    size == bytes) { /* a large one goes behind, the open chunk stays open */
			fresh->next = chunk->next;
			chunk->next = fresh;
		} else {
			fresh->next = chunk;
			pool->chunks = fresh;
		}
		chunk = fresh;
	}
	void *place = chunk->data + chunk->used;
	chunk->used += bytes;
	return place;
}

static int table_grow(struct pool *pool)
{
	size_t size = pool->table_size ? pool->table_size * 2 : 1024;
	const char **table = calloc(size, sizeof(*table));
	if (!table)
		return -1;
	for (size_t i = 0; i < pool->table_size; i++) {
		const char *text = pool->table[i];
		if (!text)
			continue;
		size_t at = hash_bytes(text, strlen(text), hash_seed()) & (size - 1);
		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = text;
	}
	free(pool->table);
	pool->table = table;
	pool->table_size = size;
	return 0;
}

const char *pool_string(struct pool *pool, const char *text, size_t len)
{
	const char *end = memchr(text, '\0', len); /* the table compares up to the NUL */
	if (end)
		len = (size_t)(end - text);
	if (pool->strings * 2 >= pool->table_size && table_grow(pool) < 0)
		return NULL;
	size_t at = hash_bytes(text, len, hash_seed()) & (pool->table_size - 1);
	for (; pool->table[at]; at = (at + 1) & (pool->table_size - 1))
		if (!strncmp(pool->table[at], text, len) && !pool->table[at][len])
			return pool->table[at];
	char *copy = pool_alloc(pool, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	pool->table[at] = copy;
	pool->strings++;
	return copy;
}
