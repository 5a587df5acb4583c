/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/group.h"

#include <stdlib.h>
#include <string.h>

#include "proc/classify_names.h"

struct keyed {
	const char *key;
	/* " (deleted)" is not part of the key */
	size_t len;
	const struct region *region;
	int class_only;
};

static int is_module(unsigned class)
{
	return class >= REGION_PROGRAM_TEXT && class <= REGION_LIBRARY_BSS;
}

static struct keyed key_of(const struct region *r, enum regions_group by)
{
	const char *path = r->owner && r->owner[0] == '/' ? r->owner : r->name;
	struct keyed key = { .region = r };
	if (by == GROUP_MODULE && is_module(r->class)) {
		key.key = r->label;
	} else if (by == GROUP_FILE && path[0] == '/' && !name_is_special(path)) {
		key.key = path;
	} else {
		key.key = region_class_name(r->class);
		key.class_only = 1;
	}
	static const char deleted[] = " (deleted)";
	size_t cut = sizeof(deleted) - 1;
	key.len = strlen(key.key);
	if (key.len > cut && memcmp(key.key + key.len - cut, deleted, cut) == 0)
		key.len -= cut;
	return key;
}

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	if (x->class_only != y->class_only)
		return x->class_only - y->class_only;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->key, y->key, len);
	return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static int rss_first(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	if (x->virtual_bytes != y->virtual_bytes)
		return x->virtual_bytes < y->virtual_bytes ? 1 : -1;
	return strcmp(x->label, y->label);
}

static int pss_first(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	return x->pss_bytes != y->pss_bytes ? (x->pss_bytes < y->pss_bytes ? 1 : -1)
					    : rss_first(a, b);
}

static int swap_first(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	return x->swap_bytes != y->swap_bytes ? (x->swap_bytes < y->swap_bytes ? 1 : -1)
					      : rss_first(a, b);
}

static int virtual_first(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	return x->virtual_bytes != y->virtual_bytes ? (x->virtual_bytes < y->virtual_bytes ? 1 : -1)
						    : rss_first(a, b);
}

struct class_row *breakdown_group(const struct breakdown *b, enum regions_group by,
				  enum regions_sort sort, size_t *count)
{
	static int (*const orders[])(const void *, const void *) = {
		[REGIONS_BY_RSS] = rss_first,
		[REGIONS_BY_PSS] = pss_first,
		[REGIONS_BY_SWAP] = swap_first,
		[REGIONS_BY_VIRTUAL] = virtual_first,
	};
	struct keyed *keys = malloc((b->region_count + 1) * sizeof(*keys));
	struct class_row *rows = calloc(b->region_count + 1, sizeof(*rows));
	*count = 0;
	if (!keys || !rows) {
		free(keys);
		free(rows);
		return NULL;
	}
	for (size_t i = 0; i < b->region_count; i++)
		keys[i] = key_of(&b->regions[i], by);
	qsort(keys, b->region_count, sizeof(*keys), by_key);
	for (size_t i = 0; i < b->region_count; i++) {
		if (i == 0 || by_key(&keys[i - 1], &keys[i]) != 0) {
			rows[*count].label = keys[i].key;
			rows[*count].class =
				keys[i].class_only ? REGION_CLASS_COUNT : keys[i].region->class;
			++*count;
		}
		class_row_add(&rows[*count - 1], keys[i].region);
	}
	free(keys);
	qsort(rows, *count, sizeof(*rows), orders[sort]);
	return rows;
}
