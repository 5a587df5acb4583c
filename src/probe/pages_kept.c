/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/pages_kept.h"

#include <string.h>

void pages_kept_put(struct pages_kept *k, struct page_shot *shot)
{
	if (!k->every_ns)
		k->every_ns = PAGES_KEPT_EVERY_NS;
	if (k->count && shot->time_ns - k->kept[k->count - 1]->time_ns < k->every_ns)
		return;
	if (k->count == PAGES_KEPT_MAX) {
		for (size_t i = 0; i < PAGES_KEPT_MAX; i++) {
			if (i % 2)
				page_shot_put(k->kept[i]);
			else
				k->kept[i / 2] = k->kept[i];
		}
		k->count = PAGES_KEPT_MAX / 2;
		k->every_ns *= 2;
	}
	k->kept[k->count++] = page_shot_get(shot);
}

struct page_shot *pages_kept_past(const struct pages_kept *k, uint64_t now_ns, uint64_t ago_ns)
{
	struct page_shot *found = NULL;
	for (size_t i = 0; i < k->count; i++)
		if (now_ns - k->kept[i]->time_ns >= ago_ns)
			found = k->kept[i];
	return page_shot_get(found);
}

void pages_kept_since(struct pages_kept *k, struct page_shot *shot, uint64_t since_ns)
{
	struct page_shot **all = k->since;
	size_t drop = 0, count = k->since_count;
	uint64_t now = shot->time_ns;
	if (count && now - all[count - 1]->time_ns < since_ns / PAGES_SINCE_PARTS)
		return;
	while (drop + 1 < count && now - all[drop + 1]->time_ns >= since_ns)
		drop++;
	drop += !drop && count == PAGES_SINCE_MAX;
	for (size_t i = 0; i < drop; i++)
		page_shot_put(all[i]);
	memmove(all, all + drop, (count - drop) * sizeof(*all));
	k->since_count = count - drop;
	all[k->since_count++] = page_shot_get(shot);
}

const struct page_shot *pages_kept_then(const struct pages_kept *k)
{
	return k->since_count ? k->since[0] : NULL;
}

void pages_kept_fini(struct pages_kept *k)
{
	for (size_t i = 0; i < k->count; i++)
		page_shot_put(k->kept[i]);
	for (size_t i = 0; i < k->since_count; i++)
		page_shot_put(k->since[i]);
	*k = (struct pages_kept){ 0 };
}
