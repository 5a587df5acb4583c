/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - in which order mappings are listed. */
#include <stdlib.h>

#include "proc/text.h"

static int order_rss(const void *a, const void *b)
{
	const struct region *x = *(const struct region *const *)a,
			    *y = *(const struct region *const *)b;
	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static int order_pss(const void *a, const void *b)
{
	const struct region *x = *(const struct region *const *)a,
			    *y = *(const struct region *const *)b;
	return x->pss_bytes != y->pss_bytes ? (x->pss_bytes < y->pss_bytes ? 1 : -1)
					    : order_rss(a, b);
}

static int order_swap(const void *a, const void *b)
{
	const struct region *x = *(const struct region *const *)a,
			    *y = *(const struct region *const *)b;
	return x->swap_bytes != y->swap_bytes ? (x->swap_bytes < y->swap_bytes ? 1 : -1)
					      : order_rss(a, b);
}

static int order_virtual(const void *a, const void *b)
{
	const struct region *x = *(const struct region *const *)a,
			    *y = *(const struct region *const *)b;
	uint64_t v = x->end - x->start, w = y->end - y->start;
	return v != w ? (v < w ? 1 : -1) : order_rss(a, b);
}

/* A row of classes by its label, which is interned with those of the mappings: one address. */
struct labelled {
	const char *label;
	unsigned class;
	int64_t growth;
};

static int by_label(const void *a, const void *b)
{
	const struct labelled *x = a, *y = b;
	if (x->label != y->label)
		return (uintptr_t)x->label < (uintptr_t)y->label ? -1 : 1;
	return x->class < y->class ? -1 : x->class > y->class;
}

struct ranked {
	const struct region *region;
	int64_t growth;
};

static int order_growth(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	return x->growth != y->growth ? (x->growth < y->growth ? 1 : -1)
				      : order_rss(&x->region, &y->region);
}

/* What grew most first; mappings whose label is not followed did not grow. */
static int rank(const struct breakdown *b, const int64_t *growth, const struct region **list)
{
	struct labelled *rows = malloc((b->class_count + 1) * sizeof(*rows));
	struct ranked *ranked = malloc((b->region_count + 1) * sizeof(*ranked));
	int rc = rows && ranked ? 0 : -1;
	for (size_t i = 0; i < b->class_count && rc == 0; i++)
		rows[i] = (struct labelled){ b->classes[i].label, b->classes[i].class, growth[i] };
	if (rc == 0)
		qsort(rows, b->class_count, sizeof(*rows), by_label);
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		struct labelled key = { list[i]->label, list[i]->class, 0 };
		const struct labelled *row =
			bsearch(&key, rows, b->class_count, sizeof(*rows), by_label);
		ranked[i] = (struct ranked){ list[i], row ? row->growth : 0 };
	}
	if (rc == 0)
		qsort(ranked, b->region_count, sizeof(*ranked), order_growth);
	for (size_t i = 0; i < b->region_count && rc == 0; i++)
		list[i] = ranked[i].region;
	free(rows);
	free(ranked);
	return rc;
}

const struct region **regions_order(const struct breakdown *b, enum regions_sort sort,
				    const int64_t *growth)
{
	static int (*const orders[])(const void *, const void *) = {
		[REGIONS_BY_RSS] = order_rss,
		[REGIONS_BY_PSS] = order_pss,
		[REGIONS_BY_SWAP] = order_swap,
		[REGIONS_BY_VIRTUAL] = order_virtual,
	};
	const struct region **list = malloc((b->region_count + 1) * sizeof(*list));
	if (!list)
		return NULL;
	for (size_t i = 0; i < b->region_count; i++)
		list[i] = &b->regions[i];
	if (sort == REGIONS_BY_GROWTH) {
		if (growth && rank(b, growth, list) < 0) {
			free(list);
			list = NULL;
		}
		return list;
	}
	size_t sorted = 1;
	while (sorted < b->region_count && orders[sort](&list[sorted - 1], &list[sorted]) < 0)
		sorted++;
	if (sorted < b->region_count) /* the largest alone are kept in order */
		qsort(list, b->region_count, sizeof(*list), orders[sort]);
	return list;
}
