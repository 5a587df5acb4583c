/* SPDX-License-Identifier: Apache-2.0 */
#include "model/live.h"

#include <errno.h>
#include <string.h>

#include "base/huge.h"

#define LIVE_FIRST (1u << 10)
/* So many rows are fetched from the kernel at once, and as many there are at first: 128 KiB. */
#define ROW_STEP 4096u
/* Of the 28 bits of a tag that make a home; 2^29 blocks. */
#define LIVE_MOST (1u << 27)
/* The key of a place in the small table where no block was yet. */
#define NOBODY (UINT64_MAX - 1)

static size_t bucket_bytes(uint64_t count)
{
	return count * sizeof(struct live_bucket);
}

static void set_buckets(struct live *live, struct live_bucket *buckets, uint32_t count)
{
	live->buckets = buckets;
	live->mask = count - 1;
	live->grow_at = LIVE_WAYS / 2 * count;
}

int live_init(struct live *live, uint64_t seed, struct err *err)
{
	memset(live, 0, sizeof(*live));
	live->seed = seed;
	for (unsigned i = 0; i < LIVE_NEAR; i++)
		live->near[i].key = NOBODY;
	struct live_bucket *buckets = huge_resize(NULL, 0, bucket_bytes(LIVE_FIRST));
	if (!buckets)
		return err_set(err, -ENOMEM, "cannot allocate the table of live blocks");
	set_buckets(live, buckets, LIVE_FIRST);
	return 0;
}

void live_fini(struct live *live)
{
	huge_free(live->buckets, bucket_bytes((uint64_t)live->mask + 1));
	huge_free(live->free, (size_t)live->block_max * sizeof(*live->free));
	huge_free(live->blocks, (size_t)live->block_max * sizeof(*live->blocks));
	memset(live, 0, sizeof(*live));
}

/* Put an entry that is known not to be there into the first bucket with room. */
static void put_entry(struct live *live, uint32_t tag, uint32_t block)
{
	uint32_t i = live_home(live, tag);
	unsigned empty;
	while ((empty = live_match(&live->buckets[i], 0)) == 0)
		i = (i + 1) & live->mask;
	unsigned way = (unsigned)__builtin_ctz(empty);
	live->buckets[i].tag[way] = tag;
	live->buckets[i].block[way] = block;
}

/*
 * A home has one bit more now: it is where it was, or in the same place of the new half. Bucket
 * after bucket is emptied and its blocks entered anew, beginning behind one with an empty way, so
 * that whatever had to go further is met after what it had to give way to. No block then comes to
 * stand further from its home than it did, and none in a bucket that is not emptied yet.
 */
static int grow(struct live *live)
{
	uint32_t old = live->mask + 1;
	if (old >= LIVE_MOST)
		return -ENOMEM;
	struct live_bucket *buckets =
		huge_resize(live->buckets, bucket_bytes(old), bucket_bytes((uint64_t)old * 2));
	if (!buckets)
		return -ENOMEM;
	huge_populate(buckets + old, bucket_bytes(old));
	set_buckets(live, buckets, old * 2);
	uint32_t first = 0;
	while (live_full(&buckets[first]))
		first++;
	for (uint32_t k = 1; k <= old; k++) {
		struct live_bucket *at = &buckets[(first + k) & (old - 1)];
		const struct live_bucket from = *at;
		memset(at->tag, 0, sizeof(at->tag));
		for (unsigned way = 0; way < LIVE_WAYS; way++) {
			if (from.tag[way])
				put_entry(live, from.tag[way], from.block[way]);
		}
	}
	return 0;
}

/* @bucket was full and has lost the block of @way: fetch what had to go further. */
static void close_gap(struct live *live, struct live_bucket *bucket, unsigned way)
{
	uint32_t gap = (uint32_t)(bucket - live->buckets);
	for (uint32_t i = gap;;) {
		i = (i + 1) & live->mask;
		struct live_bucket *from = &live->buckets[i];
		int full = live_full(from);
		for (unsigned k = 0; k < LIVE_WAYS; k++) {
			if (!from->tag[k])
				continue;
			/*
			 * it may move to the gap if that lies between its home and where it stands
			 */
			uint32_t home = live_home(live, from->tag[k]);
			if (((i - home) & live->mask) < ((i - gap) & live->mask))
				continue;
			live->buckets[gap].tag[way] = from->tag[k];
			live->buckets[gap].block[way] = from->block[k];
			from->tag[k] = 0;
			if (!full)
				return;
			gap = i;
			way = k;
			break;
		}
		if (!full) /* nothing of further buckets went past this one */
			break;
	}
	struct live_bucket *last = &live->buckets[gap];
	last->tag[way] = last->tag[LIVE_WAYS - 1];
	last->block[way] = last->block[LIVE_WAYS - 1];
	last->tag[LIVE_WAYS - 1] = 0;
}

uint32_t live_number(struct live *live)
{
	if (live->numbers == live->block_max) {
		uint32_t max = live->block_max ? live->block_max * 2 : ROW_STEP;
		if (max <= live->block_max || max > BLOCK_NONE / 2)
			return BLOCK_NONE;
		struct live_block *blocks =
			huge_resize(live->blocks, (size_t)live->block_max * sizeof(*live->blocks),
				    (size_t)max * sizeof(*live->blocks));
		if (!blocks)
			return BLOCK_NONE;
		live->blocks = blocks;
		uint32_t *numbers =
			huge_resize(live->free, (size_t)live->block_max * sizeof(*numbers),
				    (size_t)max * sizeof(*numbers));
		if (!numbers)
			return BLOCK_NONE;
		live->free = numbers;
		live->block_max = max;
	}
	if (live->numbers % ROW_STEP == 0)
		huge_populate(live->blocks + live->numbers, ROW_STEP * sizeof(*live->blocks));
	return live->numbers++;
}

/* The block at @near makes room for another one. */
static int move_far(struct live *live, struct live_near *near)
{
	if (__builtin_expect(live->far >= live->grow_at, 0) && grow(live) < 0)
		return -ENOMEM;
	put_entry(live, live_tag(live, near->key >> 1), near->number);
	live->far++;
	near->key = NOBODY;
	return 0;
}

enum live_result live_make_near(struct live *live, uint64_t addr, uint32_t *block)
{
	struct live_near *near = live_near_at(live, addr);
	struct live_bucket *bucket;
	unsigned way;
	if (near->key == addr * 2 + 1) {
		*block = near->number;
		return LIVE_EXISTS;
	}
	if (__builtin_expect(live_way(live, addr, &bucket, &way), 0)) {
		*block = bucket->block[way];
		return LIVE_EXISTS;
	}
	return near->key & 1 && move_far(live, near) < 0 ? LIVE_NOMEM : LIVE_OK;
}

uint32_t live_take_far(struct live *live, uint64_t addr)
{
	struct live_bucket *bucket;
	unsigned way;
	if (!live_way(live, addr, &bucket, &way))
		return BLOCK_NONE;
	uint32_t number = bucket->block[way];
	if (__builtin_expect(live_full(bucket), 0))
		close_gap(live, bucket, way);
	else
		bucket->tag[way] = 0;
	live->far--;
	return number;
}
