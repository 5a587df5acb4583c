/* SPDX-License-Identifier: Apache-2.0 */
#include "query/living.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX (1u << 28)
#define MAPS_MAX (1u << 22)

static int define(struct sink *sink, const struct def *def, struct err *err)
{
	struct living *l = (struct living *)sink;
	struct sink *to = prof_sink(l->names);
	return to->define(to, def, err);
}

static int grow(struct living *l, uint32_t number)
{
	size_t room = l->room ? l->room : 4096;
	if (number >= NUMBERS_MAX)
		return -E2BIG;
	while (room <= number)
		room += room / 2;
	struct sheet_block *grown = realloc(l->blocks, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->blocks = grown;
	l->room = room;
	return 0;
}

/* ---- mappings: by address; what is mapped over another takes its place ------------------------------------------- */

static size_t map_from(const struct living *l, uint64_t addr)
{
	size_t low = 0, high = l->map_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (l->maps[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert_map(struct living *l, size_t at, const struct sheet_map *map)
{
	if (l->map_count == l->map_room) {
		size_t room = l->map_room ? l->map_room * 2 : 256;
		struct sheet_map *grown =
			room > MAPS_MAX ? NULL : realloc(l->maps, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->maps = grown;
		l->map_room = room;
	}
	memmove(&l->maps[at + 1], &l->maps[at], (l->map_count - at) * sizeof(*l->maps));
	l->maps[at] = *map;
	l->map_count++;
	return 0;
}

static int unmap(struct living *l, uint64_t start, uint64_t end)
{
	size_t at = map_from(l, start), gone;
	if (at == l->map_count || l->maps[at].start >= end)
		return 0;
	if (l->maps[at].start < start) {
		struct sheet_map rest = l->maps[at];
		l->maps[at].end = start;
		at++;
		if (rest.end > end) {
			rest.start = end;
			return insert_map(l, at, &rest);
		}
	}
	for (gone = at; gone < l->map_count && l->maps[gone].end <= end; gone++)
		;
	memmove(&l->maps[at], &l->maps[gone], (l->map_count - gone) * sizeof(*l->maps));
	l->map_count -= gone - at;
	if (at < l->map_count && l->maps[at].start < end)
		l->maps[at].start = end;
	return 0;
}

static int map(struct living *l, uint64_t start, uint64_t bytes, uint32_t stack)
{
	uint64_t end;
	if (!bytes || __builtin_add_overflow(start, (bytes + 4095) & ~4095ull, &end) || end < start)
		return 0;
	int rc = unmap(l, start, end);
	const struct sheet_map one = { start, end, stack, 0 };
	return rc < 0 ? rc : insert_map(l, map_from(l, start), &one);
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

static int take(struct living *l, const struct event *e)
{
	struct sheet_block *b;
	int rc = 0;
	switch (e->kind) {
	case EVENT_ALLOC:
		if (e->block.v >= l->room && (rc = grow(l, e->block.v)) < 0)
			return rc;
		/* numbers come in order, but for some; what is beyond the last one is not touched, and takes no memory */
		while (l->count < e->block.v)
			l->blocks[l->count++].addr = UINT64_MAX;
		b = &l->blocks[e->block.v];
		*b = (struct sheet_block){ e->addr, e->bytes, e->stack.v,
					   (uint32_t)(e->time_ns / 1000000u) };
		l->count = e->block.v >= l->count ? e->block.v + 1 : l->count;
		l->uncertain += e->flags & EVENT_F_UNCERTAIN ? 1 : 0;
		return 0;
	case EVENT_FREE:
		if (e->block.v < l->count)
			l->blocks[e->block.v].addr = UINT64_MAX;
		return 0;
	case EVENT_MAP:
		return map(l, e->addr, e->bytes, e->stack.v);
	case EVENT_UNMAP:
		return unmap(l, e->addr, e->addr + ((e->bytes + 4095) & ~4095ull));
	case EVENT_BRK:
		if (l->brk && e->addr > l->brk)
			rc = map(l, l->brk, e->addr - l->brk, e->stack.v);
		else if (l->brk)
			rc = unmap(l, e->addr, l->brk);
		l->brk = e->addr;
		return rc;
	case EVENT_RSS:
		if (e->bytes > l->rss_peak_bytes) {
			l->rss_peak_bytes = e->bytes;
			l->rss_peak_ns = e->time_ns;
		}
		return 0;
	case EVENT_LOST:
		l->lost_events += e->addr + (e->block.v == UINT32_MAX ? 0 : e->block.v);
		l->lost_bytes += e->bytes;
		l->lost_frees += e->block.v == UINT32_MAX ? 0 : e->block.v;
		return 0;
	case EVENT_FILTERED:
		l->filtered += e->addr;
		return 0;
	case EVENT_SWITCH:
		l->switched_off |= !e->value;
		return 0;
	case EVENT_FORKED:
		l->inherits_unknown |= !e->block.v;
		return 0;
	default:
		return 0;
	}
}

static int put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct living *l = (struct living *)sink;
	for (size_t i = 0; i < count; i++) {
		l->last_ns = events[i].time_ns;
		if (events[i].time_ns > l->until_ns)
			continue;
		int rc = take(l, &events[i]);
		if (rc < 0)
			return err_set(err, rc, "cannot keep the blocks that live");
	}
	return 0;
}

void living_init(struct living *l, struct prof *names, uint64_t until_ns)
{
	memset(l, 0, sizeof(*l));
	l->sink.define = define;
	l->sink.put = put;
	l->names = names;
	l->until_ns = until_ns;
}

void living_fini(struct living *l)
{
	free(l->blocks);
	free(l->maps);
	memset(l, 0, sizeof(*l));
}

void living_end(struct living *l, struct instant *instant)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->count; i++) {
		if (l->blocks[i].addr == UINT64_MAX)
			continue;
		l->blocks[kept] = l->blocks[i];
		l->blocks[kept].group =
			prof_stack_row(l->names, (struct stack_id){ l->blocks[i].group }).v;
		kept++;
	}
	for (size_t i = 0; i < l->map_count; i++)
		l->maps[i].group =
			prof_stack_row(l->names, (struct stack_id){ l->maps[i].group }).v;
	instant->blocks = l->blocks;
	instant->block_count = kept;
	instant->maps = l->maps;
	instant->map_count = l->map_count;
	instant->lossy = l->lost_events || l->lost_frees;
	instant->lost_events = l->lost_events;
	instant->filtered = l->filtered;
	instant->complete = !l->lost_events && !l->lost_bytes && !l->filtered && !l->switched_off &&
			    !l->inherits_unknown;
	l->blocks = NULL;
	l->maps = NULL;
	l->count = l->map_count = 0;
}
