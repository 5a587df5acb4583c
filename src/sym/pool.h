/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - memory that lives as long as its struct sym: chunks handed out once, and strings kept
 * once.
 */
#ifndef SYM_POOL_H
#define SYM_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool_chunk;

/** struct pool - zero-initialised is empty and valid. One thread. */
struct pool {
	struct pool_chunk *chunks;
	/* open addressing, size a power of two; NULL = free */
	const char **table;
	size_t table_size, strings;
};

/** pool_fini() - release everything that was handed out. */
void pool_fini(struct pool *pool);
/** pool_alloc() - zeroed, 16-aligned @bytes; NULL when memory is short. */
void *pool_alloc(struct pool *pool, size_t bytes);
/** pool_string() - the one copy of the @len bytes at @text; NULL when memory is short. O(len). */
const char *pool_string(struct pool *pool, const char *text, size_t len);

#endif
