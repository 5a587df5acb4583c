/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - what fragments a heap: blocks of 16 bytes to 8 KiB and some large ones, three of four freed again at random. */
#ifndef TESTS_BLOCKS_H
#define TESTS_BLOCKS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct blocks {
	void **at;
	size_t count;
	uint64_t seed;
	/* bytes of the few that are */
	size_t large;
};

static inline void blocks_init(struct blocks *b, int number, size_t large)
{
	b->seed = 88172645463325252ull + (uint64_t)number * 7919;
	b->large = large;
}

static inline uint64_t blocks_next(struct blocks *b)
{
	b->seed ^= b->seed << 13;
	b->seed ^= b->seed >> 7;
	b->seed ^= b->seed << 17;
	return b->seed;
}

static inline void *blocks_one(struct blocks *b, size_t *size)
{
	uint64_t r = blocks_next(b);
	*size = (size_t)16 << (r % 10);
	*size += (size_t)(blocks_next(b) % *size);
	if (!(r >> 32 & 4095))
		*size = b->large;
	char *p = malloc(*size);
	if (!p)
		abort();
	return memset(p, 0x5a, *size);
}

static inline void blocks_drop(struct blocks *b, size_t i)
{
	free(b->at[i]);
	b->at[i] = NULL;
}

/* @bytes of them; those stay whose number is a multiple of four, or @spared behind one of 64. */
static inline void blocks_fill(struct blocks *b, size_t bytes, size_t spared)
{
	size_t cap = bytes / 64, size;
	b->at = malloc(cap * sizeof(void *));
	for (size_t sum = 0; sum < bytes && b->count < cap; sum += size)
		b->at[b->count++] = blocks_one(b, &size);
	for (size_t i = b->count; i > 1; i--) {
		size_t j = (size_t)(blocks_next(b) % i);
		void *p = b->at[i - 1];
		b->at[i - 1] = b->at[j];
		b->at[j] = p;
	}
	for (size_t i = 0; i < b->count; i++)
		if (i % 4 && i % 64 != spared)
			blocks_drop(b, i);
}

/* One is replaced, or only freed. */
static inline void blocks_churn(struct blocks *b)
{
	size_t i = (size_t)(blocks_next(b) % b->count), size;
	blocks_drop(b, i);
	if (!(blocks_next(b) & 3))
		b->at[i] = blocks_one(b, &size);
}

#endif
