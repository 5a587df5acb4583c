/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/index.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/cursor.h"

void index_fini(struct index *index)
{
	free(index->entry);
	*index = (struct index){ 0 };
}

static int push(struct index *index, const struct index_entry *entry)
{
	if (index->count == index->cap) {
		uint32_t cap = index->cap ? index->cap * 2 : 256;
		struct index_entry *to = realloc(index->entry, cap * sizeof(*to));
		if (!to)
			return -ENOMEM;
		index->entry = to;
		index->cap = cap;
	}
	index->entry[index->count++] = *entry;
	return 0;
}

/*
 * Forget every other event block; the blocks themselves carry all that is needed to walk from one
 * to the next.
 */
static void thin(struct index *index)
{
	uint32_t to = 0, nth = 0;
	for (uint32_t i = 0; i < index->count; i++) {
		const struct index_entry *entry = &index->entry[i];
		if (entry->type == BLT_SUMMARY || nth++ % 2 == 0)
			index->entry[to++] = *entry;
	}
	index->count = to;
	index->keep_every = index->keep_every ? index->keep_every * 2 : 2;
}

int index_add(struct index *index, uint64_t at, const struct blt_head *head, struct err *err)
{
	index->blocks++;
	if (head->type != BLT_SUMMARY && index->keep_every &&
	    index->events++ % index->keep_every != 0)
		return 0;
	if (index->count >= INDEX_MAX)
		thin(index);
	struct index_entry entry = { at, head->time_ns, head->type, head->flags };
	if (push(index, &entry) < 0)
		return err_set(err, -ENOMEM, "cannot hold the recording's index");
	return 0;
}

void index_put(const struct index *index, const struct events_tally *tally, struct buf *to)
{
	uint64_t at = 0, time = 0;
	put_num(to, tally->events);
	put_num(to, tally->allocations);
	put_num(to, tally->bytes);
	put_num(to, tally->frees);
	put_num(to, index->blocks);
	put_num(to, index->count);
	for (uint32_t i = 0; i < index->count; i++) {
		const struct index_entry *entry = &index->entry[i];
		put_num(to, (uint64_t)entry->type << 8 | entry->flags);
		put_num(to, entry->at - at);
		put_num(to, zigzag((int64_t)(entry->time_ns - time)));
		at = entry->at;
		time = entry->time_ns;
	}
	if (tally->implied == EVENTS_UNTOLD)
		return;
	put_num(to, tally->implied);
	for (unsigned i = 0; i < 3; i++)
		put_num(to, tally->spoken[i]);
}

int index_get(struct index *index, struct events_tally *tally, const uint8_t *at,
	      const uint8_t *end, uint64_t file_bytes)
{
	struct cursor c = { at, end, 0 };
	uint64_t place = 0, time = 0;
	tally->events = get_num(&c);
	tally->allocations = get_num(&c);
	tally->bytes = get_num(&c);
	tally->frees = get_num(&c);
	index->blocks = get_num(&c);
	for (uint64_t left = get_num(&c); left && !c.bad; left--) {
		uint64_t type = get_num(&c), step = get_num(&c);
		time += (uint64_t)unzigzag(get_num(&c));
		/*
		 * blocks stand behind each other: as many as the file has room for, whatever is
		 * claimed
		 */
		if (c.bad || type > UINT16_MAX ||
		    step < (place ? BLT_BLOCK_HEADER : BLT_FILE_HEADER) ||
		    __builtin_add_overflow(place, step, &place) ||
		    __builtin_add_overflow(place, BLT_BLOCK_HEADER, &step) || step > file_bytes)
			return -EBADMSG;
		struct index_entry entry = { place, time, (uint8_t)(type >> 8), (uint8_t)type };
		if (push(index, &entry) < 0)
			return -ENOMEM;
	}
	tally->implied = EVENTS_UNTOLD;
	if (!c.bad && c.at < c.end) {
		tally->implied = get_num(&c);
		for (unsigned i = 0; i < 3; i++)
			tally->spoken[i] = get_num(&c);
	}
	return c.bad ? -EBADMSG : 0;
}
