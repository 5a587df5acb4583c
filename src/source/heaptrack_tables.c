/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heaptrack_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int ht_grow(void **array, size_t element_bytes, uint32_t count, uint32_t *cap, uint32_t max)
{
	if (count < *cap)
		return 0;
	if (count >= max)
		return -E2BIG;
	uint32_t want = *cap ? *cap * 2 : 64;
	if (want > max || want < *cap)
		want = max;
	size_t bytes;
	if (__builtin_mul_overflow((size_t)want, element_bytes, &bytes))
		return -ENOMEM;
	void *grown = realloc(*array, bytes);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*cap = want;
	return 0;
}

void ht_names_fini(struct ht_names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		free(names->text[i]);
	free(names->text);
	*names = (struct ht_names){ 0 };
}

int ht_names_add(struct ht_names *names, const char *text, size_t len, uint32_t max,
		 uint64_t max_bytes)
{
	/* a short string costs its pointer and malloc's least block as well */
	if (names->bytes + len + 40 > max_bytes)
		return -E2BIG;
	int rc = ht_grow((void **)&names->text, sizeof(*names->text), names->count, &names->cap,
			 max);
	if (rc < 0)
		return rc;
	char *copy = strndup(text, len);
	if (!copy)
		return -ENOMEM;
	names->text[names->count++] = copy;
	names->bytes += len + 40;
	return 0;
}

const char *ht_names_get(const struct ht_names *names, uint64_t index)
{
	return index && index <= names->count ? names->text[index - 1] : NULL;
}

void ht_blocks_fini(struct ht_blocks *blocks)
{
	free(blocks->next);
	free(blocks->block);
	*blocks = (struct ht_blocks){ 0 };
}

int ht_blocks_take(struct ht_blocks *blocks, int with_block, uint32_t max, uint32_t *number)
{
	if (blocks->first_free) {
		*number = blocks->first_free - 1;
		blocks->first_free = blocks->next[*number];
		return 0;
	}
	int rc = ht_grow((void **)&blocks->next, sizeof(*blocks->next), blocks->count, &blocks->cap,
			 max);
	if (rc == 0 && with_block)
		rc = ht_grow((void **)&blocks->block, sizeof(*blocks->block), blocks->count,
			     &blocks->block_cap, max);
	if (rc == 0)
		*number = blocks->count++;
	return rc;
}

void ht_blocks_give_back(struct ht_blocks *blocks, uint32_t number)
{
	blocks->next[number] = blocks->first_free;
	blocks->first_free = number + 1;
}

void ht_map_fini(struct ht_map *map)
{
	free(map->key);
	free(map->value);
	*map = (struct ht_map){ 0 };
}

void ht_map_clear(struct ht_map *map)
{
	/* the cost stays that of what was entered since the last time, whoever clears often */
	if (map->slots > 1024 && map->used < map->slots / 8) {
		free(map->key);
		free(map->value);
		map->key = NULL;
		map->value = NULL;
		map->slots = 0;
	} else if (map->used) {
		memset(map->value, 0, map->slots * sizeof(*map->value));
	}
	map->used = 0;
}

/* A secret odd factor, high bits of the product: nobody can write a file whose keys all collide. */
static uint64_t home_of(const struct ht_map *map, uint64_t key)
{
	return (key * map->factor) >> (64 - __builtin_ctzll(map->slots));
}

/* The slot that holds @key, or the empty one where it would go. The map is never full. */
static uint64_t slot_of(const struct ht_map *map, uint64_t key)
{
	uint64_t slot = home_of(map, key);
	while (map->value[slot] && map->key[slot] != key)
		slot = (slot + 1) & (map->slots - 1);
	return slot;
}

int ht_map_find(const struct ht_map *map, uint64_t key, uint32_t *value)
{
	if (!map->slots)
		return 0;
	uint64_t slot = slot_of(map, key);
	if (!map->value[slot])
		return 0;
	*value = map->value[slot] - 1;
	return 1;
}

static int grow(struct ht_map *map)
{
	struct ht_map bigger = { .slots = map->slots ? map->slots * 2 : 1024, .used = map->used };
	bigger.factor = map->factor;
	if (!bigger.factor && getrandom(&bigger.factor, sizeof(bigger.factor), GRND_NONBLOCK) !=
				      sizeof(bigger.factor))
		bigger.factor = 0x9e3779b97f4a7c15u;
	bigger.factor |= 1;
	bigger.key = malloc(bigger.slots * sizeof(*bigger.key));
	bigger.value = calloc(bigger.slots, sizeof(*bigger.value));
	if (!bigger.key || !bigger.value) {
		ht_map_fini(&bigger);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < map->slots; i++) {
		if (!map->value[i])
			continue;
		uint64_t slot = slot_of(&bigger, map->key[i]);
		bigger.key[slot] = map->key[i];
		bigger.value[slot] = map->value[i];
	}
	ht_map_fini(map);
	*map = bigger;
	return 0;
}

int ht_map_set(struct ht_map *map, uint64_t key, uint32_t value)
{
	if (map->used * 3 >= map->slots * 2) {
		int rc = grow(map);
		if (rc < 0)
			return rc;
	}
	uint64_t slot = slot_of(map, key);
	if (!map->value[slot]) {
		map->key[slot] = key;
		map->used++;
	}
	map->value[slot] = value + 1;
	return 0;
}

int ht_map_take(struct ht_map *map, uint64_t key, uint32_t *value)
{
	if (!map->slots)
		return 0;
	uint64_t hole = slot_of(map, key);
	if (!map->value[hole])
		return 0;
	*value = map->value[hole] - 1;
	map->used--;
	/* Close the hole: whoever stands behind it and could not sit nearer home moves up. */
	uint64_t mask = map->slots - 1;
	for (uint64_t at = (hole + 1) & mask; map->value[at]; at = (at + 1) & mask) {
		uint64_t home = home_of(map, map->key[at]);
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		map->key[hole] = map->key[at];
		map->value[hole] = map->value[at];
		hole = at;
	}
	map->value[hole] = 0;
	return 1;
}
