/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack_tables.h - what the heaptrack reader remembers: names, live blocks, pointers. Private
 * to the reader.
 */
#ifndef SOURCE_HEAPTRACK_TABLES_H
#define SOURCE_HEAPTRACK_TABLES_H

#include <stddef.h>
#include <stdint.h>

/**
 * ht_grow() - room for one more element in a malloc'd array; 0 or -ENOMEM. @max elements at most
 * (-E2BIG).
 */
int ht_grow(void **array, size_t element_bytes, uint32_t count, uint32_t *cap, uint32_t max);

/** struct ht_names - numbered strings, copied once. */
struct ht_names {
	char **text;
	uint32_t count, cap;
	uint64_t bytes;
};
void ht_names_fini(struct ht_names *names);
/** ht_names_add() - the next string; 0, -ENOMEM or -E2BIG. Bytes after a NUL inside are lost. */
int ht_names_add(struct ht_names *names, const char *text, size_t len, uint32_t max,
		 uint64_t max_bytes);
/** ht_names_get() - string number @index from 1; NULL for 0 and unknown numbers. */
const char *ht_names_get(const struct ht_names *names, uint64_t index);

/** struct ht_block - a live block of a file with pointers. */
struct ht_block {
	uint64_t bytes;
	uint32_t stack;
};

/**
 * struct ht_blocks - dense block numbers; each sits on one chain: that of the free ones, or (files
 * without pointers) that of its allocation class.
 */
struct ht_blocks {
	uint32_t *next;
	/* with pointers only */
	struct ht_block *block;
	uint32_t count, cap, block_cap;
	/* number + 1; 0 = none */
	uint32_t first_free;
};
void ht_blocks_fini(struct ht_blocks *blocks);
/** ht_blocks_take() - a number not in use into @number; 0, -ENOMEM or -E2BIG. */
int ht_blocks_take(struct ht_blocks *blocks, int with_block, uint32_t max, uint32_t *number);
void ht_blocks_give_back(struct ht_blocks *blocks, uint32_t number);

/** struct ht_map - 64-bit key to 32-bit value; open addressing, deletes by shifting back. */
struct ht_map {
	uint64_t *key;
	/* value + 1; 0 = empty slot */
	uint32_t *value;
	uint64_t slots, used;
	uint64_t factor;
};
void ht_map_fini(struct ht_map *map);
void ht_map_clear(struct ht_map *map);
/** ht_map_find() - 1 and @value, or 0. */
int ht_map_find(const struct ht_map *map, uint64_t key, uint32_t *value);
/** ht_map_set() - insert or replace; 0 or -ENOMEM. @value below 0xffffffff. */
int ht_map_set(struct ht_map *map, uint64_t key, uint32_t value);
/** ht_map_take() - find and remove; 1 and @value, or 0. */
int ht_map_take(struct ht_map *map, uint64_t key, uint32_t *value);

#endif
