/* SPDX-License-Identifier: Apache-2.0 */
#include "model/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_FIRST_BITS 12
/* Numbers of other classes are left alone until this many are free: small programs keep their prediction. */
#define LIVE_STEAL_MIN 65536

static void set_slots(struct live *live, uint64_t *slots, unsigned bits)
{
	live->slots = slots;
	live->shift = 32 - bits;
	live->mask = (1u << bits) - 1;
	live->grow_at = 1u << (bits - 1);
}

int live_init(struct live *live, uint64_t seed, struct err *err)
{
	memset(live, 0, sizeof(*live));
	live->seed = seed;
	uint64_t *slots = calloc(1u << LIVE_FIRST_BITS, sizeof(*slots));
	if (!slots)
		return err_set(err, -ENOMEM, "cannot allocate the table of live blocks");
	set_slots(live, slots, LIVE_FIRST_BITS);
	return 0;
}

void live_fini(struct live *live)
{
	free(live->slots);
	free(live->blocks);
	memset(live, 0, sizeof(*live));
}

int live_grow(struct live *live)
{
	unsigned bits = 32 - live->shift + 1;
	if (bits > 31)
		return -ENOMEM;
	uint64_t *old = live->slots;
	uint64_t old_count = (uint64_t)live->mask + 1;
	uint64_t *slots = calloc(1ULL << bits, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	set_slots(live, slots, bits);
	/* In old slot order the homes of groups only grow, so the new table is filled nearly front to back: no random access. */
	for (uint64_t k = 0; k < old_count; k++) {
		if (old[k] == 0)
			continue;
		uint32_t i = live_home(live, (uint32_t)(old[k] >> 32));
		while (slots[i])
			i = (i + 1) & live->mask;
		slots[i] = old[k];
	}
	free(old);
	return 0;
}

uint32_t live_number(struct live *live)
{
	uint32_t unused = live->numbers - live->count;
	if (unused >= LIVE_STEAL_MIN && unused > live->count) {
		for (unsigned tries = 0; tries < LIVE_CLASSES; tries++) {
			uint32_t *head = &live->free_heads[live->steal];
			if (*head) {
				uint32_t number = *head - 1;
				*head = (uint32_t)live->blocks[number].order;
				return number;
			}
			live->steal = (live->steal + 1) % LIVE_CLASSES;
		}
	}
	if (live->numbers == live->block_max) {
		uint32_t max = live->block_max ? live->block_max * 2 : 4096;
		if (max <= live->block_max || max > BLOCK_NONE / 2)
			return BLOCK_NONE;
		struct live_block *blocks =
			realloc(live->blocks, (size_t)max * sizeof(*live->blocks));
		if (!blocks)
			return BLOCK_NONE;
		live->blocks = blocks;
		live->block_max = max;
	}
	return live->numbers++;
}
