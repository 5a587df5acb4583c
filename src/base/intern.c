/* SPDX-License-Identifier: Apache-2.0 */
#include "base/intern.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t hash_seed(void)
{
	static _Atomic uint64_t seed;
	uint64_t now = atomic_load(&seed);
	if (now)
		return now;
	uint64_t fresh = 0;
	/*
	 * Without random numbers the address of a local has to do: only the defence against
	 * collisions is weaker.
	 */
	if (getrandom(&fresh, sizeof(fresh), GRND_NONBLOCK) != (ssize_t)sizeof(fresh) || !fresh)
		fresh = (uint64_t)(uintptr_t)&fresh | 1;
	if (atomic_compare_exchange_strong(&seed, &now, fresh))
		return fresh;
	return now;
}

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
	const unsigned char *p = bytes;
	/*
	 * each round takes the seed in: one that stood in @h before the first would cancel out
	 * there
	 */
	uint64_t h = len * 0x9e3779b97f4a7c15ULL, w;
	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = hash_u64(h, w, seed);
	}
	w = 0;
	if (len) /* of nothing there may be no place */
		memcpy(&w, p, len);
	return hash_u64(h, w, seed);
}

static int idtab_grow(struct idtab *tab)
{
	uint64_t cap = tab->slots ? ((uint64_t)tab->mask + 1) * 2 : 64;
	if (cap > 1ULL << 31)
		return -1;
	struct idtab grown = { .slots = malloc(cap * sizeof(*grown.slots)),
			       .mask = (uint32_t)(cap - 1),
			       .used = tab->used };
	if (!grown.slots)
		return -1;
	memset(grown.slots, 0xff, cap * sizeof(*grown.slots));
	for (uint64_t i = 0; tab->slots && i <= tab->mask; i++) {
		if (tab->slots[i].id == IDTAB_NONE)
			continue;
		uint32_t at = idtab_first(&grown, tab->slots[i].hash);
		while (grown.slots[at].id != IDTAB_NONE)
			at = idtab_next(&grown, at);
		grown.slots[at] = tab->slots[i];
	}
	free(tab->slots);
	*tab = grown;
	return 0;
}

int idtab_reserve(struct idtab *tab)
{
	/* At most two thirds full: runs of linear probing stay short. */
	if (tab->slots && (uint64_t)(tab->used + 1) * 3 <= ((uint64_t)tab->mask + 1) * 2)
		return 0;
	return idtab_grow(tab);
}

void idtab_fini(struct idtab *tab)
{
	free(tab->slots);
	*tab = (struct idtab){ 0 };
}

const char *intern_mem(struct intern *intern, const char *text, size_t len)
{
	if (idtab_reserve(&intern->tab) < 0 || len > UINT32_MAX)
		return NULL;
	uint32_t hash = (uint32_t)hash_bytes(text, len, hash_seed());
	uint32_t at = idtab_first(&intern->tab, hash);
	for (; intern->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&intern->tab, at)) {
		uint32_t id = intern->tab.slots[at].id;
		if (intern->tab.slots[at].hash == hash && intern->lens[id] == len &&
		    memcmp(intern->strings[id], text, len) == 0)
			return intern->strings[id];
	}
	if (intern->count == intern->cap) {
		uint32_t cap = intern->cap ? intern->cap * 2 : 256;
		const char **strings = realloc(intern->strings, cap * sizeof(*strings));
		if (!strings)
			return NULL;
		intern->strings = strings;
		uint32_t *lens = realloc(intern->lens, cap * sizeof(*lens));
		if (!lens)
			return NULL;
		intern->lens = lens;
		intern->cap = cap;
	}
	const char *copy = arena_memdup(&intern->arena, text, len);
	if (!copy)
		return NULL;
	intern->strings[intern->count] = copy;
	intern->lens[intern->count] = (uint32_t)len;
	intern->bytes += len;
	idtab_put(&intern->tab, at, hash, intern->count++);
	return copy;
}

const char *intern_str(struct intern *intern, const char *text)
{
	return intern_mem(intern, text, strlen(text));
}

void intern_fini(struct intern *intern)
{
	arena_fini(&intern->arena);
	idtab_fini(&intern->tab);
	free(intern->strings);
	free(intern->lens);
	*intern = (struct intern){ 0 };
}
