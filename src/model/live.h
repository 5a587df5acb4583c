/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - the blocks that live now: address -> dense block number, and what each block is.
 *
 * Open addressing without tombstones (a removal shifts its followers back), seeded mixing of 128-byte groups, so that a
 * target that picks its addresses cannot make chains. Block numbers are given out last-in-first-out per size class, the way
 * allocators reuse memory: a reused number then usually stands for the same address, which the trace format predicts.
 * Memory: 32 bytes a row, 16 to 32 a slot; rows grow with the most blocks that ever lived at once (a class that runs
 * dry takes numbers from the others once more numbers are free than in use), never with events. One thread.
 */
#ifndef MODEL_LIVE_H
#define MODEL_LIVE_H

#include <stdint.h>

#include "base/err.h"
#include "model/event.h"

struct live_block {
	uint64_t addr;
	uint64_t bytes;
	uint32_t stack;
	uint32_t thread;
	uint64_t order; /* of its allocation, counting from 1; next free number while not live */
};

#define LIVE_CLASSES 320

struct live {
	uint64_t *slots; /* tag << 32 | (block + 1); 0 = empty */
	struct live_block *blocks;
	uint64_t seed;
	uint64_t order; /* of the last allocation */
	unsigned shift; /* 32 - log2(slots) */
	uint32_t mask;
	uint32_t count;     /* live now */
	uint32_t numbers;   /* numbers ever given out: rows in use */
	uint32_t block_max; /* rows allocated */
	uint32_t grow_at;
	uint32_t steal;                    /* where the last search in other classes ended */
	uint32_t free_heads[LIVE_CLASSES]; /* block + 1 */
};

/** live_init() - empty, with room for a few thousand blocks. @seed: any number that the target cannot know. */
int live_init(struct live *live, uint64_t seed, struct err *err);
void live_fini(struct live *live);
/** live_grow() - double the slots; -ENOMEM leaves the table as it was. Called by live_add(). */
int live_grow(struct live *live);
/** live_number() - a number where the class's own list is empty; BLOCK_NONE when out of memory. For live_add(). */
uint32_t live_number(struct live *live);

/** live_class() - glibc's small chunk sizes one by one, above 1 KiB four classes per power of two. */
static inline unsigned live_class(uint64_t bytes)
{
	if (bytes <= 1032)
		return bytes <= 24 ? 0 : (unsigned)((bytes - 9) >> 4);
	unsigned top = 63 - (unsigned)__builtin_clzll(bytes);
	return 64 + (top - 10) * 4 + (unsigned)(bytes >> (top - 2) & 3);
}

/*
 * What a slot keeps of an address: 29 mixed bits of its 128-byte group, and which 16 bytes of the group it is. Blocks that
 * are neighbours in memory are neighbours in the table, so a program that allocates upwards does not miss the cache with
 * each block; groups are scattered by the seed, so nobody can pile them up.
 */
#define LIVE_GROUP_SHIFT 7
#define LIVE_GROUP_BITS 3 /* slots of one group: a cache line */

static inline uint32_t live_tag(const struct live *live, uint64_t addr)
{
	uint64_t h = ((addr >> LIVE_GROUP_SHIFT) ^ live->seed) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return (uint32_t)(h >> 32 & ~7ULL) | (uint32_t)(addr >> 4 & 7);
}

/* Where the search for @tag begins. */
static inline uint32_t live_home(const struct live *live, uint32_t tag)
{
	return (tag >> live->shift & ~7u) | (tag & 7);
}

/** live_find() - the block at @addr, BLOCK_NONE if none lives there. */
static inline uint32_t live_find(const struct live *live, uint64_t addr)
{
	uint32_t tag = live_tag(live, addr);
	for (uint32_t i = live_home(live, tag);; i = (i + 1) & live->mask) {
		uint64_t slot = live->slots[i];
		if (slot == 0)
			return BLOCK_NONE;
		if (slot >> 32 == tag && live->blocks[(uint32_t)slot - 1].addr == addr)
			return (uint32_t)slot - 1;
	}
}

enum live_result { LIVE_OK = 0, LIVE_EXISTS = 1, LIVE_NOMEM = 2 };

/**
 * live_add() - a block was allocated. Return: LIVE_OK with *@block; LIVE_EXISTS (nothing changed) with *@block being the
 * one that lives there; LIVE_NOMEM (nothing changed).
 */
static inline enum live_result live_add(struct live *live, uint64_t addr, uint64_t bytes,
					uint32_t stack, uint32_t thread, uint32_t *block)
{
	if (__builtin_expect(live->count >= live->grow_at, 0) && live_grow(live) < 0)
		return LIVE_NOMEM;
	uint32_t tag = live_tag(live, addr);
	uint32_t i = live_home(live, tag);
	for (;; i = (i + 1) & live->mask) {
		uint64_t slot = live->slots[i];
		if (slot == 0)
			break;
		if (slot >> 32 == tag && live->blocks[(uint32_t)slot - 1].addr == addr) {
			*block = (uint32_t)slot - 1;
			return LIVE_EXISTS;
		}
	}
	unsigned class = live_class(bytes);
	uint32_t number = live->free_heads[class];
	if (number) {
		number--;
		live->free_heads[class] = (uint32_t)live->blocks[number].order;
	} else {
		number = live_number(live);
		if (number == BLOCK_NONE)
			return LIVE_NOMEM;
	}
	live->slots[i] = (uint64_t)tag << 32 | (number + 1);
	live->count++;
	live->blocks[number] = (struct live_block){ addr, bytes, stack, thread, ++live->order };
	*block = number;
	return LIVE_OK;
}

/** live_remove() - the block at @addr was freed; *@out receives its row. Return: its number, BLOCK_NONE if none. */
static inline uint32_t live_remove(struct live *live, uint64_t addr, struct live_block *out)
{
	uint32_t tag = live_tag(live, addr);
	uint32_t i = live_home(live, tag), number;
	for (;; i = (i + 1) & live->mask) {
		uint64_t slot = live->slots[i];
		if (slot == 0)
			return BLOCK_NONE;
		number = (uint32_t)slot - 1;
		if (slot >> 32 == tag && live->blocks[number].addr == addr)
			break;
	}
	*out = live->blocks[number];
	for (uint32_t j = i;;) {
		j = (j + 1) & live->mask;
		uint64_t slot = live->slots[j];
		if (slot == 0)
			break;
		uint32_t home = live_home(live, (uint32_t)(slot >> 32));
		if (((j - home) & live->mask) >= ((j - i) & live->mask)) {
			live->slots[i] = slot;
			i = j;
		}
	}
	live->slots[i] = 0;
	live->count--;
	unsigned class = live_class(out->bytes);
	live->blocks[number].order = live->free_heads[class];
	live->blocks[number].addr = UINT64_MAX;
	live->free_heads[class] = number + 1;
	return number;
}

/** live_at() - row @number if it is live, else NULL; walk 0 .. live->numbers - 1 for all. */
static inline const struct live_block *live_at(const struct live *live, uint32_t number)
{
	return number < live->numbers && live->blocks[number].addr != UINT64_MAX
		       ? &live->blocks[number]
		       : NULL;
}

#endif
