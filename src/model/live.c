/* SPDX-License-Identifier: Apache-2.0 */
#include "model/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/huge.h"

#define LIVE_FIRST_BITS 10
#define LIVE_BITS_MAX \
	27 /* of a tag that tell groups apart, and two for a group's buckets; 2^29 blocks */

static struct live_bucket *new_buckets(unsigned bits)
{
	size_t bytes = sizeof(struct live_bucket) << bits;
	struct live_bucket *buckets =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buckets == MAP_FAILED)
		return NULL;
	huge_advise(buckets, bytes);
	return buckets;
}

static void free_buckets(struct live_bucket *buckets, uint64_t count)
{
	if (buckets)
		munmap(buckets, count * sizeof(*buckets));
}

static void set_buckets(struct live *live, struct live_bucket *buckets, unsigned bits)
{
	live->buckets = buckets;
	live->shift = 32 - bits;
	live->mask = (1u << bits) - 1;
	live->grow_at = (LIVE_WAYS / 2) << bits;
}

int live_init(struct live *live, uint64_t seed, struct err *err)
{
	memset(live, 0, sizeof(*live));
	live->seed = seed;
	struct live_bucket *buckets = new_buckets(LIVE_FIRST_BITS);
	if (!buckets)
		return err_set(err, -ENOMEM, "cannot allocate the table of live blocks");
	set_buckets(live, buckets, LIVE_FIRST_BITS);
	return 0;
}

void live_fini(struct live *live)
{
	free_buckets(live->buckets, (uint64_t)live->mask + 1);
	free(live->blocks);
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

int live_grow(struct live *live)
{
	unsigned bits = 32 - live->shift + 1;
	if (bits > LIVE_BITS_MAX)
		return -ENOMEM;
	struct live_bucket *old = live->buckets;
	uint64_t old_count = (uint64_t)live->mask + 1;
	struct live_bucket *buckets = new_buckets(bits);
	if (!buckets)
		return -ENOMEM;
	set_buckets(live, buckets, bits);
	/* In old order the homes of groups only grow, so the new table is filled nearly front to back: no random access. */
	for (uint64_t k = 0; k < old_count; k++) {
		for (unsigned way = 0; way < LIVE_WAYS; way++) {
			if (old[k].tag[way])
				put_entry(live, old[k].tag[way], old[k].block[way]);
		}
	}
	free_buckets(old, old_count);
	return 0;
}

void live_close_gap(struct live *live, struct live_bucket *bucket, unsigned way)
{
	uint32_t gap = (uint32_t)(bucket - live->buckets);
	for (uint32_t i = gap;;) {
		i = (i + 1) & live->mask;
		struct live_bucket *from = &live->buckets[i];
		int full = live_match(from, 0) == 0;
		for (unsigned k = 0; k < LIVE_WAYS; k++) {
			if (!from->tag[k])
				continue;
			/* it may move to the gap if that lies between its home and where it stands */
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
	live->buckets[gap].tag[way] = 0;
}

uint32_t live_number(struct live *live)
{
	if (live->numbers == live->block_max) {
		uint32_t max = live->block_max ? live->block_max * 2 : 4096;
		if (max <= live->block_max || max > BLOCK_NONE / 2)
			return BLOCK_NONE;
		struct live_block *blocks =
			realloc(live->blocks, (size_t)max * sizeof(*live->blocks));
		if (!blocks)
			return BLOCK_NONE;
		huge_advise(blocks, (size_t)max * sizeof(*blocks));
		live->blocks = blocks;
		live->block_max = max;
	}
	return live->numbers++;
}
