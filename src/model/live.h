/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - the blocks that live now: address -> dense block number, and what each block is.
 *
 * Most blocks die young, and allocators hand out the address freed last. So a block stands in a
 * small table at first, in the one place that its address has there; it moves to the large one when
 * a block of another address comes to that place.
 *
 * The large table: open addressing without tombstones (a removal shifts its followers back), seeded
 * mixing of 512-byte groups, so that a target that picks its addresses cannot make chains. It grows
 * where it stands: half of the blocks stay.
 *
 * Block numbers are given out last-in-first-out: the row that was in use last is the one that is
 * still in the cache. Memory: 36 bytes a row, 16 to 32 a slot; rows grow with the most blocks that
 * ever lived at once, never with events. One thread.
 *
 * The buckets of a large program are far apart, and to wait for them costs more than all the rest.
 * A caller who knows what comes next lets live_prefetch() and live_prefetch_row() fetch what
 * live_add() and live_remove() need.
 */
#ifndef MODEL_LIVE_H
#define MODEL_LIVE_H

#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/err.h"
#include "model/event.h"

struct live_block {
	uint64_t addr;
	uint64_t bytes;
	/* of its allocation, counting from 1 */
	uint64_t order;
	uint32_t stack;
	uint32_t reserved;
};

#define LIVE_WAYS 8

/*
 * One cache line. What does not fit goes to the next bucket; a bucket that is not full has nothing
 * further on. Its last way is filled last and emptied first, and so tells whether it is full.
 */
struct live_bucket {
	/* 0 = empty */
	uint32_t tag[LIVE_WAYS];
	uint32_t block[LIVE_WAYS];
};
_Static_assert(sizeof(struct live_bucket) == 64, "struct live_bucket");

/* Rows of numbers that are about to be used again are fetched so many allocations before. */
#define LIVE_AHEAD 8

/* The small table: 16 KiB, which stay in a near cache. */
#define LIVE_NEAR 1024
struct live_near {
	/* twice the address, + 1 while the block lives */
	uint64_t key;
	/* while it lives */
	uint32_t number;
	uint32_t reserved;
};

struct live {
	/* aligned to their size */
	struct live_bucket *buckets;
	struct live_block *blocks;
	uint64_t seed;
	/* of the last allocation */
	uint64_t order;
	/* buckets - 1 */
	uint32_t mask;
	/* live now */
	uint32_t count;
	/* those of them that stand in buckets */
	uint32_t far;
	/* numbers ever given out: rows in use */
	uint32_t numbers;
	/* rows allocated */
	uint32_t block_max;
	uint32_t grow_at;
	/* numbers that are not in use, the last one first, with room for all there are rows for */
	uint32_t *free;
	uint32_t free_count;
	struct live_near near[LIVE_NEAR];
};

/**
 * live_init() - empty, with room for a few thousand blocks. @seed: any number that the target
 * cannot know.
 */
int live_init(struct live *live, uint64_t seed, struct err *err);
void live_fini(struct live *live);

/*
 * What a bucket keeps of an address: 26 mixed bits of its 512-byte group, and which 16 bytes of the
 * group it is. The sixteen buckets of a group lie side by side and each has 32 bytes of it, so a
 * program that allocates upwards finds the next bucket near the last one, and neighbours do not
 * fill one bucket; groups are scattered by the seed, so nobody can pile them up.
 */
#define LIVE_GROUP_SHIFT 9
#define LIVE_TAKEN 0x80000000u /* in every tag: 0 is an empty way */

/* The tag of @addr. */
static inline uint32_t live_tag(const struct live *live, uint64_t addr)
{
	unsigned __int128 product = (unsigned __int128)((addr >> LIVE_GROUP_SHIFT) ^ live->seed) *
				    0x9e3779b97f4a7c15ULL;
	uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64);
	return LIVE_TAKEN | ((uint32_t)mixed & ~31u) | (uint32_t)(addr >> 4 & 31);
}

/* Where the search for @tag begins. */
static inline uint32_t live_home(const struct live *live, uint32_t tag)
{
	return tag >> 1 & live->mask;
}

/* Bit i: way i of @bucket holds @tag. */
static inline unsigned live_match(const struct live_bucket *bucket, uint32_t tag)
{
#if defined(__SSE2__)
	const __m128i *at = (const __m128i *)bucket->tag;
	__m128i want = _mm_set1_epi32((int)tag);
	__m128i both = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_load_si128(at), want),
				       _mm_cmpeq_epi32(_mm_load_si128(at + 1), want));
	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(both, _mm_setzero_si128()));
#else
	unsigned found = 0;
	for (unsigned i = 0; i < LIVE_WAYS; i++)
		found |= (unsigned)(bucket->tag[i] == tag) << i;
	return found;
#endif
}

static inline _Bool live_full(const struct live_bucket *bucket)
{
	return bucket->tag[LIVE_WAYS - 1] != 0;
}

/*
 * The place of @addr in the small table. Allocators give out neighbours: no mixing does better, and
 * none is needed for safety.
 */
static inline struct live_near *live_near_at(const struct live *live, uint64_t addr)
{
	return (struct live_near *)&live->near[(addr >> 4) % LIVE_NEAR];
}

/**
 * live_is_near() - nothing of the large table is needed to add a block at @addr, or to remove the
 * one that lives there.
 */
static inline _Bool live_is_near(const struct live *live, uint64_t addr)
{
	return live_near_at(live, addr)->key >> 1 == addr;
}

/**
 * live_prefetch() - the block at @addr, which is not near, will soon be added, or looked for.
 * Always inlined: gcc 12 takes a function that only fetches ahead for one without effect, and
 * leaves its call out. Return: for live_prefetch_row().
 */
static inline __attribute__((always_inline)) uint32_t live_prefetch(const struct live *live,
								    uint64_t addr)
{
	uint32_t tag = live_tag(live, addr);
	/* and where the one goes that it takes the place of */
	uint32_t other = live_tag(live, live_near_at(live, addr)->key >> 1);
	__builtin_prefetch(&live->buckets[live_home(live, tag)]);
	__builtin_prefetch(&live->buckets[live_home(live, other)]);
	return tag;
}

/**
 * live_prefetch_row() - some time after live_prefetch(), which returned @tag: if the block stands
 * in its bucket, its row will soon be read. Of what does not stand there some other row comes
 * along.
 */
static inline __attribute__((always_inline)) void live_prefetch_row(const struct live *live,
								    uint32_t tag)
{
	const struct live_bucket *at = &live->buckets[live_home(live, tag)];
	unsigned way = (unsigned)__builtin_ctz(live_match(at, tag) | 1u << (LIVE_WAYS - 1));
	__builtin_prefetch(&live->blocks[at->block[way]]);
}

/* Where @addr stands in the large table: its bucket and way; false: nowhere there. */
static inline _Bool live_way(const struct live *live, uint64_t addr, struct live_bucket **bucket,
			     unsigned *way)
{
	uint32_t tag = live_tag(live, addr);
	for (uint32_t i = live_home(live, tag);; i = (i + 1) & live->mask) {
		struct live_bucket *at = &live->buckets[i];
		*bucket = at;
		for (unsigned found = live_match(at, tag); found; found &= found - 1) {
			*way = (unsigned)__builtin_ctz(found);
			if (__builtin_expect(live->blocks[at->block[*way]].addr == addr, 1))
				return 1;
		}
		if (__builtin_expect(!live_full(at), 1))
			return 0;
	}
}

/** live_find() - the block at @addr, BLOCK_NONE if none lives there. */
static inline uint32_t live_find(const struct live *live, uint64_t addr)
{
	const struct live_near *near = live_near_at(live, addr);
	struct live_bucket *bucket;
	unsigned way;
	if (near->key >> 1 == addr)
		return near->key & 1 ? near->number : BLOCK_NONE;
	return live_way(live, addr, &bucket, &way) ? bucket->block[way] : BLOCK_NONE;
}

enum live_result { LIVE_OK = 0, LIVE_EXISTS = 1, LIVE_NOMEM = 2 };

/* For live_add(): a number never given out before; BLOCK_NONE when out of memory. */
uint32_t live_number(struct live *live);
/*
 * For live_add(): the place of @addr in the small table does not wait for it. LIVE_EXISTS: *@block
 * lives there.
 */
enum live_result live_make_near(struct live *live, uint64_t addr, uint32_t *block);
/*
 * For live_remove(): take the block at @addr out of the large table. Return: its number, or
 * BLOCK_NONE.
 */
uint32_t live_take_far(struct live *live, uint64_t addr);

/**
 * live_add() - a block was allocated at @addr, which is below 2^62. Return: LIVE_OK with *@block;
 * LIVE_EXISTS (nothing changed) with
 * *@block being the one that lives there; LIVE_NOMEM (nothing changed).
 */
static inline enum live_result live_add(struct live *live, uint64_t addr, uint64_t bytes,
					uint32_t stack, uint32_t *block)
{
	struct live_near *near = live_near_at(live, addr);
	if (__builtin_expect(near->key != addr * 2, 0)) {
		enum live_result result = live_make_near(live, addr, block);
		if (__builtin_expect(result != LIVE_OK, 0))
			return result;
	}
	uint32_t number, left = live->free_count;
	if (__builtin_expect(left != 0, 1)) {
		number = live->free[--left];
		live->free_count = left;
		/* wanted soon, and where many were freed in a row it was freed long ago */
		__builtin_prefetch(
			&live->blocks[live->free[left < LIVE_AHEAD ? 0 : left - LIVE_AHEAD]], 1);
	} else {
		number = live_number(live);
		if (number == BLOCK_NONE)
			return LIVE_NOMEM;
	}
	near->key = addr * 2 + 1;
	near->number = number;
	live->count++;
	live->blocks[number] = (struct live_block){ addr, bytes, ++live->order, stack };
	*block = number;
	return LIVE_OK;
}

/**
 * live_remove() - the block at @addr was freed; *@out receives its row. Return: its number,
 * BLOCK_NONE if there is none.
 */
static inline uint32_t live_remove(struct live *live, uint64_t addr, struct live_block *out)
{
	struct live_near *near = live_near_at(live, addr);
	uint32_t number = near->number;
	if (__builtin_expect(near->key == addr * 2 + 1, 1)) {
		near->key = addr * 2;
	} else {
		number = live_take_far(live, addr);
		if (__builtin_expect(number == BLOCK_NONE, 0))
			return BLOCK_NONE;
	}
	struct live_block *row = &live->blocks[number];
	*out = (struct live_block){ addr, row->bytes, row->order, row->stack };
	live->count--;
	row->addr = UINT64_MAX;
	live->free[live->free_count++] = number;
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
