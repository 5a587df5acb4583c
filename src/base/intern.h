/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.h - equal things get one number (or one pointer). Hashes are seeded from the kernel's
 * random source, so that a hostile file cannot make them collide on purpose.
 */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/** hash_seed() - one random number per process run; any thread. */
uint64_t hash_seed(void);
/** hash_bytes() - a seeded 64-bit hash of [@bytes, @bytes + @len). */
uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed);
/** hash_u64() - a seeded 64-bit hash of two numbers. */
static inline uint64_t hash_u64(uint64_t a, uint64_t b, uint64_t seed)
{
	uint64_t h = (a ^ seed) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h = (h + b) * 0xd6e8feb86659fd93ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ (h >> 32);
}

/**
 * struct idtab - a hash table from a key to a 32-bit number; the keys themselves live with the
 * caller, who compares. Zero-initialised is empty. Usage:
 * 	if (idtab_reserve(tab) < 0) return -ENOMEM;
 * 	uint32_t at = idtab_first(tab, hash);
 * 	for (; tab->slots[at].id != IDTAB_NONE; at = idtab_next(tab, at))
 * 		if (tab->slots[at].hash == hash && key of tab->slots[at].id equals) return
 *		tab->slots[at].id;
 * 	idtab_put(tab, at, hash, id);
 */
#define IDTAB_NONE 0xffffffffu
struct idtab {
	struct {
		/* IDTAB_NONE = free */
		uint32_t id;
		/* most mismatches are seen here, without touching the key */
		uint32_t hash;
	} * slots;
	uint32_t mask, used;
};
/** idtab_reserve() - room for one more entry; 0, or -1 without memory. O(1) amortised. */
int idtab_reserve(struct idtab *tab);
static inline uint32_t idtab_first(const struct idtab *tab, uint32_t hash)
{
	return hash & tab->mask;
}
static inline uint32_t idtab_next(const struct idtab *tab, uint32_t at)
{
	return (at + 1) & tab->mask;
}
/** idtab_put() - enter @id at the free slot @at, which a search for @hash ended on. */
static inline void idtab_put(struct idtab *tab, uint32_t at, uint32_t hash, uint32_t id)
{
	tab->slots[at].id = id;
	tab->slots[at].hash = hash;
	tab->used++;
}
void idtab_fini(struct idtab *tab);

/** struct intern - a set of strings; equal ones have one address. Zero-initialised is empty. */
struct intern {
	struct arena arena;
	struct idtab tab;
	const char **strings;
	uint32_t *lens;
	uint32_t count, cap;
	/* of all strings */
	uint64_t bytes;
};
/**
 * intern_str(), intern_mem() - the one copy of a string, lent until intern_fini(); NULL without
 * memory.
 */
const char *intern_str(struct intern *intern, const char *text);
const char *intern_mem(struct intern *intern, const char *text, size_t len);
void intern_fini(struct intern *intern);

#endif
